"""Orders of a ledger that may be older than the service: asked about first, and held when the service knows them."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
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
    restored,
    shown,
    steps,
)
from tests.moved_clock import clock_of
from treasury.errors import IllegalTransition, LedgerLost
from treasury.ledger.quotes import reference_of
from treasury.orders.payment_decisions import Bounds
from treasury.orders.records import ON_A_PERSONS_WORD, Intent, Order
from treasury.orders.states import Event, State
from treasury.payments.resolving import resolve_as_sent
from treasury.sending.submission import Submission

pytestmark = ONE_ORDER


def test_an_order_from_before_a_restore_is_asked_and_then_sent(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    order = desk.submission.submit(restored(desk, payout()))
    assert (order.state, order.absences_needed) == (State.ACCEPTED, 0)
    assert [path for path, _ in service.requests] == [QUERY, PAYOUT]


@pytest.mark.sqlite_alone
@pytest.mark.parametrize("put_back", [True, False])
def test_a_process_whose_ledger_is_moved_away_sends_nothing_more(
    put_back: bool, open_desk: OpenDesk, service: Any, ledger_url: str
) -> None:
    desk, file = open_desk(service.base_url), Path(ledger_url.removeprefix("sqlite:///"))
    order = plan(desk, payout())
    file.rename(file.with_name("aside.db"))
    if put_back:
        shutil.copy(file.with_name("aside.db"), file)
    with pytest.raises(LedgerLost, match="was moved away or replaced"):
        desk.submission.submit(order)
    assert service.requests == []
    for use in (lambda: desk.ledger.run("run"), lambda: desk.ledger.write(lambda _: None)):
        with pytest.raises(LedgerLost, match=r"ledger\.db was moved away"):
            use()


def test_an_order_from_before_a_restore_that_was_sent_is_held(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUERY, shown(22))
    order = desk.submission.submit(restored(desk, payout()))
    assert (order.state, order.hold_kind, service.sent_to(PAYOUT)) == (State.HELD, "known", [])
    assert "this ledger did not send it" in str(order.reason)


@pytest.mark.parametrize("status", [11, 22])
@pytest.mark.parametrize("generation", [1, 3, 6])
def test_forgotten_quotes_are_asked_for_too(open_desk: OpenDesk, service: Any, generation: int, status: int) -> None:
    desk = open_desk(service.base_url)
    asked: list[str] = []

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        asked.append(body["request_id"])
        known = len(asked) == generation
        return ok(request_id=body["request_id"], status=status, pay_amount="100.00") if known else ABSENT

    service.plan(FIAT_QUERY, answer)
    order = desk.submission.submit(restored(desk, fiat_payout()))
    assert (order.state, order.hold_kind, order.generation) == (State.HELD, "known", generation)
    assert order.request_id == asked[generation - 1]
    assert len(set(asked)) == len(asked) == 6
    assert service.sent_to(QUOTE) == []


def test_in_an_epoch_two_absences_a_window_apart_are_needed(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan(PAYOUT, accepted)
    order = desk.ledger.note(plan(desk, payout()), unmoved=True, absences_needed=2)
    for seconds in (0, 599):
        clock_of(desk).move(seconds)
        order = desk.submission.submit(order)
        assert (order.state, service.sent_to(PAYOUT)) == (State.PREPARED, [])
    clock_of(desk).move(1)
    assert desk.submission.submit(order).state is State.ACCEPTED


@pytest.mark.parametrize("absences_needed", [1, 2, ON_A_PERSONS_WORD])
def test_what_is_asked_before_it_is_sent_says_what_is_waited_for(
    open_desk: OpenDesk, service: Any, absences_needed: int
) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan(PAYOUT, accepted)
    order = desk.submission.submit(
        desk.ledger.note(plan(desk, payout()), unmoved=True, absences_needed=absences_needed)
    )
    if absences_needed != 2:
        assert (order.state, order.absences_needed, order.absent_since) == (State.ACCEPTED, 0, None)
        return
    assert (order.state, order.absences_needed, order.absent_since) == (State.PREPARED, 2, 1_800_000_000_000)
    assert order.asked_at == order.absent_since
    assert "a second query, 600 s later" in str(order.reason)
    assert service.sent_to(PAYOUT) == []


@pytest.mark.parametrize("absences_needed", [1, 2])
def test_nothing_is_noted_of_an_absence_once_another_hand_moved_the_row(
    open_desk: OpenDesk, service: Any, absences_needed: int
) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    order = desk.ledger.note(plan(desk, payout()), unmoved=True, absences_needed=absences_needed)
    moved: list[Order] = []

    def meddle(_: Mapping[str, Any]) -> tuple[int, Any]:
        moved.append(desk.ledger.step(order, Event.HOLD))
        return ABSENT

    service.plan(QUERY, meddle)
    with pytest.raises(IllegalTransition):
        desk.submission.submit(order)
    assert desk.ledger.orders() == moved


# --- quotes that this ledger asked for itself ------------------------------------------------------------------------


@pytest.mark.parametrize(("absences_needed", "held"), [(ON_A_PERSONS_WORD, False), (1, False), (2, True)])
def test_an_unused_quote_of_its_own_holds_a_row_only_where_the_ledger_may_be_older(
    open_desk: OpenDesk, service: Any, absences_needed: int, held: bool
) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, "drop", "drop", "drop", fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert [(quote.stage, quote.asks) for quote in desk.ledger.quotes()] == [("asked", 3)]
    order = desk.ledger.note(order, unmoved=True, absences_needed=absences_needed)
    service.plan(FIAT_QUERY, about({order.request_id: 11}))
    desk.submission.begin_start()
    order = desk.submission.submit(order)
    assert order.state is (State.HELD if held else State.ACCEPTED)


def about(statuses: Mapping[str, int]) -> Callable[[Mapping[str, Any]], tuple[int, Any]]:
    """Answers questions about these references with a status each."""

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        status = statuses.get(body["request_id"])
        if status is None:
            return ABSENT
        return ok(request_id=body["request_id"], order_no="F1", status=status, pay_amount="100.00")

    return answer


@pytest.mark.parametrize("absences_needed", [ON_A_PERSONS_WORD, 1, 2])
def test_a_payment_under_a_quote_of_its_own_holds_a_row_always(
    open_desk: OpenDesk, service: Any, absences_needed: int
) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, "drop")
    order = desk.submission.submit(plan(desk, fiat_payout()))
    order = desk.ledger.note(order, unmoved=True, absences_needed=absences_needed)
    service.plan(FIAT_QUERY, about({order.request_id: 22}))
    order = desk.submission.submit(order)
    assert (order.state, order.hold_kind, order.order_no, order.status) == (State.HELD, "known", "F1", 22)


def test_a_payment_is_held_under_its_own_quote_and_not_under_a_later_unused_one(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    order = restored(desk, fiat_payout())
    names = {each: reference_of(desk.ledger, order, each) for each in (2, 4, 5)}
    service.plan(FIAT_QUERY, about({names[2]: 22, names[4]: 44, names[5]: 11}))
    order = desk.submission.submit(order)
    assert (order.state, order.generation, order.request_id) == (State.HELD, 4, names[4])
    assert (order.order_no, order.status) == ("F1", 44)


def test_a_quote_that_is_held_unused_has_no_number_of_a_payment(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = restored(desk, fiat_payout())
    names = {each: reference_of(desk.ledger, order, each) for each in (2, 3)}
    service.plan(FIAT_QUERY, about({names[3]: 11}))
    order = desk.submission.submit(order)
    assert (order.state, order.generation, order.order_no, order.status) == (State.HELD, 3, None, None)
    service.plan(FIAT_QUERY, about({names[2]: 22, names[3]: 11}))
    paid = desk.submission.paid_at_service(order)
    order = desk.submission.hold_found(order, paid, "looked at")
    assert (order.state, order.generation, order.order_no, order.status) == (State.HELD, 2, "F1", 22)
    assert steps(desk, order) == ["hold"]


def test_its_own_reference_alone_is_asked_about_where_that_is_enough(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    service.plan(FIAT_QUERY, about({order.request_id: 11}))
    assert list(desk.submission.known_at_service(order, everywhere=False)) == [1]
    assert len(service.sent_to(FIAT_QUERY)) == 1
    service.plan(FIAT_QUERY, ABSENT)
    assert desk.submission.known_at_service(order, everywhere=False) == {}


# --- what tells that the ledger is older -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent_before", "generation", "older"), [(False, 1, True), (True, 1, False), (True, 2, True), (False, 2, True)]
)
def test_only_what_this_ledger_never_sent_tells_that_it_is_older(
    open_desk: OpenDesk, service: Any, sent_before: bool, generation: int, older: bool
) -> None:
    desk = open_desk(service.base_url)
    said: list[str] = []
    rules = desk.settings.evidence(desk.account.rules)
    submission = Submission(desk.client, desk.ledger, rules, found_known=said.append)
    order = plan(desk, fiat_payout())
    if sent_before:
        service.plan(QUOTE, fiat_quote())
        service.plan(CREATE, "drop")
        order = submission.submit(order)
        order = desk.ledger.step(order, Event.RESOLVE_NOT_SENT)
    order = desk.ledger.note(order, unmoved=True, absences_needed=2)
    name = reference_of(desk.ledger, order, generation)
    service.plan(FIAT_QUERY, about({name: 22}))
    order = submission.submit(order)
    assert order.state is State.HELD
    assert said == ([f"the service knows {name}, which this ledger has not sent"] if older else [])
    ours = "this ledger took it for not sent" if sent_before else "this ledger did not send it"
    assert ours in str(order.reason)


# --- on a person's word ----------------------------------------------------------------------------------------------


def to_receive() -> Intent:
    """A fiat payout whose amount is named in what arrives: what it debits is known only from its quote."""
    intent = fiat_payout()
    bounds = Bounds("USDT", "EUR", receive_amount=Decimal("95.00"), max_pay=Decimal(110)).as_dict()
    quote = {**intent.payload["quote"], "quote_mode": "dest", "receive_amount": "95.00"}
    quote.pop("pay_amount")
    payload = {**intent.payload, "quote": quote, "bounds": bounds}
    money = {"amount": None, "receive_amount": Decimal("95.00")}
    return replace(intent, payload=payload, bound_content=payload, **money)  # type: ignore[arg-type]


@pytest.mark.parametrize("shows_currency", [True, False])
def test_what_was_paid_under_an_unknown_quote_is_taken_over_with_its_amount(
    open_desk: OpenDesk, service: Any, shows_currency: bool
) -> None:
    desk = open_desk(service.base_url)
    order = restored(desk, to_receive())
    name = reference_of(desk.ledger, order, 2)

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        found = about({name: 99})(body)
        return found if found == ABSENT or not shows_currency else (200, with_currency(found[1]))

    def with_currency(reply: dict[str, Any]) -> dict[str, Any]:
        return {**reply, "data": {**reply["data"], "pay_currency": "USDT"}}

    service.plan(FIAT_QUERY, answer)
    order = desk.submission.submit(order)
    assert (order.state, order.amount) == (State.HELD, None)
    [decision] = resolve_as_sent(desk, order.request_id, by="Ada Example", why="looked at the portal")
    order = decision.order
    assert (order.state, order.currency, order.amount) == (State.SETTLED, "USDT", Decimal("100.00"))
    assert order.receive_amount == Decimal("95.00")


def test_what_is_shown_under_another_quote_is_recorded_under_that_quote(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, "drop")
    order = desk.submission.submit(plan(desk, fiat_payout()))
    order = desk.ledger.step(order, Event.RESOLVE_SENT)
    name = reference_of(desk.ledger, order, 3)
    service.plan(FIAT_QUERY, about({name: 99}))
    [(generation, seen)] = desk.submission.paid_at_service(order).items()
    moved = desk.ledger.step(order, Event.RESOLVE_NOT_SENT)
    with pytest.raises(IllegalTransition):
        desk.submission.apply_under(order, generation, seen)
    assert desk.ledger.orders() == [moved]
    order = desk.ledger.step(desk.ledger.step(moved, Event.HOLD), Event.RESOLVE_SENT)
    order = desk.submission.apply_under(order, generation, seen)
    assert (order.state, order.generation, order.request_id) == (State.SETTLED, 3, name)
    assert (order.amount, order.receive_amount, order.rate) == (Decimal("100.00"), None, None)


def test_a_payment_of_another_amount_than_asked_stays_unknown(open_desk: OpenDesk, service: Any) -> None:
    """In progress on a person's word, under a quote that this ledger does not know."""
    desk = open_desk(service.base_url)
    order = restored(desk, fiat_payout())
    service.plan(FIAT_QUERY, about({order.request_id: 11}))
    order = desk.ledger.step(desk.submission.submit(order), Event.RESOLVE_SENT)
    service.plan(FIAT_QUERY, lambda body: ok(request_id=body["request_id"], status=99, pay_amount="99.00"))
    for _ in range(2):
        order = desk.submission.ask(order)
        assert (order.state, order.amount) == (State.UNKNOWN, Decimal("100.00"))


