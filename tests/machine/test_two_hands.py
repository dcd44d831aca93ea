"""Two threads with the same order in their hands: what one of them read long ago moves no money and hides nothing."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import stamina

from tests.machine.honest_books import HonestBooks
from tests.machine.intents import all_intents
from tests.moved_clock import MovedClock, clock_of
from treasury.call import calls
from treasury.errors import IllegalTransition, Stopped
from treasury.ledger.intents import commit_plan
from treasury.ledger.quotes import open_quote
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.payments.desk import Desk
from treasury.provider.client import Account
from treasury.provider.fiat_payouts import CreateFiatPayout, FiatPayoutQuote
from treasury.provider.pacing import Pace
from treasury.sandbox import generate_key_pair
from treasury.settings import Settings


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def books(clock: MovedClock) -> Iterator[HonestBooks]:
    service = HonestBooks(clock)
    yield service
    service.close()


@pytest.fixture
def desk(books: HonestBooks, clock: MovedClock, tmp_path: Path) -> Iterator[Desk]:
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    settings = Settings(tmp_path, books.base_url, "900001", None, None, ledger, tmp_path / "key", 0)
    opened = Desk(Account(books.base_url, "900001", generate_key_pair()[0]), settings, clock=clock)
    opened.client.pace.too_many = lambda *_: None  # type: ignore[method-assign]  # nobody waits for minutes here
    commit_plan(opened.ledger, "run", "test", {}, "0" * 64, all_intents())
    stamina.set_testing(True, attempts=1)
    yield opened
    stamina.set_testing(False)
    opened.close()


def order_of(desk: Desk, row: str) -> Order:
    return next(order for order in desk.ledger.orders() if order.row_ref == row)


def test_evidence_about_an_earlier_transmission_does_not_send_again(books: HonestBooks, desk: Desk) -> None:
    books.moods = ["drop before", "drop before", "answer"]
    order = desk.submission.submit(order_of(desk, "pay-1"))
    slow = desk.submission.submit(order)  # the first absence
    order = desk.submission.submit(slow)  # the second: sent again, and lost again
    assert (order.state, order.sends) == (State.UNKNOWN, 2)
    with pytest.raises(IllegalTransition):
        desk.submission.submit(slow)  # its two absences are about the first transmission
    assert order_of(desk, "pay-1").sends == 2


def test_an_absence_seen_before_a_resend_is_no_evidence_after_it(books: HonestBooks, desk: Desk) -> None:
    books.moods = ["drop before", "drop before"]
    slow = desk.submission.submit(desk.submission.submit(order_of(desk, "pay-1")))
    seen = desk.submission.query(slow)  # a sweep asked, and is slow to record it
    order = desk.submission.submit(slow)
    assert (order.sends, order.absent_since) == (2, None)
    with suppress(IllegalTransition):
        desk.submission.apply(slow, seen)
    assert order_of(desk, "pay-1").absent_since is None


def test_a_status_seen_long_ago_does_not_cover_the_final_one(books: HonestBooks, desk: Desk) -> None:
    slow = desk.submission.submit(order_of(desk, "pay-1"))
    seen = desk.submission.query(slow)
    books.end("123456789012", 99)
    assert desk.submission.ask(slow).state is State.SETTLED
    with suppress(IllegalTransition):
        desk.submission.apply(slow, seen)
    order = order_of(desk, "pay-1")
    assert (order.state, order.status) == (State.SETTLED, 99)


def test_the_quote_that_was_confirmed_is_the_one_that_is_confirmed_again(books: HonestBooks, desk: Desk) -> None:
    slow, _ = open_quote(desk.ledger, order_of(desk, "fiat-1"))
    books.moods = ["drop before"]
    order = desk.submission.submit(order_of(desk, "fiat-1"))  # asked again, and its confirmation was lost
    with pytest.raises(IllegalTransition):
        desk.ledger.note(slow, unmoved=True, confirmation="N-the-other-quote")
    assert order_of(desk, "fiat-1").confirmation == order.confirmation


def test_a_quote_confirmed_by_its_number_is_known_by_it(books: HonestBooks, desk: Desk) -> None:
    """`treasury call create_fiat_payout`: the answer names the request id of whoever asked for the quote."""
    payload = desk.ledger.payload(order_of(desk, "fiat-2"))
    number = desk.client.send(FiatPayoutQuote(request_id="asked-elsewhere", **payload["quote"])).order_no
    order = calls.submit_operation(desk, CreateFiatPayout(order_no=str(number), purpose_code="30"))
    assert order.state is State.ACCEPTED
    books.end("DE02120300000000202052", 99)
    assert desk.submission.ask(order).state is State.SETTLED


def test_a_service_that_asks_to_wait_a_day_does_not_hold_up_the_run(books: HonestBooks, desk: Desk) -> None:
    desk.client.pace = Pace(desk.client._connections, desk.clock)
    real = books.answer
    patient = b'{"code": 429, "message": "later"}'
    books.answer = lambda path, body: (429, patient) if path.endswith("/quote") else real(path, body)  # type: ignore[method-assign]
    books.headers = {"Retry-After": "86400"}
    with pytest.raises(Stopped, match="86400"):
        desk.submission.submit(order_of(desk, "fiat-1"))
    assert order_of(desk, "fiat-1").state is State.PREPARED
    assert clock_of(desk).slept == []
