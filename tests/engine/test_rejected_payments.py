"""A no to payments is a no under their run key, with other conversions, without any, and where rows are added."""

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.approvers import adopt, waits
from tests.engine.funded import BTC, HELD, ROWS, above, adopted, fund_and_pay
from tests.engine.rounds import kinds, policy
from tests.engine.runs import pay, sheet
from treasury.errors import ApprovalNeeded, PlanRejected
from treasury.ledger.approvals import reject_plan
from treasury.payments.approving import approve
from treasury.payments.desk import Desk

D = Decimal
OpenDesk = Callable[..., Desk]

MORE = (*ROWS, ("d", "600", "12345670801"))


def rejected(desk: Desk) -> None:
    """Say no to what waits."""
    reject_plan(desk.ledger, "run", by="Ben", why="row b is paid already", os_user="ben")


@pytest.mark.parametrize("door", ["with it again", "without conversions", "enough came in", "some came in"])
def test_payments_that_were_rejected_with_their_conversions_are_not_paid_without_them(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, door: str
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    rules = adopted(desk, policy(tmp_path, tail=above("conversions", "USDT", "500"), BTC=BTC))
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    rejected(desk)
    if door.endswith("came in"):
        sandbox.deposit("USDT_TRC20", "1500" if door == "enough came in" else "700")
    start = pay if door == "without conversions" else partial(fund_and_pay, rules=rules)
    with pytest.raises(PlanRejected, match="row b is paid already"):
        start(desk, file, out=tmp_path / "out")
    with pytest.raises(PlanRejected, match="row b is paid already"):  # a flow of one's own, that proposes nothing
        paying.commit(desk, file, "run", rules)
    assert kinds(sandbox) == []
    corrected = sheet(tmp_path, ROWS[0], name="corrected.csv")
    sandbox.deposit("USDT_TRC20", "1500")
    assert fund_and_pay(desk, corrected, rules, tmp_path / "out")["counts"] == {"settled": 1}


def test_added_rows_that_were_rejected_with_their_conversions_are_not_paid_without_them(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(1300)})
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    rules = adopted(desk, policy(tmp_path, tail=above("conversions", "USDT", "200"), BTC=BTC))
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    more = sheet(tmp_path, *MORE, name="more.csv")
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, more, rules, tmp_path / "out", add=True)
    rejected(desk)
    sandbox.deposit("USDT_TRC20", "1500")
    with pytest.raises(PlanRejected, match="row b is paid already"):
        fund_and_pay(desk, more, rules, tmp_path / "out", add=True)
    with pytest.raises(PlanRejected, match="row b is paid already"):
        paying.commit(desk, more, "run", rules, add=True)
    assert kinds(sandbox) == ["payout"] * 3


def test_another_policy_lets_rejected_payments_leave_with_its_approvals_alone(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    adopt(desk, {})
    waits(desk, file, maker=None)
    rejected(desk)
    adopt(desk, {}, payouts={"max_per_run": {"USDT_TRC20": "100000"}})
    with pytest.raises(PlanRejected, match="row b is paid already"):
        pay(desk, file, tmp_path / "out")
    assert kinds(sandbox) == []
    adopt(desk, {}, payouts={"one_approval_above": {"USDT_TRC20": "5"}})
    waits(desk, file, maker=None)
    approve(desk, "run", name="Cleo")
    assert pay(desk, file, tmp_path / "out")["counts"] == {"settled": 3}


def test_a_plan_in_between_does_not_let_rejected_payments_leave_without_an_approval(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    rules = adopted(desk, policy(tmp_path, tail=above("conversions", "USDT", "500"), BTC=BTC))
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    rejected(desk)
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, sheet(tmp_path, *MORE, name="more.csv"), rules, tmp_path / "out")
    sandbox.deposit("USDT_TRC20", "1500")
    with pytest.raises(PlanRejected, match="row b is paid already"):
        pay(desk, file, tmp_path / "out")
    assert kinds(sandbox) == []
