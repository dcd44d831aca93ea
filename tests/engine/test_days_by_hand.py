"""Somebody who has the database, and not the ledger's key, changes the day that a payment counts on, or when it ended:
no more leaves on a day than its limit lets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine.approvers import change, later, start
from tests.engine.payees import adopt
from tests.engine.rounds import kinds
from tests.engine.runs import sheet
from treasury.errors import LimitExceeded
from treasury.ledger import schema
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.payments.desk import Desk

pytestmark = pytest.mark.both_databases

LIMIT = {"max_per_day": {"USDT_TRC20": "15"}, "duplicate_days": 25}
ORDERS = schema.orders


def today(desk: Desk) -> str:
    [day] = {each.counted_on for each in desk.ledger.orders(run_key="today")}
    return str(day)


@pytest.mark.parametrize("by_hand", [True, False], ids=["changed by hand", "changed by nobody"])
def test_what_waits_is_judged_on_the_day_that_it_leaves_on(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path, by_hand: bool
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    adopt(desk, **LIMIT)
    before = sheet(tmp_path, ("a", "9", "12345670001"), name="before.csv")
    stop_sending(desk.ledger, "Ada Example", "a look first")
    assert start(desk, before, "before") == {"a": "not_sent"}
    lift_stop(desk.ledger, "Ben Example")
    later(desk, 24)
    assert start(desk, sheet(tmp_path, ("b", "10", "12345670002")), "today") == {"b": "settled"}
    if by_hand:
        change(desk, update(ORDERS).where(ORDERS.c.run_key == "before").values(counted_on=today(desk)))
    assert start(desk, before, "before") == {"a": "held"}
    assert kinds(sandbox) == ["payout"]
    [order] = desk.ledger.orders(run_key="before")
    assert order.hold_kind == ("changed" if by_hand else "limit")


HIDDEN: list[dict[str, Any]] = [
    *({"counted_on": None}, {"counted_on": "2020-01-01"}, {"state": "failed"}, {"state": "cancelled"}),
    {"state": "held", "hold_kind": "limit"},
]


@pytest.mark.parametrize("hidden", HIDDEN, ids=lambda each: "-".join(map(str, each.values())))
def test_what_was_paid_counts_whoever_hides_it(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path, hidden: dict[str, Any]
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    adopt(desk, **LIMIT)
    assert start(desk, sheet(tmp_path, ("b", "10", "12345670002")), "today") == {"b": "settled"}
    change(desk, update(ORDERS).where(ORDERS.c.run_key == "today").values(**hidden))
    with pytest.raises(LimitExceeded, match="10 count already"):
        start(desk, sheet(tmp_path, ("a", "9", "12345670001"), name="more.csv"), "more")
    assert kinds(sandbox) == ["payout"]


@pytest.mark.parametrize("hidden", [{"final_at": 1}, *HIDDEN[2:]], ids=lambda each: "-".join(map(str, each.values())))
def test_what_was_paid_is_not_paid_twice_whoever_hides_it(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path, hidden: dict[str, Any]
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    adopt(desk, duplicate_days=25)
    row = ("a", "9", "12345670001")
    assert start(desk, sheet(tmp_path, row), "first") == {"a": "settled"}
    change(desk, update(ORDERS).values(**hidden))
    assert start(desk, sheet(tmp_path, row, name="second.csv"), "second") == {"a": "held"}
    assert kinds(sandbox) == ["payout"]
    [order] = desk.ledger.orders(run_key="first")
    assert order.hold_kind == "changed"
