"""Tests of what the service shows of an order: taken over where it agrees with what was asked, and nowhere else."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.answers import (
    ABSENT,
    CONVERSION_QUOTE,
    CREATE,
    EXECUTE,
    FIAT_QUERY,
    ONE_ORDER,
    PAYOUT,
    QUERY,
    QUOTE,
    OpenDesk,
    accepted,
    confirmed,
    conversion,
    fiat_payout,
    fiat_quote,
    lives,
    ok,
    payout,
    plan,
    refused,
    shown,
)
from tests.engine.nights import classes
from tests.engine.runs import night
from treasury.errors import IllegalTransition, Refused
from treasury.ledger.evidence import seen_statuses
from treasury.orders.records import Intent, Order
from treasury.orders.states import Event, State
from treasury.payments.desk import Desk
from treasury.payments.resolving import resolve_as_ended, resolve_as_sent
from treasury.reports.results import next_action

pytestmark = ONE_ORDER

SCAN = "/v1/scanPay/submit"


def executed(desk: Desk, service: Any, answer: Any = None) -> Order:
    quote: dict[str, Any] = {"quoteId": "C1", "payCurrency": "ETH", "payAmt": "1", "settleCurrency": "USDT"}
    quote |= {"settleAmt": "1998", "feeCurrency": "USDT", "feeAmt": "2", "rate": "2000", **lives(600)}
    service.plan(CONVERSION_QUOTE, ok(**quote))
    service.plan(EXECUTE, answer or ok(orderNo="E1", status=22))
    return desk.submission.submit(plan(desk, conversion()))


@pytest.mark.parametrize(
    ("shown_as", "state"),
    [
        ({"currency": "ETH", "order_amount": "1"}, State.SETTLED),
        ({"currency": "USDT", "order_amount": "1998"}, State.SETTLED),
        ({"currency": "USDT", "order_amount": "1997"}, State.UNKNOWN),
        ({"currency": "ETH", "order_amount": "1.1"}, State.UNKNOWN),
        ({"currency": "BTC", "order_amount": "1"}, State.UNKNOWN),
        ({}, State.SETTLED),
    ],
)
def test_a_conversion_may_be_shown_from_either_side(
    open_desk: OpenDesk, service: Any, shown_as: dict[str, str], state: State
) -> None:
    desk = open_desk(service.base_url)
    order = executed(desk, service)
    service.plan(QUERY, lambda body: ok(request_id=body["request_id"], order_no="E1", status=99, **shown_as))
    assert desk.submission.ask(order).state is state
    assert service.sent_to(QUERY)[0]["order_no"] == "E1"


def test_a_conversion_that_brought_less_than_was_quoted_is_a_break_although_its_fee_was_quoted_in_what_it_brings(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    """The balance alone would not say so: a deposit of the same day, or more, hides it."""
    desk = open_desk(service.base_url)
    service.plan("/v1/balance/partner", lambda body: ok(currency=body["currency"], balance="5000"))
    executed(desk, service)
    seen = {"order_no": "E1", "status": 99, "currency": "ETH", "order_amount": "1", "fee_amount": "0"}
    service.plan(QUERY, lambda body: ok(request_id=body["request_id"], arrive_amount="1900", **seen))
    report = night(desk, tmp_path)
    assert (report["verdict"], classes(report)) == ("breaks", {"a": "amount_mismatch new"})
    assert "1900 arrived" in report["breaks"][0]["evidence"]


def test_a_conversion_that_no_query_finds_names_what_tells_how_one_is_found(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = executed(desk, service)
    service.plan(QUERY, ABSENT)
    order = desk.submission.ask(order)
    assert (order.state, "treasury doctor --prove" in str(order.reason)) == (State.ACCEPTED, True)
    service.plan(QUERY, lambda body: ok(request_id=body["request_id"], order_no="E1", status=22))
    assert desk.submission.ask(order).reason is None


def test_a_payout_shown_in_what_arrives_is_no_conversion(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    order = desk.submission.submit(plan(desk, payout()))
    service.plan(QUERY, shown(99, currency="IDR"))
    assert desk.submission.ask(order).state is State.UNKNOWN


def test_what_arrives_is_learned_once(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    service.plan(FIAT_QUERY, lambda body: ok(request_id=body["request_id"], status=99, receive_amount="94.99"))
    order = desk.submission.ask(order)
    assert (order.state, order.receive_amount) == (State.UNKNOWN, Decimal("95.00"))
    assert "receive amount is 94.99 at the service, 95.00 here" in str(order.reason)


def test_an_accepted_order_that_is_shown_different_is_unknown_until_it_agrees(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, shown(99, order_amount="999.0"), shown(99, currency="BTC"), ok(), shown(99))
    order = desk.submission.submit(plan(desk, payout()))
    order = desk.submission.ask(order)
    assert (order.state, order.reason) == (State.UNKNOWN, "amount is 999.0 at the service, 10.00 here")
    order = desk.submission.submit(order)
    assert order.state is State.UNKNOWN
    with pytest.raises(Refused, match="an empty record"):  # it says nothing about the order
        desk.submission.submit(order)
    assert desk.submission.submit(order).state is State.SETTLED
    assert len(service.sent_to(PAYOUT)) == 1


@pytest.mark.parametrize("first", ["answer", "query"])
def test_what_the_service_showed_once_is_never_sent_again(open_desk: OpenDesk, service: Any, first: str) -> None:
    desk = open_desk(service.base_url)
    other = ok(order_no="P1", status=11, order_amount="11.00", currency="USDT")
    service.plan(PAYOUT, other if first == "answer" else accepted, accepted)
    service.plan(QUERY, ABSENT if first == "answer" else shown(22, order_amount="11.00"), ABSENT)
    order = desk.submission.ask(desk.submission.submit(plan(desk, payout())))
    for _ in range(4):
        order = desk.submission.submit(order)
    assert (order.state, len(service.sent_to(PAYOUT))) == (State.UNKNOWN, 1)


def test_what_a_person_does_about_an_order_that_ended_otherwise_than_it_was_meant_is_said_and_done(
    open_desk: OpenDesk, service: Any
) -> None:
    """Its answer stays as it is, so to wait is no way out, and what left cannot be cancelled."""
    desk = open_desk(service.base_url)
    order = executed(desk, service)
    service.plan(QUERY, lambda body: ok(request_id=body["request_id"], status=99, currency="USDT", order_amount="1900"))
    order = desk.submission.ask(order)
    assert (order.state, "--as settled" in next_action(order)) == (State.UNKNOWN, True), order
    [told] = resolve_as_sent(desk, order.request_id, by="Ana", why="looked at the portal")
    assert not told.done
    assert told.says.endswith(f"treasury resolve {order.request_id} --as settled"), told.says
    [ended] = resolve_as_ended(desk, order.request_id, State.SETTLED, None, by="Ana", why="its support says so")
    assert ended.order.state is State.SETTLED


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_what_no_question_ends_is_not_left_to_questions(
    open_desk: OpenDesk, service: Any, *, is_taken_over: bool
) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUERY, *[ABSENT] * 6)
    order = desk.submission.ask(executed(desk, service, refused(202203)))
    if is_taken_over:
        [taken] = resolve_as_sent(desk, order.request_id, by="Ana", why="its support says that it was made")
        order = desk.submission.ask(taken.order)
    assert order.state.outcome == ("in_progress" if is_taken_over else "unknown")
    assert f"treasury resolve {order.request_id} --as" in (order.reason or ""), order
    assert next_action(order).startswith("do what its reason says")


def test_an_empty_answer_disputes_nothing(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, ok())
    order = desk.submission.submit(plan(desk, payout()))
    with pytest.raises(Refused, match="an empty record"):
        desk.submission.ask(order)
    [kept] = desk.ledger.orders()
    assert (kept.state, kept.absent_since) == (State.ACCEPTED, None)


def test_a_fee_without_its_currency_does_not_replace_the_quoted_one(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = executed(desk, service)
    service.plan(QUERY, shown(99, currency="ETH", order_amount="1", fee_amount="0.01"))
    order = desk.submission.ask(order)
    assert (order.state, order.fee, order.fee_currency) == (State.SETTLED, Decimal(2), "USDT")


def test_the_fee_that_is_shown_first_is_the_one_that_was_told(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    order = desk.submission.submit(plan(desk, payout()))
    for fee in ("0.5", "0.6"):
        service.plan(QUERY, shown(22, fee_amount=fee))
        order = desk.submission.ask(order)
        assert (order.fee, order.told_fee) == (Decimal(fee), Decimal("0.5"))


@pytest.mark.parametrize(
    ("says", "counts"),
    [
        ({"status": 99, "fee_amount": "0.2"}, "3.2"),
        ({"status": 99}, "3"),
        ({"status": 22, "fee_amount": "0.2"}, "9"),
    ],
)
def test_a_scanned_code_counts_in_its_day_at_what_its_success_debited(
    open_desk: OpenDesk, service: Any, says: dict[str, Any], counts: str
) -> None:
    desk, fields = open_desk(service.base_url), {"user_xid": "u", "qrcode": "q", "amount": "100", "notify_url": "n"}
    arrives: dict[str, Any] = {"receive_currency": "THB", "receive_amount": Decimal(100)}
    scan = Intent("a", "submit_scan_to_pay", fields, fields, "USDT", ceiling=Decimal(9), **arrives)
    service.plan(SCAN, accepted)
    order = desk.submission.submit(plan(desk, scan))
    service.plan(QUERY, lambda body: ok(request_id=body["request_id"], currency="USDT", order_amount="3", **says))
    assert desk.submission.ask(order).ceiling == Decimal(counts)


def test_the_ceiling_of_an_amount_that_was_asked_for_stays(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    order = desk.submission.submit(plan(desk, payout()))
    service.plan(QUERY, shown(99, fee_amount="0.5"))
    assert desk.submission.ask(order).ceiling is None


@pytest.mark.parametrize("unknown", [False, True])
def test_an_answer_that_only_repeats_the_reference_says_nothing(
    open_desk: OpenDesk, service: Any, unknown: bool
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, "drop" if unknown else accepted)
    service.plan(QUERY, lambda body: ok(request_id=body["request_id"]))
    order = desk.submission.submit(plan(desk, payout()))
    state = order.state
    order = desk.submission.ask(order)
    assert (order.state, order.reason) == (state, "a query shows no order")


def test_a_number_without_a_status_is_an_order_that_is_worked_on(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, "drop")
    service.plan(QUERY, lambda body: ok(request_id=body["request_id"], order_no="P9"))
    order = desk.submission.ask(desk.submission.submit(plan(desk, payout())))
    assert (order.state, order.order_no, order.reason) == (State.ACCEPTED, "P9", None)


def test_the_statuses_of_confirmed_orders_are_remembered(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, confirmed)
    service.plan(FIAT_QUERY, *(_status(each) for each in (12, None, 99)))
    order = desk.submission.submit(plan(desk, fiat_payout()))
    for _ in range(3):
        order = desk.submission.ask(order)
    assert order.state is State.SETTLED
    assert seen_statuses(desk.ledger, "create_fiat_payout") == {22, 12, 99}


def test_the_statuses_of_payments_without_a_quote_are_not(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    desk.submission.submit(plan(desk, payout()))
    assert seen_statuses(desk.ledger, "payout") == set()


def _status(status: int | None) -> Callable[[Mapping[str, Any]], tuple[int, Any]]:
    return lambda body: ok(request_id=body["request_id"], order_no="F1", status=status)


def test_an_amount_that_was_never_asked_for_is_not_taken_over(open_desk: OpenDesk, service: Any) -> None:
    """Only what was quoted may be paid under terms that this ledger does not know."""
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, shown(99))
    order = desk.submission.submit(plan(desk, replace(payout(), amount=None)))
    assert desk.submission.ask(order).amount is None


# --- a reference that the service says it knows ----------------------------------------------------------------------


def test_an_order_that_the_service_says_it_knows_and_does_not_show_waits_for_a_person(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, refused(202224))
    order = desk.submission.submit(plan(desk, payout()))
    for _ in range(3):
        order = desk.submission.submit(order)
    assert (order.state, order.absent_since, len(service.sent_to(PAYOUT))) == (State.UNKNOWN, None, 1)
    assert "(202224) and shows no order: ask its support; if it was paid" in str(order.reason)
    assert f"treasury resolve {order.request_id} --as not-sent, with --by NAME (or --key FILE " in str(order.reason)


def test_an_order_that_was_shown_and_is_absent_now_names_no_other_cause(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, ok(order_no="P1", status=11, order_amount="11.00", currency="USDT"))
    order = desk.submission.ask(desk.submission.submit(plan(desk, payout())))
    assert order.state is State.UNKNOWN
    assert str(order.reason).startswith("the service knows no such order: ask its support; if it was paid")


def test_an_order_that_the_service_says_it_knows_is_held_when_it_is_shown(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, refused(202224))
    service.plan(QUERY, shown(22))
    order = desk.submission.submit(desk.submission.submit(plan(desk, payout())))
    assert (order.state, order.hold_kind, order.order_no) == (State.HELD, "known", "P1")


def test_what_a_person_ended_of_it_is_looked_at_as_any_other(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, refused(202224))
    order = desk.submission.submit(plan(desk, payout()))
    order = desk.ledger.step(order, Event.RESOLVE_SETTLED)
    service.plan(QUERY, shown(99), shown(44))
    order = desk.submission.ask(order)
    assert order.state is State.SETTLED
    assert desk.submission.ask(order).state is State.FAILED


# --- a quote that may be a payment or not ----------------------------------------------------------------------------


def test_a_row_that_was_not_sent_keeps_its_words_when_its_quote_is_shown(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = desk.ledger.note(plan(desk, fiat_payout()), reason="its own words")
    service.plan(FIAT_QUERY, _status(11))
    order = desk.submission.ask(order)
    assert (order.state, order.reason, order.asked_at) == (State.PREPARED, "its own words", 1_800_000_000_000)


@pytest.mark.parametrize("answer", [11, 22], ids=["undecided", "shown"])
def test_what_is_shown_is_not_noted_once_another_hand_moved_the_order(
    open_desk: OpenDesk, service: Any, answer: int
) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, "drop")
    order = desk.submission.submit(plan(desk, fiat_payout()))
    if answer == 22:
        order = desk.ledger.step(order, Event.RESOLVE_SENT)
    moved: list[Order] = []

    def meddle(body: Mapping[str, Any]) -> tuple[int, Any]:
        event = Event.RESOLVE_NOT_SENT
        moved.append(desk.ledger.step(order, event))
        return _status(answer)(body)

    service.plan(FIAT_QUERY, meddle)
    with pytest.raises(IllegalTransition):
        desk.submission.ask(order)
    assert desk.ledger.orders() == moved
