"""Revision 0105: what people decided is one table."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    insert,
    text,
    update,
)

from treasury.approving.tokens import Binding, Verb
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.decisions import RecordedDecision
from treasury.ledger.seals import CHANGED, add_sealed, seal
from treasury.texts import canonical_json

revision = "0105"
down_revision = "0104"

NEW_TABLES = ("decisions",)
NEW_COLUMNS: dict[str, tuple[str, ...]] = {}
"""The tables and columns that this revision adds."""

FORMER = MetaData()
"""The tables and columns that it takes away."""

_Id = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[int]:
    return Column("id", _Id, primary_key=True, autoincrement=True)


_decisions = Table(
    "decisions",
    FORMER,
    _id(),
    Column("proposal", _Id, nullable=False, index=True),
    Column("decision", String(10), nullable=False),
    *(Column(name, String(100), nullable=False) for name in ("name", "os_user")),
    Column("at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    *(Column(name, Text) for name in ("token", "why")),
    Column("used_at", BigInteger),
    Column("checksum", String(64)),
)
_stops = Table(
    "stops",
    FORMER,
    _id(),
    Column("stopped_at", BigInteger, nullable=False),
    Column("stopped_by", String(100), nullable=False),
    Column("why", Text, nullable=False),
    Column("lifted_at", BigInteger),
    *(Column(name, String(100)) for name in ("lifted_by", "os_user")),
    Column("is_signed", Boolean),
)
_keyed = Table(
    "keyed_decisions",
    FORMER,
    _id(),
    Column("at", BigInteger, nullable=False),
    Column("verb", String(40), nullable=False),
    Column("subject", Text, nullable=False, index=True),
    Column("name", String(100), nullable=False),
    Column("os_user", String(100), nullable=False),
    Column("is_alone", Boolean, nullable=False),
    Column("why", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("checksum", String(64), nullable=False),
)
_consents = Table(
    "consents",
    FORMER,
    _id(),
    Column("policy", String(64), nullable=False, index=True),
    Column("kind", String(40), nullable=False),
    Column("os_user", String(100), nullable=False),
    Column("at", BigInteger, nullable=False),
)
_acceptances = Table(
    "acceptances",
    FORMER,
    _id(),
    Column("break_id", String(20), nullable=False, index=True),
    Column("name", String(40), nullable=False),
    Column("difference", String(64), nullable=False),
    Column("accepted_by", String(100), nullable=False),
    Column("os_user", String(100), nullable=False),
    Column("why", Text, nullable=False),
    Column("accepted_at", BigInteger, nullable=False),
    Column("ends_at", BigInteger),
    Column("withdrawn_at", BigInteger),
    Column("withdrawn_by", String(100)),
    Column("withdraw_why", Text),
)
_plans = Table(
    "plans",
    FORMER,
    Column("cancelled_at", BigInteger),
    Column("cancelled_by", String(100)),
    Column("cancel_why", Text),
)

SEALED = {
    "plans": (
        *("run_key", "plan_sha256", "maker", "os_user", "is_listed", "token", "needed", "proposed_at", "policy"),
        *("day", "number", "ledger", "ends_at", "cancelled_at", "cancelled_by", "cancel_why"),
    ),
    "policies": ("version", "content", "adopted_by", "adopted_at", "in_force_at", "recovery", "ended_at", "ended_by"),
    "decisions": ("proposal", "decision", "name", "os_user", "at", "expires_at", "token", "why", "used_at"),
    "keyed_decisions": ("at", "verb", "subject", "name", "os_user", "is_alone", "why", "token"),
}
"""Former table -> the columns that its rows' checksums covered."""


def upgrade() -> None:
    """Bring the decisions into one table, and seal them anew; what was changed by hand stays so."""
    connection, opts = op.get_bind(), op.get_context().opts
    key: Any = opts.get("key")  # an empty database has nothing to be sealed
    found = _Former(connection, key, opts.get("account", "")).decisions
    if key is not None:
        _seal(connection, key, schema.plans)
        _seal(connection, key, schema.policies)
    for table in (_decisions, _stops, _keyed, _consents, _acceptances):
        op.drop_table(table.name)
    for column in _plans.columns:
        op.drop_column(_plans.name, column.name)
    table = schema.metadata.tables["decisions"]
    table.create(connection)
    for decision, genuine in found:
        row = {name: value for name, value in vars(decision).items() if name != "id"}
        row["facts"] = canonical_json(decision.facts) if decision.facts else None
        if genuine:
            add_sealed(connection, key, table, row)
        else:
            connection.execute(insert(table).values(**row, checksum=CHANGED))


def _seal(connection: Connection, key: LedgerKey, table: Table) -> None:
    for row in _rows(connection, table.name):
        if _was_sealed(key, table.name, row):
            resealed = update(table).where(table.c.id == row["id"]).values(checksum=seal(key, table, row))
            connection.execute(resealed)


def _rows(connection: Connection, name: str) -> list[dict[str, Any]]:
    rows = connection.execute(text(f"SELECT * FROM {name}" + (" ORDER BY id" if name != "consents" else "")))  # noqa: S608
    return [dict(row._mapping) for row in rows]


