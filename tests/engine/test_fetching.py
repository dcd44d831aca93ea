"""Quotes that are fetched before they are confirmed: counted, in time, and never the end of a run by mistake."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands.office import eventually, quoted_sheet
from tests.engine import paying
from tests.moved_clock import RUNS, clock_of
from treasury.errors import InputError, Stopped
from treasury.orders.states import State
from treasury.payments import execution
from treasury.payments.desk import Desk

OpenDesk = Callable[..., Desk]
ROWS = 80


def recorded(desk: Desk, folder: Path, rows: int = ROWS) -> list[int]:
    """A run of so many quoted rows; ids of its orders."""
    return [each for ids in paying.commit(desk, quoted_sheet(folder, rows), "run") for each in ids]


def effects(sandbox: Any) -> list[int]:
    return [order["effects"] for order in sandbox.orders() if order["effects"]]


def test_rows_that_an_earlier_start_left_with_one_reason_are_quoted_and_paid(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """A row's words from before it was quoted are no failure of its quote."""
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    ids = recorded(desk, tmp_path)
    with desk.hold("run"):
        desk.checked_runs.add("run")
        for order in desk.ledger.orders(run_key="run"):
            desk.ledger.note(order, reason="the run was stopped: somebody said so")
        assert execution.fetch_quotes(desk, "run", ids) == ROWS
        assert execution.send_orders(desk, "run", ids) == ROWS
    assert effects(sandbox) == [1] * ROWS


@pytest.mark.parametrize(("run_key", "more"), [("another", []), ("run", [10**6])])
def test_orders_that_are_not_the_runs_are_refused_and_nothing_is_sent(
    run_key: str, more: list[int], open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """Prefect may hand on what was returned in another run, or over another ledger: that is no run that settled."""
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    ids = recorded(desk, tmp_path, 3)
    with pytest.raises(InputError, match=f"run {run_key} does not have all of these orders"):
        execution.send_orders(desk, run_key, [*ids, *more])
    assert effects(sandbox) == []
    assert execution.send_orders(desk, "run", [*ids, *ids]) == 3


def test_only_what_was_quoted_is_counted_and_fetching_again_asks_for_nothing(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    ids = recorded(desk, tmp_path, 10)
    held, *_ = desk.ledger.orders(run_key="run")
    desk.ledger.note(held, absences_needed=2)
    with desk.hold("run"):
        desk.checked_runs.add("run")
        assert execution.fetch_quotes(desk, "run", ids) == 9
        before = [(quote.request_id, quote.asks) for quote in desk.ledger.quotes()]
        assert execution.fetch_quotes(desk, "run", ids) == 9
    assert [(quote.request_id, quote.asks) for quote in desk.ledger.quotes()] == before
    assert effects(sandbox) == []


def test_fifty_quotes_that_fail_for_the_same_reason_stop_the_run(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(faults={"unlisted_code_after": 1.0})
    desk = open_desk(sandbox.base_url)
    ids = recorded(desk, tmp_path, 300)
    with desk.hold("run"):
        desk.checked_runs.add("run")
        assert execution.fetch_quotes(desk, "run", ids) == 0
        asked = len(desk.ledger.quotes())
        assert 50 <= asked <= 50 + desk.in_flight
        assert execution.send_orders(desk, "run", ids) == 0
    assert {order.state for order in desk.ledger.orders()} == {State.PREPARED}


@RUNS
def test_fetching_ends_long_before_the_first_quote_does(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(quote_seconds=3.0, faults={"slow": 1.0}, slow_seconds=0.4)
    desk = open_desk(sandbox.base_url)
    desk.in_flight = 4
    ids = recorded(desk, tmp_path, 40)
    with desk.hold("run"):
        desk.checked_runs.add("run")
        quoted = execution.fetch_quotes(desk, "run", ids)
        assert 4 <= quoted < 40
        desk.in_flight = 16
        assert execution.send_orders(desk, "run", ids) == 40
    assert effects(sandbox) == [1] * 40


def test_quotes_that_ended_since_an_earlier_start_do_not_end_the_fetching(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(quote_seconds=4.0)
    desk = open_desk(sandbox.base_url)
    desk.in_flight = 1
    ids = recorded(desk, tmp_path, 20)
    with desk.hold("run"):
        desk.checked_runs.add("run")
        assert execution.fetch_quotes(desk, "run", ids[:2]) == 2
        clock_of(desk).move(4.1)
        assert execution.fetch_quotes(desk, "run", ids) == 18
        assert execution.send_orders(desk, "run", ids) == 20
    assert effects(sandbox) == [1] * 20


def test_a_run_that_an_error_ended_says_so_instead_of_sending_nothing(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    ids = recorded(desk, tmp_path, 3)
    with desk.hold("run"):
        with pytest.raises(InputError), desk.hold("run"):
            raise InputError("something went wrong in one of its tasks")
        for go_on in (execution.fetch_quotes, execution.send_orders):
            with pytest.raises(Stopped, match="start it again"):
                go_on(desk, "run", ids)
    assert effects(sandbox) == []
    assert execution.send_orders(desk, "run", ids) == 3


@pytest.mark.both_databases
def test_an_error_in_one_thread_ends_what_another_thread_sends(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(faults={"slow": 1.0}, slow_seconds=0.2)
    desk = open_desk(sandbox.base_url)
    desk.in_flight = 2
    ids = recorded(desk, tmp_path, 60)
    raised: list[BaseException] = []

    def send() -> None:
        try:
            execution.send_orders(desk, "run", ids)
        except Stopped as error:
            raised.append(error)

    def fail_meanwhile() -> None:
        with desk.hold("run"):
            desk.checked_runs.add("run")
            sender.start()
            eventually(lambda: bool(effects(sandbox)), 20)
            raise InputError("something went wrong")

    sender = threading.Thread(target=send)
    with pytest.raises(InputError):
        fail_meanwhile()
    sender.join(30)
    assert not sender.is_alive()
    assert len(raised) == 1
    assert 0 < len(effects(sandbox)) < 60
    assert execution.send_orders(desk, "run", ids) == 60
    assert effects(sandbox) == [1] * 60
