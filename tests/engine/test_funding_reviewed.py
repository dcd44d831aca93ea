"""Fund and pay, as a review found it: conversions that are held, rounds that are forged, rates that are absent."""

import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine.funded import (
    BTC,
    HELD,
    PAYOUTS,
    ROWS,
    above,
    adopted,
    fund_and_pay,
    plan_round,
    record,
    record_round,
)
from tests.engine.rounds import kinds, policy
from tests.engine.runs import pay, results, sheet
from treasury.errors import ApprovalNeeded, InputError
from treasury.ledger import schema
from treasury.ledger.intents import commit_plan
from treasury.runs import execution, payouts, rebalancing
from treasury.runs.desk import Desk

D = Decimal
OpenDesk = Callable[..., Desk]
pytestmark = pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)


def send_round(desk: Desk, file: Path, rules: Path) -> None:
    """Record and send the conversions of a round, and do not wait for them."""
    planned = plan_round(desk, file, rules)
    assert planned is not None
    ids = [each for trade in record_round(desk, planned, file, rules) for each in trade["ids"]]
    execution.send_orders(desk, planned["run_key"], ids)


@pytest.mark.parametrize("change", [{"amount": "1"}, {"state": "failed"}])
def test_a_conversion_that_was_changed_by_hand_is_not_made_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, change: dict[str, str]
) -> None:
    sandbox = start_sandbox(balances=HELD, settle_seconds=15)
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    send_round(desk, file, rules)
    by_hand = update(schema.orders).where(schema.orders.c.run_key == "run.fund").values(**change)
    desk.ledger.write(lambda connection: connection.execute(by_hand).rowcount)
    for _ in range(3):
        assert fund_and_pay(desk, file, rules, tmp_path / "out", seconds=1)["counts"] == {"not_sent": 3}
    assert kinds(sandbox) == ["conversion_execute"]
    assert "on their way, or held for somebody to decide" in next(iter(results(tmp_path / "out").values()))["reason"]


def test_a_conversion_that_an_older_ledger_does_not_know_is_not_made_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD, settle_seconds=15)
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    desk.close()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    desk = open_desk(sandbox.base_url)
    send_round(desk, file, rules)
    desk.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "ledger.db")
    desk = open_desk(sandbox.base_url)
    for _ in range(3):
        fund_and_pay(desk, file, rules, tmp_path / "out", seconds=1)
    assert kinds(sandbox).count("conversion_execute") == 1


def test_a_round_that_was_forged_is_not_recorded(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT": D(20000)})
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    rules = adopted(desk, policy(tmp_path, tail=above("conversions", "USDT", "2000"), BTC=BTC))
    record(desk, file, rules)
    forged = json.loads(json.dumps(plan_round(desk, file, rules)))
    trade = forged["plan"]["trades"][0]
    for name in ("amount", "expected_receive", "min_receive", "max_fee", "value"):
        trade[name] = str(D(trade[name]) * 9)
    with pytest.raises(InputError, match="more would be converted than was agreed to"):
        record_round(desk, forged, file, rules)
    assert desk.ledger.orders(run_key="run.fund") == []


def test_no_approval_is_asked_for_conversions_that_are_needed_no_more(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    rules = adopted(desk, policy(tmp_path, tail=above("conversions", "USDT", "100"), BTC=BTC))
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    sandbox.deposit("USDT_TRC20", "1000")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert kinds(sandbox) == ["payout"] * 3


def test_a_run_may_have_the_name_of_a_rebalancing_that_was_looked_at(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    found = rebalancing.plan_round(desk, rules, None)
    rebalancing.keep_snapshot(desk, rebalancing.decisions_of(desk, found, rules))
    assert fund_and_pay(desk, file, rules, tmp_path / "out", found.run_key)["counts"] == {"settled": 3}


def test_without_its_reference_rates_what_lacks_nothing_is_paid_and_what_lacks_something_says_so(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    reference = tmp_path / "reference.csv"
    reference.write_text("symbol,rate\nUSDT_TRC20-USDT,1\nBTC-USDT,64000\n")
    rules = policy(tmp_path, f'reference_rates = "{reference}"', tail=PAYOUTS, BTC=BTC)
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    reference.unlink()
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"not_sent": 3}
    assert all("not funded: " in row["reason"] for row in results(tmp_path / "out").values())
    sandbox.deposit("USDT_TRC20", "1000")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_another_run_that_is_called_like_its_conversions_ends_no_run_without_them(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(5000)})
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    other = payouts.plan_of(desk, sheet(tmp_path, ("z", "7", "12345670901"), name="other.csv"), "older", rules)
    commit_plan(desk.ledger, "run.fund", "payout", other.summary(), other.sha256, other.intents)
    with pytest.raises(InputError, match=r"its conversions would be run\.fund, a run of its own"):
        record(desk, file, rules)
    assert pay(desk, file, tmp_path / "out")["counts"] == {"settled": 3}
