"""The state of everything that this ledger is responsible for: what ran, what is open, and what a person has to do."""

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from treasury.ledger import schema
from treasury.ledger.acceptances import acceptances
from treasury.ledger.approvals import waiting_plans
from treasury.ledger.backup import LAST_BACKUP, RESTORED
from treasury.ledger.closing import Unread, last_whole_report
from treasury.ledger.in_flight import in_flight
from treasury.ledger.in_force import as_time
from treasury.ledger.policies import policy_in_force
from treasury.ledger.reported_breaks import known_breaks
from treasury.ledger.stops import standing_stops
from treasury.money import canonical, exact
from treasury.orders.states import Hold, State
from treasury.planning.policy import Policy
from treasury.reconciliation.breaks import Break, standing_breaks
from treasury.reconciliation.classes import BALANCE_CLASSES
from treasury.runs.desk import Desk
from treasury.runs.sweep import read_balances, watched_currencies

HOUR_MS = 3_600_000
BACKUP_DAYS = 7
"""Days after which another backup is due."""


@exact
def standing_of(desk: Desk) -> dict[str, Any]:
    """Return the state of everything as JSON has it: amounts as text, times UTC. Asks the service nothing.

    `needs` says what a person has to do, a sentence each that ends in the command.
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
    found = {
        "at": as_time(now),
        "jobs": _jobs(desk, last),
        "missed_nights": _missed(policy, last, now),
        "waiting_approvals": [
            {"run_key": plan.run_key, "since": as_time(plan.proposed_at)} for plan in waiting_plans(ledger)
        ],
        "stops": [
            {"by": row.stopped_by, "why": row.why, "since": as_time(row.stopped_at)}
            for row in ledger.look(standing_stops)
        ],
        "held": _held(desk),
        "unknown": _unknown(desk, now),
        "not_sent": _not_sent(desk),
        "breaks": [_said(each) for each in breaks],
        "unexplained": {currency: canonical(amount) for currency, amount in sorted(unexplained.items())},
        "backup": _backup(desk, now),
        "restored": _restored(desk, now),
    }
    return {**found, "needs": list(_needs(found, has_orders=bool(found["jobs"])))}


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


def _jobs(desk: Desk, last_report: int | None) -> list[dict[str, str]]:
    """The last run of each kind, and the last report of everything."""
    runs = schema.runs.c
    rows = desk.ledger.read(select(runs.kind, runs.run_key, runs.created_at).order_by(runs.created_at, runs.run_key))
    newest = {row.kind: row for row in rows}
    found = [
        {"job": kind, "last": as_time(row.created_at), "run_key": row.run_key} for kind, row in sorted(newest.items())
    ]
    return found + ([] if last_report is None else [{"job": "reconcile", "last": as_time(last_report), "run_key": ""}])


def _missed(policy: Policy, last: int | None, now: int) -> list[str]:
    """The days after the last report of everything on which none was made; today is not over."""
    if last is None:
        return []
    first, today = (date.fromisoformat(policy.day_of(at)) for at in (last, now))
    return [str(first + timedelta(days=number)) for number in range(1, (today - first).days)]


def _held(desk: Desk) -> dict[str, int]:
    table = schema.orders.c
    query = select(table.hold_kind, func.count()).where(table.state == State.HELD.value).group_by(table.hold_kind)
    counts = dict(desk.ledger.read(query.order_by(table.hold_kind)))
    return {Hold(kind).in_words if kind else "without a kind": number for kind, number in counts.items()}


def _not_sent(desk: Desk) -> list[dict[str, Any]]:
    """The runs with rows that never left and that nobody holds, each with one of their reasons."""
    table = schema.orders.c
    waits = table.state == State.PREPARED.value
    query = select(table.run_key, func.count(), func.max(table.reason)).where(waits).group_by(table.run_key)
    return [
        {"run_key": run_key, "orders": count, "reason": reason}
        for run_key, count, reason in desk.ledger.read(query.order_by(table.run_key))
    ]


def _cancel(run_key: str) -> str:
    return f"treasury cancel {run_key} --by NAME --why TEXT"


def _unknown(desk: Desk, now: int) -> dict[str, int]:
    """The number of orders whose outcome nobody knows, and the age of the oldest in whole hours."""
    table = schema.orders.c
    unknown = table.state.in_([State.UNKNOWN.value, State.SENDING.value])
    [[count, oldest]] = desk.ledger.read(select(func.count(), func.min(table.sent_at)).where(unknown))
    return {"orders": count, "oldest_hours": 0 if oldest is None else max(0, now - oldest) // HOUR_MS}


def _said(each: Break) -> dict[str, Any]:
    found = each.found
    amount = None if found.amount is None else canonical(found.amount)
    said = {"id": found.id, "class": found.name, "currency": found.currency, "amount": amount}
    return {**said, "severity": each.severity, "age_days": each.age_days}


def _backup(desk: Desk, now: int) -> dict[str, Any] | None:
    """When `treasury backup` of this home made its last one, and whole days since; None where it never did."""
    return _days_since(_said_in(desk.settings.home / LAST_BACKUP).get("at"), now)


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


def _needs(found: dict[str, Any], *, has_orders: bool) -> Iterator[str]:
    for each in found["stops"]:
        yield f"all sending was stopped by {each['by']} ({each['why']}): treasury stop --lift --by NAME"
    for each in found["waiting_approvals"]:
        yield f"{each['run_key']} waits for approvals since {each['since']}: treasury approve {each['run_key']}"
    for kind, number in found["held"].items():
        yield f"{number} held, {kind}: treasury runs names the runs, treasury show KEY the rows and what to do"
    for each in found["not_sent"]:
        why = "" if each["reason"] is None else f" ({each['reason']})"
        run_key = each["run_key"]
        yield f"{each['orders']} of {run_key} never left{why}: start it again unless it runs now, or {_cancel(run_key)}"
    if found["unknown"]["orders"]:
        count, hours = found["unknown"]["orders"], found["unknown"]["oldest_hours"]
        yield f"{count} of unknown outcome, the oldest sent {hours} h ago: start their runs again, or reconcile"
    if days := found["missed_nights"]:
        named = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        yield f"no report of everything was made on {len(days)} day(s), {named}: treasury reconcile"
    if has_orders and not any(each["job"] == "reconcile" for each in found["jobs"]):
        yield "no report of everything was made yet: treasury reconcile"
    if found["breaks"]:
        yield f"{len(found['breaks'])} open break(s) of the last report: read it, then treasury accept BREAK"
    backup = found["backup"]
    if has_orders and (backup is None or backup["days"] > BACKUP_DAYS):
        when = "was never made from this home" if backup is None else f"is {backup['days']} days old"
        yield f"the last backup {when}: treasury backup FILE"
