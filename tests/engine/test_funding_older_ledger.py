"""Fund and pay from a ledger that may be older than the service: its rows are asked about before it converts."""

import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.funded import BTC, HELD, PAYOUTS, ROWS, fund_and_pay, record, rules_of_a_day
from tests.engine.rounds import kinds, policy, start
from tests.engine.runs import results, sheet
from tests.moved_clock import clock_of
from treasury.orders.states import State
from treasury.payments.desk import Desk
from treasury.rebalance import rebalancing

D = Decimal
OpenDesk = Callable[..., Desk]

DONE = ["conversion_execute", *["payout"] * 3]


@pytest.mark.parametrize("is_new", [True, False])
def test_nothing_is_converted_for_a_run_that_another_ledger_paid(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, is_new: bool
) -> None:
    sandbox = start_sandbox(balances=HELD)
    first, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    assert fund_and_pay(first, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    first.close()
    if is_new:  # a machine that never sent; else the token of the machine knows of sends that the ledger does not know
        for token in tmp_path.rglob("*.token"):
            token.unlink()
    second = open_desk(sandbox.base_url, ledger=f"sqlite:///{tmp_path / 'another.db'}")
    assert fund_and_pay(second, file, rules, tmp_path / "again")["counts"] == {"held": 3}
    assert kinds(sandbox) == DONE


@pytest.mark.sqlite_alone
def test_a_rebalancing_buys_nothing_for_rows_that_may_have_been_paid(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    other = sheet(tmp_path, ("z", "5", "12345670901"), name="other.csv")
    assert fund_and_pay(desk, other, rules, tmp_path / "other", "other")["counts"] == {"settled": 1}
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    desk.close()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    desk = open_desk(sandbox.base_url)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    desk.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "ledger.db")
    desk = open_desk(sandbox.base_url)
    start(desk, rules, tmp_path / "rebalanced")
    assert kinds(sandbox).count("conversion_execute") == 1
    [note] = rebalancing.plan_round(desk, rules, None).decided.notes
    assert "1200 USDT_TRC20 are kept for payments that may have been made" in note


def test_in_an_epoch_a_new_run_is_funded_once_its_rows_and_its_conversion_were_asked_about(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules, file = open_desk(sandbox.base_url, resend_after=60.0), rules_of_a_day(tmp_path), sheet(tmp_path, *ROWS)
    desk.begin_epoch("a test says so")
    for number in range(3):
        found = fund_and_pay(desk, file, rules, tmp_path / "out", seconds=1)
        assert found["counts"] == {"not_sent": 3}, number
        reason = next(iter(results(tmp_path / "out").values()))["reason"]
        assert "second query" in reason or "asked about" in reason
        if number != 1:  # too early: nothing changes
            clock_of(desk).move(61)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert kinds(sandbox) == DONE
    assert [order.state for order in desk.ledger.orders(run_key="run.fund")] == [State.SETTLED]
    assert desk.ledger.run("run.fund-2") is None


def test_in_an_epoch_a_recorded_conversion_that_is_needed_no_more_is_not_made(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules, file = open_desk(sandbox.base_url, resend_after=60.0), rules_of_a_day(tmp_path), sheet(tmp_path, *ROWS)
    desk.begin_epoch("a test says so")
    fund_and_pay(desk, file, rules, tmp_path / "out", seconds=1)
    clock_of(desk).move(61)
    fund_and_pay(desk, file, rules, tmp_path / "out", seconds=1)
    assert len(desk.ledger.orders(run_key="run.fund", states=(State.PREPARED,))) == 1
    sandbox.deposit("USDT_TRC20", "1000")
    clock_of(desk).move(61)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert kinds(sandbox) == ["payout"] * 3
