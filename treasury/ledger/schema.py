"""Tables of the ledger, for both SQLite and PostgreSQL. Times are Unix milliseconds, amounts decimal text."""

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
from sqlalchemy.schema import SchemaItem

VERSION = "107"

MAX_REQUEST_ID = 64
"""Most characters of a request id, and of what stands in its place."""

metadata = MetaData()

_Id = BigInteger().with_variant(Integer, "sqlite")


def _numbered(name: str, *parts: SchemaItem) -> Table:
    """Return a table whose rows are numbered as they come."""
    return Table(name, metadata, Column("id", _Id, primary_key=True, autoincrement=True), *parts)


meta = Table(
    "meta",
    metadata,
    Column("key", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)
"""Schema version, the account this ledger is bound to, the fingerprint of its payload key."""

runs = Table(
    "runs",
    metadata,
    Column("run_key", String(200), primary_key=True),
    Column("kind", String(40), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("plan", Text, nullable=False),
    Column("plan_sha256", String(64), nullable=False),
    *(Column(name, String(64)) for name in ("policy", "checksum")),
    Column("makers", Text),
)
"""Runs. `policy`: the version of the policy in force that what waits of it was judged by last. `checksum`: keyed, over
all of it but when it began. `makers`: who started it, and who added rows to it, JSON: name, user of the operating
system, whether that person is listed, and whether a key signed."""

orders = _numbered(
    "orders",
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
    Column("absences_needed", Integer, nullable=False, default=0),
    Column("currency", String(40)),
    Column("amount", String(64)),
    Column("receive_currency", String(40)),
    *(Column(name, String(64)) for name in ("receive_amount", "fee")),
    Column("fee_currency", String(40)),
    Column("rate", String(64)),
    *(Column(name, String(200)) for name in ("order_no", "confirmation")),
    Column("status", Integer),
    Column("code", String(40)),
    Column("reason", Text),
    Column("created_at", BigInteger, nullable=False),
    *(Column(name, BigInteger) for name in ("sent_at", "final_at", "asked_at", "absent_since")),
    Column("first_answer", String(40)),
    Column("hold_kind", String(20)),
    Column("released", String(100)),
    Column("counted_on", String(10)),
    *(Column(name, String(64)) for name in ("ceiling", "payee", "payee_name")),
    Column("personal", Text),
    *(Column(name, String(64)) for name in ("checksum", "replaces", "told_fee")),
    Column("told_fee_currency", String(40)),
    Column("bound", String(64)),
    UniqueConstraint("run_key", "row_ref"),
    Index("orders_by_state", "state"),
    Index("orders_by_alike", "alike"),
    Index("orders_by_day", "counted_on"),
    Index("orders_by_payee", "payee"),
    Index("orders_by_payee_name", "payee_name"),
    Index("orders_by_number", "order_no"),
    Index("orders_by_replaced", "replaces", unique=True),
)
"""Current state, one row per planned payment.

`alike`: keyed hash of an intent's `duplicate_key` (payee, currency and amount). `absences_needed`: how many queries
that find nothing must come before it may leave, because this ledger may know less than the service. `hold_kind`: why a
held order waits for a person. `personal`: keyed hashes of the words of its personal values, so that they are masked in
whatever the service says about it, also when its payload is gone.

`checksum`: keyed, over what it is, where it stands, what it asks for and its payload. `payee`, `payee_name`: keyed
hashes of account, country and bank, and of the name, as an eye reads them.

`doubtful`: a transmission of it may have acted, so no later refusal is believed. `meaning`: keyed hash of an intent's
`bound_content`. `payload`: encrypted, only until the order is final, or, of a payout that ended unpaid, until it is
replaced or 35 days old. `replaces`: the request id of the order that it is paid instead of. `confirmation`: the quote
that was, or is about to be, confirmed. `absent_since`: when the service first said it does not know it, after the last
send. `first_answer`: the code that answered the first transmission of this reference, when that was not success.
`told_fee`: the fee that the service named first; `fee` is the one that it names now. `bound`: the most it should debit.
"""

quotes = _numbered(
    "quotes",
    Column("order_id", _Id, ForeignKey("orders.id"), nullable=False, index=True),
    Column("generation", Integer, nullable=False),
    Column("request_id", String(64), nullable=False, unique=True),
    Column("quote", String(200)),
    Column("pay_currency", String(40)),
    Column("pay_amount", String(64)),
    Column("receive_currency", String(40)),
    *(Column(name, String(64)) for name in ("receive_amount", "fee")),
    Column("fee_currency", String(40)),
    Column("rate", String(64)),
    Column("expires_at", BigInteger),
    Column("note", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("stage", String(10), nullable=False, default="asked"),
    Column("asks", Integer, nullable=False, default=0),
    *(Column(name, BigInteger) for name in ("ends_at", "service_ends_at")),
    Column("checksum", String(64)),
)
"""Every quote ever asked for, lost ones included: a row stands before its request leaves.

`stage`: asked (no answer yet), answered, foreign (the service knew its reference before this ledger asked), done
(another may follow it). `asks`: requests for it that may have reached the service. `expires_at`: until when it may be
confirmed; `ends_at`: when it has ended for certain, both by our clock; `service_ends_at`: its end by the service's.
`checksum`: keyed, over what it confirms and until when.
"""

hosts = Table(
    "hosts",
    metadata,
    Column("host", String(64), primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in ("marks", "first_seen")),
)
"""Machines that sent from this ledger, and how many sends each marked; their token files count the same."""

seen_statuses = Table(
    "seen_statuses",
    metadata,
    Column("operation", String(60), primary_key=True),
    Column("status", Integer, primary_key=True),
    Column("first_seen", BigInteger, nullable=False),
)
"""Statuses that the service has shown for confirmed orders of an operation."""

journal = _numbered(
    "journal",
    Column("order_id", _Id, ForeignKey("orders.id"), nullable=False, index=True),
    Column("at", BigInteger, nullable=False),
    Column("event", String(20), nullable=False),
    *(Column(name, String(10), nullable=False) for name in ("source", "target")),
    Column("process", String(100), nullable=False),
    Column("cause", Text),
    Column("code", String(40)),
    Column("status", Integer),
)
"""Append-only: every step of every order."""

plans = _numbered(
    "plans",
    Column("run_key", String(200), nullable=False, index=True),
    Column("plan_sha256", String(64), nullable=False),
    Column("maker", String(100), nullable=False),
    Column("needed", Integer, nullable=False),
    Column("proposed_at", BigInteger, nullable=False),
    Column("content", Text),
    Column("policy", String(64)),
    Column("day", String(10)),
    Column("number", Integer),
    Column("ledger", String(64)),
    Column("os_user", String(100)),
    Column("is_listed", Boolean),
    Column("token", Text),
    Column("shown", LargeBinary),
    Column("ends_at", BigInteger),
    Column("checksum", String(64)),
)
"""Plans that were made here: who made them, and how many approvals they need. Of a rebalancing also the plan itself,
JSON, the version of the policy and the business date it was made for.

One that waits for approvals is a proposal: `number` among those of its run, `ledger` the identity of the ledger then,
`os_user` and `token` (what a key signed) of its maker, who `is_listed` in the policy or not; `shown` what approvers
see, encrypted, while it waits; `ends_at` when its approvals end at the latest. `checksum`: keyed, over all that binds.
"""

payout_plans = Table(
    "payout_plans",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("run_key", String(200), nullable=False),
    Column("number", Integer, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),
    UniqueConstraint("run_key", "number"),
)
"""Plans of payout runs, each made once: `number` among those of its run. `content`: encrypted, all but its rows. `id`
is the hash over everything in it, rows and making included."""

payout_plan_rows = Table(
    "payout_plan_rows",
    metadata,
    Column("plan_id", String(64), ForeignKey("payout_plans.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
"""The rows of such a plan, some in each record, encrypted; they end with the last payload of their run."""

notifications = _numbered(
    "notifications",
    Column("digest", String(64), nullable=False, unique=True),
    Column("received_at", BigInteger, nullable=False),
    *(Column(name, String(200)) for name in ("request_id", "order_no", "order_type", "currency", "amount", "status")),
    Column("taken", String(10), index=True),
)
"""Notifications that the platform signed, once each. `digest`: keyed, over all that it says. `taken`: the place of
what it names in this ledger, once the service was asked."""

policies = _numbered(
    "policies",
    Column("version", String(64), nullable=False),
    *(Column(name, Text, nullable=False) for name in ("content", "source")),
    *(Column(name, String(100), nullable=False) for name in ("adopted_by", "os_user")),
    *(Column(name, BigInteger, nullable=False) for name in ("adopted_at", "in_force_at")),
    Column("recovery", Boolean, nullable=False, default=False),
    Column("ended_at", BigInteger),
    Column("ended_by", String(100)),
    Column("checksum", String(64)),
)
"""Policies that were adopted, as JSON; the newest in effect is in force. `ended_at`: when a recovery was ended.
`checksum`: keyed, over all that says what is in force."""

decisions = _numbered(
    "decisions",
    Column("at", BigInteger, nullable=False),
    Column("verb", String(40), nullable=False, index=True),
    Column("named", String(200), nullable=False, index=True),
    Column("about", Text, nullable=False, index=True),
    *(Column(name, String(100), nullable=False) for name in ("name", "os_user")),
    Column("is_alone", Boolean, nullable=False),
    Column("why", Text, nullable=False),
    Column("token", Text),
    Column("ends_at", BigInteger),
    Column("facts", Text),
    Column("checksum", String(64), nullable=False),
)
"""Append-only: what people decided, each about one thing as it stood. A decision is taken back by a later one about it.

`named`: by which name the person meant the thing: a run key, a break, a kind of run. `about`: the thing as it stood,
which a signature covers. `is_alone`: by whoever made it, because nobody else was listed. `token`: what a key signed.
`ends_at`: until when it counts. `facts`: what else it says, JSON. `checksum`: keyed, over all of it."""

card_users = Table(
    "card_users",
    metadata,
    Column("user_xid", String(200), primary_key=True),
    Column("user_id", String(200)),
    Column("kyc_status", String(20)),
    Column("kyc_level", String(20)),
    Column("seen_at", BigInteger, nullable=False),
    *(Column(name, BigInteger) for name in ("first_at", "since", "passed_at")),
    Column("passed_level", String(20)),
)
"""Card users as last seen; KYC links are never stored. `since`: first seen so. `passed_level`: the highest one."""

sweeps = _numbered(
    "sweeps",
    Column("started_at", BigInteger, nullable=False),
    Column("scope", Text, nullable=False),
)
"""Nightly sweeps: `scope` is what they were narrowed to."""

answers = _numbered(
    "answers",
    Column("sweep_id", _Id, ForeignKey("sweeps.id"), nullable=False, index=True),
    Column("request_id", String(64), nullable=False),
    Column("order_id", _Id),
    Column("ledger_side", Text, nullable=False),
    Column("service_side", Text),
    Column("asked_at", BigInteger),
    UniqueConstraint("sweep_id", "request_id"),
)
"""Both sides of every order of a sweep: ours as it was before it was asked, theirs once it was.

`order_id` is null for a quote that another followed, and for card users (`request_id`: `card user` and its id).
"""

reports = Table(
    "reports",
    metadata,
    Column("sweep_id", _Id, ForeignKey("sweeps.id"), primary_key=True),
    Column("books", String(200), nullable=False, index=True),
    Column("as_of", BigInteger, nullable=False),
    Column("journal_id", BigInteger, nullable=False),
    Column("statement", Text, nullable=False),
    Column("written_at", BigInteger),
    *(Column(name, String(64)) for name in ("checksum", "breaks")),
)
"""Finished sweeps, of the orders of `books` up to the step `journal_id`; `written_at`: null while no file shows it.
`checksum`: keyed, over what it says and covers, and the balances that were read; `breaks`: keyed, over its breaks, null
until they are recorded."""

sweep_balances = Table(
    "sweep_balances",
    metadata,
    Column("sweep_id", _Id, ForeignKey("sweeps.id"), primary_key=True),
    Column("currency", String(40), primary_key=True),
    *(Column(name, String(64)) for name in ("before", "after")),
    Column("note", Text),
    Column("refused", Boolean, nullable=False, default=False),
    Column("frozen", String(64)),
)
"""Balances as the service showed them before and after a sweep, and how much of the last one was frozen; null where it
did not."""

statement_lines = _numbered(
    "statement_lines",
    Column("sweep_id", _Id, ForeignKey("sweeps.id"), nullable=False, index=True),
    Column("file", String(64), nullable=False),
    Column("given_by", String(100), nullable=False),
    Column("given_at", BigInteger, nullable=False),
    Column("content", Text, nullable=False),
    Column("checksum", String(64), nullable=False),
)
"""Lines of the statements that reports were given, as JSON. `file`: SHA-256 of its bytes; `given_by`: the user of the
operating system; `given_at`: the time of the report. A line that says the same as the one before it is kept once.
`checksum`: keyed, over all of it."""

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
    *(Column(name, String(200)) for name in ("run_key", "row_ref")),
    Column("operation", String(60)),
    Column("order_no", String(200)),
    Column("first_seen", BigInteger, nullable=False),
    Column("lifecycle", String(20), nullable=False),
    Index("breaks_by_id", "break_id"),
)
"""The breaks of each report, so that the next one knows which are new."""

balances = _numbered(
    "balances",
    Column("currency", String(40), nullable=False),
    Column("available", String(64), nullable=False),
    Column("seen_at", BigInteger, nullable=False),
)
"""Balances as the service showed them."""

snapshots = _numbered(
    "snapshots",
    Column("run_key", String(200), nullable=False, index=True),
    Column("at", BigInteger, nullable=False, index=True),
    Column("policy", String(64)),
    Column("content", Text, nullable=False),
)
"""The basis of rebalancings and what they decided, JSON: snapshot, plan, a line for each asset; and a checksum."""