def _was_sealed(key: LedgerKey, name: str, row: Mapping[str, Any]) -> bool:
    values = (int(value) if isinstance(value := row[each], bool) else value for each in SEALED[name])
    return bool(row["checksum"] == key.checksum([name, *values]))


class _Former:
    """The decisions of a ledger of the former format, each with whether nobody changed it by hand."""

    def __init__(self, connection: Connection, key: LedgerKey, account: str) -> None:
        self.decisions: list[tuple[RecordedDecision, bool]] = []
        self._tokens: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._read = partial(_rows, connection)
        is_sealed = partial(_was_sealed, key)
        for row in self._read("keyed_decisions"):
            if row["verb"] in (Verb.REJECT, Verb.ACCEPT, Verb.WITHDRAW, Verb.LIFT):  # the thing itself is a row, too
                self._tokens[row["verb"], row["subject"]].append(row["token"])
                continue
            named = row["subject"] if row["verb"] == Verb.PROPOSE else ""
            said = (row["verb"], named, row["subject"], row["name"], row["os_user"], row["why"], row["token"])
            decision = RecordedDecision(*said, is_alone=bool(row["is_alone"]), at=row["at"])
            self._add(decision, is_sealed("keyed_decisions", row))
        self._add_plans(account, is_sealed)
        self._add_stops()
        self._add_acceptances()
        for row in self._read("consents"):
            kind, about, by = row["kind"], f"policy {row['policy']}", row["os_user"]
            self._add(RecordedDecision(Verb.CONSENT, kind, about, by, by, at=row["at"]))

    def _add(self, decision: RecordedDecision, genuine: bool = True) -> RecordedDecision:
        made = replace(decision, id=len(self.decisions) + 1)
        self.decisions.append((made, genuine))
        return made

    def _token(self, verb: Verb, subject: str) -> str | None:
        return next(iter(self._tokens.get((verb, subject), [])), None)

    def _add_plans(self, account: str, is_sealed: Callable[[str, Mapping[str, Any]], bool]) -> None:
        of_plans: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in self._read("decisions"):
            of_plans[row["proposal"]].append(row)
        for plan in self._read("plans"):
            run_key, bound = plan["run_key"], (plan["plan_sha256"], plan["policy"], plan["ledger"] or "")
            about = f"plan {Binding(account, run_key, *bound, plan['number'] or 0).code} of {run_key}"
            used = [row["used_at"] for row in of_plans[plan["id"]] if row["used_at"] is not None]
            for number, row in enumerate(of_plans[plan["id"]], 1):
                token = self._token(Verb.REJECT, about) if row["decision"] == Verb.REJECT else row["token"]
                said = (row["decision"], run_key, about, row["name"], row["os_user"], row["why"] or "", token)
                decision = RecordedDecision(*said, ends_at=row["expires_at"], at=row["at"])
                self._add(decision, is_sealed("decisions", row))
                if number == len(used):
                    self._add(RecordedDecision(Verb.CARRY_OUT, run_key, about, "", "", at=min(used)))
            if plan["cancelled_at"] is not None:
                ended = (plan["cancelled_by"] or "", "", plan["cancel_why"] or "")
                self._add(RecordedDecision(Verb.CANCEL, run_key, about, *ended, at=plan["cancelled_at"]))

    def _add_stops(self) -> None:
        for row in self._read("stops"):
            token = "signed" if row["is_signed"] else None
            said = (row["stopped_by"], row["os_user"] or "", row["why"], token)
            stop = self._add(RecordedDecision(Verb.STOP, "stop", "all sending", *said, at=row["stopped_at"]))
            if row["lifted_at"] is not None:
                token = self._token(Verb.LIFT, f"stop {row['id']} of {row['stopped_at']} by {row['stopped_by']}")
                lifted = (row["lifted_by"] or "", "", "lifted", token)
                self._add(RecordedDecision(Verb.LIFT, "stop", stop.itself, *lifted, at=row["lifted_at"]))

    def _add_acceptances(self) -> None:
        for row in self._read("acceptances"):
            facts = {"class": row["name"], "difference": row["difference"]}
            about = f"break {row['break_id']}: {row['name']} of {row['difference']}"
            said = (row["accepted_by"], row["os_user"], row["why"])
            given = RecordedDecision(Verb.ACCEPT, row["break_id"], about, *said, facts=facts, at=row["accepted_at"])
            accepted = self._add(replace(given, ends_at=row["ends_at"]))
            if row["withdrawn_at"] is not None:
                former = f"acceptance {row['id']} of {row['break_id']} by {row['accepted_by']} at {row['accepted_at']}"
                by = (row["withdrawn_by"] or "", "", row["withdraw_why"] or "")
                ended = RecordedDecision(Verb.WITHDRAW, row["break_id"], accepted.itself, *by, at=row["withdrawn_at"])
                self._add(replace(ended, token=self._token(Verb.WITHDRAW, former)))
