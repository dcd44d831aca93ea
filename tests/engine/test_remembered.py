"""Tests of what the ledger remembers of each answer, and what it forgets because another hand moved the order
meanwhile."""

from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, replace
from decimal import Decimal
from typing import Any

import pytest

from tests.engine.answers import (
    ABSENT,
    CREATE,
    FIAT_QUERY,
    ONE_ORDER,
    PAYOUT,
    QUERY,
    QUOTE,
    OpenDesk,
    accepted,
    confirmed,
    fiat_payout,
    fiat_quote,
    ok,
    payout,
    plan,
    refused,
    restored,
    shown,
)
from tests.moved_clock import MovedClock
from treasury.call import calls
from treasury.errors import IllegalTransition
from treasury.orders.payment_decisions import Next
from treasury.orders.records import Order
from treasury.orders.states import NOT_AT_SERVICE, STEPS, Event, State
from treasury.payments.desk import Desk
from treasury.planning.single import Judged
from treasury.provider.fiat_payouts import CreateFiatPayout

pytestmark = ONE_ORDER

Answer = Callable[[Mapping[str, Any]], tuple[Any, ...]]


def the_order(desk: Desk) -> Order:
    return desk.ledger.orders()[0]


# --- why, and with which code ----------------------------------------------------------------------------------------


def test_an_order_that_never_connected_says_why(open_desk: OpenDesk) -> None:
    desk = open_desk("http://127.0.0.1:9")
    assert "no connection to http://127.0.0.1:9" in str(desk.submission.submit(plan(desk, payout())).reason)


def test_a_lost_answer_is_remembered_with_its_reason_and_code(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, (200, {"code": 200, "data": "not an object"}))
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.reason, order.code) == (State.UNKNOWN, "`data` is not an object", "200")


@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [
        (refused(202203), "202203", "no"),
        ((200, {"code": 202203, "message": ""}), "202203", "202203"),
        ((503, b""), "503", "HTTP 503 without a readable body"),
    ],
)
@pytest.mark.parametrize("path", [PAYOUT, QUOTE])
def test_a_refusal_is_remembered_in_the_services_words(
    open_desk: OpenDesk, service: Any, path: str, answer: Any, code: str, reason: str
) -> None:
    desk = open_desk(service.base_url)
    service.plan(path, answer)
    order = desk.submission.submit(plan(desk, payout() if path == PAYOUT else fiat_payout()))
    assert order.code == code
    assert reason in str(order.reason)
    assert reason != "no" or order.reason == "no"


def test_a_quote_that_did_not_come_says_so_on_its_row(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, "drop")
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert str(order.reason).startswith("no quote: ")


def test_a_resend_that_never_connected_is_still_in_doubt(open_desk: OpenDesk, service: Any, tmp_path: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, "drop")
    order = desk.submission.submit(desk.submission.submit(plan(desk, payout())))  # lost, and the first absence
    gone = desk.submission.query(order)
    service.close()
    later = open_desk(service.base_url)  # with no connection open
    later.submission.query = lambda _: gone  # type: ignore[method-assign, assignment]  # the second absence was heard before it went down
    order = later.submission.submit(order)
    assert (order.state, order.doubtful, order.sends) == (State.UNKNOWN, True, 2)
    assert "no connection" in str(order.reason)


# --- questions -------------------------------------------------------------------------------------------------------


def at(desk: Desk, seconds: int) -> None:
    desk.ledger.clock = MovedClock(seconds)


@pytest.mark.parametrize("state", [State.UNKNOWN, State.ACCEPTED])
def test_an_absence_is_remembered_with_its_time_and_words(open_desk: OpenDesk, service: Any, state: State) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan(PAYOUT, "drop" if state is State.UNKNOWN else accepted)
    order = desk.submission.submit(plan(desk, payout()))
    at(desk, 2_000_000_000)
    order = desk.submission.ask(order)
    assert (order.state, order.asked_at, order.reason) == (state, 2_000_000_000_000, "the service knows no such order")
    assert order.absent_since == (2_000_000_000_000 if state is State.UNKNOWN else None)


@pytest.mark.parametrize("state", NOT_AT_SERVICE)
def test_an_absence_leaves_the_reason_of_what_is_not_at_the_service(
    open_desk: OpenDesk, service: Any, state: State
) -> None:
    desk = open_desk(service.base_url)
    order, reason = plan(desk, payout()), "this is why"
    if state is State.REJECTED:
        service.plan(PAYOUT, (200, {"code": 7002, "message": reason}))
        order = desk.submission.submit(order)
        reason = str(order.reason)
    elif state is State.PREPARED:
        order = desk.ledger.note(order, reason=reason)
    else:
        event = Event.HOLD if state is State.HELD else Event.CANCEL
        order = desk.ledger.step(order, event, cause="a test", reason=reason)
    asked = desk.submission.ask(order)
    assert (asked.state, asked.reason) == (state, reason)
    assert "this is why" in reason
    assert asked.asked_at is not None


