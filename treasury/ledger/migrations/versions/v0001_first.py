"""Revision 0001: the first ledger that other machines may have. These tables never change any more."""

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

revision = "0001"
down_revision = None


metadata = MetaData()

_Id = BigInteger().with_variant(Integer, "sqlite")

meta = Table(
    "meta",
    metadata,
    Column("key", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("run_key", String(200), primary_key=True),
    Column("kind", String(40), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("plan", Text, nullable=False),
    Column("plan_sha256", String(64), nullable=False),
)

orders = Table(
    "orders",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("run_key", String(200), ForeignKey("runs.run_key"), nullable=False),
    Column("row_ref", String(200), nullable=False),
    Column("operation", String(60), nullable=False),
    Column("generation", Integer, nullable=False, default=1),
    Column("request_id", String(64), nullable=False, unique=True),
    Column("state", String(10), nullable=False),
    Column("doubtful", Boolean, nullable=False, default=False),
    Column("sends", Integer, nullable=False, default=0),
    Column("meaning", String(64), nullable=False),
    Column("payload", LargeBinary),
    Column("masked", Text, nullable=False),
    Column("alike", String(64)),
    Column("ask_first", Boolean, nullable=False, default=False),
    Column("currency", String(40)),
    Column("amount", String(64)),
    Column("receive_currency", String(40)),
    Column("receive_amount", String(64)),
    Column("fee", String(64)),
    Column("fee_currency", String(40)),
    Column("rate", String(64)),
    Column("order_no", String(200)),
    Column("confirmation", String(200)),
    Column("status", Integer),
    Column("code", String(40)),
    Column("reason", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("sent_at", BigInteger),
    Column("final_at", BigInteger),
    Column("asked_at", BigInteger),
    Column("absent_since", BigInteger),
    UniqueConstraint("run_key", "row_ref"),
    Index("orders_by_state", "state"),
    Index("orders_by_alike", "alike"),
)

quotes = Table(
    "quotes",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("order_id", _Id, ForeignKey("orders.id"), nullable=False, index=True),
    Column("generation", Integer, nullable=False),
    Column("request_id", String(64), nullable=False, unique=True),
    Column("quote", String(200)),
    Column("pay_currency", String(40)),
    Column("pay_amount", String(64)),
    Column("receive_currency", String(40)),
    Column("receive_amount", String(64)),
    Column("fee", String(64)),
    Column("fee_currency", String(40)),
    Column("rate", String(64)),
    Column("expires_at", BigInteger),
    Column("note", Text),
    Column("created_at", BigInteger, nullable=False),
)

journal = Table(
    "journal",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("order_id", _Id, ForeignKey("orders.id"), nullable=False, index=True),
    Column("at", BigInteger, nullable=False),
    Column("event", String(20), nullable=False),
    Column("source", String(10), nullable=False),
    Column("target", String(10), nullable=False),
    Column("process", String(100), nullable=False),
    Column("cause", Text),
    Column("code", String(40)),
    Column("status", Integer),
)

plans = Table(
    "plans",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("run_key", String(200), nullable=False, index=True),
    Column("plan_sha256", String(64), nullable=False),
    Column("maker", String(100), nullable=False),
    Column("needed", Integer, nullable=False),
    Column("proposed_at", BigInteger, nullable=False),
)

approvals = Table(
    "approvals",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("run_key", String(200), nullable=False),
    Column("plan_sha256", String(64), nullable=False, index=True),
    Column("approved_by", String(100), nullable=False),
    Column("os_user", String(100), nullable=False),
    Column("approved_at", BigInteger, nullable=False),
    UniqueConstraint("run_key", "plan_sha256", "approved_by"),
)

stops = Table(
    "stops",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("stopped_at", BigInteger, nullable=False),
    Column("stopped_by", String(100), nullable=False),
    Column("why", Text, nullable=False),
    Column("lifted_at", BigInteger),
    Column("lifted_by", String(100)),
)

card_users = Table(
    "card_users",
    metadata,
    Column("user_xid", String(200), primary_key=True),
    Column("user_id", String(200)),
    Column("kyc_status", String(20)),
    Column("kyc_level", String(20)),
    Column("seen_at", BigInteger, nullable=False),
)

sweeps = Table(
    "sweeps",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("started_at", BigInteger, nullable=False),
    Column("scope", Text, nullable=False),
)

answers = Table(
    "answers",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("sweep_id", _Id, ForeignKey("sweeps.id"), nullable=False, index=True),
    Column("request_id", String(64), nullable=False),
    Column("order_id", _Id),
    Column("ledger_side", Text, nullable=False),
    Column("service_side", Text),
    Column("asked_at", BigInteger),
    UniqueConstraint("sweep_id", "request_id"),
)

reports = Table(
    "reports",
    metadata,
    Column("sweep_id", _Id, ForeignKey("sweeps.id"), primary_key=True),
    Column("books", String(200), nullable=False, index=True),
    Column("as_of", BigInteger, nullable=False),
    Column("journal_id", BigInteger, nullable=False),
    Column("statement", Text, nullable=False),
)

sweep_balances = Table(
    "sweep_balances",
    metadata,
    Column("sweep_id", _Id, ForeignKey("sweeps.id"), primary_key=True),
    Column("currency", String(40), primary_key=True),
    Column("before", String(64)),
    Column("after", String(64)),
    Column("note", Text),
    Column("refused", Boolean, nullable=False, default=False),
)

breaks = Table(
    "breaks",
    metadata,
    Column("sweep_id", _Id, ForeignKey("sweeps.id"), primary_key=True),
    Column("break_id", String(20), primary_key=True),
    Column("subject", String(300), nullable=False),
    Column("name", String(40), nullable=False),
    Column("request_id", String(300)),
    Column("currency", String(40)),
    Column("amount", String(64)),
    Column("difference", String(64), nullable=False),
    Column("evidence", Text, nullable=False),
    Column("run_key", String(200)),
    Column("row_ref", String(200)),
    Column("operation", String(60)),
    Column("order_no", String(200)),
    Column("first_seen", BigInteger, nullable=False),
    Column("lifecycle", String(20), nullable=False),
    Index("breaks_by_id", "break_id"),
)

acceptances = Table(
    "acceptances",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("break_id", String(20), nullable=False, index=True),
    Column("name", String(40), nullable=False),
    Column("difference", String(64), nullable=False),
    Column("accepted_by", String(100), nullable=False),
    Column("os_user", String(100), nullable=False),
    Column("why", Text, nullable=False),
    Column("accepted_at", BigInteger, nullable=False),
)

balances = Table(
    "balances",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("currency", String(40), nullable=False),
    Column("available", String(64), nullable=False),
    Column("seen_at", BigInteger, nullable=False),
)


def upgrade() -> None:
    """Make them."""
    metadata.create_all(op.get_bind())
