"""One order on its way out: how often it is tried, what stops it at the last moment, what a refusal leaves behind."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.engine.answers import (
    CREATE,
    ONE_ORDER,
    PAYOUT,
    QUERY,
    QUOTE,
    OpenDesk,
    accepted,
    confirmed,
    fiat_payout,
    fiat_quote,
    payout,
    plan,
    refused,
    shown,
    steps,
)
from tests.moved_clock import clock_of
from treasury.errors import Refused
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.payments.desk import Desk
from treasury.provider.refusals import FINAL
from treasury.provider.service_rules import ServiceRules

pytestmark = ONE_ORDER


def test_an_order_whose_signature_is_refused_is_tried_three_times_in_one_start(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, refused(406))
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.doubtful, order.code) == (State.PREPARED, False, "406")
    assert steps(desk, order) == ["send", "try later"] * 3
    assert [path for path, _ in service.requests] == [PAYOUT, QUERY, PAYOUT, QUERY, PAYOUT]


@pytest.mark.parametrize(
    ("answer", "rules"),
    [((500, {"code": 406, "message": "no"}), {}), (refused(406), {"refused_for_good": frozenset(FINAL) - {"406"}})],
    ids=["from a fault", "where 406 is no refusal for good"],
)
def test_a_wrong_signature_is_believed_only_in_the_services_own_words(
    open_desk: OpenDesk, service: Any, answer: Any, rules: Mapping[str, Any]
) -> None:
    desk = open_desk(service.base_url, service=ServiceRules(**rules))
    service.plan(PAYOUT, answer)
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.doubtful, len(service.sent_to(PAYOUT))) == (State.UNKNOWN, True, 1)


@pytest.mark.parametrize(
    ("answer", "cause", "first_answer"),
    [
        (refused(202203), "refused, and asked about first", "202203"),
        (refused(202203, 499), "refused, and asked about first", "202203"),
        (refused(202203, 500), "an answer that decides nothing", None),
        (refused(31337), "an answer that decides nothing", "31337"),
    ],
)
def test_the_journal_says_what_a_refusal_was_taken_for(
    open_desk: OpenDesk, service: Any, answer: Any, cause: str, first_answer: str | None
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, answer)
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.first_answer) == (State.UNKNOWN, first_answer)
    assert desk.ledger.journal(order)[-1].cause == cause


def test_a_refusal_that_a_fault_carries_rejects_nothing(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, refused(202203, 500), accepted)
    order = desk.submission.submit(plan(desk, payout()))
    for _ in range(2):
        order = desk.submission.submit(order)
    assert (order.state, len(service.sent_to(PAYOUT))) == (State.ACCEPTED, 2)


# --- at the last moment ----------------------------------------------------------------------------------------------


def wait_for_the_pace(desk: Desk, meanwhile: Callable[[], None]) -> None:
    """Let the next request wait, as after a 429; `meanwhile` is called once, while it waits."""
    left = [meanwhile]

    clock_of(desk).meanwhile = lambda: left and left.pop()()
    desk.client.pace.too_many(7.0, desk.clock.monotonic())


def test_nothing_leaves_once_another_answer_refused_the_account_while_it_waited(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, payout())
    service.plan(PAYOUT, accepted)
    wait_for_the_pace(desk, lambda: desk.submission._gate.take_note(Refused("payout", 200, "403", "no")))
    assert desk.submission.submit(order).state is State.ACCEPTED
    assert [path for path, _ in service.requests] == [QUERY, PAYOUT]  # a question that is answered opens the gate


def test_a_quote_that_ends_while_its_confirmation_waits_is_not_confirmed(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)

    def quote_then_wait(body: Mapping[str, Any]) -> tuple[int, Any]:
        wait_for_the_pace(desk, lambda: clock_of(desk).move(61))
        return fiat_quote(transaction_time=None, expire_time=1_800_000_060_000)(body)

    service.plan(QUOTE, quote_then_wait, fiat_quote(transaction_time=None, expire_time=None))
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    first, second = desk.ledger.quotes()
    assert (first.stage, first.note) == ("done", "the quote expired before it could be confirmed")
    assert (order.state, order.sends) == (State.ACCEPTED, 1)
    assert [sent["order_no"] for sent in service.sent_to(CREATE)] == [second.quote]


@pytest.mark.parametrize("again", [False, True], ids=["sent", "sent again"])
def test_a_signature_that_grew_old_leaves_nothing_and_an_earlier_doubt_stays(
    open_desk: OpenDesk, service: Any, again: bool
) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, payout())
    service.plan(PAYOUT, *(["drop"] if again else []), accepted)
    if again:
        order = desk.submission.submit(desk.submission.submit(order))  # lost, and absent for the first time
    grow_old(desk)
    order = desk.submission.submit(order)
    if again:
        assert (order.state, order.doubtful, order.sends) == (State.UNKNOWN, True, 2)
        assert steps(desk, order) == ["send", "lose", "resend", "lose"]
        assert "so it was not sent" in str(order.reason)
    else:
        assert (order.state, order.doubtful, order.sends) == (State.ACCEPTED, False, 2)
        assert steps(desk, order) == ["send", "not sent in time", "send", "accept"]
    assert len(service.sent_to(PAYOUT)) == 1


def grow_old(desk: Desk) -> None:
    """The machine sleeps between signing and sending the next payout."""
    sign, old = desk.client.sign, [6.0]

    def slow(operation: Any) -> Any:
        signed = sign(operation)
        seconds = old.pop() if old and operation.operation_name() == "payout" else 0.0
        return type(signed)(signed.operation, signed.content, signed.at - seconds)

    desk.client.sign = slow  # type: ignore[method-assign]


def test_a_signature_that_stays_old_is_given_up_after_three_tries_and_says_why(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    sign = desk.client.sign

    def slow(operation: Any) -> Any:
        signed = sign(operation)
        return type(signed)(signed.operation, signed.content, signed.at - 6.0)

    desk.client.sign = slow  # type: ignore[method-assign]
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.sends, service.requests) == (State.PREPARED, 3, [])
    assert "so it was not sent" in str(order.reason)


def test_each_exchange_takes_one_connection_and_gives_it_back(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, in_flight=2)
    used: list[int] = []

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        used.append(desk.client._connections._used)
        return accepted(body)

    service.plan(PAYOUT, answer)
    desk.submission.submit(plan(desk, payout()))
    assert (used, desk.client._connections._used) == ([1], 0)


def test_an_interruption_while_an_order_is_sent_leaves_it_marked(open_desk: OpenDesk, service: Any) -> None:
    """Whoever looks at the ledger meanwhile finds it on its way, and a second sender cannot take it."""
    desk = open_desk(service.base_url)
    order = plan(desk, payout())
    arrived, go_on = threading.Event(), threading.Event()

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        arrived.set()
        go_on.wait(10)
        return shown(22)(body)

    service.plan(PAYOUT, answer)
    sent: list[Order] = []
    sender = threading.Thread(target=lambda: sent.append(desk.submission.submit(order)))
    sender.start()
    try:
        assert arrived.wait(10)
        [marked] = desk.ledger.orders()
        assert (marked.state, desk.submission.submit(marked).state) == (State.SENDING, State.SENDING)
    finally:
        go_on.set()
        sender.join(10)
    assert [each.state for each in sent] == [State.ACCEPTED]
    assert len(service.sent_to(PAYOUT)) == 1
