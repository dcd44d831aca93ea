"""A moment of the ledger at which no step is under way."""

from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.exc import OperationalError

from treasury.clock import MACHINE
from treasury.ledger.database import OPEN_SECONDS

LOCK_SECONDS = 1
"""How long a lock is waited for at a time: whoever steps meanwhile waits behind it."""

NOT_LOCKED = "55P03"
"""PostgreSQL's code of a lock that it did not give in time."""


def begin_between_steps(reader: Engine, connection: Connection) -> None:
    """Begin to read while every step is in the journal whose number was given out.

    Race: PostgreSQL numbers a step before its commit, and commits are not in the sequence of these numbers: a step
    below the last one that is read may be in the journal only after it. SQLite has one writer.
    """
    deadline = MACHINE.monotonic() + OPEN_SECONDS
    while connection.dialect.name == "postgresql":
        try:
            with reader.begin() as locking:
                locking.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
                locking.execute(text("LOCK TABLE journal IN SHARE MODE"))
                connection.execute(select(1))  # what it reads from here on is of this moment
                return
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != NOT_LOCKED or MACHINE.monotonic() > deadline:
                raise
            MACHINE.sleep(LOCK_SECONDS)
