"""The machine form of a reconciliation: what `reconciliation.json` holds, and page and workbook are made of."""

import functools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from statistics import median
from typing import TYPE_CHECKING, Any

from treasury.money import ZERO, canonical, exact, format_amount
from treasury.provider.card_users import KYC_STATUS, NOT_SET, PASSED
from treasury.reconciliation.breaks import RESOLVED, Break
from treasury.reconciliation.classes import BALANCE_CLASSES, BY_NAME, CLASSES, INVOICE_CLASSES
from treasury.reconciliation.entries import StatementEntry
from treasury.reconciliation.order_statement import StatementLine
from treasury.reports.results import REHEARSAL
from treasury.texts import count_of, with_person

if TYPE_CHECKING:
    from treasury.reconciliation.report import Report

HOUR_MS = 3_600_000


def funnel_of(users: Sequence[Mapping[str, Any]], unused: Sequence[str]) -> dict[str, Any] | None:
    """Count card users by the status that the service shows; None where there are none.

    `median_hours`: from when a user was first seen until the check was first seen as passed, of those who took any time
    under this ledger's eyes. `unused`: who has not used the link for long.
    """
    if not users:
        return None
    counts = Counter(KYC_STATUS.get(_status(user), "not known") for user in users)
    took = [
        (user["passed_at"] - user["first_at"]) / HOUR_MS
        for user in users
        if user.get("passed_at") and user.get("first_at") and user["passed_at"] > user["first_at"]
    ]
    return {
        "created": len(users),
        "counts": {words: counts[words] for words in (*KYC_STATUS.values(), "not known") if counts[words]},
        "handed_in": sum(_status(user) not in (NOT_SET, "") for user in users),
        "passed": sum(_status(user) == PASSED for user in users),
        "median_hours": round(median(took), 1) if took else None,
        "unused": sorted(unused),
    }


def _status(user: Mapping[str, Any]) -> str:
    """Return the status that the service shows now; that of before where it could not be asked."""
    shown = user.get("seen_kyc_status") if user.get("answer") == "found" else user.get("kyc_status")
    return NOT_SET if shown is None else str(shown)


ORDER_COLUMNS = (
    *("request_id", "run_key", "row_ref", "operation", "class", "state", "currency", "amount"),
    *("receive_currency", "receive_amount", "answer", "status", "order_no", "seen_currency", "seen_amount"),
    *("seen_receive_currency", "seen_receive_amount", "seen_fee", "seen_fee_currency", "seen_rate", "seen_reason"),
    *("fee", "fee_currency", "rate", "created_at", "sent_at", "final_at"),
)
"""Both sides of an order: `state` and the amounts are ours, `fee` and `rate` as quoted; `answer`, `status`, `order_no`
and what begins with `seen_` are the service's."""

TIMES = ("created_at", "sent_at", "final_at")

GONE = "nothing: the difference is gone"
"""The next action of a break that was resolved by itself."""

ACCEPTED = "nothing: a person accepted it as it was"
"""The next action of a break that was accepted."""


