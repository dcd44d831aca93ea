"""Revision 0104: a report says when its files were written."""

from alembic import op
from sqlalchemy import BigInteger, Column

revision = "0104"
down_revision = "0103"

NEW_TABLES: tuple[str, ...] = ()
NEW_COLUMNS = {"reports": ("written_at",)}
"""The tables and columns that this revision adds."""


def upgrade() -> None:
    """Add the column; of what is there, nobody knows a report that was not written."""
    op.add_column("reports", Column("written_at", BigInteger))
    op.execute("UPDATE reports SET written_at = as_of")
