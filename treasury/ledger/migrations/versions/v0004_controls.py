"""Revision 0004: cancelled plans, releases by kind, and what an order counts for on which day."""

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text

revision = "0004"
down_revision = "0003"

NEW_TABLES: tuple[str, ...] = ()
NEW_COLUMNS = {
    "orders": ("released", "counted_on", "ceiling"),
    "plans": ("cancelled_at", "cancelled_by", "cancel_why"),
}
"""What this revision adds; it changes nothing else."""


def upgrade() -> None:
    """Add columns; older rows say nothing in them."""
    op.add_column("orders", Column("released", String(100)))
    op.add_column("orders", Column("counted_on", String(10)))
    op.add_column("orders", Column("ceiling", String(64)))
    op.add_column("plans", Column("cancelled_at", BigInteger))
    op.add_column("plans", Column("cancelled_by", String(100)))
    op.add_column("plans", Column("cancel_why", Text))
