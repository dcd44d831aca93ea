"""Revision 0006: payments that replace others."""

from alembic import op
from sqlalchemy import Column, String

revision = "0006"
down_revision = "0005"

NEW_TABLES = ()
NEW_COLUMNS = {"orders": ("replaces",)}
"""What this revision adds."""


def upgrade() -> None:
    """Add the column, in which each payment is named once at most."""
    op.add_column("orders", Column("replaces", String(64)))
    op.create_index("orders_by_replaced", "orders", ["replaces"], unique=True)
