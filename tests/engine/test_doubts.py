"""While the service does not show what it showed before either, no absence is counted and the row says why."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.answers import (
    ABSENT,
    CREATE,
    DAY,
    FAR,
    FIAT_QUERY,
    KNOWN,
    MARGIN,
    ONE_ORDER,
    PAYOUT,
    QUERY,
    QUOTE,
    WINDOW,
    OpenDesk,
    accepted,
    confirmed,
    fiat_payout,
    fiat_quote,
    ok,
    payout,
    refused,
)
from tests.moved_clock import clock_of
from treasury.errors import IllegalTransition
from treasury.ledger.intents import commit_plan
from treasury.orders.records import Intent, Order
from treasury.orders.states import Event, State
from treasury.payments.desk import Desk

pytestmark = ONE_ORDER

DOUBT = "either, which it showed before"


def witness_and_order(desk: Desk, service: Any, intent: Intent) -> Order:
    """One order that the service accepted, and another one; no query shows the first for now."""
    commit_plan(desk.ledger, "run", "test", {}, "0" * 64, [intent, replace(intent, row_ref="b")])
    witness, order = desk.ledger.orders()
    service.plan(PAYOUT, accepted)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, confirmed)
    assert desk.submission.submit(witness).state is State.ACCEPTED
    return order


def show_the_witness(desk: Desk, service: Any) -> None:
    """From now on queries find it; the next start asks."""
    witness = desk.ledger.orders()[0].request_id

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        return ok(request_id=witness, status=22, order_no="W") if body["request_id"] == witness else ABSENT

    for path in (QUERY, FIAT_QUERY):
        service.plan(path, answer)
    desk.submission.begin_start()


def hide_the_witness(desk: Desk, service: Any) -> None:
    """From now on no query finds anything; the next start asks."""
    for path in (QUERY, FIAT_QUERY):
        service.plan(path, ABSENT)
    desk.submission.begin_start()


def test_a_lost_payout_is_not_sent_again_before_the_witness_is_shown(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    clock = clock_of(desk)
    order = witness_and_order(desk, service, payout())
    service.plan(PAYOUT, "drop", accepted)
    order = desk.submission.submit(order)
    for _ in range(3):
        order = desk.submission.submit(order)
        clock.move(WINDOW)
        assert (order.state, order.absent_since) == (State.UNKNOWN, None)
        assert DOUBT in str(order.reason)
    show_the_witness(desk, service)
    order = desk.submission.submit(order)
    assert (order.absent_since, order.reason) == (clock.wall() * 1000, "the service knows no such order")
    hide_the_witness(desk, service)
    clock.move(1)  # too early to count: the witness is not asked
    order = desk.submission.submit(order)
    assert (order.state, order.reason) == (State.UNKNOWN, "the service knows no such order")
    clock.move(WINDOW)
    order = desk.submission.submit(order)
    assert (order.state, DOUBT in str(order.reason), order.asked_at) == (State.UNKNOWN, True, clock.wall() * 1000)
    show_the_witness(desk, service)
    assert desk.submission.submit(order).state is State.ACCEPTED


def test_a_refused_payout_keeps_the_services_words_while_there_is_doubt(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = witness_and_order(desk, service, payout())
    service.plan(PAYOUT, refused(202203))
    for _ in range(3):
        order = desk.submission.submit(order)
        assert (order.state, order.reason, order.absent_since) == (State.UNKNOWN, "no", None)
    for witnessed, state in ((True, State.UNKNOWN), (False, State.UNKNOWN), (True, State.REJECTED)):
        show_the_witness(desk, service) if witnessed else hide_the_witness(desk, service)
        order = desk.submission.submit(order)
        assert (order.state, order.reason) == (state, "no")


def test_a_doubt_is_not_noted_once_another_hand_moved_the_row(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = witness_and_order(desk, service, payout())
    service.plan(PAYOUT, "drop")
    order = desk.submission.submit(order)
    moved: list[Order] = []

    def meddle(_: Mapping[str, Any]) -> tuple[int, Any]:
        moved.append(desk.ledger.step(order, Event.RESOLVE_SENT))
        return ABSENT

    service.plan(QUERY, meddle, ABSENT)
    with pytest.raises(IllegalTransition):
        desk.submission.submit(order)
    assert desk.ledger.orders()[1:] == moved


@pytest.mark.parametrize("moved", [False, True])
def test_a_row_that_is_asked_about_first_waits_while_there_is_doubt(
    open_desk: OpenDesk, service: Any, moved: bool
) -> None:
    desk = open_desk(service.base_url)
    order = witness_and_order(desk, service, payout())
    order = desk.ledger.note(order, unmoved=True, absences_needed=1, absent_since=5)
    if moved:
        held = desk.ledger.step(order, Event.HOLD)
        with pytest.raises(IllegalTransition):
            desk.submission.submit(order)
        assert desk.ledger.orders()[1] == held
        return
    order = desk.submission.submit(order)
    assert (order.state, order.absences_needed, order.absent_since) == (State.PREPARED, 1, None)
    assert DOUBT in str(order.reason)
    show_the_witness(desk, service)
    order = desk.submission.submit(order)
    assert (order.state, order.reason, len(service.sent_to(PAYOUT))) == (State.ACCEPTED, None, 2)


@pytest.mark.parametrize("moved", [False, True])
def test_a_refused_quote_is_not_counted_while_there_is_doubt(open_desk: OpenDesk, service: Any, moved: bool) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    clock = clock_of(desk)
    order = witness_and_order(desk, service, fiat_payout())
    service.plan(QUOTE, refused(202203))
    if moved:

        def meddle(_: Mapping[str, Any]) -> tuple[int, Any]:
            desk.ledger.step(desk.ledger.orders()[1], Event.HOLD)
            return ABSENT

        service.plan(FIAT_QUERY, meddle, ABSENT)
        with pytest.raises(IllegalTransition):
            desk.submission.submit(order)
        assert desk.ledger.orders()[1].reason == "no"
        return
    show_the_witness(desk, service)
    order = desk.submission.submit(order)
    assert (order.first_answer, order.absent_since) == ("202203", FAR * 1000)
    hide_the_witness(desk, service)
    clock.move(WINDOW)
    order = desk.submission.submit(order)
    assert (order.state, order.first_answer, order.absent_since) == (State.PREPARED, "202203", None)
    assert DOUBT in str(order.reason)
    show_the_witness(desk, service)
    order = desk.submission.submit(order)
    assert (order.state, order.absent_since) == (State.PREPARED, clock.wall() * 1000)
    clock.move(WINDOW)
    assert desk.submission.submit(order).state is State.REJECTED


def test_a_foreign_quote_is_not_replaced_while_there_is_doubt(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    clock = clock_of(desk)
    order = witness_and_order(desk, service, fiat_payout())
    service.plan(QUOTE, KNOWN, fiat_quote(transaction_time=None, expire_time=None))
    for seconds, doubted in ((0, False), (DAY, False), (MARGIN, True), (WINDOW, True)):
        clock.move(seconds)
        order = desk.submission.submit(order)
        assert (order.state, order.absent_since, DOUBT in str(order.reason)) == (State.PREPARED, None, doubted)
        assert "which somebody else asked for" in str(order.reason)
    show_the_witness(desk, service)
    order = desk.submission.submit(order)
    assert (order.state, order.absent_since) == (State.PREPARED, clock.wall() * 1000)
    hide_the_witness(desk, service)
    clock.move(WINDOW)
    order = desk.submission.submit(order)
    assert (order.state, order.generation, DOUBT in str(order.reason)) == (State.PREPARED, 1, True)
    show_the_witness(desk, service)
    order = desk.submission.submit(order)
    assert (order.state, order.generation) == (State.ACCEPTED, 2)
