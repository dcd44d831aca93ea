"""Two processes that reconcile at the same time: what one of them reported stays, and nothing counts twice."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.engine.intents import commit
from tests.moved_clock import MovedClock
from treasury.ledger import closing, sweeps
from treasury.ledger.ledger import Ledger
from treasury.orders.states import Event
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.order_statement import draw_statement
from treasury.reconciliation.scope import Scope

pytestmark = pytest.mark.both_databases

OpenLedger = Callable[..., Ledger]
D = Decimal


def begin(ledger: Ledger, scope: Scope = Scope()) -> int:
    return sweeps.record_sweep(ledger, scope, [], since=ledger.now() + 1)


def close(ledger: Ledger, sweep_id: int, scope: Scope = Scope()) -> None:
    closing.close_sweep(ledger, sweep_id, scope, ServiceRules())


def read(ledger: Ledger, sweep_id: int, balance: str) -> None:
    closing.record_balances(ledger, sweep_id, "after", {"USDT": closing.ShownBalance(D(balance), None)})


def test_a_balance_that_is_read_after_the_report_was_made_changes_nothing_of_it(open_ledger: OpenLedger) -> None:
    ledger, late = open_ledger(), open_ledger()
    sweep_id = begin(ledger)
    read(ledger, sweep_id, "100")
    close(ledger, sweep_id)
    read(late, sweep_id, "90")
    [night] = closing.balance_nights(ledger)["USDT"]
    assert night.balance == D(100)


def test_two_sweeps_at_the_same_time_count_each_step_once(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    orders = commit(ledger, "a", "b")
    close(ledger, begin(ledger))
    whole, narrowed = begin(ledger), begin(ledger, Scope(window_days=30))
    read(ledger, whole, "100")
    sent = [ledger.step(order, Event.SEND) for order in orders]
    ledger.step(sent[0], Event.SETTLE)
    close(ledger, narrowed, Scope(window_days=30))
    ledger.step(sent[1], Event.SETTLE)
    close(ledger, whole)
    last = sweeps.last_reported_sweep(ledger, Scope())
    assert last is not None
    assert last.id == whole
    nights: list[Any] = closing.balance_nights(ledger)["USDT"]
    assert sum(night.flows.arrived for night in nights) == D(20)
    close(ledger, begin(ledger))
    nights = closing.balance_nights(ledger)["USDT"]
    assert sum(night.flows.arrived for night in nights) == D(20)


def test_a_sweep_that_ends_while_another_one_is_drawn_is_followed_by_it(
    open_ledger: OpenLedger, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, other = open_ledger(), open_ledger()
    [order] = commit(ledger, "a")
    first, second = begin(ledger), begin(other, Scope(window_days=30))
    read(ledger, first, "100")
    ledger.step(ledger.step(order, Event.SEND), Event.SETTLE)
    ended: list[int] = []

    def ends_meanwhile(*given: Any) -> Any:
        if not ended:
            ended.append(second)
            close(other, second, Scope(window_days=30))
            clock.move(1)
        return draw_statement(*given)

    monkeypatch.setattr("treasury.ledger.closing.draw_statement", ends_meanwhile)
    close(ledger, first)
    nights: list[Any] = closing.balance_nights(ledger)["USDT"]
    assert sum(night.flows.arrived for night in nights) == D(10)
    assert nights[-1].balance == D(100)
