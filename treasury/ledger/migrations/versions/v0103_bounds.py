"""Revision 0103: orders keep the most that they should debit, card users since when they are what they are."""

from alembic import op
from sqlalchemy import BigInteger, Column, String

revision = "0103"
down_revision = "0102"

NEW_TABLES: tuple[str, ...] = ()
NEW_COLUMNS = {"orders": ("bound",), "card_users": ("first_at", "since", "passed_at", "passed_level")}
"""The tables and columns that this revision adds."""


def upgrade() -> None:
    """Add the columns; a card user is as old as it was last seen."""
    op.add_column("orders", Column("bound", String(64)))
    for name in ("first_at", "since", "passed_at"):
        op.add_column("card_users", Column(name, BigInteger))
    op.add_column("card_users", Column("passed_level", String(20)))
    op.execute("UPDATE card_users SET first_at = seen_at, since = seen_at")
    op.execute("UPDATE card_users SET passed_at = seen_at, passed_level = kyc_level WHERE kyc_status = '3'")
