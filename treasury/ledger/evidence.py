"""Evidence from an account's own history: statuses and orders that the service has shown."""

from collections.abc import Collection

from sqlalchemy import select

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.ledger.mapping import read_row
from treasury.ledger.statements import insert_if_new
from treasury.orders.records import Order
from treasury.orders.states import State


def saw_status(ledger: Ledger, operation: str, status: int) -> None:
    """Record that the service showed this status for a confirmed order of an operation."""
    key = operation, int(status)
    if key in ledger.statuses:
        return

    row = {"operation": operation, "status": int(status), "first_seen": ledger.now()}
    ledger.write(lambda connection: insert_if_new(connection, schema.seen_statuses, row))
    ledger.statuses.add(key)


def seen_statuses(ledger: Ledger, operation: str) -> set[int]:
    """Every status that was ever shown for a confirmed order of this operation."""
    table = schema.seen_statuses.c
    return {row.status for row in ledger.read(select(table.status).where(table.operation == operation))}


SHOWN = (State.ACCEPTED, State.SETTLED, State.FAILED, State.CLOSED)


def last_shown(ledger: Ledger, operations: Collection[str], number: int) -> list[Order]:
    """The last orders of these operations that the service has shown under a number of its own, latest first."""
    table = schema.orders.c
    query = select(schema.orders).where(
        table.operation.in_(sorted(operations)),
        table.state.in_([state.value for state in SHOWN]),
        table.order_no.is_not(None),
    )
    return [read_row(Order, row) for row in ledger.read(query.order_by(table.id.desc()).limit(number))]
