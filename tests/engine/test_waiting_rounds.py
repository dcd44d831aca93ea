"""A rebalancing that waited for an approval is carried out only while what it trades is still needed."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.funded import HELD, PAYOUTS, ROWS, above, adopted, approve, fund_and_pay, record
from tests.engine.rounds import available, kinds, policy, start
from tests.engine.runs import sheet
from tests.moved_clock import clock_of
from treasury.errors import ApprovalNeeded, InputError
from treasury.orders.states import State
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.rebalance import rebalancing, trade_orders
from treasury.rebalance.consent import say_yes
from treasury.rebalance.rebalancing import run_key_of_day

D = Decimal
OpenDesk = Callable[..., Desk]

ETH = ("4", "5", "6")


def waiting(desk: Desk, rules: Path, out: Path) -> str:
    """Start a rebalancing that waits for an approval, and approve it; returns its run key."""
    say_yes(desk, governing(desk).version)
    with pytest.raises(ApprovalNeeded):
        start(desk, rules, out)
    policy_in_force = governing(desk).policy
    assert policy_in_force is not None
    run_key = run_key_of_day(policy_in_force, desk.clock.now())
    approve(desk, run_key)
    return run_key


def test_what_came_in_meanwhile_is_not_bought_again(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances={"USDT": D(50000), "ETH": D(0)})
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=above("conversions", "USDT", "3000"), ETH=ETH))
    waiting(desk, rules, tmp_path / "out")
    sandbox.deposit("ETH", "5")
    assert start(desk, rules, tmp_path / "out")["counts"] == {}
    assert kinds(sandbox) == []
    assert available(sandbox, "ETH") == 5


def test_a_plan_that_is_still_needed_is_carried_out_as_it_was_approved(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(50000), "ETH": D(0)})
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=above("conversions", "USDT", "3000"), ETH=ETH))
    run_key = waiting(desk, rules, tmp_path / "out")
    assert start(desk, rules, tmp_path / "out")["counts"] == {"settled": 1}
    assert [order.run_key for order in desk.ledger.orders()] == [run_key]


def test_what_a_payment_run_bought_and_paid_meanwhile_is_not_bought_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    tail = above("conversions", "USDT", "100")
    rules = adopted(desk, policy(tmp_path, tail=tail, BTC=("0", "0.4", "0.9"), USDT_TRC20=("0", "0", "100000")))
    with pytest.raises(ApprovalNeeded):
        record(desk, file, rules)
    waiting(desk, rules, tmp_path / "rebalanced")
    approve(desk)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert kinds(sandbox).count("conversion_execute") == 1
    assert start(desk, rules, tmp_path / "rebalanced")["counts"] == {}
    assert kinds(sandbox).count("conversion_execute") == 1


def test_an_older_plan_that_is_named_by_its_hash_is_refused_once_it_is_not_needed(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(50000), "ETH": D(0)})
    desk = open_desk(sandbox.base_url)
    more = "max_rate_age_seconds = 86400"
    rules = adopted(desk, policy(tmp_path, more, tail=PAYOUTS, ETH=ETH))
    say_yes(desk, governing(desk).version)
    planned = rebalancing.propose(desk, rebalancing.planned_round(desk, None, rules, {}, None), rules)
    sandbox.deposit("ETH", "5")
    clock_of(desk).move(301)
    with pytest.raises(InputError, match="not needed any more"):
        rebalancing.planned_round(desk, None, rules, {}, planned["plan_sha256"])


def test_a_round_that_a_kill_left_unsent_is_not_made_once_it_is_not_needed(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(50000), "ETH": D(0)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, ETH=ETH)
    planned = rebalancing.propose(desk, rebalancing.planned_round(desk, None, rules, {}, None), rules)
    plan = rebalancing.kept_plan(desk, planned)
    assert trade_orders.record_trades(desk, planned["run_key"], plan, rules)  # and is killed
    sandbox.deposit("ETH", "5")
    assert start(desk, rules, tmp_path / "out")["counts"] == {}
    assert kinds(sandbox) == []
    assert [order.state for order in desk.ledger.orders()] == [State.CANCELLED]
