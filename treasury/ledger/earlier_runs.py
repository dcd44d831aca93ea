"""The runs of a ledger that paid the same people as another one: found by the keyed hashes of their payees."""

from collections import Counter
from collections.abc import Collection
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, func, select

from treasury.concurrency.batches import batched
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
    waits = schema.orders.c.state.in_([State.PREPARED.value, State.HELD.value])
    run = _payments(connection, run_key, waits | may_be_paid(schema.orders))
    alike = _alike(connection, run_key, {each.payee for each in run}) if run else []
    if not alike:
        return None
    last = _payments(connection, alike[0], may_be_paid(schema.orders))
    return compare_runs(run, alike[0], last, [_debits(connection, each) for each in alike], percent)


def _alike(connection: Connection, run_key: str, payees: Collection[str]) -> list[str]:
    """The last runs that paid the same people, the newest first."""
    table = schema.orders.c
    paid = may_be_paid(schema.orders) & (table.run_key != run_key)
    shared: Counter[str] = Counter()
    newest: dict[str, int] = {}
    for some in batched(payees):
        counted = func.count(table.payee.distinct()).label("payees")
        query = select(table.run_key, counted, func.max(table.id).label("id")).where(paid, table.payee.in_(some))
        for row in connection.execute(query.group_by(table.run_key)):
            shared[row.run_key] += row.payees
            newest[row.run_key] = max(row.id, newest.get(row.run_key, 0))
    last = sorted(newest, key=lambda each: -newest[each])[:LOOKED_AT]
    query = select(table.run_key, func.count(table.payee.distinct()).label("payees"))
    sizes = {
        row.run_key: row.payees
        for row in connection.execute(query.where(paid, table.run_key.in_(last)).group_by(table.run_key))
    }
    return [each for each in last if 2 * shared[each] >= max(len(payees), sizes[each])][:MEAN_OF]


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
