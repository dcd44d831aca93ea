"""Revision 0102: notifications of the platform are kept."""

from alembic import op

from treasury.ledger import schema

revision = "0102"
down_revision = "0101"

NEW_TABLES = ("notifications",)
NEW_COLUMNS: dict[str, tuple[str, ...]] = {}
"""The tables and columns that this revision adds."""


def upgrade() -> None:
    """Add the table."""
    for name in NEW_TABLES:
        schema.metadata.tables[name].create(op.get_bind())
