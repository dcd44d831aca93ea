"""Quotes that are refused, lost or used up, and what is asked before a row is given up."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.answers import (
    CREATE,
    DAY,
    FAR,
    FIAT_QUERY,
    MARGIN,
    ONE_ORDER,
    QUOTE,
    WINDOW,
    OpenDesk,
    confirmed,
    fiat_payout,
    fiat_quote,
    plan,
    refused,
    shown,
    steps,
    under,
)
from tests.moved_clock import clock_of
from treasury.errors import IllegalTransition, Stopped
from treasury.ledger.quotes import reference_of
from treasury.orders.records import Order
from treasury.orders.states import Event, State
from treasury.reports.results import next_action

pytestmark = ONE_ORDER

PAID = shown(22, order_amount=None, currency=None, order_no="F1")


# --- refused ---------------------------------------------------------------------------------------------------------


def test_a_quote_refused_for_a_state_rejects_its_row_after_two_looks(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    clock = clock_of(desk)
    service.plan(QUOTE, refused(202203))
    order = plan(desk, fiat_payout())
    for seconds in (0, WINDOW - 1):
        clock.move(seconds)
        order = desk.submission.submit(order)
        assert (order.state, order.first_answer, order.absent_since) == (State.PREPARED, "202203", FAR * 1000)
        assert (order.code, order.reason) == ("202203", "no")
    clock.move(1)
    order = desk.submission.submit(order)
    assert (order.state, order.code, order.reason) == (State.REJECTED, "202203", "no")
    assert desk.ledger.journal(order)[-1].cause == "its quote was refused, and two queries found nothing"
    assert len(service.sent_to(QUOTE)) == 3
    assert "refused: " in str(desk.ledger.quotes()[0].note)


def test_an_absence_from_before_the_refusal_does_not_reject_the_row(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    clock = clock_of(desk)
    service.plan(QUOTE, refused(202203))
    order = desk.ledger.note(plan(desk, fiat_payout()), absent_since=(FAR - DAY) * 1000)
    order = desk.submission.submit(order)
    assert (order.state, order.absent_since) == (State.PREPARED, clock.wall() * 1000)


def test_what_was_paid_is_held_when_another_quote_for_it_is_refused(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    service.plan(QUOTE, refused(202203))
    service.plan(FIAT_QUERY, under(desk, order, 2, PAID))
    order = desk.submission.submit(order)
    assert (order.state, order.hold_kind, order.generation) == (State.HELD, "known", 2)
    assert desk.ledger.journal(order)[-1].cause == "its quote was refused"


def test_a_refused_quote_is_not_counted_once_another_hand_moved_its_row(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    service.plan(QUOTE, refused(202203))
    service.plan(FIAT_QUERY, *_once_meddled(desk, order))
    with pytest.raises(IllegalTransition):
        desk.submission.submit(order)
    [held] = desk.ledger.orders()
    assert (held.state, held.first_answer, held.absent_since) == (State.HELD, None, None)


def _once_meddled(desk: Any, order: Order) -> list[Any]:
    """Nothing is shown; at the first question another hand moves the order."""
    absent = (200, {"code": 7000, "message": "ORDER_NOT_EXIST"})

    def meddle(_: Mapping[str, Any]) -> tuple[int, Any]:
        desk.ledger.step(desk.ledger.orders(ids=[order.id])[0], Event.HOLD)
        return absent

    return [meddle, absent]


@pytest.mark.parametrize("code", [401, 403, 406, 412])
def test_a_quote_that_refuses_the_account_is_asked_again_once_a_question_is_answered(
    open_desk: OpenDesk, service: Any, code: int
) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, refused(code), fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.generation) == (State.ACCEPTED, 1)
    assert [path for path, _ in service.requests] == [QUOTE, FIAT_QUERY, QUOTE, CREATE]


def test_no_quote_is_asked_while_the_account_is_refused(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, refused(403))
    service.plan(FIAT_QUERY, refused(403))
    with pytest.raises(Stopped, match="403"):
        desk.submission.submit(plan(desk, fiat_payout()))
    [order] = desk.ledger.orders()
    assert (order.state, order.code, len(service.sent_to(QUOTE))) == (State.PREPARED, "403", 1)


# --- lost ------------------------------------------------------------------------------------------------------------


def test_a_quote_that_is_lost_three_times_waits_for_the_next_start(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, "drop", "drop", "drop", fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.generation, len(service.sent_to(QUOTE))) == (State.PREPARED, 1, 3)
    assert [(quote.stage, quote.asks) for quote in desk.ledger.quotes()] == [("asked", 3)]
    desk.submission.begin_start()
    assert desk.submission.submit(order).state is State.ACCEPTED


def test_a_quote_that_never_left_is_not_counted(open_desk: OpenDesk) -> None:
    desk = open_desk("http://127.0.0.1:9")
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert order.state is State.PREPARED
    assert str(order.reason).startswith("no quote: ")
    assert "no connection to" in str(order.reason)
    [quote] = desk.ledger.quotes()
    assert (quote.stage, quote.asks) == ("asked", 0)
    assert str(quote.note).startswith("no answer: ")


def test_a_quote_that_never_left_says_nothing_of_a_row_that_was_moved(open_desk: OpenDesk) -> None:
    desk = open_desk("http://127.0.0.1:9")
    order = plan(desk, fiat_payout())
    sign = desk.client.sign

    def meddle(operation: Any) -> Any:
        desk.ledger.step(desk.ledger.orders()[0], Event.HOLD)
        return sign(operation)

    desk.client.sign = meddle  # type: ignore[method-assign]
    with pytest.raises(IllegalTransition):
        desk.submission.submit(order)
    assert desk.ledger.orders()[0].reason is None


# --- fetched, and used up --------------------------------------------------------------------------------------------


def test_a_fetched_quote_is_confirmed_later_without_asking_again(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, confirmed)
    fetched = desk.submission.fetch_quote(plan(desk, fiat_payout()))
    assert fetched.quote is not None
    assert (fetched.quote.stage, fetched.again) == ("answered", False)
    assert (fetched.order.state, service.sent_to(CREATE)) == (State.PREPARED, [])
    order = desk.submission.submit(fetched.order)
    assert (order.state, order.confirmation) == (State.ACCEPTED, fetched.quote.quote)
    assert len(service.sent_to(QUOTE)) == 1


def test_a_row_whose_quotes_are_used_up_says_why_once(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote(rate="0.5"))
    order = plan(desk, fiat_payout())
    for _ in range(2):
        desk.submission.begin_start()
        order = desk.submission.submit(order)
    assert str(order.reason).startswith("the quote's rate")
    desk.submission.begin_start()
    order = desk.submission.submit(order)
    says = "6 quotes were asked for, and none could be confirmed (the quote's rate is 0.5, less than 0.9): treasury"
    assert str(order.reason).startswith(says)
    assert next_action(order).startswith(
        f"no start sends it any more: treasury resolve {order.request_id} --as not-sent "
    )
    again = desk.submission.submit(order)
    fetched = desk.submission.fetch_quote(again)
    assert (again.reason, fetched.order.reason, fetched.quote) == (order.reason, order.reason, None)
    forgotten = desk.ledger.note(order, reason=None)
    assert "none could be confirmed (no reason): treasury" in str(desk.submission.submit(forgotten).reason)
    assert len(service.sent_to(QUOTE)) == 6


def test_a_used_up_row_that_another_hand_moved_is_left_alone(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote(rate="0.5"))
    order = plan(desk, fiat_payout())
    for _ in range(2):
        desk.submission.begin_start()
        order = desk.submission.submit(order)
    desk.submission.begin_start()
    desk.ledger.step(order, Event.HOLD)
    with pytest.raises(IllegalTransition):
        desk.submission.submit(order)
    assert "quotes were asked for" not in str(desk.ledger.orders()[0].reason)


# --- asked about before another quote --------------------------------------------------------------------------------


def test_an_unfit_quote_is_not_replaced_while_another_one_of_its_row_was_paid(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    service.plan(QUOTE, fiat_quote(rate="0.5"))
    service.plan(FIAT_QUERY, under(desk, order, 4, PAID))
    order = desk.submission.submit(order)
    assert (order.state, order.generation, len(service.sent_to(QUOTE))) == (State.HELD, 4, 1)


@pytest.mark.parametrize("first_answer", ["drop", refused(400)], ids=["lost", "refused"])
@pytest.mark.parametrize("paid", [False, True])
def test_a_confirmation_that_did_not_act_is_given_up_only_where_no_other_quote_was_paid(
    open_desk: OpenDesk, service: Any, first_answer: Any, paid: bool
) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    clock = clock_of(desk)
    service.plan(QUOTE, fiat_quote(transaction_time=None, expire_time=None))
    service.plan(CREATE, first_answer, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert order.state is State.UNKNOWN
    if paid:
        service.plan(FIAT_QUERY, under(desk, order, 5, PAID))
    clock.move(DAY + MARGIN)
    order = desk.submission.submit(order)
    assert (order.state, order.absent_since) == (State.UNKNOWN, clock.wall() * 1000)
    clock.move(WINDOW)
    order = desk.submission.submit(order)
    if paid:
        assert (order.state, order.generation, order.status) == (State.HELD, 5, 22)
        assert steps(desk, order)[-1] == "hold"
    elif first_answer == "drop":
        assert (order.state, order.generation, order.doubtful) == (State.ACCEPTED, 2, False)
    else:
        assert (order.state, order.code, order.reason) == (State.REJECTED, "400", "no")
    assert len(service.sent_to(CREATE)) == (2 if first_answer == "drop" and not paid else 1)


def test_a_payment_under_an_earlier_quote_is_held_under_that_quote(open_desk: OpenDesk, service: Any) -> None:
    """The service shows the first as paid and a later one as never confirmed."""
    desk = open_desk(service.base_url)
    order = replace(plan(desk, fiat_payout()))
    names = {reference_of(desk.ledger, order, each): each for each in (1, 2)}

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        generation = names.get(body["request_id"])
        if generation is None:
            return 200, {"code": 7000, "message": "ORDER_NOT_EXIST"}
        return shown(22 if generation == 1 else 11, order_amount=None, currency=None)(body)

    service.plan(QUOTE, refused(202224))
    service.plan(FIAT_QUERY, answer)
    order = desk.submission.submit(order)
    assert (order.state, order.generation, order.status) == (State.HELD, 1, 22)
