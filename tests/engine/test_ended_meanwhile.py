"""Orders that end after they were asked about and before the balance is read, where `debited_when` leaves no range."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.nights import DAY, ROWS, OpenDesk, balance
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.nights import sweep
from treasury.provider.service_rules import ServiceRules
from treasury.sandbox.behaviour import Behaviour

GAP, INFLOW = "balance_gap", "unexplained_inflow"


@pytest.mark.parametrize(
    ("when", "account", "lot"), [("final", "12345670001", GAP), ("accepted", "12345670044", INFLOW)]
)
def test_what_ended_before_the_balance_was_read_is_a_lot_until_the_next_night_asks_about_it(
    when: Any,
    account: str,
    lot: str,
    open_desk: OpenDesk,
    start_sandbox: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sandbox, read = start_sandbox(settle_seconds=1, behaviour=Behaviour(debited_when=when)), sweep._read_balances
    desk = open_desk(sandbox.base_url, service=ServiceRules(debited_when={"payout": when}))
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "first", "first", seconds=20)
    night(desk, tmp_path / "1")
    sandbox.deposit("USDT_TRC20", "-7" if lot == GAP else "7")
    clock_of(desk).move(DAY)
    night(desk, tmp_path / "2")
    clock_of(desk).move(DAY)
    pay(desk, sheet(tmp_path, ("x", "50", account)), tmp_path / "out", seconds=0)

    def late(desk: Any, sweep_id: int, scope: Any, moment: str) -> None:
        if moment == "after":
            sandbox.advance(60)
        read(desk, sweep_id, scope, moment)

    monkeypatch.setattr("treasury.nights.sweep._read_balances", late)
    third = night(desk, tmp_path / "3")
    assert sorted((each["class"], each["lifecycle"]) for each in third["breaks"]) == [(lot, "new"), (lot, "persisting")]
    clock_of(desk).move(DAY)
    fourth = night(desk, tmp_path / "4")
    lots = sorted((each["class"], each["lifecycle"], Decimal(each["amount"])) for each in fourth["breaks"])
    assert lots == [(lot, "persisting", Decimal(7)), (lot, "resolved", Decimal(50))]
    assert balance(fourth)["unexplained"] == ("-7" if lot == GAP else "7")


def test_an_order_that_ends_pays_no_theft_back_from_before_it_was_sent(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url, service=ServiceRules(debited_when={"payout": "final"}))
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "first", "first", seconds=20)
    night(desk, tmp_path / "1")
    sandbox.deposit("USDT_TRC20", "-50")
    clock_of(desk).move(DAY)
    night(desk, tmp_path / "2")
    clock_of(desk).move(DAY)
    pay(desk, sheet(tmp_path, ("x", "50", "12345670005")), tmp_path / "out", seconds=0)
    assert balance(night(desk, tmp_path / "3"))["unexplained"] == "-50"
    sandbox.advance(60)
    sandbox.deposit("USDT_TRC20", "50")
    clock_of(desk).move(DAY)
    fourth = night(desk, tmp_path / "4")
    assert sorted(each["class"] for each in fourth["breaks"]) == [GAP, INFLOW]
