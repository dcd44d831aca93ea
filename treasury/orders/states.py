"""States of an order and the table of steps between them, which the database update enforces."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from treasury.provider.status import OrderStatus


class State(StrEnum):
    """The state of an order."""

    PREPARED = "prepared"
    """Intended and recorded; never left, or left and certainly did not arrive."""
    SENDING = "sending"
    """About to leave, or on its way: if its process dies now, it becomes unknown."""
    UNKNOWN = "unknown"
    """May or may not have acted; only asking decides."""
    ACCEPTED = "accepted"
    """The service has it and works on it."""
    SETTLED = "settled"
    FAILED = "failed"
    CLOSED = "closed"
    REJECTED = "rejected"
    """Refused without acting."""
    HELD = "held"
    """Held until a person decides."""
    CANCELLED = "cancelled"
    """Ended by a person before it left; never sent."""

    @property
    def is_final(self) -> bool:
        """Tell whether nothing more is expected of it."""
        return self in (State.SETTLED, State.FAILED, State.CLOSED, State.REJECTED, State.CANCELLED)

    @property
    def may_be_replaced(self) -> bool:
        """Tell whether another payment may be made instead of it: it ended without being paid."""
        return self in (*UNPAID, State.CANCELLED)

    @property
    def is_open(self) -> bool:
        """Tell whether the service may still act, or may have acted, and the outcome is not known."""
        return self in OPEN

    @property
    def outcome(self) -> str:
        """The outcome that people read."""
        return _OUTCOMES.get(self, self.value)


NEVER_LEFT = (State.PREPARED, State.HELD)
"""States of an order that did not leave."""

NOT_AT_SERVICE = (*NEVER_LEFT, State.REJECTED, State.CANCELLED)
"""States of an order that the service does not know: that it says so is no news."""

OPEN = (State.SENDING, State.UNKNOWN, State.ACCEPTED)
"""States of an order that left, or may have left, and is not final."""

UNPAID = (State.FAILED, State.CLOSED, State.REJECTED)
"""States of an order that ended without being paid, by what the service says."""

_OUTCOMES = {
    State.PREPARED: "not_sent",
    State.SENDING: "unknown",
    State.UNKNOWN: "unknown",
    State.ACCEPTED: "in_progress",
}

OUTCOMES = ("settled", "in_progress", "failed", "closed", "rejected", "cancelled", "held", "unknown", "not_sent")
"""Every outcome, in the order in which people want to read them."""


class Event(StrEnum):
    """An event of an order."""

    SEND = "send"
    RESEND = "resend"
    """Sent again under the same id, after the evidence that the first one did not act."""
    NOT_CONNECTED = "not connected"
    """The request never left: no connection was made."""
    NOT_IN_TIME = "not sent in time"
    """The request never left: its mark was too old when its turn came, as after a process was stopped and thawed."""
    TRY_LATER = "try later"
    """Its signature was refused, so it was not read: it may be tried again once the service knows us."""
    LOSE = "lose"
    """No readable answer, or one that is not in the table of refusals."""
    RECOVER = "recover"
    """Found in `sending` although its process is gone."""
    DISPUTE = "dispute"
    """The service shows it with another amount or currency than was asked: nobody knows what became of it."""
    ACCEPT = "accept"
    SETTLE = "settle"
    FAIL = "fail"
    CLOSE = "close"
    REJECT = "reject"
    HOLD = "hold"
    RELEASE = "release"
    CANCEL = "cancel"
    """A person ends an order that never left."""
    RESOLVE_SETTLED = "resolve as settled"
    """A person knows that it was paid, and the service never said so."""
    RESOLVE_FAILED = "resolve as failed"
    """A person knows that it never will be paid, and the service never said so."""
    RESOLVE_SENT = "resolve as sent"
    """A person knows that it reached the service."""
    RESOLVE_NOT_SENT = "resolve as not sent"
    """A person knows that it never acted; it is sent at the next start."""
    RESOLVE_REJECTED = "resolve as ended"
    """A person ends a row whose quotes are used up; it may be paid in a new run."""
    QUOTE_AGAIN = "quote again"
    """Its confirmation did not act and its quote can no longer be confirmed: another quote may follow."""
    JUDGE_AGAIN = "judge again"
    """By the evidence it did not act, and another policy took effect since it was sent: it waits to be judged by that
    one."""
    CORRECT_TO_SETTLED = "correct to settled"
    """A late flip after a final status: journaled as what it is, never a silent overwrite."""
    CORRECT_TO_FAILED = "correct to failed"
    CORRECT_TO_CLOSED = "correct to closed"


@dataclass(frozen=True)
class Step:
    """From which states an event may happen, and where it leads."""

    sources: tuple[State, ...]
    target: State


class Hold(StrEnum):
    """Why an order is held, which says what a person may do about it."""

    DUPLICATE = "duplicate"
    """It looks like another payment: `duplicate_ok` in its row, or `release`."""
    KNOWN = "known"
    """The service knows its reference, and this ledger did not send it: only `resolve`."""
    COOLING = "cooling"
    """It pays an address for the first time: it waits the policy's hours, or `release`."""
    LIMIT = "limit"
    """It does not fit into a limit of the policy in force: `release` lets it be judged again, or `cancel`."""
    OLDER = "older"
    """It was recorded before the ledger was found to be older than the service: `release`."""
    CHANGED = "changed"
    """It was changed in the ledger by hand: `resolve`, or `cancel` if it never left."""
    PAYEE = "payee"
    """Its payee is new, or has another account than before: `release`, or `cancel`."""
    REPLACED = "replaced"
    """The payment that it replaces may have been paid after all: `cancel`, or `release`, which asks again."""

    @property
    def in_words(self) -> str:
        """As people read it."""
        return {
            "known": "known at the service",
            "older": "older ledger",
            "cooling": "cooling time",
            "changed": "changed by hand",
            "replaced": "payment that it replaces",
            "payee": "new or changed payee",
        }.get(self.value, self.value)


