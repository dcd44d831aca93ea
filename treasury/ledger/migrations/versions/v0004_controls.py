"""Revision 0004: policies in force, cancelled plans, releases by kind, and what an order counts for on which day."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Integer, String, Text

revision = "0004"
down_revision = "0003"

NEW_TABLES = ("policies", "consents")
NEW_COLUMNS = {
    "runs": ("policy",),
    "orders": ("released", "counted_on", "ceiling", "payee"),
    "plans": ("cancelled_at", "cancelled_by", "cancel_why", "content", "policy", "day"),
}
"""What this revision adds; it changes nothing else."""


def upgrade() -> None:
    """Add columns; older rows say nothing in them."""
    op.add_column("orders", Column("released", String(100)))
    op.add_column("orders", Column("counted_on", String(10)))
    op.add_column("orders", Column("ceiling", String(64)))
    op.add_column("orders", Column("payee", String(64)))
    op.create_index("orders_by_day", "orders", ["counted_on"])
    op.create_index("orders_by_payee", "orders", ["payee"])
    op.add_column("runs", Column("policy", String(64)))
    op.add_column("plans", Column("cancelled_at", BigInteger))
    op.add_column("plans", Column("cancelled_by", String(100)))
    op.add_column("plans", Column("cancel_why", Text))
    op.add_column("plans", Column("content", Text))
    op.add_column("plans", Column("policy", String(64)))
    op.add_column("plans", Column("day", String(10)))
    op.create_table(
        "consents",
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
        Column("policy", String(64), nullable=False),
        Column("kind", String(40), nullable=False),
        Column("os_user", String(100), nullable=False),
        Column("at", BigInteger, nullable=False),
    )
    op.create_index("ix_consents_policy", "consents", ["policy"])
    op.create_table(
        "policies",
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
        Column("version", String(64), nullable=False),
        Column("content", Text, nullable=False),
        Column("source", Text, nullable=False),
        Column("adopted_by", String(100), nullable=False),
        Column("os_user", String(100), nullable=False),
        Column("adopted_at", BigInteger, nullable=False),
        Column("in_force_at", BigInteger, nullable=False),
        Column("recovery", Boolean, nullable=False),
        Column("ended_at", BigInteger),
        Column("ended_by", String(100)),
    )
