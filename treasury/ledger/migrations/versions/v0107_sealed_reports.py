"""Revision 0107: a report has a checksum."""

from alembic import op
from sqlalchemy import Column, String

from treasury.ledger.made_reports import seal_reports

revision = "0107"
down_revision = "0106"

NEW_TABLES: tuple[str, ...] = ()
NEW_COLUMNS = {"reports": ("checksum",)}
"""The tables and columns that this revision adds."""


def upgrade() -> None:
    """Seal the reports that are there: nobody knows whether they were changed by hand."""
    op.add_column("reports", Column("checksum", String(64)))
    key = op.get_context().opts.get("key")  # an empty database has nothing to be sealed
    if key is not None:
        seal_reports(op.get_bind(), key)
