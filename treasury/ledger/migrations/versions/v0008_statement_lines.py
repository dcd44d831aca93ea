"""Revision 0008: lines of statements that are kept, the fee that the service named first, and what was frozen."""

from alembic import op
from sqlalchemy import BigInteger, Column, ForeignKey, Integer, String, Text

revision = "0008"
down_revision = "0007"

NEW_TABLES = ("statement_lines",)
NEW_COLUMNS: dict[str, tuple[str, ...]] = {
    "orders": ("told_fee", "told_fee_currency"),
    "sweep_balances": ("frozen",),
}
"""Tables and columns that this revision adds."""

_Id = BigInteger().with_variant(Integer, "sqlite")


def upgrade() -> None:
    """Add the table and the columns."""
    op.create_table(
        "statement_lines",
        Column("id", _Id, primary_key=True, autoincrement=True),
        Column("sweep_id", _Id, ForeignKey("sweeps.id"), nullable=False, index=True),
        Column("file", String(64), nullable=False),
        Column("given_by", String(100), nullable=False),
        Column("given_at", BigInteger, nullable=False),
        Column("content", Text, nullable=False),
        Column("checksum", String(64), nullable=False),
    )
    op.add_column("sweep_balances", Column("frozen", String(64)))
    op.add_column("orders", Column("told_fee", String(64)))
    op.add_column("orders", Column("told_fee_currency", String(40)))
