"""Revision 0100: the first format. Its tables are those of today, without what later revisions add."""

from alembic import op

from treasury.ledger.migrations import tables_of

revision = "0100"
down_revision = None


def upgrade() -> None:
    """Make them."""
    tables_of("100").create_all(op.get_bind())
