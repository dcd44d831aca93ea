"""Tables of the ledger, for both SQLite and PostgreSQL. Times are Unix milliseconds, amounts decimal text.

Texts have no length here, for only PostgreSQL would keep it: whoever reads them from outside bounds them.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.schema import SchemaItem

VERSION = "107"

metadata = MetaData()

_Id = BigInteger().with_variant(Integer, "sqlite")


def _numbered(name: str, *parts: SchemaItem) -> Table:
    """Return a table whose rows are numbered as they come."""
    return Table(name, metadata, Column("id", _Id, primary_key=True, autoincrement=True), *parts)


meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""Schema version, the account this ledger is bound to, the fingerprint of its payload key."""

runs = Table(
    "runs",
    metadata,
    Column("run_key", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("plan", Text, nullable=False),
    Column("plan_sha256", Text, nullable=False),
    *(Column(name, Text) for name in ("policy", "checksum")),
    Column("makers", Text),
)
"""Runs. `policy`: the version of the policy in force that what waits of it was judged by last. `checksum`: keyed, over
all of it but when it began. `makers`: who started it, and who added rows to it, JSON: name, user of the operating
system, whether that person is listed, and whether a key signed."""

orders = _numbered(
    "orders",
    Column("run_key", Text, ForeignKey("runs.run_key"), nullable=False),
    Column("row_ref", Text, nullable=False),
    Column("operation", Text, nullable=False),
    Column("generation", Integer, nullable=False, default=1),
    Column("request_id", Text, nullable=False, unique=True),
    Column("state", Text, nullable=False),
    Column("doubtful", Boolean, nullable=False, default=False),
    Column("sends", Integer, nullable=False, default=0),
    Column("meaning", Text, nullable=False),
    Column("payload", LargeBinary),
    Column("masked", Text, nullable=False),
    Column("alike", Text),
    Column("absences_needed", Integer, nullable=False, default=0),
    Column("currency", Text),
    Column("amount", Text),
    Column("receive_currency", Text),
    *(Column(name, Text) for name in ("receive_amount", "fee")),
    Column("fee_currency", Text),
    Column("rate", Text),
    *(Column(name, Text) for name in ("order_no", "confirmation")),
    Column("status", Integer),
    Column("code", Text),
    Column("reason", Text),
    Column("created_at", BigInteger, nullable=False),
    *(Column(name, BigInteger) for name in ("sent_at", "final_at", "asked_at", "absent_since")),
    Column("first_answer", Text),
    Column("hold_kind", Text),
    Column("released", Text),
    Column("counted_on", Text),
    *(Column(name, Text) for name in ("ceiling", "payee", "payee_name")),
    Column("personal", Text),
    *(Column(name, Text) for name in ("checksum", "replaces", "told_fee")),
    Column("told_fee_currency", Text),
    Column("bound", Text),
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
    Column("request_id", Text, nullable=False, unique=True),
    Column("quote", Text),
    Column("pay_currency", Text),
    Column("pay_amount", Text),
    Column("receive_currency", Text),
    *(Column(name, Text) for name in ("receive_amount", "fee")),
    Column("fee_currency", Text),
    Column("rate", Text),
    Column("expires_at", BigInteger),
    Column("note", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("stage", Text, nullable=False, default="asked"),
    Column("asks", Integer, nullable=False, default=0),
    *(Column(name, BigInteger) for name in ("ends_at", "service_ends_at")),
    Column("checksum", Text),
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
    Column("host", Text, primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in ("marks", "first_seen")),
)
"""Machines that sent from this ledger, and how many sends each marked; their token files count the same."""

seen_statuses = Table(
    "seen_statuses",
    metadata,
    Column("operation", Text, primary_key=True),
    Column("status", Integer, primary_key=True),
    Column("first_seen", BigInteger, nullable=False),
)
"""Statuses that the service has shown for confirmed orders of an operation."""

journal = _numbered(
    "journal",
    Column("order_id", _Id, ForeignKey("orders.id"), nullable=False, index=True),
    Column("at", BigInteger, nullable=False),
    Column("event", Text, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("source", "target")),
    Column("process", Text, nullable=False),
    Column("cause", Text),
    Column("code", Text),
    Column("status", Integer),
)
"""Append-only: every step of every order."""

plans = _numbered(
    "plans",
    Column("run_key", Text, nullable=False, index=True),
    Column("plan_sha256", Text, nullable=False),
    Column("maker", Text, nullable=False),
    Column("needed", Integer, nullable=False),
    Column("proposed_at", BigInteger, nullable=False),
    Column("content", Text),
    Column("policy", Text),
    Column("day", Text),
    Column("number", Integer),
    Column("ledger", Text),
    Column("os_user", Text),
    Column("is_listed", Boolean),
    Column("token", Text),
    Column("shown", LargeBinary),
    Column("ends_at", BigInteger),
    Column("checksum", Text),
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
    Column("id", Text, primary_key=True),
    Column("run_key", Text, nullable=False),
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
    Column("plan_id", Text, ForeignKey("payout_plans.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
"""The rows of such a plan, some in each record, encrypted; they end with the last payload of their run."""

notifications = _numbered(
    "notifications",
    Column("digest", Text, nullable=False, unique=True),
    Column("received_at", BigInteger, nullable=False),
    *(Column(name, Text) for name in ("request_id", "order_no", "order_type", "currency", "amount", "status")),
    Column("taken", Text, index=True),
)
"""Notifications that the platform signed, once each. `digest`: keyed, over all that it says. `taken`: the place of
what it names in this ledger, once the service was asked."""

policies = _numbered(
    "policies",
    Column("version", Text, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("content", "source")),
    *(Column(name, Text, nullable=False) for name in ("adopted_by", "os_user")),
    *(Column(name, BigInteger, nullable=False) for name in ("adopted_at", "in_force_at")),
    Column("recovery", Boolean, nullable=False, default=False),
    Column("ended_at", BigInteger),
    Column("ended_by", Text),
    Column("checksum", Text),
)
"""Policies that were adopted, as JSON; the newest in effect is in force. `ended_at`: when a recovery was ended.
`checksum`: keyed, over all that says what is in force."""

decisions = _numbered(
    "decisions",
    Column("at", BigInteger, nullable=False),
    Column("verb", Text, nullable=False, index=True),
    Column("named", Text, nullable=False, index=True),
    Column("about", Text, nullable=False, index=True),
    *(Column(name, Text, nullable=False) for name in ("name", "os_user")),
    Column("is_alone", Boolean, nullable=False),
    Column("why", Text, nullable=False),
    Column("token", Text),
    Column("ends_at", BigInteger),
    Column("facts", Text),
    Column("checksum", Text, nullable=False),
)
"""Append-only: what people decided, each about one thing as it stood. A decision is taken back by a later one about it.

`named`: by which name the person meant the thing: a run key, a break, a kind of run. `about`: the thing as it stood,
which a signature covers. `is_alone`: by whoever made it, because nobody else was listed. `token`: what a key signed.
`ends_at`: until when it counts. `facts`: what else it says, JSON. `checksum`: keyed, over all of it."""

card_users = Table(
    "card_users",
    metadata,
    Column("user_xid", Text, primary_key=True),
    Column("user_id", Text),
    Column("kyc_status", Text),
    Column("kyc_level", Text),
    Column("seen_at", BigInteger, nullable=False),
    *(Column(name, BigInteger) for name in ("first_at", "since", "passed_at")),
    Column("passed_level", Text),
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
    Column("request_id", Text, nullable=False),
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
    Column("books", Text, nullable=False, index=True),
    Column("as_of", BigInteger, nullable=False),
    Column("journal_id", BigInteger, nullable=False),
    Column("statement", Text, nullable=False),
    Column("written_at", BigInteger),
    *(Column(name, Text) for name in ("checksum", "breaks")),
)
"""Finished sweeps, of the orders of `books` up to the step `journal_id`; `written_at`: null while no file shows it.
`checksum`: keyed, over what it says and covers, and the balances that were read; `breaks`: keyed, over its breaks, null
until they are recorded."""

sweep_balances = Table(
    "sweep_balances",
    metadata,
    Column("sweep_id", _Id, ForeignKey("sweeps.id"), primary_key=True),
    Column("currency", Text, primary_key=True),
    *(Column(name, Text) for name in ("before", "after")),
    Column("note", Text),
    Column("refused", Boolean, nullable=False, default=False),
    Column("frozen", Text),
)
"""Balances as the service showed them before and after a sweep, and how much of the last one was frozen; null where it
did not."""

statement_lines = _numbered(
    "statement_lines",
    Column("sweep_id", _Id, ForeignKey("sweeps.id"), nullable=False, index=True),
    Column("file", Text, nullable=False),
    Column("given_by", Text, nullable=False),
    Column("given_at", BigInteger, nullable=False),
    Column("content", Text, nullable=False),
    Column("checksum", Text, nullable=False),
)
"""Lines of the statements that reports were given, as JSON. `file`: SHA-256 of its bytes; `given_by`: the user of the
operating system; `given_at`: the time of the report. A line that says the same as the one before it is kept once.
`checksum`: keyed, over all of it."""

breaks = Table(
    "breaks",
    metadata,
    Column("sweep_id", _Id, ForeignKey("sweeps.id"), primary_key=True),
    Column("break_id", Text, primary_key=True),
    Column("subject", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("request_id", Text),
    Column("currency", Text),
    Column("amount", Text),
    Column("difference", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    *(Column(name, Text) for name in ("run_key", "row_ref")),
    Column("operation", Text),
    Column("order_no", Text),
    Column("first_seen", BigInteger, nullable=False),
    Column("lifecycle", Text, nullable=False),
    Index("breaks_by_id", "break_id"),
)
"""The breaks of each report, so that the next one knows which are new."""

balances = _numbered(
    "balances",
    Column("currency", Text, nullable=False),
    Column("available", Text, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
)
"""Balances as the service showed them."""

snapshots = _numbered(
    "snapshots",
    Column("run_key", Text, nullable=False, index=True),
    Column("at", BigInteger, nullable=False, index=True),
    Column("policy", Text),
    Column("content", Text, nullable=False),
)
"""The basis of rebalancings and what they decided, JSON: snapshot, plan, a line for each asset; and a checksum."""
