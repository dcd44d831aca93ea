"""Pure: what the ledger holds and what the service answered in, one class for each order, breaks and a verdict out."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pandas as pd

from treasury.interface.catalogue import CATALOGUE
from treasury.interface.status import OrderStatus
from treasury.ledger.states import State
from treasury.ledger.sweeps import SUPERSEDED
from treasury.money import format_amount

COLUMNS = (
    *("request_id", "run_key", "row_ref", "operation", "state"),
    *("currency", "amount", "receive_currency", "receive_amount"),
    *("answer", "status", "order_no", "seen_currency", "seen_amount"),
    *("seen_receive_currency", "seen_receive_amount", "fee", "seen_reason"),
)
"""Both sides of an order. First ours: `state` is the one before it was asked. Then the service's: `answer` is one of
`Answer` or None (not asked), `status` an integer or None. Amounts are `Decimal` or None."""


class Answer(StrEnum):
    """What came back when an order was asked for."""

    FOUND = "found"
    ABSENT = "absent"
    FAILED = "failed"


class Verdict(StrEnum):
    """The one word of a reconciliation, worst first."""

    INCOMPLETE = "incomplete"
    BREAKS = "breaks"
    WARNINGS = "warnings"
    PENDING = "pending"
    RECONCILED = "reconciled"


@dataclass(frozen=True)
class Class:
    """One way in which the two sides relate. `verdict`: what a single order of it makes of the whole."""

    name: str
    verdict: Verdict
    meaning: str
    next_action: str


CLASSES: tuple[Class, ...] = (
    Class("query_failed", Verdict.INCOMPLETE, "the service could not be asked", "run the reconciliation again"),
    Class(
        "missing_at_service",
        Verdict.BREAKS,
        "the service does not know an order it had accepted",
        "ask the service with order number and request id",
    ),
    Class(
        "currency_mismatch", Verdict.BREAKS, "the two sides name different currencies", "ask the service; do not resend"
    ),
    Class("amount_mismatch", Verdict.BREAKS, "the two sides name different amounts", "ask the service; do not resend"),
    Class(
        "reversed_after_final",
        Verdict.BREAKS,
        "the service changed its mind after a final status",
        "find out why; the ledger has journaled the correction",
    ),
    Class(
        "status_conflict",
        Verdict.BREAKS,
        "the two sides cannot both be right about where the order stands",
        "ask the service; do not resend",
    ),
    Class(
        "unknown_outcome",
        Verdict.BREAKS,
        "sent, and nobody knows yet whether it acted",
        "wait: it is asked about at the next start of its run and every night",
    ),
    Class(
        "unclassified_status",
        Verdict.WARNINGS,
        "the service shows a status that is not in the published list",
        "none yet: it counts as not final",
    ),
    Class("in_progress", Verdict.PENDING, "on its way, or not sent yet", "none: it is followed"),
    Class("matched", Verdict.RECONCILED, "both sides agree", "none"),
)
"""Every class, by priority: an order is in the first that applies."""

BY_NAME: Mapping[str, Class] = {each.name: each for each in CLASSES}

UNREMARKABLE = ("matched", "in_progress")
"""Classes that are not listed among the breaks."""


@dataclass(frozen=True)
class Reconciliation:
    """The result: one row per order (`orders`), with its class, and what is to be looked at (`breaks`)."""

    orders: pd.DataFrame
    breaks: pd.DataFrame
    counts: Mapping[str, int]
    verdict: Verdict


def reconcile(both_sides: pd.DataFrame) -> Reconciliation:
    """Give every order its class. Columns: `COLUMNS`; the order of rows does not matter.

    Money compares exactly. An order that was not asked counts as one that could not be: `query_failed`.
    """
    joined = both_sides.astype(object).where(both_sides.notna(), None).sort_values("request_id", ignore_index=True)
    records: list[dict[str, Any]] = joined.to_dict("records")  # type: ignore[assignment]
    joined["class"] = [classify(record) for record in records]
    joined["evidence"] = [evidence(record) for record in records]
    breaks = joined[~joined["class"].isin(UNREMARKABLE)].copy()
    breaks.insert(0, "id", [break_id(request_id) for request_id in breaks["request_id"]])
    priority = {each.name: place for place, each in enumerate(CLASSES)}
    breaks = breaks.sort_values(
        ["class", "request_id"], key=lambda column: column.map(priority) if column.name == "class" else column
    )
    found = joined["class"].value_counts().to_dict()
    counts = {each.name: int(found[each.name]) for each in CLASSES if each.name in found}
    return Reconciliation(joined, breaks.reset_index(drop=True), counts, verdict_of(counts))


def verdict_of(counts: Mapping[str, int]) -> Verdict:
    """The verdict: the first of `Verdict` that any order calls for."""
    called = {BY_NAME[name].verdict for name, count in counts.items() if count}
    return next((verdict for verdict in Verdict if verdict in called), Verdict.RECONCILED)


def classify(record: Mapping[str, Any]) -> str:
    """The class of one order: the first rule that applies."""
    return next(name for name, applies in RULES if applies(record))


def _is(*states: State | str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda record: record["state"] in states


_at_service = _is(State.ACCEPTED, State.SETTLED, State.FAILED, State.CLOSED)
_ended = _is(State.SETTLED, State.FAILED, State.CLOSED)
_nobody_knows = _is(State.SENDING, State.UNKNOWN)
_not_there = _is(State.PREPARED, State.HELD, State.REJECTED, SUPERSEDED)
_waiting = _is(State.PREPARED, State.HELD)


def _found(record: Mapping[str, Any]) -> bool:
    return bool(record["answer"] == Answer.FOUND)


def _absent(record: Mapping[str, Any]) -> bool:
    return bool(record["answer"] == Answer.ABSENT)


def _status(record: Mapping[str, Any]) -> OrderStatus | None:
    return None if record["status"] is None else OrderStatus(int(record["status"]))


def _is_findable(record: Mapping[str, Any]) -> bool:
    """Whether the service's not knowing an order says anything: its query may not show conversions."""
    return CATALOGUE[record["operation"]].absence_is_evidence