def test_the_absence_that_sends_again_is_remembered_too(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan(PAYOUT, "drop")
    order = desk.submission.submit(plan(desk, payout()))
    at(desk, 2_000_000_000)
    order = desk.submission.ask(order)
    at(desk, 2_000_000_600)
    order, again = desk.submission.apply(order, None)
    assert (again, order.asked_at, order.reason) == (Next.RESEND, 2_000_000_600_000, "the service knows no such order")


def test_what_is_accepted_is_not_sent_again_however_long_it_is_absent(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, "drop")
    order = desk.submission.ask(desk.submission.submit(plan(desk, payout())))
    order = desk.ledger.step(order, Event.RESOLVE_SENT)  # a person knows; the service showed no number
    assert order.absent_since is not None
    assert desk.submission.apply(order, None)[1] is Next.WAIT


@pytest.mark.parametrize("ended", [False, True])
def test_a_confirmed_quote_that_shows_11_again_is_heard_and_not_absent(
    open_desk: OpenDesk, service: Any, ended: bool
) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, lambda body: ok(order_no=body["order_no"], status=99 if ended else 22))
    service.plan(FIAT_QUERY, lambda body: ok(request_id=body["request_id"], status=11, failure_reason="in a queue"))
    order = desk.submission.ask(desk.submission.submit(plan(desk, fiat_payout())))
    assert order.state is (State.SETTLED if ended else State.ACCEPTED)
    assert (order.status, "quote" in str(order.reason)) == (11, False)


def test_a_quote_without_a_status_is_no_payment(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, "drop")
    order = desk.submission.submit(plan(desk, fiat_payout()))
    service.plan(FIAT_QUERY, lambda body: ok(request_id=body["request_id"], order_no="Q"))
    order = desk.submission.ask(order)
    assert order.state is State.UNKNOWN
    assert "with no status, which it may use for a quote and for a payment" in str(order.reason)


# --- what an answer shows --------------------------------------------------------------------------------------------


def test_an_answer_with_a_number_and_no_status_is_an_order(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, ok(order_no="P1"))
    assert desk.submission.submit(plan(desk, payout())).state is State.ACCEPTED


def test_an_answer_that_shows_nothing_is_unknown_and_says_so(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, ok())
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.reason) == (State.UNKNOWN, "the answer to the request shows no order")


def test_what_disagrees_says_where(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, ok(order_no="P1", status=11, order_amount="11"))
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.reason) == (State.UNKNOWN, "amount is 11 at the service, 10.00 here")


def test_an_order_that_was_not_sent_from_here_says_so(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUERY, shown(22))
    order = desk.submission.ask(plan(desk, payout()))
    assert (order.state, order.hold_kind) == (State.HELD, "known")
    assert "this ledger did not send it" in str(order.reason)


