"""Revision 0101: plans of payout runs are kept, with their rows; findings about the service are not."""

from alembic import op

from treasury.ledger import schema

revision = "0101"
down_revision = "0100"

NEW_TABLES = ("payout_plans", "payout_plan_rows")
NEW_COLUMNS: dict[str, tuple[str, ...]] = {}
"""The tables and columns that this revision adds."""


def upgrade() -> None:
    """Add the tables of plans, and drop those of findings where a ledger has them."""
    for name in NEW_TABLES:
        schema.metadata.tables[name].create(op.get_bind())
    for name in ("proofs", "adoptions"):
        op.execute(f"DROP TABLE IF EXISTS {name}")