def _only_quoted(record: Mapping[str, Any]) -> bool:
    """The service shows a quote that nobody confirmed: not a payment (public fact 5.2)."""
    status = _status(record)
    shows_payment = status is not None and status.is_payment
    return (
        CATALOGUE[record["operation"]].confirms_quote
        and _found(record)
        and not shows_payment
        and not _at_service(record)
    )


def _differs(record: Mapping[str, Any], *names: str) -> bool:
    pairs = ((record[name], record[f"seen_{name}"]) for name in names)
    return any(ours is not None and there is not None and ours != there for ours, there in pairs)


_ENDINGS = {
    OrderStatus.SUCCESS: State.SETTLED,
    OrderStatus.FAILED: State.FAILED,
    OrderStatus.CLOSED: State.CLOSED,
}


def _reversed(record: Mapping[str, Any]) -> bool:
    status = _status(record)
    return _ended(record) and status in _ENDINGS and _ENDINGS[status] != record["state"]


def _conflicts(record: Mapping[str, Any]) -> bool:
    """Found although it never acted, or no longer final although it was."""
    status = _status(record)
    if _not_there(record):
        return True
    return _ended(record) and status is not None and status.is_classified and not status.is_final


RULES: tuple[tuple[str, Callable[[Mapping[str, Any]], bool]], ...] = (
    ("query_failed", lambda record: record["answer"] not in (Answer.FOUND, Answer.ABSENT)),
    ("missing_at_service", lambda record: _absent(record) and _at_service(record) and _is_findable(record)),
    ("unknown_outcome", lambda record: (_absent(record) or _only_quoted(record)) and _nobody_knows(record)),
    ("in_progress", lambda record: (_absent(record) or _only_quoted(record)) and _waiting(record)),
    ("in_progress", lambda record: _absent(record) and record["state"] == State.ACCEPTED),
    ("matched", lambda record: _absent(record) or _only_quoted(record)),
    # From here on the service shows the order itself.
    ("currency_mismatch", lambda record: _differs(record, "currency", "receive_currency")),
    ("amount_mismatch", lambda record: _differs(record, "amount", "receive_amount")),
    ("reversed_after_final", _reversed),
    ("status_conflict", _conflicts),
    ("unclassified_status", lambda record: not (_status(record) or OrderStatus(0)).is_classified),
    ("in_progress", lambda record: not OrderStatus(int(record["status"])).is_final),
    ("matched", lambda _: True),
)
"""Class -> when it applies, first match wins."""


def break_id(request_id: str) -> str:
    """The stable id of a break: what it is about, not its class, which may change from night to night."""
    return "B-" + hashlib.sha256(request_id.encode()).hexdigest()[:12]


def evidence(record: Mapping[str, Any]) -> str:
    """Both sides in words."""
    ours = _side(
        record["state"], record["amount"], record["currency"], record["receive_amount"], record["receive_currency"]
    )
    if record["answer"] not in (Answer.FOUND, Answer.ABSENT):
        return f"ledger: {ours}; service: could not be asked ({record['seen_reason'] or 'no answer'})"
    if record["answer"] == Answer.ABSENT:
        return f"ledger: {ours}; service: no such order"
    status = _status(record)
    shown = "no status" if status is None else f"{int(status)} {status.name.lower()}"
    seen = (
        record["seen_amount"],
        record["seen_currency"],
        record["seen_receive_amount"],
        record["seen_receive_currency"],
    )
    reason = f" ({record['seen_reason']})" if record["seen_reason"] else ""
    return f"ledger: {ours}; service: {_side(shown, *seen)}{reason}"


def _side(
    state: str, amount: Decimal | None, currency: str | None, receive: Decimal | None, receive_currency: str | None
) -> str:
    money = "" if amount is None else f" {format_amount(amount)} {currency or ''}".rstrip()
    arrives = "" if receive is None else f" for {format_amount(receive)} {receive_currency or ''}".rstrip()
    return f"{state}{money}{arrives}"
