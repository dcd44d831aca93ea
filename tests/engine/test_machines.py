"""Machines that share one ledger in PostgreSQL: what one of them does beside another one ends neither."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection

from tests.engine.intents import commit
from treasury.ledger.ledger import Ledger
from treasury.orders.states import Event, State

pytestmark = [pytest.mark.both_databases]

OpenLedger = Callable[..., Ledger]


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
def test_a_deadlock_with_another_machine_is_no_error(open_ledger: OpenLedger) -> None:
    """A sweep writes the answers about orders in one transaction, in another sequence than a run that follows them."""
    one, other = open_ledger(), open_ledger()
    first, second = (one.step(order, Event.SEND) for order in commit(one, "a", "b"))
    met = threading.Barrier(2, timeout=10)

    def both(ledger: Ledger, orders: list[Any]) -> None:
        tried: list[int] = []

        def work(connection: Connection) -> None:
            tried.append(1)
            for order in orders:
                ledger.note(order, reason="looked at")
                if len(tried) == 1 and order is orders[0]:
                    met.wait()

        ledger.write(work)

    with ThreadPoolExecutor() as pool:
        done = [pool.submit(both, one, [first, second]), pool.submit(both, other, [second, first])]
    for each in done:
        each.result()
    assert {order.reason for order in one.orders(states=(State.SENDING,))} == {"looked at"}
