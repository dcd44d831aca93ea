"""Revision 0003: what `treasury doctor --prove` found about the service, and what a person adopted of it."""

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, String, Text

revision = "0003"
down_revision = "0002"

NEW_TABLES = ("proofs", "adoptions")
NEW_COLUMNS: dict[str, tuple[str, ...]] = {}
"""What this revision adds; it changes nothing else."""


def upgrade() -> None:
    """Add the two tables."""
    number = BigInteger().with_variant(Integer, "sqlite")
    op.create_table(
        "proofs",
        Column("id", number, primary_key=True, autoincrement=True),
        Column("at", BigInteger, nullable=False),
        Column("name", String(60), nullable=False),
        Column("verdict", String(20), nullable=False),
        Column("setting", Text, nullable=False),
        Column("evidence", Text, nullable=False),
        Column("proposed", Text),
    )
    op.create_table(
        "adoptions",
        Column("id", number, primary_key=True, autoincrement=True),
        Column("at", BigInteger, nullable=False),
        Column("name", String(60), nullable=False),
        Column("before", Text, nullable=False),
        Column("after", Text, nullable=False),
        Column("evidence", Text, nullable=False),
        Column("adopted_by", String(200), nullable=False),
    )
