"""What recorded payments may still debit: not sent, or sent and not known to be debited."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import ColumnElement, select

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.money import exact
from treasury.orders.states import Hold, State
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


def states_of(ledger: Ledger, run_key: str) -> dict[str, tuple[State, Hold | None]]:
    """Row -> the state of its newest order in a run, and why it is held if it is."""
    table = schema.orders.c
    query = select(table.row_ref, table.state, table.hold_kind).where(table.run_key == run_key).order_by(table.id)
    return {
        row.row_ref: (State(row.state), Hold(row.hold_kind) if row.hold_kind else None) for row in ledger.read(query)
    }


@exact
def waiting_before(ledger: Ledger, run_key: str, rows: Collection[str]) -> dict[str, Decimal]:
    """Currency -> what payments debit at the most that were recorded before these rows of a run and have not left.

    Before rows that are not recorded yet: all of them.
    """
    table = schema.orders.c
    waits = (table.state == State.PREPARED.value) & (table.operation != CONVERSION) & table.currency.is_not(None)
    query = select(table.run_key, table.row_ref, table.currency, table.amount, table.ceiling).where(waits)
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in ledger.read(query.order_by(table.id)):
        if row.run_key == run_key and row.row_ref in rows:
            break
        text = row.amount if row.amount is not None else row.ceiling
        if text is not None:
            sums[row.currency] += Decimal(text)
    return dict(sums)


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
