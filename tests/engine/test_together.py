"""Steps that share a commit are made together; one whose order is elsewhere takes no other with it."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text, update

from tests.engine.intents import commit, intent
from treasury.concurrency.turns import run_concurrently
from treasury.errors import CannotGoOn, ConfigurationError, IllegalTransition, RunHeld
from treasury.ledger import schema, sessions
from treasury.ledger.database import open_engine
from treasury.ledger.intents import commit_plan
from treasury.ledger.ledger import Ledger
from treasury.ledger.quotes import finish_quote, note_quote, open_quote
from treasury.orders.records import Order
from treasury.orders.states import Event, State

pytestmark = pytest.mark.both_databases

OpenLedger = Callable[..., Ledger]


@contextmanager
def gathered(ledger: Ledger) -> Any:
    """Write in one group what is begun in this block: the writer is busy until it ends."""
    busy, go_on = threading.Event(), threading.Event()
    first = threading.Thread(target=ledger.write, args=(lambda _: (busy.set(), go_on.wait(10)),))
    first.start()
    busy.wait(10)
    try:
        yield
    finally:
        go_on.set()
        first.join()


def step_all(ledger: Ledger, orders: list[Order], event: Event) -> list[Order | str]:
    """Take a step with each, all in one group; the order after it, or what went wrong."""

    def step(order: Order) -> Order | str:
        try:
            return ledger.step(order, event, order_no=f"P-{order.row_ref}")
        except IllegalTransition as error:
            return type(error).__name__

    found: list[Order | str] = []
    with gathered(ledger):
        thread = threading.Thread(target=lambda: found.extend(run_concurrently(step, orders, len(orders))))
        thread.start()
        while ledger._writer._queue.qsize() < len(orders):
            thread.join(0.01)
    thread.join()
    return found


def test_a_group_gives_each_caller_its_order_as_it_is_in_the_ledger_then(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    orders = commit(ledger, *"abcdefgh")
    stepped = step_all(ledger, orders, Event.SEND)
    assert stepped == ledger.orders(run_key="run")
    assert {(order.state, order.sends, order.order_no) for order in ledger.orders(run_key="run")} == {
        (State.SENDING, 1, f"P-{ref}") for ref in "abcdefgh"
    }
    for order in orders:
        [line] = ledger.journal(order)
        assert (line.event, line.source, line.target) == ("send", "prepared", "sending")


def test_one_that_was_moved_meanwhile_is_refused_alone(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    orders = commit(ledger, *"abcde")
    other = open_ledger()
    other.step(other.orders(run_key="run")[2], Event.HOLD, cause="another process")
    stepped = step_all(ledger, orders, Event.SEND)
    assert [each if isinstance(each, str) else each.state.value for each in stepped] == [
        "sending", "sending", "IllegalTransition", "sending", "sending",
    ]  # fmt: skip
    found = ledger.orders(run_key="run")
    assert [order.state for order in found] == [State.SENDING] * 2 + [State.HELD] + [State.SENDING] * 2
    assert [len(ledger.journal(order)) for order in found] == [1] * 5
    assert [order.sends for order in found] == [1, 1, 0, 1, 1]


def test_the_same_step_twice_in_one_group_is_taken_once(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    [order, other] = commit(ledger, "a", "b")
    stepped = step_all(ledger, [order, order, other], Event.SEND)
    assert sorted(each if isinstance(each, str) else each.row_ref for each in stepped) == [
        "IllegalTransition",
        "a",
        "b",
    ]
    assert [order.sends for order in ledger.orders(run_key="run")] == [1, 1]
    assert len(ledger.journal(order)) == 1


def test_quotes_are_opened_and_noted_together(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    orders = commit(ledger, *"abcd")
    other = open_ledger()
    other.step(other.orders(run_key="run")[1], Event.HOLD, cause="another process")

    def quote(order: Order) -> str:
        try:
            asked, first = open_quote(ledger, order)
            assert first is not None
            finish_quote(ledger, first, "unfit")
            moved, second = open_quote(ledger, asked)
            assert second is not None
            assert moved.generation == 2
            noted = note_quote(ledger, second, quote=f"Q-{order.row_ref}", pay_amount=Decimal("10.00"))
        except IllegalTransition:
            return "moved"
        assert noted.pay_amount == Decimal("10.00")
        return noted.request_id

    found = run_concurrently(quote, orders, len(orders))
    assert [each == "moved" for each in found] == [False, True, False, False]
    for order, request_id in zip(ledger.orders(run_key="run"), found, strict=True):
        kept = ledger.quotes([order.id])
        if request_id == "moved":
            assert kept == []
            continue
        assert [(each.generation, each.quote) for each in kept] == [(1, None), (2, f"Q-{order.row_ref}")]
        assert kept[1].request_id == order.request_id == request_id
        assert (order.generation, order.confirmation, kept[1].pay_amount) == (2, None, Decimal("10.00"))


def test_a_quote_may_be_opened_and_noted_in_one_transaction(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    [order, moved] = commit(ledger, "a", "b")
    other = open_ledger()
    other.step(other.orders(run_key="run")[1], Event.HOLD, cause="another process")

    def work(one: Order) -> None:
        ledger.write(lambda _: finish_quote(ledger, open_quote(ledger, one)[1], "lost"))

    work(order)
    with pytest.raises(IllegalTransition):
        work(moved)
    assert [(each.order_id, each.note, each.stage) for each in ledger.quotes()] == [(order.id, "lost", "done")]


def test_more_steps_than_one_statement_takes(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    commit_plan(ledger, "run", "payout", {}, "0" * 64, [intent(f"r{number}") for number in range(6_000)])
    orders = ledger.orders(run_key="run")
    ledger.write(lambda _: [ledger.step(order, Event.SEND, code=None, reason=None) for order in orders])
    found = ledger.orders(run_key="run")
    assert {(order.state, order.sends) for order in found} == {(State.SENDING, 1)}
    assert all(len(ledger.journal(order)) == 1 for order in found[::500])


def test_amounts_times_and_flags_come_back_from_a_group_as_from_the_ledger(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    [order] = commit(ledger, "a")
    sent = ledger.step(order, Event.SEND)
    lost = ledger.step(sent, Event.LOSE, cause="no answer", reason="no answer")
    assert lost.doubtful is True
    noted = ledger.note(lost, unmoved=True, absent_since=12345, fee="1.50", fee_currency="USDT", absences_needed=1)
    assert noted == ledger.orders(run_key="run")[0]
    settled = ledger.step(noted, Event.SETTLE, status=99, order_no="P")
    assert settled == ledger.orders(run_key="run")[0]
    assert settled.payload is None


def test_a_long_text_is_kept_whole(open_ledger: OpenLedger) -> None:
    """PostgreSQL refused what was longer than its column, and with it a night."""
    ledger, long = open_ledger(), "P" * 3000
    [order] = commit(ledger, "a")
    assert ledger.step(ledger.step(order, Event.SEND), Event.ACCEPT, order_no=long).order_no == long
    assert ledger.orders(run_key="run")[0].order_no == long


def test_a_hold_that_shares_a_group_made_again_is_let_go_whole(open_ledger: OpenLedger) -> None:
    ledger, other = open_ledger(), open_ledger()
    [order] = commit(ledger, "a")
    other.step(other.orders(run_key="run")[0], Event.HOLD, cause="another process")
    let_go = threading.Event()

    def hold_for_a_while() -> None:
        with ledger.hold("run"):
            let_go.wait(10)

    holder = threading.Thread(target=hold_for_a_while)
    with gathered(ledger):
        holder.start()
        stepping = threading.Thread(target=lambda: run_concurrently(lambda each: _refused(ledger, each), [order], 1))
        stepping.start()
        time.sleep(0.3)
    stepping.join()
    with pytest.raises(RunHeld, match=str(os.getpid())), other.hold("run"):
        pass
    let_go.set()
    holder.join()
    with other.hold("run") as fresh:
        assert fresh


@pytest.mark.parametrize("company", [0, 3])
def test_what_is_refused_leaves_nothing_of_what_it_did(open_ledger: OpenLedger, company: int) -> None:
    """Alone, and in a group whose others are written all the same."""
    ledger = open_ledger()
    orders = commit(ledger, *"abcd")

    def refused(connection: Connection) -> None:
        ledger.step(orders[0], Event.SEND)
        connection.execute(update(schema.orders).values(order_no="P"))
        raise RunHeld("run", "somebody")

    def step(order: Order) -> str:
        try:
            ledger.write(refused) if order is orders[0] else ledger.step(order, Event.SEND)
        except RunHeld as error:
            return type(error).__name__
        return "stepped"

    said: list[str] = []
    with gathered(ledger):
        thread = threading.Thread(target=lambda: said.extend(run_concurrently(step, orders[: 1 + company], 4)))
        thread.start()
        while ledger._writer._queue.qsize() < 1 + company:
            thread.join(0.01)
    thread.join()
    assert said == ["RunHeld", "stepped", "stepped", "stepped"][: 1 + company]
    states = [State.PREPARED, *[State.SENDING] * company, *[State.PREPARED] * (3 - company)]
    assert [(order.state, order.order_no) for order in ledger.orders()] == [(state, None) for state in states]
    assert [len(ledger.journal(order)) for order in ledger.orders()] == [state is State.SENDING for state in states]


def _refused(ledger: Ledger, order: Order) -> None:
    with pytest.raises(IllegalTransition):
        ledger.step(order, Event.SEND)


def test_a_lock_that_nobody_lets_go_is_waited_for_once_and_told(
    open_ledger: OpenLedger, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL waited for ever, without a word; SQLite once more for each that waited."""
    monkeypatch.setitem(sessions._SETTINGS, "lock_timeout", "300ms")
    ledger, groups = open_ledger(), list[int]()
    orders = commit(ledger, *"abcde")
    if ledger_url.startswith("sqlite"):
        ledger.write(lambda connection: connection.exec_driver_sql("PRAGMA busy_timeout=300"))
    writer, said = ledger._writer, list[str]()
    whole = writer._commit
    monkeypatch.setattr(writer, "_commit", lambda group, **more: (groups.append(len(group)), whole(group, **more)))

    def step(order: Order) -> None:
        with pytest.raises(CannotGoOn) as error:
            ledger.step(order, Event.SEND)
        said.append(str(error.value))

    with locked(ledger_url):
        first = threading.Thread(target=step, args=(orders[0],))
        first.start()
        while not groups:
            first.join(0.01)
        run_concurrently(step, orders[1:], 4)
        first.join()
        if not ledger_url.startswith("sqlite"):  # whose readers wait for nobody
            with pytest.raises(CannotGoOn, match=r"cannot be read.*another program holds a lock"):
                ledger.orders()
    assert len(said) == 5
    assert all("cannot be written" in each and "another program holds a lock on it" in each for each in said)
    assert sum(groups) == 5
    assert [order.state for order in ledger.orders()] == [State.PREPARED] * 5


@contextmanager
def locked(ledger_url: str) -> Iterator[None]:
    """Somebody else's session holds a lock on the ledger until the block ends."""
    engine = open_engine(ledger_url, writes=True)
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("LOCK TABLE orders"))
        yield
    engine.dispose()


def test_an_unwritable_ledger_is_said_to_everyone_who_waits(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}", "http://127.0.0.1:1|1", tmp_path / "key")
    [order] = commit(ledger, "a")
    ledger.write(lambda connection: connection.exec_driver_sql("DROP TABLE journal"))
    with pytest.raises(ConfigurationError, match="the ledger cannot be written"):
        ledger.step(order, Event.SEND)
    assert ledger.orders(run_key="run")[0].state is State.PREPARED
    ledger.close()
