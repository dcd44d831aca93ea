"""Quotes whose reference the service knew before: whose they are, when they may be confirmed, how long is waited."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine.answers import (
    ABSENT,
    CONVERSION_QUOTE,
    CREATE,
    DAY,
    EXECUTE,
    FAR,
    FIAT_QUERY,
    KNOWN,
    MARGIN,
    ONE_ORDER,
    QUERY,
    QUOTE,
    WINDOW,
    OpenDesk,
    confirmed,
    conversion,
    fiat_payout,
    fiat_quote,
    ok,
    plan,
    refused,
    under,
)
from tests.moved_clock import clock_of
from treasury.errors import IllegalTransition
from treasury.ledger import schema
from treasury.ledger.epoch import ABSENCES
from treasury.orders.records import Intent, Order
from treasury.orders.states import Event, State
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.payments.resolving import resolve_as_ended, resolve_as_not_sent

pytestmark = ONE_ORDER


def unused(rate: str = "0.95", **changes: Any) -> Callable[[Mapping[str, Any]], tuple[int, Any]]:
    """A quote as a query shows it that nobody confirmed."""

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        data = {"request_id": body["request_id"], "order_no": "Q-" + body["request_id"], "status": 11}
        data |= {"pay_amount": "100.00", "pay_currency": "USDT", "exchange_rate": rate}
        data |= {"receive_amount": "95.00", "receive_currency": "EUR"}
        return ok(**{**data, **changes})

    return answer


def foreign(desk: Desk, service: Any) -> Order:
    """A row whose quote somebody else asked for; no query shows it."""
    service.plan(QUOTE, KNOWN, fiat_quote(transaction_time=None, expire_time=None))
    service.plan(CREATE, confirmed)
    return desk.submission.submit(plan(desk, fiat_payout()))


# --- nothing is shown of it ------------------------------------------------------------------------------------------


def test_a_quote_of_somebody_else_is_waited_for_until_nobody_can_confirm_it(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    clock = clock_of(desk)
    order = foreign(desk, service)
    [quote] = desk.ledger.quotes()
    assert (quote.stage, quote.quote, quote.ends_at) == ("foreign", None, (FAR + DAY) * 1000)
    assert (order.state, order.code) == (State.PREPARED, "202224")
    assert str(order.reason).startswith(f"the service knows {order.request_id}, which somebody else asked for")
    for seconds in (DAY, MARGIN - 1, 1, WINDOW - 1):
        clock.move(seconds)
        counts = clock.wall() >= FAR + DAY + MARGIN
        order = desk.submission.submit(order)
        assert (order.state, order.generation, len(service.sent_to(QUOTE))) == (State.PREPARED, 1, 1)
        assert order.absent_since == ((FAR + DAY + MARGIN) * 1000 if counts else None)
    clock.move(1)
    order = desk.submission.submit(order)
    assert (order.state, order.generation, order.reason) == (State.ACCEPTED, 2, None)
    assert [quote.note for quote in desk.ledger.quotes()] == ["it ended, and nobody confirmed it", None]


@pytest.mark.parametrize("status", [11, 12, None])
def test_while_a_query_shows_it_it_is_not_absent(open_desk: OpenDesk, service: Any, status: int | None) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    clock = clock_of(desk)
    order = foreign(desk, service)
    service.plan(FIAT_QUERY, under(desk, order, 1, unused(status=status)))
    clock.move(DAY + MARGIN - 1)
    order = desk.submission.submit(order)
    assert (order.state, order.absent_since, len(service.sent_to(QUOTE))) == (State.PREPARED, None, 1)


@pytest.mark.parametrize("status", [11, 12, None])
def test_what_is_shown_after_its_end_and_may_be_a_payment_is_a_persons(
    open_desk: OpenDesk, service: Any, status: int | None
) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    clock = clock_of(desk)
    order = foreign(desk, service)
    clock.move(DAY + MARGIN)
    order = desk.submission.submit(order)
    assert order.absent_since == clock.wall() * 1000
    service.plan(FIAT_QUERY, under(desk, order, 1, unused(status=status)))
    clock.move(WINDOW)
    order = desk.submission.submit(order)
    assert (order.state, order.hold_kind, len(service.sent_to(QUOTE))) == (State.HELD, "known", 1)
    assert f"treasury resolve {order.request_id} --as failed, or --as not-sent" in str(order.reason)
    [told] = resolve_as_not_sent(desk, order.request_id, by="Ada Example", why="its support says so")
    assert told.done, told.says
    desk.submission.begin_start()
    assert desk.submission.submit(told.order).generation == 2


@pytest.mark.parametrize("status", [11, 22])
def test_a_row_whose_quote_somebody_else_asked_for_is_asked_about_before_it_is_cancelled(
    open_desk: OpenDesk, service: Any, status: int
) -> None:
    desk = open_desk(service.base_url)
    order = foreign(desk, service)
    service.plan(FIAT_QUERY, under(desk, order, 1, unused(status=status)))
    [told] = cancel(desk, order.request_id, by="Ada Example", why="not wanted").decisions
    assert (told.done, told.order.state, told.order.hold_kind) == (False, State.HELD, "known")


def test_a_row_that_is_not_to_be_paid_is_ended_without_being_sendable_in_between(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    order = foreign(desk, service)
    service.plan(FIAT_QUERY, under(desk, order, 1, unused(status=11)))
    [told] = cancel(desk, order.request_id, by="Ada Example", why="not wanted").decisions
    assert (told.done, "--as failed if it never will be" in told.says) == (False, True)
    ended = partial(resolve_as_ended, desk, order.request_id, State.FAILED, None, by="Ada Example", why="not wanted")
    [told] = ended()
    assert (told.done, told.order.state, "may still be confirmed until" in told.says) == (False, State.HELD, True)
    clock_of(desk).move(DAY + MARGIN)
    [told] = ended()
    assert (told.done, told.order.state) == (True, State.FAILED)
    assert desk.submission.submit(told.order).state is State.FAILED
    assert (len(service.sent_to(QUOTE)), service.sent_to(CREATE)) == (1, [])


@pytest.mark.parametrize("intent", [fiat_payout(), conversion()], ids=lambda intent: intent.operation)
def test_a_row_of_an_older_ledger_that_was_never_quoted_is_cancelled_once_no_query_shows_it(
    open_desk: OpenDesk, service: Any, intent: Intent
) -> None:
    desk = open_desk(service.base_url)
    order = desk.ledger.note(plan(desk, intent), absences_needed=ABSENCES)
    for path in (QUERY, FIAT_QUERY):
        service.plan(path, ABSENT)
    [told] = cancel(desk, order.request_id, by="Ada Example", why="not wanted").decisions
    assert (told.done, told.order.state) == (True, State.CANCELLED), told.says


def test_what_the_service_shows_is_not_ended_as_failed(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    order = foreign(desk, service)
    service.plan(FIAT_QUERY, under(desk, order, 1, unused(status=22)))
    [told] = cancel(desk, order.request_id, by="Ada Example", why="not wanted").decisions
    clock_of(desk).move(DAY + MARGIN)
    [told] = resolve_as_ended(desk, order.request_id, State.FAILED, None, by="Ada Example", why="not wanted")
    assert (told.done, told.order.state, "--as sent" in told.says) == (False, State.HELD, True)


def test_a_status_that_no_payment_shows_is_as_good_as_absent(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW, unconfirmed={11})
    clock = clock_of(desk)
    order = foreign(desk, service)
    service.plan(FIAT_QUERY, under(desk, order, 1, unused()))
    for seconds in (DAY + MARGIN, WINDOW):
        clock.move(seconds)
        order = desk.submission.submit(order)
    assert (order.state, order.generation) == (State.ACCEPTED, 2)


@pytest.mark.parametrize("generation", [1, 3])
def test_what_somebody_else_paid_is_held(open_desk: OpenDesk, service: Any, generation: int) -> None:
    desk = open_desk(service.base_url)
    order = foreign(desk, service)
    service.plan(FIAT_QUERY, under(desk, order, generation, unused(status=22)))
    order = desk.submission.submit(order)
    assert (order.state, order.hold_kind, order.generation) == (State.HELD, "known", generation)
    assert len(service.sent_to(QUOTE)) == 1
    assert service.sent_to(CREATE) == []


def test_a_payload_that_cannot_be_read_is_one_rows_trouble(open_desk: OpenDesk, service: Any) -> None:
    """The row is shown paid under another quote than its last, and its payload was changed by hand."""
    desk = open_desk(service.base_url)
    order = foreign(desk, service)
    service.plan(FIAT_QUERY, under(desk, order, 3, unused(status=22)))
    desk.ledger.write(lambda connection: connection.execute(update(schema.orders).values(payload=b"cut")).rowcount)
    [order] = desk.ledger.orders()
    held = desk.submission.hold_found(order, desk.submission.query_all_references(order), "a test")
    assert (held.state, held.hold_kind, held.generation, held.amount) == (State.HELD, "known", 3, order.amount)


@pytest.mark.parametrize(
    ("seconds", "answer"),
    [((1,), ABSENT), ((DAY + MARGIN,), ABSENT), ((DAY + MARGIN, 1), unused()), ((DAY + MARGIN, WINDOW), ABSENT)],
    ids=["waits", "counts", "shown", "ended"],
)
def test_nothing_is_noted_of_a_foreign_quote_once_another_hand_moved_its_row(
    open_desk: OpenDesk, service: Any, seconds: tuple[int, ...], answer: Any
) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    clock = clock_of(desk)
    order = foreign(desk, service)
    for each in seconds[:-1]:
        clock.move(each)
        order = desk.submission.submit(order)
    clock.move(seconds[-1])
    moved: list[Order] = []

    def meddle(body: Mapping[str, Any]) -> tuple[int, Any]:
        if not moved:
            moved.append(desk.ledger.step(order, Event.HOLD))
        return tuple(answer(body)) if callable(answer) else answer

    service.plan(FIAT_QUERY, meddle)
    with pytest.raises(IllegalTransition):
        desk.submission.submit(order)
    assert desk.ledger.orders() == moved
    assert len(service.sent_to(QUOTE)) == 1


def test_a_conversion_whose_reference_is_known_is_held_because_no_query_can_tell(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(CONVERSION_QUOTE, KNOWN)
    order = desk.submission.submit(plan(desk, conversion()))
    assert (order.state, order.hold_kind, order.code) == (State.HELD, "known", "202224")
    assert "ask its support" in str(order.reason)
    assert service.sent_to(EXECUTE) == []


# --- a query shows it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made_before_seconds", [None, 3_600])
@pytest.mark.parametrize("asked", ["once", "twice"])
def test_a_quote_that_a_query_shows_is_confirmed_whoever_asked_for_it(
    open_desk: OpenDesk, service: Any, asked: str, made_before_seconds: int | None
) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    made = None if made_before_seconds is None else (FAR - made_before_seconds) * 1000
    service.plan(QUOTE, *(["drop"] if asked == "twice" else []), KNOWN)
    service.plan(FIAT_QUERY, under(desk, order, 1, unused(create_time=made)))
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(order)
    [quote] = desk.ledger.quotes()
    assert quote.stage == ("answered" if asked == "twice" else "foreign")
    assert quote.ends_at == quote.expires_at == (FAR - (made_before_seconds or 0) + DAY) * 1000
    assert (order.state, order.confirmation) == (State.ACCEPTED, "Q-" + order.request_id)
    assert [sent["order_no"] for sent in service.sent_to(CREATE)] == [order.confirmation]


@pytest.mark.parametrize("asked", ["once", "twice"])
def test_a_quote_of_a_later_generation_is_somebody_elses(open_desk: OpenDesk, service: Any, asked: str) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    service.plan(QUOTE, *(["drop"] if asked == "twice" else []), KNOWN)
    service.plan(FIAT_QUERY, under(desk, order, 3, unused()))
    service.plan(CREATE, confirmed)
    for _ in range(2 if asked == "twice" else 1):
        order = desk.submission.fetch_quote(order).order
    assert [(quote.generation, quote.stage) for quote in desk.ledger.quotes()] == [(1, "asked"), (3, "foreign")]
    order = desk.submission.submit(order)
    assert (order.state, order.generation) == (State.ACCEPTED, 3)
    assert [sent["order_no"] for sent in service.sent_to(CREATE)] == ["Q-" + order.request_id]


def test_a_quote_of_a_later_generation_is_confirmed_in_the_same_start(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    service.plan(QUOTE, KNOWN)
    service.plan(FIAT_QUERY, under(desk, order, 3, unused()))
    service.plan(CREATE, confirmed)
    assert desk.submission.submit(order).state is State.ACCEPTED


def test_a_foreign_quote_outside_the_bounds_is_waited_for_and_not_confirmed(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    service.plan(QUOTE, KNOWN)
    service.plan(FIAT_QUERY, under(desk, order, 1, unused(rate="0.5")))
    for questions in (6, 12):
        order = desk.submission.submit(order)
        assert (order.state, len(service.sent_to(FIAT_QUERY))) == (State.PREPARED, questions)
        assert "rate is 0.5, less than 0.9; the service knows" in str(order.reason)
        desk.submission.begin_start()
    assert (len(service.sent_to(QUOTE)), service.sent_to(CREATE)) == (1, [])


def test_a_foreign_quote_that_was_fetched_is_confirmed_at_the_next_start(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    service.plan(QUOTE, KNOWN)
    service.plan(FIAT_QUERY, under(desk, order, 1, unused()))
    service.plan(CREATE, confirmed)
    fetched = desk.submission.fetch_quote(order)
    assert fetched.quote is not None
    assert (fetched.quote.stage, fetched.again, service.sent_to(CREATE)) == ("foreign", False, [])
    assert desk.submission.submit(fetched.order).state is State.ACCEPTED
    assert len(service.sent_to(QUOTE)) == 1


def test_a_foreign_quote_that_has_expired_is_asked_about_and_not_confirmed(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    clock = clock_of(desk)
    order = plan(desk, fiat_payout())
    service.plan(QUOTE, KNOWN)
    service.plan(FIAT_QUERY, under(desk, order, 1, unused()))
    service.plan(CREATE, confirmed)
    order = desk.submission.fetch_quote(order).order
    clock.move(DAY)
    order = desk.submission.submit(order)
    assert (order.state, service.sent_to(CREATE)) == (State.PREPARED, [])
    assert str(order.reason).startswith("the service knows")


def test_a_shown_quote_without_a_number_cannot_be_confirmed(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    service.plan(QUOTE, KNOWN)
    service.plan(FIAT_QUERY, under(desk, order, 1, unused(order_no=None)))
    order = desk.submission.submit(order)
    [quote] = desk.ledger.quotes()
    assert (order.state, quote.stage, quote.quote) == (State.PREPARED, "foreign", None)
    assert quote.ends_at is not None


def test_a_quote_whose_answer_was_lost_and_that_no_query_shows_is_replaced_at_once(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, "drop", KNOWN, fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.generation) == (State.ACCEPTED, 2)
    assert "nobody can confirm it" in str(desk.ledger.quotes()[0].note)


# --- the answer shows that it is older than the request --------------------------------------------------------------


def made_before(seconds: int) -> Callable[[Mapping[str, Any]], tuple[int, Any]]:
    """A quote that the service made so long before it was asked for, and that ends in a minute."""
    now = FAR * 1000
    return fiat_quote(transaction_time=now - seconds * 1000, expire_time=now + 60_000)


@pytest.mark.parametrize("generation", [None, 1, 2])
def test_an_earlier_quote_is_confirmed_by_its_own_terms(
    open_desk: OpenDesk, service: Any, generation: int | None
) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    service.plan(QUOTE, made_before(100))
    service.plan(CREATE, confirmed)
    if generation is not None:
        service.plan(FIAT_QUERY, under(desk, order, generation, unused()))
    order = desk.submission.fetch_quote(order).order
    quote = desk.ledger.quotes()[-1]
    assert (quote.stage, quote.generation) == ("foreign", generation or 1)
    assert desk.submission.submit(order).state is State.ACCEPTED
    life = (quote.ends_at or 0) - quote.created_at
    assert (160_000 <= life < 200_000) is (generation != 2)  # a query shows no end: a day is assumed
    assert (quote.service_ends_at is None) is (generation == 2)


@pytest.mark.parametrize("code", [400, 5004])
def test_an_earlier_quote_that_had_ended_is_replaced_whatever_its_refusal_says(
    open_desk: OpenDesk, service: Any, code: int
) -> None:
    """A ledger that was put back asks for its quote again and is shown the old one: a refusal of what has ended says
    nothing of the payment."""
    desk, now = open_desk(service.base_url, resend_after=WINDOW), FAR * 1000
    ended = fiat_quote(transaction_time=now - 400_000, expire_time=now - 340_000)

    def another(body: Mapping[str, Any]) -> tuple[int, Any]:
        made = desk.ledger.now()
        return fiat_quote(transaction_time=made, expire_time=made + 60_000)(body)

    service.plan(QUOTE, ended, another)
    service.plan(CREATE, refused(code), confirmed)
    service.plan(FIAT_QUERY, ABSENT)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, len(service.sent_to(CREATE))) == (State.UNKNOWN, 1)
    for seconds in (60 + MARGIN, WINDOW):
        clock_of(desk).move(seconds)
        desk.submission.begin_start()
        order = desk.submission.submit(order)
    assert (order.state, order.generation) == (State.ACCEPTED, 2)


def test_an_earlier_quote_that_was_paid_is_held(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    service.plan(QUOTE, made_before(100))
    service.plan(FIAT_QUERY, under(desk, order, 1, unused(status=99)))
    order = desk.submission.submit(order)
    assert (order.state, order.hold_kind, service.sent_to(CREATE)) == (State.HELD, "known", [])
    assert service.sent_to(FIAT_QUERY) != []
