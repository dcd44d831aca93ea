"""The steps between states, written out by hand from the design, not derived from the code."""

import pytest

from treasury.orders.states import OUTCOMES, SHOWN, STEPS, Event, State, check_steps, event_for
from treasury.provider.status import OrderStatus
from treasury.sandbox.entities import LISTED

TABLE = {
    "send": ("prepared", "sending"),
    "resend": ("unknown", "sending"),
    "not connected": ("sending", "prepared"),
    "not sent in time": ("sending", "prepared"),
    "try later": ("sending", "prepared"),
    "lose": ("sending", "unknown"),
    "recover": ("sending", "unknown"),
    "dispute": ("accepted", "unknown"),
    "accept": ("sending unknown", "accepted"),
    "settle": ("sending unknown accepted", "settled"),
    "fail": ("sending unknown accepted", "failed"),
    "close": ("sending unknown accepted", "closed"),
    "reject": ("prepared sending unknown", "rejected"),
    "hold": ("prepared unknown", "held"),
    "release": ("held", "prepared"),
    "cancel": ("prepared held", "cancelled"),
    "resolve as settled": ("unknown accepted held", "settled"),
    "resolve as failed": ("unknown accepted held", "failed"),
    "resolve as sent": ("unknown held", "accepted"),
    "resolve as not sent": ("unknown held accepted", "prepared"),
    "resolve as ended": ("prepared unknown held accepted", "rejected"),
    "quote again": ("unknown", "prepared"),
    "judge again": ("unknown", "prepared"),
    "correct to settled": ("failed closed rejected cancelled", "settled"),
    "correct to failed": ("settled closed", "failed"),
    "correct to closed": ("settled failed", "closed"),
}

OUTCOME = {
    "prepared": "not_sent",
    "sending": "unknown",
    "unknown": "unknown",
    "accepted": "in_progress",
    "settled": "settled",
    "failed": "failed",
    "closed": "closed",
    "rejected": "rejected",
    "held": "held",
    "cancelled": "cancelled",
}


def test_every_step_leads_from_where_to_where_the_design_says() -> None:
    written = {event.value: (set(step.sources), step.target.value) for event, step in STEPS.items()}
    assert written == {name: (set(sources.split()), target) for name, (sources, target) in TABLE.items()}
    assert set(STEPS) == set(Event)


@pytest.mark.parametrize("state", list(State))
def test_every_state_is_read_by_people_as_the_design_says(state: State) -> None:
    assert state.outcome == OUTCOME[state.value]
    assert state.outcome in OUTCOMES
    assert state.is_final == (state.value in ("settled", "failed", "closed", "rejected", "cancelled"))
    assert state.is_open == (state.value in ("sending", "unknown", "accepted"))


SEEN = [
    (11, {"sending": "accept", "unknown": "accept"}),
    (12, {"sending": "accept", "unknown": "accept"}),
    (22, {"sending": "accept", "unknown": "accept"}),
    (None, {"sending": "accept", "unknown": "accept"}),
    (
        99,
        {
            **dict.fromkeys(("sending", "unknown", "accepted"), "settle"),
            **dict.fromkeys(("failed", "closed", "rejected", "cancelled"), "correct to settled"),
        },
    ),
    (
        44,
        {
            **dict.fromkeys(("sending", "unknown", "accepted"), "fail"),
            **dict.fromkeys(("settled", "closed"), "correct to failed"),
        },
    ),
    (
        88,
        {
            **dict.fromkeys(("sending", "unknown", "accepted"), "close"),
            **dict.fromkeys(("settled", "failed"), "correct to closed"),
        },
    ),
]


@pytest.mark.parametrize(("status", "steps"), SEEN)
def test_a_status_seen_asks_for_one_step_or_none(status: int | None, steps: dict[str, str]) -> None:
    seen = None if status is None else OrderStatus(status)
    asked = {state.value: event_for(state, seen) for state in State}
    assert {state: event.value for state, event in asked.items() if event is not None} == steps


@pytest.mark.parametrize("status", [*OrderStatus])
def test_a_status_without_a_step_fails_at_import(status: OrderStatus) -> None:
    assert status in dict(SEEN)
    assert status in LISTED  # the sandbox's own list
    with pytest.raises(TypeError, match=f"what {status.name} causes"):
        check_steps({each: events for each, events in SHOWN.items() if each is not status})


def test_what_certainly_was_not_paid_may_be_replaced_and_nothing_else() -> None:
    replaceable = {State.FAILED, State.CLOSED, State.REJECTED, State.CANCELLED}
    assert {state for state in State if state.may_be_replaced} == replaceable
