"""A payment that waits, and that somebody who has the database marks as released, is no less a duplicate."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine.approvers import start
from tests.engine.payees import adopt
from tests.engine.rounds import kinds
from tests.engine.runs import sheet
from treasury.ledger import schema
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders

ROW = ("a", "9", "12345670001")


@pytest.mark.both_databases
@pytest.mark.parametrize("by_hand", [True, False], ids=["changed by hand", "changed by nobody"])
def test_a_release_that_was_written_by_hand_pays_nothing_twice(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path, by_hand: bool
) -> None:
    sandbox = start_sandbox()
    desk, orders = open_desk(sandbox.base_url), schema.orders
    adopt(desk, duplicate_days=25)
    first, second = sheet(tmp_path, ROW), sheet(tmp_path, ROW, name="second.csv")
    stop_sending(desk.ledger, "Ada Example", "a look first")
    assert start(desk, first, "first") == {"a": "not_sent"}
    lift_stop(desk.ledger, "Ben Example")
    assert start(desk, second, "second") == {"a": "held"}
    release_orders(desk, "second", None, by="Ben Example", why="this one is meant")
    assert start(desk, second, "second") == {"a": "settled"}
    if by_hand:
        waiting = update(orders).where(orders.c.run_key == "first").values(released="duplicate")
        desk.ledger.write(lambda connection: connection.execute(waiting).rowcount)
    assert start(desk, first, "first") == {"a": "held"}
    assert kinds(sandbox) == ["payout"]
    [order] = desk.ledger.orders(run_key="first")
    assert order.hold_kind == ("changed" if by_hand else "duplicate")
