"""Revision 0009: decisions that keys signed, who made a run and a stop, ends of acceptances."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Integer, String, Text

revision = "0009"
down_revision = "0008"

NEW_TABLES = ("keyed_decisions",)
NEW_COLUMNS: dict[str, tuple[str, ...]] = {
    "runs": ("makers",),
    "stops": ("os_user", "is_signed"),
    "acceptances": ("ends_at", "withdrawn_at", "withdrawn_by", "withdraw_why"),
}
"""Tables and columns that this revision adds."""


def upgrade() -> None:
    """Add the table and the columns."""
    op.create_table(
        "keyed_decisions",
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
        Column("at", BigInteger, nullable=False),
        Column("verb", String(40), nullable=False),
        Column("subject", Text, nullable=False, index=True),
        Column("name", String(100), nullable=False),
        Column("os_user", String(100), nullable=False),
        Column("is_alone", Boolean, nullable=False),
        Column("why", Text, nullable=False),
        Column("token", Text, nullable=False),
        Column("checksum", String(64), nullable=False),
    )
    op.add_column("runs", Column("makers", Text))
    op.add_column("stops", Column("os_user", String(100)))
    op.add_column("stops", Column("is_signed", Boolean))
    op.add_column("acceptances", Column("ends_at", BigInteger))
    op.add_column("acceptances", Column("withdrawn_at", BigInteger))
    op.add_column("acceptances", Column("withdrawn_by", String(100)))
    op.add_column("acceptances", Column("withdraw_why", Text))
