"""Revision 0107: a report has a checksum, its breaks another one, and that of an order says that it has; orders are
found by their number."""

from alembic import op
from sqlalchemy import Column, String

from treasury.ledger.made_reports import seal_reports
from treasury.ledger.migrations.versions.v0106_payees import seal_orders

revision = "0107"
down_revision = "0106"

NEW_TABLES: tuple[str, ...] = ()
NEW_COLUMNS = {"reports": ("checksum", "breaks")}
"""The tables and columns that this revision adds."""


def upgrade() -> None:
    """Seal the reports that are there: nobody knows whether they were changed by hand. Orders say that it was done."""
    for name in ("checksum", "breaks"):
        op.add_column("reports", Column(name, String(64)))
    op.create_index("orders_by_number", "orders", ["order_no"], if_not_exists=True)
    key = op.get_context().opts.get("key")  # an empty database has nothing to be sealed
    if key is not None:
        seal_reports(op.get_bind(), key)
        seal_orders(op.get_bind(), key, int(down_revision), int(revision))
