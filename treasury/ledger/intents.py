"""Intents: the one transaction in which a run is bound, limits and duplicates are judged, and orders come into being.

It is serialized: two runs that start in one second see each other.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, insert, select, update

from treasury.crashpoints import point
from treasury.errors import ApprovalNeeded, LimitExceeded, RunKeyConflict
from treasury.ledger import schema
from treasury.ledger.approvals import approvers
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger
from treasury.ledger.records import Intent, derive_request_id
from treasury.ledger.states import Event, State
from treasury.money import exact, format_amount
from treasury.quoting import masked_payload

T = TypeVar("T")

DUPLICATE_DAYS = 7
"""How far back another payment that looks the same counts as a duplicate."""
DAY_MS = 24 * 3600 * 1000
_AT_ONCE = 500

_NOT_PAID = (State.REJECTED.value, State.FAILED.value, State.CLOSED.value, State.HELD.value)


@dataclass(frozen=True)
class Rules:
    """What is judged when a run is bound."""

    duplicate_days: int = DUPLICATE_DAYS
    approvals: int = 0
    most_per_day: Mapping[str, Decimal] = field(default_factory=dict)
    """Currency -> the most that all runs of a day may debit."""
    day_start_ms: int = 0
    """When the day began, in the policy's time zone."""


def commit_plan(
    ledger: Ledger,
    run_key: str,
    kind: str,
    plan: Mapping[str, Any],
    sha256: str,
    intents: Sequence[Intent],
    rules: Rules = Rules(),
) -> int:
    """Bind the run key to these payments and record those not recorded yet; returns how many were new.

    A subset of a bound run is fine. A payment that looks like another one is recorded and held, unless its row says
    why it is none. Raises `RunKeyConflict` naming payments that changed or were added, `ApprovalNeeded`, and
    `LimitExceeded` when the day's limit would be passed.
    """
    is_new = ledger.run(run_key) is None
    meant = [_meant(ledger, intent, is_new=is_new) for intent in intents]

    def work(connection: Connection) -> int:
        serialize(connection)
        bound = connection.execute(select(schema.runs.c.kind).where(schema.runs.c.run_key == run_key)).scalar()
        if bound is not None:
            _check_binding(connection, run_key, bound, kind, meant)
            _release(ledger, connection, run_key, [each.row_ref for each in meant if each.duplicate_ok])
            return 0
        approved_by = approvers(connection, run_key, sha256)
        if len(approved_by) < rules.approvals:
            raise ApprovalNeeded(run_key, rules.approvals, approved_by)
        _check_day(connection, rules, meant)
        run = {"run_key": run_key, "kind": kind, "created_at": ledger.now(), "plan_sha256": sha256}
        connection.execute(insert(schema.runs).values(**run, plan=json.dumps(plan, ensure_ascii=False)))
        earlier = _earlier(connection, ledger.now() - rules.duplicate_days * DAY_MS, meant)
        for some in _in_parts(zip(intents, meant, strict=True)):
            rows = [_row(ledger, run_key, intent, each) for intent, each in some]
            connection.execute(insert(schema.orders), rows)
        _hold(ledger, connection, run_key, _duplicates(run_key, meant, earlier))
        return len(meant)

    point("intents.before")
    new = ledger.write(work)
    point("intents.committed")
    return new


@dataclass(frozen=True, slots=True)
class _Meant:
    """What is judged of an intent: without its payload, for all of a large run are in memory at once."""

    row_ref: str
    meaning: str
    """Keyed hash of what the run key binds."""
    alike: str | None
    """Keyed hash of payee, currency and amount."""
    currency: str | None
    amount: Decimal | None
    duplicate_ok: bool


def _meant(ledger: Ledger, intent: Intent, *, is_new: bool) -> _Meant:
    meaning = ledger.key.keyed_hash(intent.meaning)
    alike = _alike(ledger, intent) if is_new else None  # what is bound was compared with others when it was new
    return _Meant(intent.row_ref, meaning, alike, intent.currency, intent.amount, bool(intent.duplicate_ok))


def _in_parts(items: Iterable[T]) -> Iterator[list[T]]:
    """So many items at a time; one statement inserts them, and no more of them are encrypted at once."""
    items = iter(items)
    while some := list(islice(items, _AT_ONCE)):
        yield some


def _alike(ledger: Ledger, intent: Intent) -> str | None:
    return None if intent.alike is None else ledger.key.keyed_hash(list(intent.alike))


