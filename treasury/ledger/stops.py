"""Stops: while one is in force, no process sends. The commit that marks a send checks for one first."""

from sqlalchemy import Connection, insert, update

from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.database import group_of
from treasury.ledger.ledger import Ledger


def stop_sending(ledger: Ledger, stopped_by: str, why: str) -> None:
    """Stop all sending until the stop is lifted."""
    if not stopped_by.strip() or not why.strip():
        raise InputError("a stop needs a name and a reason: --by NAME --why TEXT")
    row = {"stopped_at": ledger.now(), "stopped_by": stopped_by.strip(), "why": why.strip()}

    def work(connection: Connection) -> None:
        connection.execute(insert(schema.stops).values(**row))
        # Race: a later send of this very transaction must see the stop.
        group_of(connection).not_stopped = False
        group_of(connection).marks += 1  # a ledger that forgot it is older than this machine knows

    ledger.write(work)


def lift_stop(ledger: Ledger, lifted_by: str) -> int:
    """Lift every stop in force; returns how many there were."""
    if not lifted_by.strip():
        raise InputError("lifting a stop needs a name: --by NAME")
    table = schema.stops
    change = update(table).where(table.c.lifted_at.is_(None))
    change = change.values(lifted_at=ledger.now(), lifted_by=lifted_by.strip())
    return ledger.write(lambda connection: connection.execute(change).rowcount)
