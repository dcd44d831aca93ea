"""Revision 0106: the checksum of an order covers whom it pays, what it looks like, what it was released from, the day
that it counts on and when it ended."""

from typing import Any

from alembic import op
from sqlalchemy import Connection, select, update

from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.mapping import read_row
from treasury.ledger.seals import CHANGED, seal_order
from treasury.orders.records import Order

revision = "0106"
down_revision = "0105"

NEW_TABLES: tuple[str, ...] = ()
NEW_COLUMNS: dict[str, tuple[str, ...]] = {}
"""The tables and columns that this revision adds."""


def upgrade() -> None:
    """Seal the orders anew; what was changed by hand stays so."""
    opts = op.get_context().opts
    key: Any = opts.get("key")  # an empty database has nothing to be sealed
    if key is not None:
        seal_orders(op.get_bind(), key, opts["start"])


def seal_orders(connection: Connection, key: LedgerKey, start: int, number: int = int(revision)) -> None:
    """Seal the orders of a ledger whose format was `start` for the format of this number.

    Those that have such a seal already were not written in a ledger of that format: somebody set it back by hand.
    """
    table = schema.orders
    for some in batched(connection.execute(select(table.c.id)).scalars().all()):
        for row in connection.execute(select(table).where(table.c.id.in_(some))).fetchall():
            order = read_row(Order, row)
            before, after = (seal_order(key, order, each) for each in (start, number))
            if order.checksum in (before, after):
                sealed = after if order.checksum == before else CHANGED
                connection.execute(update(table).where(table.c.id == order.id).values(checksum=sealed))