def _row(ledger: Ledger, run_key: str, intent: Intent, each: _Meant) -> dict[str, Any]:
    derived = derive_request_id(ledger.account, run_key, intent.row_ref, intent.operation, 1)
    return {
        "run_key": run_key,
        "row_ref": intent.row_ref,
        "operation": intent.operation,
        "generation": 1,
        "request_id": intent.request_id or derived,
        "confirmation": intent.confirmation,
        "state": State.PREPARED.value,
        "doubtful": False,
        "ask_first": False,
        "sends": 0,
        "meaning": each.meaning,
        "alike": each.alike,
        "payload": ledger.key.encrypt(intent.payload),
        "masked": json.dumps(masked_payload(intent.operation, intent.payload), ensure_ascii=False),
        "currency": intent.currency,
        "amount": None if intent.amount is None else format_amount(intent.amount),
        "receive_currency": intent.receive_currency,
        "receive_amount": None if intent.receive_amount is None else format_amount(intent.receive_amount),
        "created_at": ledger.now(),
    }


def _check_binding(connection: Connection, run_key: str, bound: str, kind: str, meant: Sequence[_Meant]) -> None:
    if bound != kind:
        raise RunKeyConflict(run_key, [kind], f"this run key stands for a {bound}, not for this")
    table = schema.orders.c
    known: dict[str, str] = {
        row.row_ref: row.meaning
        for row in connection.execute(select(table.row_ref, table.meaning).where(table.run_key == run_key))
    }
    changed = [each.row_ref for each in meant if known.get(each.row_ref, each.meaning) != each.meaning]
    added = [each.row_ref for each in meant if each.row_ref not in known]
    if changed:
        raise RunKeyConflict(run_key, changed, "these rows changed since the run began; use another run key")
    if added:
        raise RunKeyConflict(run_key, added, "these rows were added since the run began; use another run key for them")


@exact
def _check_day(connection: Connection, rules: Rules, meant: Sequence[_Meant]) -> None:
    """What is planned, with all that other runs planned since the day began, stays within the day's limits."""
    table = schema.orders.c
    for currency, most in rules.most_per_day.items():
        query = select(table.amount).where(
            table.currency == currency, table.created_at >= rules.day_start_ms, table.state.not_in(_NOT_PAID)
        )
        before = sum((Decimal(row.amount) for row in connection.execute(query) if row.amount), Decimal(0))
        planned = sum((each.amount for each in meant if each.amount and each.currency == currency), Decimal(0))
        if before + planned > most:
            raise LimitExceeded(
                f"the day's limit is {format_amount(most)} {currency}: {format_amount(before)} are planned already, "
                f"and this run adds {format_amount(planned)}"
            )


def _earlier(connection: Connection, since_ms: int, meant: Sequence[_Meant]) -> dict[str, str]:
    """Of those that look like one of these: hash -> the earlier payment in words."""
    wanted = [each.alike for each in meant if each.alike is not None]
    table = schema.orders.c
    found: dict[str, str] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        query = select(table.alike, table.row_ref, table.run_key, table.request_id).where(
            table.alike.in_(wanted[start : start + _AT_ONCE]),
            table.created_at >= since_ms,
            table.state.not_in(_NOT_PAID),
        )
        for row in connection.execute(query):
            found[row.alike] = f"{row.row_ref} of run {row.run_key} ({row.request_id})"
    return found


def _duplicates(run_key: str, meant: Sequence[_Meant], earlier: Mapping[str, str]) -> dict[str, str]:
    """row_ref -> the earlier payment that it looks like, in any run or further up in the same file."""
    seen = dict(earlier)
    held = {}
    for each in meant:
        if each.alike is None:
            continue
        if each.alike in seen and not each.duplicate_ok:
            held[each.row_ref] = seen[each.alike]
        seen.setdefault(each.alike, f"{each.row_ref} of run {run_key}")
    return held


def _hold(ledger: Ledger, connection: Connection, run_key: str, duplicates: Mapping[str, str]) -> None:
    for row_ref, other in duplicates.items():
        reason = f"same payee, amount and currency as {other}; if it is meant, write why into duplicate_ok"
        _step(ledger, connection, run_key, row_ref, Event.HOLD, State.PREPARED, State.HELD, reason)


def _release(ledger: Ledger, connection: Connection, run_key: str, row_refs: Sequence[str]) -> None:
    """Rows that were held as duplicates, and say now why they are none."""
    table = schema.orders.c
    held = select(table.row_ref).where(table.run_key == run_key, table.state == State.HELD.value, table.sends == 0)
    waiting = {row.row_ref for row in connection.execute(held.where(table.reason.like("same payee%")))}
    for row_ref in row_refs:
        if row_ref in waiting:
            _step(ledger, connection, run_key, row_ref, Event.RELEASE, State.HELD, State.PREPARED, None)


def _step(
    ledger: Ledger,
    connection: Connection,
    run_key: str,
    row_ref: str,
    event: Event,
    source: State,
    target: State,
    reason: str | None,
) -> None:
    table = schema.orders
    chosen = (table.c.run_key == run_key) & (table.c.row_ref == row_ref) & (table.c.state == source.value)
    change = update(table).where(chosen).values(state=target.value, reason=reason).returning(table.c.id)
    order_id = connection.execute(change).scalar_one()
    ledger.journal_step(connection, order_id, event, source, target, cause=reason or "the row says why it is none")