def test_a_row_that_was_released_meanwhile_is_not_held_under_another_quote(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = restored(desk, fiat_payout())
    service.plan(FIAT_QUERY, about({order.request_id: 22}))
    held = desk.submission.submit(order)
    paid = desk.submission.paid_at_service(held)
    released = desk.ledger.step(held, Event.RELEASE, reason="looked at")
    with pytest.raises(IllegalTransition):
        desk.submission.hold_found(held, paid, "looked at")
    assert desk.ledger.orders() == [released]


def test_what_arrives_in_another_currency_than_asked_stays_unknown(open_desk: OpenDesk, service: Any) -> None:
    """In progress on a person's word, under a quote that this ledger does not know."""
    desk = open_desk(service.base_url)
    order = restored(desk, fiat_payout())
    service.plan(FIAT_QUERY, about({order.request_id: 11}))
    order = desk.ledger.step(desk.submission.submit(order), Event.RESOLVE_SENT)
    arrives = {"receive_amount": "95.00", "receive_currency": "USD"}
    service.plan(FIAT_QUERY, lambda body: ok(request_id=body["request_id"], order_no="F1", status=99, **arrives))
    for _ in range(2):
        order = desk.submission.ask(order)
        assert (order.state, order.receive_currency) == (State.UNKNOWN, "EUR")
