"""Payments that confirm a quote: asked for, judged and confirmed, or replaced once nobody can confirm it."""

from decimal import Decimal
from typing import Any

import pytest

from tests.engine.answers import (
    ABSENT,
    CONVERSION_QUOTE,
    CREATE,
    EXECUTE,
    FIAT_QUERY,
    ONE_ORDER,
    QUERY,
    QUOTE,
    OpenDesk,
    confirmed,
    conversion,
    fiat_payout,
    fiat_quote,
    lives,
    ok,
    plan,
    refused,
)
from tests.moved_clock import clock_of
from treasury.errors import Stopped
from treasury.orders.states import State
from treasury.payments.resolving import resolve_as_ended

pytestmark = ONE_ORDER


def test_a_quote_inside_its_bounds_is_confirmed_at_once(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.receive_amount, order.rate) == (State.ACCEPTED, Decimal("95.00"), Decimal("0.95"))
    [asked] = service.sent_to(QUOTE)
    [sent] = service.sent_to(CREATE)
    assert asked["request_id"] == order.request_id
    assert sent["order_no"] == "Q-" + order.request_id
    assert [path for path, _ in service.requests] == [QUOTE, CREATE]


@pytest.mark.parametrize(
    "first",
    [
        fiat_quote(rate="0.89"),
        fiat_quote(pay_amount="100.01"),
        fiat_quote(receive_currency="USD"),
        fiat_quote(expire_time=1_000),
        fiat_quote(order_no=""),
    ],
)
def test_an_unfit_quote_is_followed_by_another(open_desk: OpenDesk, service: Any, first: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, first, fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.generation) == (State.ACCEPTED, 2)
    one, two = service.sent_to(QUOTE)
    assert one["request_id"] != two["request_id"]
    assert [sent["order_no"] for sent in service.sent_to(CREATE)] == ["Q-" + two["request_id"]]
    assert [quote.request_id for quote in desk.ledger.quotes()] == [one["request_id"], two["request_id"]]


@pytest.mark.parametrize("first", ["drop", (500, {}), (429, b"", {"Retry-After": "0"}), refused(31337), refused(412)])
def test_a_lost_quote_is_asked_for_again_under_the_same_id(open_desk: OpenDesk, service: Any, first: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, first, fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.generation) == (State.ACCEPTED, 1)
    one, two = service.sent_to(QUOTE)
    assert one["request_id"] == two["request_id"]
    assert [quote.asks for quote in desk.ledger.quotes()] == [2]


def test_a_quote_of_which_the_answer_was_lost_is_as_old_as_its_first_question(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, *["drop"] * 3, fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.generation) == (State.PREPARED, 1)
    clock_of(desk).move(400)
    order = open_desk(service.base_url).submission.submit(order)  # answered with the first quote, which is over
    assert (order.state, order.generation) == (State.ACCEPTED, 2)
    assert [sent["order_no"] for sent in service.sent_to(CREATE)] == [f"Q-{order.request_id}"]


def test_a_row_waits_after_three_unfit_quotes_and_is_resumed_at_the_next_start(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote(rate="0.5"))
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.generation) == (State.PREPARED, 3)
    assert "rate is 0.5, less than 0.9" in str(order.reason)
    assert service.sent_to(CREATE) == []
    assert desk.submission.submit(order).generation == 3
    desk.submission.begin_start()
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, confirmed)
    assert desk.submission.submit(order).generation == 4


def test_after_six_quotes_only_a_person_ends_the_row(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote(rate="0.5"))
    order = plan(desk, fiat_payout())
    for _ in range(4):
        desk.submission.begin_start()
        order = desk.submission.submit(order)
    assert (order.state, order.generation, len(service.sent_to(QUOTE))) == (State.PREPARED, 6, 6)
    assert "treasury resolve" in str(order.reason)


def test_a_refused_quote_rejects_its_row(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, refused(206003))
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.code, len(service.sent_to(QUOTE))) == (State.REJECTED, "206003", 1)


def test_a_quote_expires_by_its_lifetime_whatever_the_services_clock_says(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote(transaction_time=5, expire_time=60_005))
    service.plan(CREATE, confirmed)
    assert desk.submission.submit(plan(desk, fiat_payout())).state is State.ACCEPTED


def test_after_a_confirmation_left_no_other_quote_is_asked(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, "drop")
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert order.state is State.UNKNOWN
    for _ in range(3):
        order = desk.submission.submit(order)
    assert (order.state, len(service.sent_to(QUOTE)), len(service.sent_to(CREATE))) == (State.UNKNOWN, 1, 1)


