"""Held payments count on no day; once released they are judged by the day's account again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.judged import PERSON, adopt, start
from tests.engine.runs import sheet
from treasury.orders.states import Hold
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders

pytestmark = pytest.mark.both_databases

OpenDesk = Callable[..., Desk]


def test_what_was_held_is_judged_by_the_day_again_once_it_is_released(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, payouts={"max_per_day": {"USDT_TRC20": "100"}, "new_payee_above": {"USDT_TRC20": "50"}})
    new = sheet(tmp_path, ("a", "60", "12345670001"))
    assert start(desk, new, "new") == {"a": "held"}
    assert start(desk, sheet(tmp_path, ("b", "50", "12345670002"), name="b.csv"), "other") == {"b": "settled"}
    release_orders(desk, "a", None, **PERSON)
    assert start(desk, new, "new") == {"a": "held"}
    [held] = desk.ledger.orders(reference="a")
    assert held.hold_kind == Hold.LIMIT
    assert "50 count already, and it adds 60" in str(held.reason)


def test_a_duplicate_that_its_row_excuses_is_judged_by_the_day_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, payouts={"max_per_day": {"USDT_TRC20": "100"}})
    row = ("a", "40", "12345670001")
    assert start(desk, sheet(tmp_path, row), "first") == {"a": "settled"}
    assert start(desk, sheet(tmp_path, row), "again") == {"a": "held"}
    assert start(desk, sheet(tmp_path, ("b", "60", "12345670002"), name="b.csv"), "other") == {"b": "settled"}
    assert start(desk, sheet(tmp_path, row, why="paid twice"), "again") == {"a": "held"}
    [held] = desk.ledger.orders(run_key="again")
    assert held.hold_kind == Hold.LIMIT
