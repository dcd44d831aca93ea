"""The runs of a ledger that paid the same people as another one: found by the keyed hashes of their payees."""

from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, func, select

from treasury.ledger import schema
from treasury.ledger.duplicates import may_be_paid
from treasury.money import sums_of
from treasury.orders.states import State
from treasury.planning.beside import Beside, Payment, compare_runs

MEAN_OF = 6
"""Runs whose mean a total is compared with."""

LOOKED_AT = 60
"""Runs, the newest first, among which those that paid the same people are looked for."""


def beside_last(connection: Connection, run_key: str, percent: Decimal) -> Beside | None:
    """Compare a run, as it is recorded, with the last one that paid the same people; None when there is none.

    Runs pay the same people when at least half of the payees of each are payees of the other.
    """
    run = _payments(connection, run_key, _waits_or_paid(schema.orders))
    alike = _alike(connection, run_key, len({each.payee for each in run})) if run else []
    if not alike:
        return None
    last = _payments(connection, alike[0], may_be_paid(schema.orders))
    return compare_runs(run, alike[0], last, [_debits(connection, each) for each in alike], percent)


def _waits_or_paid(table: Any) -> Any:
    return table.c.state.in_([State.PREPARED.value, State.HELD.value]) | may_be_paid(table)


def _alike(connection: Connection, run_key: str, payees: int) -> list[str]:
    """The last runs that paid the same people as a run with so many payees, the newest first.

    Race: the others go on meanwhile, and PostgreSQL lets each statement see another moment: one counts all of it.
    """
    table, own = schema.orders.c, schema.orders.alias()
    payee = select(own.c.payee).distinct()
    mine = payee.where(own.c.run_key == run_key, own.c.payee.is_not(None), _waits_or_paid(own)).subquery()
    newest = func.max(table.id).label("id")
    found = (
        select(table.run_key, func.count(table.payee.distinct()).label("shared"), newest)
        .join(mine, mine.c.payee == table.payee)
        .where(may_be_paid(schema.orders), table.run_key != run_key)
        .group_by(table.run_key)
        .order_by(newest.desc())
        .limit(LOOKED_AT)
        .subquery()
    )
    other = schema.orders.alias()
    size = select(func.count(other.c.payee.distinct())).where(other.c.run_key == found.c.run_key, may_be_paid(other))
    rows = connection.execute(select(found, size.scalar_subquery().label("size")).order_by(found.c.id.desc()))
    return [row.run_key for row in rows if 2 * row.shared >= max(payees, row.size)][:MEAN_OF]


def _payments(connection: Connection, run_key: str, counts: Any) -> list[Payment]:
    table = schema.orders.c
    columns = (table.row_ref, table.payee, table.payee_name, table.ceiling)
    amounts = (table.currency, table.amount, table.receive_currency, table.receive_amount)
    query = select(*columns, *amounts).where(table.run_key == run_key, table.payee.is_not(None), counts)
    found = []
    for row in connection.execute(query.order_by(table.id)):
        debit = Decimal(row.amount or row.ceiling or 0)
        # A row that fixes what is received has a ceiling: its own amount is what its quote asked.
        fixes_receipt = row.ceiling is not None and row.receive_amount is not None
        fixed = (row.receive_currency, Decimal(row.receive_amount)) if fixes_receipt else (row.currency, debit)
        found.append(Payment(row.row_ref, row.payee, row.payee_name, *fixed, row.currency, debit))
    return found


def _debits(connection: Connection, run_key: str) -> dict[str, Decimal]:
    """Currency -> what a run may have debited for its payees."""
    table = schema.orders.c
    paid = (table.run_key == run_key) & table.payee.is_not(None) & may_be_paid(schema.orders)
    rows = connection.execute(select(table.currency, table.amount, table.ceiling).where(paid))
    return sums_of((row.currency, Decimal(row.amount or row.ceiling or 0)) for row in rows)