NEVER_RELEASED = (Hold.KNOWN, Hold.CHANGED)
"""Holds that only `resolve` or `cancel` ends: what is held so may have left."""

STEPS: Mapping[Event, Step] = {
    Event.SEND: Step((State.PREPARED,), State.SENDING),
    Event.RESEND: Step((State.UNKNOWN,), State.SENDING),
    Event.NOT_CONNECTED: Step((State.SENDING,), State.PREPARED),
    Event.NOT_IN_TIME: Step((State.SENDING,), State.PREPARED),
    Event.TRY_LATER: Step((State.SENDING,), State.PREPARED),
    Event.LOSE: Step((State.SENDING,), State.UNKNOWN),
    Event.RECOVER: Step((State.SENDING,), State.UNKNOWN),
    Event.DISPUTE: Step((State.ACCEPTED,), State.UNKNOWN),
    Event.ACCEPT: Step((State.SENDING, State.UNKNOWN), State.ACCEPTED),
    Event.SETTLE: Step(OPEN, State.SETTLED),
    Event.FAIL: Step(OPEN, State.FAILED),
    Event.CLOSE: Step(OPEN, State.CLOSED),
    Event.REJECT: Step((State.PREPARED, State.SENDING, State.UNKNOWN), State.REJECTED),
    Event.HOLD: Step((State.PREPARED, State.UNKNOWN), State.HELD),
    Event.RELEASE: Step((State.HELD,), State.PREPARED),
    Event.CANCEL: Step(NEVER_LEFT, State.CANCELLED),
    Event.RESOLVE_SETTLED: Step((State.UNKNOWN, State.ACCEPTED, State.HELD), State.SETTLED),
    Event.RESOLVE_FAILED: Step((State.UNKNOWN, State.ACCEPTED, State.HELD), State.FAILED),
    Event.RESOLVE_SENT: Step((State.UNKNOWN, State.HELD), State.ACCEPTED),
    Event.RESOLVE_NOT_SENT: Step((State.UNKNOWN, State.HELD, State.ACCEPTED), State.PREPARED),
    Event.RESOLVE_REJECTED: Step((State.PREPARED, State.UNKNOWN, State.HELD, State.ACCEPTED), State.REJECTED),
    Event.QUOTE_AGAIN: Step((State.UNKNOWN,), State.PREPARED),
    Event.JUDGE_AGAIN: Step((State.UNKNOWN,), State.PREPARED),
    Event.CORRECT_TO_SETTLED: Step((State.FAILED, State.CLOSED, State.REJECTED, State.CANCELLED), State.SETTLED),
    Event.CORRECT_TO_FAILED: Step((State.SETTLED, State.CLOSED), State.FAILED),
    Event.CORRECT_TO_CLOSED: Step((State.SETTLED, State.FAILED), State.CLOSED),
}

DECIDED = (
    *(Event.RELEASE, Event.CANCEL, Event.RESOLVE_SENT, Event.RESOLVE_NOT_SENT, Event.RESOLVE_REJECTED),
    *(Event.RESOLVE_SETTLED, Event.RESOLVE_FAILED),
)
"""Events whose cause a person gives."""

_Events = tuple[Event, Event | None]

SHOWN: Mapping[OrderStatus, _Events] = {
    OrderStatus.SUBMITTED: (Event.ACCEPT, None),
    OrderStatus.PROCESSING: (Event.ACCEPT, None),
    OrderStatus.FAILED: (Event.FAIL, Event.CORRECT_TO_FAILED),
    OrderStatus.CLOSED: (Event.CLOSE, Event.CORRECT_TO_CLOSED),
    OrderStatus.SUCCESS: (Event.SETTLE, Event.CORRECT_TO_SETTLED),
}
"""Status -> what it causes in an open order, and, where it is final, in one that ended otherwise."""

CORRECTIONS = tuple(corrects for _, corrects in SHOWN.values() if corrects is not None)
"""Steps by which the service takes back an end."""

ENDS = {status: STEPS[ends].target for status, (ends, corrects) in SHOWN.items() if corrects is not None}
"""Status -> the state of an order that ends by it."""


def check_steps(shown: Mapping[OrderStatus, _Events] = SHOWN) -> None:
    """Raise `TypeError` for a status or event without a step, and for a final status that corrects nothing."""
    without = [status.name for status in OrderStatus if status not in shown]
    without += [status.name for status, (_, correct) in shown.items() if status.is_final != (correct is not None)]
    without += [event.name for event in Event if event not in STEPS]
    if without:
        raise TypeError(f"say in orders/states.py what {', '.join(without)} causes")


check_steps()


def event_for(state: State, status: OrderStatus | None) -> Event | None:
    """The event that a status shown by the service causes in this state; None when there is none.

    An order that is shown without a status, or with one that is not listed, counts as accepted.
    """
    event, correct = (Event.ACCEPT, None) if status is None else SHOWN.get(status, (Event.ACCEPT, None))
    if correct is not None and state.is_final:
        event = correct
    return event if state in STEPS[event].sources else None