def test_what_arrives_and_the_fee_are_learned_where_nothing_was_known(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    order = desk.submission.submit(plan(desk, payout()))
    service.plan(QUERY, shown(22), shown(99, fee_amount="0.5"))
    order = desk.submission.ask(order)
    assert (order.fee, order.receive_amount, order.receive_currency) == (None, None, None)
    assert desk.submission.ask(order).fee == Decimal("0.5")


def test_a_confirmation_by_number_learns_what_arrives_and_a_fee_in_its_currency(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(CREATE, ok(order_no="N1", status=22, receive_currency="EUR"))
    said = {
        "pay_amount": "100",
        "pay_currency": "USDT",
        "receive_amount": "95",
        "receive_currency": "EUR",
        "fee_amount": "1",
        "fee_currency": "USDT",
    }
    unused = ok(order_no="N1", status=11)
    service.plan(FIAT_QUERY, unused, ok(order_no="N1", status=22), ok(order_no="N1", status=22, **said))
    order = calls.submit_operation(desk, CreateFiatPayout(order_no="N1", purpose_code="30"))
    order = desk.submission.ask(order)
    assert (order.receive_amount, order.receive_currency, order.fee) == (None, None, None)
    order = desk.submission.ask(order)
    assert (order.receive_amount, order.receive_currency) == (Decimal(95), "EUR")
    assert order.amount is None  # what its quote debits was agreed elsewhere
    service.plan(FIAT_QUERY, ok(order_no="N1", status=22, fee_amount="2", fee_currency="USDT"))
    assert desk.submission.ask(order).fee == 2


def test_an_order_keeps_the_number_it_was_accepted_under(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, shown(99, order_no="P2"))
    assert desk.submission.ask(desk.submission.submit(plan(desk, payout()))).order_no == "P1"


# --- another hand ----------------------------------------------------------------------------------------------------


def meddling(desk: Desk, event: Event, answer: Any) -> Answer:
    """An answer before which another process takes the order a step further."""

    def reply(body: Mapping[str, Any]) -> tuple[Any, ...]:
        desk.ledger.step(the_order(desk), event)
        return tuple(answer(body) if callable(answer) else answer)

    return reply


@pytest.mark.parametrize(
    "quoted",
    [fiat_quote(), fiat_quote(rate="0.5"), refused(429), (200, b"no JSON"), refused(202203), refused(206003)],
    ids=["fit", "unfit", "later", "lost", "refused for a state", "refused for good"],
)
def test_a_quote_is_not_confirmed_once_a_person_holds_its_row(open_desk: OpenDesk, service: Any, quoted: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, meddling(desk, Event.HOLD, quoted))
    service.plan(CREATE, confirmed)
    before = plan(desk, fiat_payout())
    with pytest.raises(IllegalTransition):
        desk.submission.submit(before)
    order = the_order(desk)
    assert (order.state, order.reason, order.confirmation) == (State.HELD, None, None)
    assert service.sent_to(CREATE) == []


def test_an_order_from_before_a_restore_is_not_sent_once_a_person_holds_it(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = restored(desk, payout())
    service.plan(QUERY, meddling(desk, Event.HOLD, ABSENT))
    with pytest.raises(IllegalTransition):
        desk.submission.submit(order)
    assert the_order(desk).absences_needed
    assert service.sent_to(PAYOUT) == []


@pytest.mark.parametrize("answer", [ABSENT, shown(22, order_amount="11")], ids=["absent", "different"])
def test_what_was_asked_before_another_hand_moved_it_is_not_noted(
    open_desk: OpenDesk, service: Any, answer: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, "drop")
    order = desk.submission.submit(plan(desk, payout()))
    service.plan(QUERY, meddling(desk, Event.RESOLVE_SENT, answer))
    with pytest.raises(IllegalTransition):
        desk.submission.ask(order)
    assert (the_order(desk).state, the_order(desk).asked_at) == (State.ACCEPTED, None)


def test_a_call_from_before_a_restore_is_asked_about_by_its_own_reference(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    intent = calls._intent(CreateFiatPayout(order_no="N1", purpose_code="30"), Judged())
    service.plan(CREATE, ok(order_no="N1", status=22))
    desk.submission.submit(restored(desk, intent))
    assert service.sent_to(FIAT_QUERY)[0]["order_no"] == "N1"


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ([Event.HOLD], Event.RELEASE),
        ([], Event.CANCEL),
        ([Event.HOLD], Event.RESOLVE_SENT),
        ([Event.HOLD], Event.RESOLVE_NOT_SENT),
        ([Event.HOLD], Event.RESOLVE_REJECTED),
        ([Event.SEND, Event.LOSE], Event.RESOLVE_SETTLED),
        ([Event.SEND, Event.LOSE], Event.RESOLVE_FAILED),
    ],
)
def test_what_a_person_gives_as_the_cause_is_kept_as_it_was_said(
    open_desk: OpenDesk, service: Any, before: list[Event], event: Event
) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, payout())
    said = "Ada Example: the bank says that 123456789012 was closed"
    for each in before:
        order = desk.ledger.step(order, each, cause=said)
    order = desk.ledger.step(order, event, cause=said)
    *others, last = desk.ledger.journal(order)
    assert last.cause == said
    assert not any("123456789012" in str(other.cause) for other in others)


def test_the_step_table_cannot_be_changed_at_run_time() -> None:
    with pytest.raises(FrozenInstanceError):
        STEPS[Event.SEND].target = State.SETTLED  # type: ignore[misc]


# --- nothing new -----------------------------------------------------------------------------------------------------


SETTLED = {"order_no": "P1", "status": 99, "order_amount": "10.00", "currency": "USDT"}


@pytest.mark.parametrize(
    ("shows", "nothing_new"),
    [
        ({}, True),
        ({"order_no": "P2"}, True),  # kept as it was accepted; the comparison of a sweep shows the other number
        ({"fee_amount": "0.5"}, False),
        ({"reason": "later"}, False),
        ({"status": 44}, False),
        ({"status": 22}, False),
        ({"order_amount": "11"}, False),
    ],
)
def test_a_look_at_an_ended_order_is_known_when_it_shows_nothing_new(
    open_desk: OpenDesk, service: Any, shows: dict[str, Any], nothing_new: bool
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, ok(**SETTLED))
    order = desk.submission.submit(plan(desk, payout()))
    service.plan(QUERY, ok(**{**SETTLED, **shows}))
    seen = desk.submission.query(order)
    assert desk.submission.is_current(order, seen) is nothing_new
    before = order
    after = desk.submission.apply(order, seen)[0]
    same = replace(after, asked_at=before.asked_at) == before
    assert same is nothing_new


def test_an_open_order_or_an_absent_one_is_always_learned(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, shown(11))
    order = desk.submission.submit(plan(desk, payout()))
    assert not desk.submission.is_current(order, desk.submission.query(order))
    assert not desk.submission.is_current(order, None)
    service.plan(QUERY, shown(99))
    ended = desk.submission.ask(order)
    assert not desk.submission.is_current(ended, None)
