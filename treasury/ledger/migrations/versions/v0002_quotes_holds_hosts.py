"""Revision 0002: what a quote and a hold are, the service's first answer, and which machines sent."""

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, String, Text, text

revision = "0002"
down_revision = "0001"

QUOTES = """
UPDATE quotes SET asks = 1, stage = CASE
    WHEN quote IS NULL THEN 'asked'
    WHEN note IS NOT NULL THEN 'done'
    WHEN generation < (SELECT orders.generation FROM orders WHERE orders.id = quotes.order_id) THEN 'done'
    ELSE 'answered'
END
"""

HELD = """
UPDATE orders SET hold_kind = CASE WHEN reason LIKE 'same payee%' THEN 'duplicate' ELSE 'known' END
WHERE state = 'held'
"""


def upgrade() -> None:
    """Add columns and tables; what older rows mean is said in the new words."""
    for name, column in _added():
        op.add_column(name, column)
    op.execute(text("UPDATE orders SET absences_needed = 2 WHERE ask_first"))
    op.execute(text(HELD))
    op.execute(text(QUOTES))
    op.drop_column("orders", "ask_first")
    op.create_table(
        "hosts",
        Column("host", String(64), primary_key=True),
        Column("marks", BigInteger, nullable=False),
        Column("first_seen", BigInteger, nullable=False),
    )
    op.create_table(
        "seen_statuses",
        Column("operation", String(60), primary_key=True),
        Column("status", Integer, primary_key=True),
        Column("first_seen", BigInteger, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        for name, column in _added():
            if column.server_default is not None:
                op.alter_column(name, column.name, server_default=None)


def _added() -> list[tuple[str, Column[Any]]]:
    """Table and column. SQLite adds no column that must not be null without a default, and keeps that default."""
    return [
        ("orders", Column("absences_needed", Integer, nullable=False, server_default="0")),
        ("orders", Column("first_answer", String(40))),
        ("orders", Column("hold_kind", String(20))),
        ("orders", Column("personal", Text)),
        ("quotes", Column("stage", String(10), nullable=False, server_default="asked")),
        ("quotes", Column("asks", Integer, nullable=False, server_default="0")),
        ("quotes", Column("ends_at", BigInteger)),
        ("quotes", Column("service_ends_at", BigInteger)),
    ]
