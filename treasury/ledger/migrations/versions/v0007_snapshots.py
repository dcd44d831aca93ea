"""Revision 0007: snapshots that rebalancings are planned from."""

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, String, Text

revision = "0007"
down_revision = "0006"

NEW_TABLES = ("snapshots",)
NEW_COLUMNS: dict[str, tuple[str, ...]] = {}
"""What this revision adds."""


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "snapshots",
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
        Column("run_key", String(200), nullable=False, index=True),
        Column("at", BigInteger, nullable=False, index=True),
        Column("policy", String(64)),
        Column("content", Text, nullable=False),
    )
