"""Conversions that are recorded and not sent count as on their way, whoever plans meanwhile: none is made twice."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.funded import (
    BTC,
    HELD,
    PAYOUTS,
    ROWS,
    convert,
    fund_and_pay,
    plan_round,
    record,
    record_round,
    rules_of_a_day,
)
from tests.engine.rounds import available, kinds, policy, start
from tests.engine.runs import results, sheet
from tests.moved_clock import clock_of
from treasury.errors import InputError
from treasury.orders.states import State
from treasury.payments.desk import Desk
from treasury.rebalance import rebalancing, trade_orders

D = Decimal
OpenDesk = Callable[..., Desk]


def plan_rebalancing(desk: Desk, rules: Path) -> rebalancing.Planned:
    """The next round of the rebalancing, planned and kept, and not recorded yet."""
    planned = rebalancing.planned_round(desk, None, rules, {}, None)
    return rebalancing.propose(desk, planned, rules)


def record_rebalancing(desk: Desk, planned: rebalancing.Planned, rules: Path) -> list[Any]:
    """Its trades, recorded and not sent."""
    plan = rebalancing.kept_plan(desk, planned)
    return list(trade_orders.record_trades(desk, planned["run_key"], plan, rules))


def of_each(folder: Path) -> Path:
    """A policy whose rebalancing wants what the run lacks: the code that it pays out of has a band."""
    return policy(folder, tail=PAYOUTS, BTC=BTC, USDT_TRC20=("0", "0", "100000"))


def test_a_rebalancing_does_not_buy_what_a_payment_run_has_recorded(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules, file = open_desk(sandbox.base_url), of_each(tmp_path), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    planned = plan_round(desk, file, rules)
    assert planned is not None
    record_round(desk, planned, file, rules)  # and is killed
    start(desk, rules, tmp_path / "rebalanced")
    assert kinds(sandbox) == []
    [line] = [each for each in rebalancing.plan_round(desk, rules, None).decided.lines if each.asset == "USDT_TRC20"]
    assert line.position is not None
    assert line.position.incoming >= D(1000)
    notes = rebalancing.plan_round(desk, rules, None).decided.notes
    assert any("run.fund" in note and "not sent" in note for note in notes)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert kinds(sandbox) == ["conversion_execute", *["payout"] * 3]


def test_a_payment_run_does_not_buy_what_a_rebalancing_has_recorded(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules, file = open_desk(sandbox.base_url), of_each(tmp_path), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    planned = plan_rebalancing(desk, rules)
    assert record_rebalancing(desk, planned, rules)  # and is killed
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"not_sent": 3}
    reason = next(iter(results(tmp_path / "out").values()))["reason"]
    assert planned["run_key"] in reason
    assert "recorded and not sent" in reason
    assert kinds(sandbox) == []
    start(desk, rules, tmp_path / "rebalanced")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert kinds(sandbox) == ["conversion_execute", *["payout"] * 3]


def test_what_a_recorded_conversion_spends_pays_no_other_run(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT": D(1600), "BTC": D(0)})
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    planned = plan_round(desk, file, rules)
    assert planned is not None
    record_round(desk, planned, file, rules)  # it spends 1,000 USDT, and is not sent yet
    other = sheet(tmp_path, ("x", "900", "12345670301"), name="other.csv")
    other.write_text(other.read_text().replace("USDT_TRC20", "USDT"))
    assert fund_and_pay(desk, other, rules, tmp_path / "other", "other")["counts"] == {"not_sent": 1}
    assert kinds(sandbox) == []


def test_a_rebalancing_that_was_planned_before_another_conversion_was_recorded_is_planned_anew(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules, file = open_desk(sandbox.base_url), of_each(tmp_path), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    early = plan_rebalancing(desk, rules)
    assert rebalancing.kept_plan(desk, early).trades
    planned = plan_round(desk, file, rules)
    assert planned is not None
    record_round(desk, planned, file, rules)
    with pytest.raises(InputError, match="conversions were recorded since"):
        record_rebalancing(desk, early, rules)
    start(desk, rules, tmp_path / "rebalanced")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert kinds(sandbox) == ["conversion_execute", *["payout"] * 3]


@pytest.mark.both_databases
def test_a_rebalancing_spends_nothing_that_another_conversion_spent_since_it_was_planned(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """Each by itself leaves the base asset at its minimum, 500; both together would not."""
    sandbox = start_sandbox(balances={"USDT": D(1600), "BTC": D("0.19"), "USDT_TRC20": D(200)})
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    early = plan_rebalancing(desk, rules)  # it buys BTC with USDT, and waits for a yes
    assert [trade.currency for trade in rebalancing.kept_plan(desk, early).trades] == ["USDT"]
    record(desk, file, rules)
    assert convert(desk, file, rules) is None  # about 1,000 USDT
    with pytest.raises(InputError, match=r"conversions were recorded since it was planned that spend USDT, too"):
        record_rebalancing(desk, early, rules)
    start(desk, rules, tmp_path / "rebalanced")
    assert available(sandbox, "USDT") >= 500


def test_a_rebalancing_spends_nothing_that_payments_need_since_a_person_said_yes(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(1600), "BTC": D("0.19")})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    early, file = plan_rebalancing(desk, rules), sheet(tmp_path, ("a", "900", "12345670001"))
    file.write_text(file.read_text().replace("USDT_TRC20", "USDT"))
    assert rebalancing.planned_round(desk, None, rules, {}, early["plan_sha256"]) == early
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 1}
    with pytest.raises(InputError, match="is not needed any more, or less of it"):
        rebalancing.planned_round(desk, None, rules, {}, early["plan_sha256"])


def test_what_an_earlier_rebalancing_left_unsent_counts_for_none(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "BTC": D("0.1")})
    desk = open_desk(sandbox.base_url)
    rules = rules_of_a_day(tmp_path, "")
    assert record_rebalancing(desk, plan_rebalancing(desk, rules), rules)  # and is killed
    clock_of(desk).move(86_401 - desk.clock.wall() % 86_400)  # just after midnight
    start(desk, rules, tmp_path / "next day")
    assert kinds(sandbox) == ["conversion_execute"]


def test_what_an_earlier_rebalancing_left_unsent_is_cancelled_also_where_nothing_has_to_be_traded(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "BTC": D("0.1")})
    desk = open_desk(sandbox.base_url)
    rules = rules_of_a_day(tmp_path, "")
    assert record_rebalancing(desk, plan_rebalancing(desk, rules), rules)  # and is killed
    sandbox.deposit("BTC", "0.4")
    clock_of(desk).move(86_401 - desk.clock.wall() % 86_400)  # just after midnight
    start(desk, rules, tmp_path / "next day")
    assert kinds(sandbox) == []
    assert {order.state for order in desk.ledger.orders()} == {State.CANCELLED}
