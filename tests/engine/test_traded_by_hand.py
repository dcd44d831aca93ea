"""Somebody who has the database, and not the ledger's key, writes that an earlier round was worth nothing: no more is
traded on its day than the policy lets."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine.approvers import change, later
from tests.engine.approvers import start as start_of_payments
from tests.engine.funded import BTC as BTC_OF_FUNDS
from tests.engine.funded import HELD, ROWS, above, adopted, approve, convert, fund_and_pay, propose, record
from tests.engine.rounds import kinds, policy, start, traded
from tests.engine.runs import sheet
from tests.moved_clock import clock_of
from treasury.errors import ApprovalNeeded, LimitExceeded
from treasury.ledger import schema
from treasury.payments.desk import Desk

BTC = ("0.2", "0.4", "0.6")
pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize("by_hand", [True, False], ids=["changed by hand", "changed by nobody"])
@pytest.mark.parametrize(
    "limit", ['max_value_per_day = "100000"', 'max_per_pair = {"BTC-USDT" = "100000"}', 'max_cost_per_day = "200"']
)
def test_what_an_earlier_round_was_worth_counts(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path, limit: str, by_hand: bool
) -> None:
    sandbox = start_sandbox(balances={"USDT": Decimal(100_000), "BTC": Decimal(2)})
    desk = open_desk(sandbox.base_url)
    rules = policy(tmp_path, tail=f"[conversions]\n{limit}\n", BTC=BTC)
    start(desk, rules, tmp_path / "one")
    first = traded(desk)
    assert first
    [run_key] = {order.run_key for order in desk.ledger.orders()}
    run = desk.ledger.run(run_key)
    assert run is not None
    if by_hand:
        plan = {**run.plan, "trades": [{**each, "value": "0", "cost": "0"} for each in run.plan["trades"]]}
        change(desk, update(schema.runs).values(plan=json.dumps(plan)))
    sandbox.deposit("BTC", "1")
    with pytest.raises(LimitExceeded, match="changed in the ledger by hand" if by_hand else "max_"):
        start(desk, rules, tmp_path / "two")
    assert traded(desk) == first
    if by_hand:  # the next day counts it no more
        later(desk, 24)
        start(desk, rules, tmp_path / "three")
        assert len(traded(desk)) == 2


def rounds_of(desk: Desk) -> list[Any]:
    return [each for each in traded(desk) if each[0] != "run"]


@pytest.mark.parametrize("by_hand", [True, False], ids=["changed by hand", "changed by nobody"])
def test_no_more_is_converted_for_a_run_than_was_approved(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path, by_hand: bool
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=above("payouts", "USDT_TRC20", "1000"), BTC=BTC_OF_FUNDS))
    file = sheet(tmp_path, *ROWS)
    with pytest.raises(ApprovalNeeded):
        propose(desk, file, rules)
    approve(desk)
    record(desk, file, rules)
    assert convert(desk, file, rules) is None
    converted = len(rounds_of(desk))
    sandbox.deposit("USDT_TRC20", "-900")  # money that was to pay it went elsewhere
    clock_of(desk).move(25 * 3600)
    if by_hand:
        run = desk.ledger.run("run.fund")
        assert run is not None
        plan = {**run.plan, "trades": [{**each, "amount": "0"} for each in run.plan["trades"]]}
        change(desk, update(schema.runs).where(schema.runs.c.run_key == "run.fund").values(plan=json.dumps(plan)))
    with pytest.raises(LimitExceeded if by_hand else ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    assert len(rounds_of(desk)) == converted
    assert "payout" not in kinds(sandbox)
    if by_hand:
        sandbox.deposit("USDT_TRC20", "900")
        assert set(start_of_payments(desk, file).values()) == {"settled"}
