"""The state of everything that this ledger is responsible for: what ran, what is open, and what waits for a person.

`treasury status` and Prefect's artifact "Required actions" are both made of it.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from treasury.ledger import schema
from treasury.ledger.approvals import waiting_plans
from treasury.ledger.backup import LAST_BACKUP, RESTORED
from treasury.ledger.closing import Unread, incomplete_currencies
from treasury.ledger.database import in_code_points
from treasury.ledger.debits import in_flight
from treasury.ledger.halts import STOPPED_BY
from treasury.ledger.in_force import as_time
from treasury.ledger.kept_breaks import acceptances, known_breaks
from treasury.ledger.made_reports import last_whole_report
from treasury.ledger.policies import policy_in_force
from treasury.ledger.stops import stops_in_force
from treasury.money import canonical, exact
from treasury.nights.sweep import HOUR_MS, read_balances, watched_currencies
from treasury.orders.states import Hold, State
from treasury.payments.approving import lacking, why_stale
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.policy.people import Right
from treasury.reconciliation.breaks import Break, standing_breaks
from treasury.reconciliation.classes import BALANCE_CLASSES
from treasury.texts import approval_command, count_of, with_person

BACKUP_DAYS = 7
"""Days after which another backup is due."""

MAX_NAMED = 5
"""Most runs that one line names."""

START_AGAIN = "start it again (a policy: treasury policy adopt FILE --by NAME), unless it runs now"
"""The way on for a plan that lacks no approval, or for which no approval counts any more."""

OPERATOR, CHECKER, APPROVER = "whoever starts the runs", "whoever checks the report", "an approver"
"""For whom it waits, where the policy lists nobody by name."""


@dataclass(frozen=True)
class RequiredAction:
    """Something that waits for a person."""

    what: str
    whom: str
    since: str | None
    """UTC; None where nobody can say."""
    command: str
    """The command to run, with what has to be known about it."""

    def __str__(self) -> str:
        return f"{self.what}: {self.command}"


def needs_of(
    found: Mapping[str, Any], approvers: Sequence[str], late_hours: float, *, is_listed: bool
) -> list[RequiredAction]:
    """Return what waits for a person, of what `standing_of` found; `approvers`: those whom the policy lists.

    `late_hours`: the age at which a report of everything is late. `is_listed`: the policy lists people, so that their
    keys count, and no names.
    """
    needs = [*_decisions(found, ", ".join(approvers) or APPROVER), *_open(found), *_overdue(found, late_hours)]
    return [replace(each, command=with_person(each.command, is_listed=is_listed)) for each in needs]


def _decisions(found: Mapping[str, Any], approver: str) -> Iterator[RequiredAction]:
    for each in found["stops"]:
        what = f"all sending was stopped by {each['by']} ({each['why']})"
        yield RequiredAction(what, each["by"], each["since"], "treasury stop --lift --by NAME")
    for each in found["waiting_approvals"]:
        key, since = each["run_key"], each["since"]
        if each["lacks"]:
            how = approval_command(key, each["code"])
            yield RequiredAction(f"{key} waits for approvals since {since}", approver, since, how)
        else:
            why = "has the approvals that it needs" if each["stale"] is None else f"was {each['stale']}"
            yield RequiredAction(f"{key} waits since {since} and {why}", OPERATOR, since, START_AGAIN)
    for kind, number in found["held"].items():
        how = "treasury runs names the runs, treasury show KEY their rows, treasury show REFERENCE what to do"
        yield RequiredAction(f"{number} held, {kind}", approver, found["since"]["held"][kind], how)


def _open(found: Mapping[str, Any]) -> Iterator[RequiredAction]:
    if found["older"] is not None:
        what = f"this ledger may know less than the service, because {found['older']}"
        how = "treasury reconcile, and compare with the service's list; the next start of a run holds what never left"
        yield RequiredAction(what, OPERATOR, None, how)
    for each in found["not_sent"]:
        key, why = each["run_key"], "" if each["reason"] is None else f" ({each['reason']})"
        how = f"start it again unless it runs now, or treasury cancel {key} --by NAME --why TEXT"
        yield RequiredAction(f"{each['orders']} of {key} never left{why}", OPERATOR, each["since"], how)
    if count := found["unknown"]["orders"]:
        runs, hours = found["unknown"]["runs"], found["unknown"]["oldest_hours"]
        more = f" and {len(runs) - MAX_NAMED} more" if len(runs) > MAX_NAMED else ""
        what = f"{count} of unknown outcome, of {', '.join(runs[:MAX_NAMED])}{more}, the oldest sent {hours} h ago"
        how = "start their runs again, or treasury reconcile; of what stays so treasury show KEY says what to do"
        yield RequiredAction(what, OPERATOR, found["since"]["unknown"], how)


def _overdue(found: Mapping[str, Any], late_hours: float) -> Iterator[RequiredAction]:
    last = {each["job"]: each["last"] for each in found["jobs"]}
    days, hours = found["missed_nights"], found["report_hours"] or 0
    if days or hours >= late_hours:  # in the morning after a night without one, that day is not over
        named = f"{days[0]} to {days[-1]}" if len(days) > 1 else "".join(days)
        missed = f"on {count_of(len(days), 'day')}, {named}" if days else f"for {hours} h"
        what = f"no report of everything was made {missed}"
        yield RequiredAction(what, OPERATOR, last["reconcile"], "treasury reconcile")
    if last and "reconcile" not in last:
        yield RequiredAction("no report of everything was made yet", OPERATOR, None, "treasury reconcile")
    if found["incomplete"]:
        what = (
            f"the last report is incomplete: a balance was not read, or sums differ: {', '.join(found['incomplete'])}"
        )
        yield RequiredAction(what, OPERATOR, last["reconcile"], "treasury reconcile; if it stays, ask the service")
    if found["breaks"]:
        what = f"{count_of(len(found['breaks']), 'open break')} of the last report"
        yield RequiredAction(
            what, CHECKER, found["since"]["breaks"], "read it, then treasury accept BREAK --by NAME --why TEXT"
        )
    backup = found["backup"]
    if last and (backup is None or backup["days"] > BACKUP_DAYS):
        when = "was never made from this home" if backup is None else f"is {count_of(backup['days'], 'day')} old"
        since = None if backup is None else backup["last"]
        yield RequiredAction(f"the last backup {when}", OPERATOR, since, "treasury backup FILE")


@exact
def standing_of(desk: Desk) -> dict[str, Any]:
    """Return the state of everything as JSON has it: amounts as text, times UTC. Asks the service nothing.

    `needs` says what a person has to do, a sentence each that ends in the command; `actions` the same in parts.
    """
    ledger, now = desk.ledger, desk.ledger.now()
    adopted = policy_in_force(ledger)
    policy = Policy() if adopted is None else adopted.policy
    last = last_whole_report(ledger)
    unexplained: dict[str, Decimal] = defaultdict(Decimal)
    breaks = standing_breaks(known_breaks(ledger), acceptances(ledger, now), policy, now)
    for each in breaks:
        if each.found.name in BALANCE_CLASSES and each.found.currency is not None:
            unexplained[each.found.currency] -= each.found.difference
    held, first_break = _held(desk), min((each.first_seen for each in breaks), default=None)
    unknown, oldest = _unknown(desk, now)
    stops = stops_in_force(ledger)
    found = {
        "at": as_time(now),
        "jobs": _jobs(desk, last),
        "missed_nights": [] if last is None else policy.days_between(last, now),
        "report_hours": None if last is None else max(0, now - last) // HOUR_MS,
        "waiting_approvals": _waiting(desk),
        "stops": [{"by": each.name, "why": each.why, "since": as_time(each.at)} for each in stops],
        "held": {kind: number for kind, (number, _) in held.items()},
        "unknown": unknown,
        "not_sent": _not_sent(desk, is_stopped=bool(stops)),
        "incomplete": incomplete_currencies(ledger),
        "breaks": [_said(each) for each in breaks],
        "unexplained": {currency: canonical(amount) for currency, amount in sorted(unexplained.items())},
        "backup": _days_since(_said_in(desk.settings.home / LAST_BACKUP).get("at"), now),
        "restored": _restored(desk, now),
        "older": desk.why_older(),
        "since": {
            "held": {kind: as_time(since) for kind, (_, since) in held.items()},
            "unknown": None if oldest is None else as_time(oldest),
            "breaks": None if first_break is None else as_time(first_break),
        },
    }
    late = desk.settings.alarm_hours.report
    needs = needs_of(found, policy.listed.with_right(Right.APPROVE), late, is_listed=bool(policy.listed))
    return {**found, "needs": [str(each) for each in needs], "actions": [asdict(each) for each in needs]}


@exact
def balances_of(desk: Desk) -> list[dict[str, str | None]]:
    """Ask the service for every balance that a report reads; amounts as text, `note` says why one cannot be read.

    `may_still_debit`: payments that are recorded and not sent, or of unknown outcome. `unexplained`: what the
    last report found and nobody accepted.
    """
    flying, unexplained = in_flight(desk.ledger, except_run=""), standing_of(desk)["unexplained"]
    found: list[dict[str, str | None]] = []
    for currency, seen in read_balances(desk, watched_currencies(desk)).items():
        more = {
            "may_still_debit": canonical(flying.get(currency, Decimal(0))),
            "unexplained": unexplained.get(currency, "0"),
        }
        if isinstance(seen, Unread):
            found.append({"currency": currency, "balance": None, "held": None, **more, "note": seen.note})
        else:
            held = None if seen.frozen is None else canonical(seen.frozen)
            found.append({"currency": currency, "balance": canonical(seen.balance), "held": held, **more, "note": None})
    return found


def _waiting(desk: Desk) -> list[dict[str, Any]]:
    """The plans that wait. `lacks`: how many approvals; None where none counts any more, for which `stale` says why."""
    return [
        {
            "run_key": plan.run_key,
            "code": plan.code,
            "since": as_time(plan.proposed_at),
            "lacks": lacking(desk, plan) if (stale := why_stale(desk, plan)) is None else None,
            "stale": stale,
        }
        for plan in waiting_plans(desk.ledger)
    ]


def _jobs(desk: Desk, last_report: int | None) -> list[dict[str, str]]:
    """The last run of each kind, and the last report of everything."""
    runs = schema.runs.c
    rows = desk.ledger.read(select(runs.kind, runs.run_key, runs.created_at).order_by(runs.created_at, runs.run_key))
    newest = {row.kind: row for row in rows}
    found = [
        {"job": kind, "last": as_time(row.created_at), "run_key": row.run_key} for kind, row in sorted(newest.items())
    ]
    return found + ([] if last_report is None else [{"job": "reconcile", "last": as_time(last_report), "run_key": ""}])


def _held(desk: Desk) -> dict[str, tuple[int, int]]:
    """How many orders are held for each reason, in words, and since when the first of them was recorded."""
    table = schema.orders.c
    held = table.state == State.HELD.value
    query = select(table.hold_kind, func.count(), func.min(table.created_at)).where(held).group_by(table.hold_kind)
    rows = desk.ledger.read(query.order_by(in_code_points(func.coalesce(table.hold_kind, ""))))
    return {Hold(kind).in_words if kind else "without a kind": (number, since) for kind, number, since in rows}


def _not_sent(desk: Desk, *, is_stopped: bool) -> list[dict[str, Any]]:
    """The runs with rows that never left and that nobody holds, each with one of their reasons.

    `is_stopped`: a stop stands; the reason of a row may still say so after it was lifted.
    """
    table = schema.orders.c
    waits = table.state == State.PREPARED.value
    facts = (table.run_key, func.count(), func.max(table.reason), func.min(table.created_at))
    rows = desk.ledger.read(select(*facts).where(waits).group_by(table.run_key).order_by(in_code_points(table.run_key)))
    return [
        {
            "run_key": run_key,
            "orders": count,
            "reason": LIFTED if not is_stopped and STOPPED_BY in (reason or "") else reason,
            "since": as_time(since),
        }
        for run_key, count, reason, since in rows
    ]


LIFTED = "a stop kept it back, and was lifted: it is sent when the run is started again"


def _unknown(desk: Desk, now: int) -> tuple[dict[str, Any], int | None]:
    """The number of orders whose outcome nobody knows, their runs, the age of the oldest, and when it was sent."""
    table, runs, count, oldest = schema.orders.c, list[str](), 0, None
    query = select(table.run_key, func.count(), func.min(table.sent_at)).where(_IS_UNKNOWN).group_by(table.run_key)
    for run_key, orders, sent_at in desk.ledger.read(query):
        runs.append(run_key)
        count += orders
        if sent_at is not None:
            oldest = min(oldest or sent_at, sent_at)
    age = 0 if oldest is None else max(0, now - oldest)
    return {
        "orders": count,
        "runs": sorted(runs),
        "oldest_hours": age // HOUR_MS,
        "oldest_seconds": age // 1000,
    }, oldest


_IS_UNKNOWN = schema.orders.c.state.in_([State.UNKNOWN.value, State.SENDING.value])


def old_unknowns(desk: Desk, hours: float) -> dict[str, int]:
    """Run key -> how many of its orders have been of unknown outcome for so many hours."""
    old = _IS_UNKNOWN & (schema.orders.c.sent_at <= desk.ledger.now() - int(hours * HOUR_MS))
    query = select(schema.orders.c.run_key, func.count()).where(old).group_by(schema.orders.c.run_key)
    return dict(desk.ledger.read(query.order_by(in_code_points(schema.orders.c.run_key))))


def decided_plans(desk: Desk, hours: float) -> list[tuple[str, str]]:
    """Plans that were proposed in the last hours and wait no more: run key, and when it was proposed, UTC."""
    waiting = {plan.id for plan in waiting_plans(desk.ledger)}
    table = schema.plans.c
    proposed = (table.needed > 0) & (table.proposed_at >= desk.ledger.now() - int(hours * HOUR_MS))
    rows = desk.ledger.read(select(table.id, table.run_key, table.proposed_at).where(proposed).order_by(table.id))
    return [(row.run_key, as_time(row.proposed_at)) for row in rows if row.id not in waiting]


def _said(each: Break) -> dict[str, Any]:
    found = each.found
    amount = None if found.amount is None else canonical(found.amount)
    said = {"id": found.id, "class": found.name, "currency": found.currency, "amount": amount}
    return {**said, "severity": each.severity, "age_days": each.age_days}


def _restored(desk: Desk, now: int) -> dict[str, Any] | None:
    """When a backup beside the last one of this home was last restored, wherever to; None where none is known to be."""
    file = _said_in(desk.settings.home / LAST_BACKUP).get("file")
    beside = Path(file).parent.glob("*" + RESTORED) if isinstance(file, str) else ()
    times = [at for each in beside if isinstance(at := _said_in(each).get("at"), int)]
    return _days_since(max(times, default=None), now)


def _said_in(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _days_since(at: object, now: int) -> dict[str, Any] | None:
    return {"last": as_time(at), "days": max(0, now - at) // (24 * HOUR_MS)} if isinstance(at, int) else None
