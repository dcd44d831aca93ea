"""Tests of what was kept of a plan, and somebody changed in the ledger by hand: nobody is shown it, and it decides
nothing."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, update

from tests.engine import paying
from tests.engine.funded import BTC, HELD, PAYOUTS, ROWS, above, adopted, fund_and_pay
from tests.engine.rounds import kinds, policy, start
from tests.engine.runs import pay, sheet
from treasury.errors import ApprovalNeeded, InputError, PlanRejected
from treasury.ledger import schema, snapshots
from treasury.ledger.approvals import reject_plan, waiting_plan
from treasury.pay import agreeing
from treasury.payments.desk import Desk

D = Decimal
OpenDesk = Callable[..., Desk]


def change_by_hand(desk: Desk, old: str, new: str) -> None:
    """Replace a text in everything that was kept of plans, as somebody does who opens the ledger."""
    content = schema.snapshots.c.content
    by_hand = update(schema.snapshots).values(content=func.replace(content, old, new))
    desk.ledger.write(lambda connection: connection.execute(by_hand).rowcount)


def test_approvers_are_shown_no_rate_that_was_changed_by_hand(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    rules = adopted(desk, policy(tmp_path, tail=above("payouts", "USDT_TRC20", "1000"), BTC=BTC))
    payments = paying.plan_of(desk, file, "run", rules)
    shown = agreeing.plan_to_execute(desk, payments, add=False, fund=True)
    assert shown is not None
    [trade] = shown.conversions
    change_by_hand(desk, f'"amount": "{trade.amount.normalize():f}"', '"amount": "7"')
    with pytest.raises(InputError, match="its plan is another one than was shown"):
        paying.propose(desk, payments, rules, shown=shown.sha256)
    assert waiting_plan(desk.ledger, "run") is None
    with pytest.raises(ApprovalNeeded):  # planned anew
        fund_and_pay(desk, file, rules, tmp_path / "out")
    waiting = waiting_plan(desk.ledger, "run")
    assert waiting is not None
    assert " 7 USDT" not in str(waiting.shown)


def test_payments_that_were_rejected_stay_so_whoever_changed_what_was_kept_of_them(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    rules = adopted(desk, policy(tmp_path, tail=above("conversions", "USDT", "500"), BTC=BTC))
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    reject_plan(desk.ledger, "run", by="Checker", why="row b is paid already", os_user="checker")
    change_by_hand(desk, paying.plan_of(desk, file, "run", rules).sha256, "0" * 64)
    sandbox.deposit("USDT_TRC20", "1500")
    with pytest.raises(PlanRejected, match="row b is paid already"):
        pay(desk, file, tmp_path / "out")
    assert kinds(sandbox) == []


def test_a_rate_that_was_changed_by_hand_is_no_last_good_one(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    start(desk, policy(tmp_path, tail=PAYOUTS, BTC=BTC), tmp_path / "out")
    assert "BTC-USDT" in snapshots.last_good_rates(desk.ledger)
    change_by_hand(desk, '"run_key"', '"run_kez"')
    assert snapshots.last_good_rates(desk.ledger) == {}
