"""Statuses that the service has shown for confirmed orders: evidence from an account's own history."""

from sqlalchemy import Connection, insert, select

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger


def saw_status(ledger: Ledger, operation: str, status: int) -> None:
    """Record that the service showed this status for a confirmed order of an operation."""
    key = operation, int(status)
    if key in ledger.statuses:
        return

    def work(connection: Connection) -> None:
        table = schema.seen_statuses
        known = select(table.c.status).where(table.c.operation == operation, table.c.status == int(status))
        if connection.execute(known).first() is None:
            row = {"operation": operation, "status": int(status), "first_seen": ledger.now()}
            connection.execute(insert(table).values(**row))

    ledger.write(work)
    ledger.statuses.add(key)


def seen_statuses(ledger: Ledger, operation: str) -> set[int]:
    """Every status that was ever shown for a confirmed order of this operation."""
    table = schema.seen_statuses.c
    return {row.status for row in ledger.read(select(table.status).where(table.operation == operation))}
