"""Fund and pay by other doors: rounds of a flow of one's own, names that are taken, rates that are absent."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
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
from tests.moved_clock import clock_of
from treasury.errors import ApprovalNeeded, InputError
from treasury.ledger.intents import commit_plan
from treasury.payments.desk import Desk
from treasury.rebalance import rebalancing

D = Decimal
OpenDesk = Callable[..., Desk]


def test_a_round_that_was_forged_is_not_recorded(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT": D(20000)})
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    rules = adopted(desk, policy(tmp_path, tail=above("conversions", "USDT", "2000"), BTC=BTC))
    record(desk, file, rules)
    planned = plan_round(desk, file, rules)
    assert planned is not None
    forged: Any = {**planned, "plan_sha256": "0" * 64}
    with pytest.raises(InputError, match="this ledger did not plan this round; nothing was recorded"):
        record_round(desk, forged, file, rules)
    assert desk.ledger.orders(run_key="run.fund") == []


def test_a_round_under_other_keys_is_not_recorded_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """One yes bought as many conversions as a flow of one's own had names for the round."""
    sandbox = start_sandbox(balances={**HELD, "USDT": D(20000)})
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    rules = adopted(desk, policy(tmp_path, tail=above("conversions", "USDT", "2000"), BTC=BTC))
    record(desk, file, rules)
    planned = plan_round(desk, file, rules)
    assert planned is not None
    for key in ("x1", "run.fund-2", "run"):
        with pytest.raises(InputError, match="this ledger did not plan this round; nothing was recorded"):
            record_round(desk, {**planned, "run_key": key}, file, rules)
    other = sheet(tmp_path, ("z", "900", "12345670901"), name="other.csv")
    record(desk, other, rules, "other")
    with pytest.raises(InputError, match=r"run\.fund was planned for another run; nothing was recorded"):
        record_round(desk, planned, other, rules, "other")
    assert record_round(desk, planned, file, rules) == []  # the other run was recorded since it was planned
    planned = plan_round(desk, file, rules)
    assert planned is not None
    [trade] = record_round(desk, planned, file, rules)
    assert [trade] == record_round(desk, planned, file, rules)
    assert [order.run_key for order in desk.ledger.orders() if order.operation == "conversion_execute"] == ["run.fund"]


def test_a_rebalancing_that_was_changed_between_its_tasks_is_not_proposed(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "BTC": D(2)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    position = rebalancing.position_for(desk, rules, None, None)
    richer = {**position, "available": {**position["available"], "BTC": "9"}}
    market = rebalancing.rates_for(desk, rules, position)
    with pytest.raises(InputError, match="balances and rates are not those that were read"):
        rebalancing.rates_for(desk, rules, richer)
    with pytest.raises(InputError, match="balances and rates are not those that were read"):
        rebalancing.planned_round(desk, None, rules, {**market, "rates": {}}, None)
    planned = rebalancing.planned_round(desk, None, rules, market, None)
    forged: Any = {**planned, "plan_sha256": "0" * 64}
    renamed: Any = {**planned, "run_key": "x1"}
    for each in (forged, renamed):
        with pytest.raises(InputError, match="this ledger made no rebalancing plan"):
            rebalancing.propose(desk, each, rules)
    assert rebalancing.propose(desk, planned, rules) == planned
    with pytest.raises(InputError, match=r"is one of run rebalance-.*, not of x1"):
        rebalancing.propose(desk, renamed, rules)
    clock_of(desk).move(86_400)
    with pytest.raises(InputError, match="planned on an earlier day"):
        rebalancing.propose(desk, planned, rules)


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


def test_no_payments_have_the_name_of_a_rebalancing(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    """While their rows waited every rebalancing of that day ended with an error."""
    desk = open_desk(start_sandbox(balances={**HELD, "BTC": D(2)}).base_url)
    rules, file = policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    found = rebalancing.plan_round(desk, rules, None)
    for run_key in (found.run_key, f"{found.run_key}-2"):
        with pytest.raises(InputError, match="is a name for a rebalancing: choose another run key"):
            fund_and_pay(desk, file, rules, tmp_path / "out", run_key)
    assert rebalancing.plan_round(desk, rules, None).plan == found.plan
    assert fund_and_pay(desk, file, rules, tmp_path / "out", "rebalance-november")["counts"] == {"settled": 3}


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
    other = paying.plan_of(desk, sheet(tmp_path, ("z", "7", "12345670901"), name="other.csv"), "older", rules)
    commit_plan(desk.ledger, "run.fund", "payout", other.summary(), other.sha256, other.intents)
    with pytest.raises(InputError, match=r"its conversions would be run\.fund, a run of its own"):
        record(desk, file, rules)
    assert pay(desk, file, tmp_path / "out")["counts"] == {"settled": 3}