@pytest.mark.parametrize("status", [11, 12])
def test_an_unconfirmed_quote_seen_by_a_query_is_no_payment(open_desk: OpenDesk, service: Any, status: int) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, "drop")
    service.plan(FIAT_QUERY, lambda body: ok(request_id=body["request_id"], order_no="Q", status=status))
    order = desk.submission.submit(desk.submission.submit(plan(desk, fiat_payout())))
    assert order.state is State.UNKNOWN
    assert order.absent_since is None
    assert "may use for a quote and for a payment" in str(order.reason)


@pytest.mark.parametrize("absence", [ABSENT, lambda body: ok(request_id=body["request_id"], order_no="Q", status=11)])
def test_another_quote_follows_a_confirmation_that_did_not_act_once_its_quote_has_ended(
    open_desk: OpenDesk, service: Any, absence: Any
) -> None:
    desk = open_desk(service.base_url, unconfirmed={11}, resend_after=600)
    service.plan(QUOTE, fiat_quote(transaction_time=None, expire_time=None))
    service.plan(CREATE, "drop", confirmed)
    service.plan(FIAT_QUERY, absence)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    for seconds in (86_400, 599, 1, 599):  # a quote without an end lives for a day; then the margin
        order = desk.submission.submit(order)
        assert (order.state, order.generation) == (State.UNKNOWN, 1)
        clock_of(desk).move(seconds)
    order = desk.submission.submit(order)
    clock_of(desk).move(1)
    order = desk.submission.submit(order)
    assert (order.state, order.generation, order.doubtful) == (State.ACCEPTED, 2, False)
    assert [sent["order_no"] for sent in service.sent_to(CREATE)] == [
        "Q-" + sent["request_id"] for sent in service.sent_to(QUOTE)
    ]


def test_a_confirmed_quote_seen_by_a_query_is_adopted(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, "drop")
    service.plan(FIAT_QUERY, lambda body: ok(request_id=body["request_id"], status=22, pay_amount="100.00"))
    order = desk.submission.submit(desk.submission.submit(plan(desk, fiat_payout())))
    assert order.state is State.ACCEPTED


def test_a_conversion_is_never_executed_again(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    quote: dict[str, Any] = {"quoteId": "C1", "payCurrency": "ETH", "payAmt": "1", "settleCurrency": "USDT"}
    quote |= {"settleAmt": "1998", "feeCurrency": "USDT", "feeAmt": "2", "rate": "2000", **lives(600)}
    service.plan(CONVERSION_QUOTE, ok(**quote))
    service.plan(EXECUTE, "drop")
    service.plan(QUERY, ABSENT)
    order = desk.submission.submit(plan(desk, conversion()))
    for _ in range(4):
        order = desk.submission.submit(order)
    assert (order.state, len(service.sent_to(EXECUTE))) == (State.UNKNOWN, 1)
    assert service.sent_to(EXECUTE)[0]["quoteId"] == "C1"
    [asked] = {body["request_id"] for body in service.sent_to(QUERY)}
    assert asked == service.sent_to(CONVERSION_QUOTE)[0]["xid"] == order.request_id
    [ended] = resolve_as_ended(desk, order.request_id, State.SETTLED, None, by="Ada Example", why="support says so")
    assert (ended.done, ended.says.endswith("names it if the service shows it otherwise")) == (True, True)


@pytest.mark.parametrize(("asked", "waited"), [("7", 7.0), ("soon", 1.0)])
def test_a_quote_that_is_refused_with_429_waits_as_asked(
    open_desk: OpenDesk, service: Any, asked: str, waited: float
) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, (429, {"code": 429, "message": "slow down"}, {"Retry-After": asked}), fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert order.state is State.ACCEPTED
    assert clock_of(desk).slept[0] == waited


def test_a_service_that_asks_for_a_long_pause_ends_the_run(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, (429, {"code": 429, "message": "slow down"}, {"Retry-After": "86400"}), fiat_quote())
    with pytest.raises(Stopped, match="86400"):
        desk.submission.submit(plan(desk, fiat_payout()))
    assert service.sent_to(CREATE) == []


def test_every_quote_says_why_it_was_not_confirmed(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote(rate="0.4"), fiat_quote(rate="0.5"), "drop")
    order = desk.submission.submit(plan(desk, fiat_payout()))
    first, second, lost_one = desk.ledger.quotes()
    assert "rate is 0.4" in str(first.note)
    assert "rate is 0.5" in str(second.note)
    assert str(lost_one.note).startswith("no answer: ")
    assert [quote.stage for quote in desk.ledger.quotes()] == ["done", "done", "asked"]
    assert "no quote" in str(order.reason)


def test_a_confirmed_quote_leaves_no_old_reason(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote(rate="0.5"), fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.reason, order.code) == (State.ACCEPTED, None, None)
