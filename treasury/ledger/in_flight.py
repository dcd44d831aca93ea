"""What recorded payments may still debit: not sent, or sent and not known to be debited."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import ColumnElement, select

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.money import exact
from treasury.orders.states import State
from treasury.provider.conversion import ConversionExecute

CONVERSION = ConversionExecute.operation_name()

_MAY_DEBIT = tuple(state.value for state in (State.PREPARED, State.SENDING, State.UNKNOWN))


@dataclass(frozen=True)
class Recorded:
    """What a run has recorded."""

    rows: frozenset[str]
    sums: Mapping[str, Decimal]
    """Currency -> what its payments debit at the most; without those that ended unpaid."""


@exact
def recorded_debits(ledger: Ledger, run_key: str) -> Recorded:
    """The rows and debits of a run that began."""
    table = schema.orders.c
    sums: dict[str, Decimal] = defaultdict(Decimal)
    rows = set()
    query = select(table.row_ref, table.state, table.currency, table.amount, table.ceiling)
    for row in ledger.read(query.where(table.run_key == run_key)):
        rows.add(row.row_ref)
        text = row.amount if row.amount is not None else row.ceiling
        if text is not None and not State(row.state).may_be_replaced:
            sums[row.currency] += Decimal(text)
    return Recorded(frozenset(rows), dict(sums))


@exact
def in_flight(ledger: Ledger, *, except_run: str) -> dict[str, Decimal]:
    """Currency -> what payments of other runs may still debit, at their ceilings where only a quote will tell."""
    table = schema.orders.c
    return _sums(ledger, table.state.in_(_MAY_DEBIT) & (table.run_key != except_run))


def not_sent(ledger: Ledger, run_key: str | None = None) -> dict[str, Decimal]:
    """Currency -> what recorded payments that never left debit at the most; of one run where it is named."""
    table = schema.orders.c
    waits = (table.state == State.PREPARED.value) & (table.operation != CONVERSION)
    return _sums(ledger, waits if run_key is None else waits & (table.run_key == run_key))


@exact
def _sums(ledger: Ledger, of: ColumnElement[bool]) -> dict[str, Decimal]:
    table = schema.orders.c
    chosen = of & table.currency.is_not(None)
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in ledger.read(select(table.currency, table.amount, table.ceiling).where(chosen)):
        text = row.amount if row.amount is not None else row.ceiling
        if text is not None:
            sums[row.currency] += Decimal(text)
    return dict(sums)
