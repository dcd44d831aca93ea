"""Statuses that the service has shown for confirmed orders: evidence from an account's own history."""

from sqlalchemy import select

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.ledger.statements import insert_if_new


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
