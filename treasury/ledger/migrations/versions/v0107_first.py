"""Revision 0107: the first format. Its tables are those of today, without what later revisions add."""

from alembic import op

from treasury.ledger.migrations import tables_of

revision = "0107"
down_revision = None


def upgrade() -> None:
    """Make them."""
    tables_of("107").create_all(op.get_bind())
