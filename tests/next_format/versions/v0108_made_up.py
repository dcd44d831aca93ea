"""Revision 0108, made up: `tests.next_format` says what it adds."""

from alembic import op
from sqlalchemy import BigInteger, Column, String, text

from tests.next_format import OF_ORDERS, columns

revision = "0108"
down_revision = "0107"

NEW_TABLES = ("made_up",)
NEW_COLUMNS = {"orders": OF_ORDERS}
"""The columns and tables that this revision adds; it changes nothing else."""


def upgrade() -> None:
    """Add the table and the columns, and fill them."""
    for column in columns():
        op.add_column("orders", column)
    op.create_index("orders_by_made_up", "orders", ["made_up"])
    op.create_table("made_up", Column("name", String(40), primary_key=True), Column("at", BigInteger, nullable=False))
    op.execute(text("UPDATE orders SET made_up = sends, made_up_at = created_at, made_up_note = row_ref"))
    op.execute(text("INSERT INTO made_up (name, at) SELECT run_key, created_at FROM runs"))