def time_text(unix_ms: int) -> str:
    """A time as the report shows it: UTC, to the second."""
    return _second_text(unix_ms // 1000)


@functools.lru_cache(maxsize=100_000)
def _second_text(unix_seconds: int) -> str:
    """A million orders share few seconds."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@exact
def as_machine(report: "Report") -> dict[str, Any]:
    """The machine form. Amounts are exact text, times UTC."""
    night, orders = report.night, report.orders
    beside = Counter(each.found.name for each in report.breaks if each.lifecycle != RESOLVED)
    counts = {each.name: max(orders.classes[each.name], beside[each.name]) for each in CLASSES}
    return {
        "verdict": report.verdict.value,
        "rehearsal": REHEARSAL if night.rehearsal else None,
        "older": night.older,
        "as_of": time_text(night.as_of),
        "since": None if night.since is None else time_text(night.since),
        "missed_days": list(report.missed_days),
        "not_asked": {"orders": night.not_asked, "rule": night.by_age},
        "scope": {**asdict(night.scope), "statement": _statements(night.entries)},
        "orders": orders.orders,
        "counts": {name: count for name, count in counts.items() if count},
        "statement": _statement(report),
        "balances": [line.as_text() for line in report.balances],
        "breaks": [_break(each, is_listed=bool(night.policy.listed)) for each in report.breaks],
        "card_users": funnel_of(night.card_users, [each.found.subject for each in report.breaks if _is_unused(each)]),
        "money_in": report.arrivals.counts,
        "by_day": list(orders.by_day()),
        "fees": orders.fees(),
        "rates": orders.rates(),
        "settings": {
            "time_zone": night.policy.time_zone,
            **night.policy.reconciliation.as_settings(),
            "approvals": "by key" if night.policy.people else "by name only",
        },
    }


def _is_unused(each: Break) -> bool:
    return each.found.name == "kyc_unused" and each.lifecycle != RESOLVED


def _statements(entries: Sequence[StatementEntry]) -> str | None:
    """Say how many lines of statements are known, and who gave the newest file."""
    if not entries:
        return None
    last = max(entries, key=lambda entry: entry.given_at)
    given = f", the newest by {last.given_by} (SHA-256 {last.file[:12]})" if last.given_by else ""
    return f"{count_of(len(entries), 'line')}{given}"


def _statement(report: "Report") -> list[dict[str, str]]:
    """Return the statement, each line with the sums of its open breaks: gross (absolute amounts) and net.

    A break whose difference is not known stands in the gross sum with its whole amount. A lot of a balance account that
    is just the difference of another break is the same event, and counts once. What customers paid otherwise than they
    were asked is in no sum: it is an entry as it came, so that no lot is the same event.
    """
    gross: dict[str, Decimal] = defaultdict(Decimal)
    net: dict[str, Decimal] = defaultdict(Decimal)
    standing = [
        each.found
        for each in report.breaks
        if each.counts and each.found.currency is not None and each.found.name not in INVOICE_CLASSES
    ]
    of_orders = Counter((found.currency, found.difference) for found in standing if found.name not in BALANCE_CLASSES)
    for found in standing:
        event = (found.currency, found.difference)
        if found.name in BALANCE_CLASSES and of_orders[event]:
            of_orders[event] -= 1
            continue
        stake = found.amount if found.name in UNCLEAR and not found.difference else found.difference
        gross[str(found.currency)] += abs(stake or ZERO)
        net[str(found.currency)] += found.difference
    lines = {line.currency: line for line in report.night.statement}
    lines |= {currency: StatementLine(currency, *[ZERO] * 6) for currency in gross if currency not in lines}
    return [
        {**line.as_text(), "breaks_gross": canonical(gross[currency]), "breaks_net": canonical(net[currency])}
        for currency, line in sorted(lines.items())
    ]


UNCLEAR = ("query_failed", "other_record", "currency_mismatch", "status_conflict", "unknown_outcome")
"""Classes of breaks whose difference may be anything up to the amount."""


def _break(each: Break, *, is_listed: bool) -> dict[str, Any]:
    found, accepted = each.found, each.accepted
    said = None
    if accepted is not None:
        said = {"by": accepted.accepted_by, "why": accepted.why, "at": time_text(accepted.accepted_at)}
        said |= {} if accepted.ends_at is None else {"until": time_text(accepted.ends_at)}
    return {
        "id": found.id,
        "request_id": found.request_id,
        "class": found.name,
        "currency": found.currency,
        "amount": None if found.amount is None else format_amount(found.amount),
        "difference": canonical(found.difference),
        "age_days": each.age_days,
        "age_bucket": each.age_bucket,
        "first_seen": time_text(each.first_seen),
        "lifecycle": each.lifecycle,
        "severity": each.severity,
        "accepted": said,
        "run_key": found.run_key,
        "row_ref": found.row_ref,
        "operation": found.operation,
        "order_no": found.order_no,
        "evidence": found.evidence,
        "next_action": _next_action(each, is_listed=is_listed),
    }


def _next_action(each: Break, *, is_listed: bool) -> str:
    if each.accepted is not None:
        return ACCEPTED
    if each.lifecycle == RESOLVED:
        return GONE
    accept = f"`treasury accept {each.found.id} --by NAME --why TEXT`"
    return with_person(BY_NAME[each.found.name].next_action.replace("`treasury accept`", accept), is_listed=is_listed)


def meanings() -> Mapping[str, str]:
    """Class -> what it means."""
    return {each.name: each.meaning for each in CLASSES}
