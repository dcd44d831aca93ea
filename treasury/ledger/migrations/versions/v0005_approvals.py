"""Revision 0005: proposals by number, decisions about them, and keyed checksums."""

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    insert,
    select,
)

revision = "0005"
down_revision = "0004"

NEW_TABLES = ("decisions",)
NEW_COLUMNS = {
    "plans": ("number", "ledger", "os_user", "is_listed", "token", "shown", "ends_at", "checksum"),
    "policies": ("checksum",),
    "orders": ("payee_name", "checksum"),
    "runs": ("checksum",),
    "quotes": ("checksum",),
}
"""What this revision adds."""

_ID = BigInteger().with_variant(Integer, "sqlite")

approvals = Table(
    "approvals",
    MetaData(),
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("run_key", String(200), nullable=False),
    Column("plan_sha256", String(64), nullable=False, index=True),
    Column("approved_by", String(100), nullable=False),
    Column("os_user", String(100), nullable=False),
    Column("approved_at", BigInteger, nullable=False),
    UniqueConstraint("run_key", "plan_sha256", "approved_by"),
)

DROPPED = (approvals,)
"""What this revision takes away: its rows go to `decisions`."""

HOURS_72 = 72 * 3_600_000


def upgrade() -> None:
    """Add columns and a table, and take the approvals over."""
    for name, kind in (
        ("number", Integer),
        ("ledger", String(64)),
        ("os_user", String(100)),
        ("is_listed", Boolean),
        ("token", Text),
        ("shown", LargeBinary),
        ("ends_at", BigInteger),
        ("checksum", String(64)),
    ):
        op.add_column("plans", Column(name, kind))
    for name in ("policies", "runs", "quotes"):
        op.add_column(name, Column("checksum", String(64)))
    op.add_column("orders", Column("payee_name", String(64)))
    op.add_column("orders", Column("checksum", String(64)))
    op.create_index("orders_by_payee_name", "orders", ["payee_name"])
    op.create_table(
        "decisions",
        Column("id", _ID, primary_key=True, autoincrement=True),
        Column("proposal", _ID, nullable=False),
        Column("decision", String(10), nullable=False),
        Column("name", String(100), nullable=False),
        Column("os_user", String(100), nullable=False),
        Column("at", BigInteger, nullable=False),
        Column("expires_at", BigInteger),
        Column("token", Text),
        Column("why", Text),
        Column("used_at", BigInteger),
        Column("checksum", String(64)),
    )
    op.create_index("ix_decisions_proposal", "decisions", ["proposal"])
    _take_over_approvals()
    op.drop_table("approvals")


def _take_over_approvals() -> None:
    """Each approval by name becomes a decision about the newest proposal of its plan."""
    connection, old = op.get_bind(), approvals.c
    plans = Table("plans", MetaData(), Column("id", _ID), Column("run_key", String), Column("plan_sha256", String))
    decisions = Table(
        "decisions",
        MetaData(),
        *(Column(name, BigInteger) for name in ("proposal", "at", "expires_at")),
        *(Column(name, String) for name in ("decision", "name", "os_user")),
    )
    same = (plans.c.run_key == old.run_key) & (plans.c.plan_sha256 == old.plan_sha256)
    newest = select(func.max(plans.c.id)).where(same).scalar_subquery()
    for row in connection.execute(select(approvals, newest.label("proposal")).order_by(old.id)).fetchall():
        if row.proposal is not None:
            taken = {"proposal": row.proposal, "decision": "approve", "name": row.approved_by, "os_user": row.os_user}
            at = row.approved_at
            connection.execute(insert(decisions).values(**taken, at=at, expires_at=at + HOURS_72))
