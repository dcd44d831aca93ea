"""Fund and pay beside everything else: limits, holds, other runs, the rebalancing, older ledgers, people who decide."""

import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.funded import (
    BTC,
    HELD,
    OTHER,
    PAYOUTS,
    ROWS,
    above,
    adopted,
    approve,
    convert,
    fund_and_pay,
    plan_round,
    record,
    record_round,
)
from tests.engine.own_process import in_own_process
from tests.engine.rounds import available, kinds, policy
from tests.engine.rounds import start as rebalance
from tests.engine.runs import results, sheet
from tests.moved_clock import RUNS, clock_of
from treasury.errors import ApprovalNeeded, InputError, LimitExceeded
from treasury.ledger.approvals import approve_plan, waiting_plan
from treasury.orders.states import Hold, State
from treasury.pay import agreeing, funding
from treasury.payments import execution
from treasury.payments.approving import rules_of
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.payments.resolving import resolve_as_not_sent
from treasury.provider.service_rules import ServiceRules
from treasury.rebalance import rebalancing, round_inputs
from treasury.rebalance.trade_costs import trades_made
from treasury.rebalance.trade_orders import commit_trades
from treasury.sandbox.behaviour import Behaviour

D = Decimal
OpenDesk = Callable[..., Desk]


def test_nothing_is_converted_for_a_run_that_does_not_fit_into_its_day(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    tail = PAYOUTS + '[payouts.max_per_day]\nUSDT_TRC20 = "1000"\n'
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=tail, BTC=BTC)
    with pytest.raises(LimitExceeded, match="1000 USDT_TRC20"):
        fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")
    assert sandbox.orders() == []


def test_nothing_is_converted_for_a_row_that_is_held_for_its_payee(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    tail = PAYOUTS + '[payouts.new_payee_above]\nUSDT_TRC20 = "350"\n'
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=tail, BTC=BTC)
    done = fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")
    assert done["counts"] == {"settled": 1, "held": 2}
    assert {order.hold_kind for order in desk.ledger.orders(run_key="run", states=(State.HELD,))} == {Hold.PAYEE}
    [made] = trades_made(desk)
    assert 100 <= made.value < 115  # for the first row alone


def test_a_row_that_is_released_in_the_same_start_is_funded(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(1000)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail="[payouts]\n", BTC=BTC)
    first = sheet(tmp_path, ROWS[0], name="first.csv")
    assert fund_and_pay(desk, first, rules, tmp_path / "first", "earlier")["counts"] == {"settled": 1}
    done = fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")
    assert done["counts"] == {"settled": 2, "held": 1}
    done = fund_and_pay(desk, sheet(tmp_path, *ROWS, why="two invoices"), rules, tmp_path / "out")
    assert done["counts"] == {"settled": 3}
    assert [280 < made.value < 320 for made in trades_made(desk)[1:]] == [True]


def test_the_limit_of_a_day_of_conversions_leaves_the_run_unsent_and_says_so(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    tail = PAYOUTS + '[conversions.max_per_day]\nUSDT = "400"\n'
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=tail, BTC=BTC)
    done = fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")
    assert (done["counts"], sandbox.orders()) == ({"not_sent": 3}, [])
    [why] = {row["reason"] for row in results(tmp_path / "out").values()}
    assert "not funded: 1000 USDT_TRC20 missing" in why
    assert "max_per_day, of which 400 USDT are left today" in why


def test_fees_on_top_are_funded(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    on_top = frozenset({"payout"})
    sandbox = start_sandbox(balances=HELD, behaviour=Behaviour(fee_on_top=on_top))
    desk = open_desk(sandbox.base_url, service=ServiceRules(fee_on_top=on_top))
    rules, file = policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    record(desk, file, rules)  # recorded, and the process ended
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert available(sandbox, "USDT_TRC20") >= 0


def test_a_fee_on_top_that_the_service_does_not_say_stops_the_run(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    silent = start_sandbox(balances=HELD, behaviour=Behaviour(success_false=frozenset({"estimate_fee"})))
    desk = open_desk(silent.base_url, service=ServiceRules(fee_on_top=frozenset({"payout"})))
    rules, file = policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    done = fund_and_pay(desk, file, rules, tmp_path / "silent")
    assert (done["counts"], silent.orders()) == ({"not_sent": 3}, [])
    [why] = {row["reason"] for row in results(tmp_path / "silent").values()}
    assert why == ("not funded: the fee of payments in USDT_TRC20 is charged on top, and the service did not say it")


# --- other runs ----------------------------------------------------------------------------------------------------


def test_of_two_runs_that_lack_the_same_money_the_one_recorded_first_has_it(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(500), "BTC": D("0.2"), "USDT_TRC20": D(1300)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file, other = sheet(tmp_path, *ROWS), sheet(tmp_path, *OTHER, name="other.csv")
    record(desk, file, rules)
    assert record(desk, other, rules, "other").summary()["paid_first"] == ["run run: 1200 USDT_TRC20"]
    why = convert(desk, other, rules, "other")
    assert why is not None
    assert "run run: 1200 USDT_TRC20: it was recorded before and is paid first" in why
    assert convert(desk, file, rules) is None
    assert sandbox.orders() == []


@pytest.mark.both_databases
@RUNS
@pytest.mark.costly("processes at once")
def test_runs_that_are_funded_at_the_same_moment_convert_what_both_lack_and_no_more(
    start_sandbox: Any, tmp_path: Path, key_file: Path
) -> None:
    sandbox = start_sandbox(balances=HELD, settle_seconds=1.5)
    rules = policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    files = {"run": sheet(tmp_path, *ROWS), "other": sheet(tmp_path, *OTHER, name="other.csv")}
    spec = {"act": "fund and pay", "home": str(tmp_path), "base_url": sandbox.base_url, "key": str(key_file)}
    spec |= {"rules": str(rules), "seconds": 8}
    for _ in range(3):
        each = [{**spec, "run_key": key, "file": str(file), "out": str(tmp_path / key)} for key, file in files.items()]
        commands = [[sys.executable, "-m", "tests.engine.own_process", json.dumps(one)] for one in each]
        started = [subprocess.Popen(one, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for one in commands]
        ended = [process.communicate(timeout=120) for process in started]
        assert [process.returncode for process in started] == [0, 0], ended
        if [json.loads(out) for out, _ in ended] == [{"settled": 3}, {"settled": 2}]:
            break
    assert [json.loads(out) for out, _ in ended] == [{"settled": 3}, {"settled": 2}], ended
    bought = [order for order in sandbox.orders() if order["operation"] == "conversion_execute"]
    assert 2300 < sum(order["amount"] for order in bought) < 2370  # 2500 are paid, 200 were there
    assert 0 <= available(sandbox, "USDT_TRC20") < 60


@pytest.mark.both_databases
def test_what_is_recorded_between_the_plan_of_a_round_and_its_record_has_it_planned_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    plan = paying.plan_of(desk, file, "run", rules)
    planned = funding.next_round(desk, paying.made(desk, plan, rules), (), 0)
    assert planned is not None
    paying.commit(desk, sheet(tmp_path, *OTHER, name="other.csv"), "other", rules)
    assert record_round(desk, planned, file, rules) == []
    assert desk.ledger.run("run.fund") is None
    again = funding.next_round(desk, paying.made(desk, plan, rules), (), 0)
    assert again is not None
    assert len(record_round(desk, again, file, rules)) == 1


def test_the_rebalancing_leaves_alone_what_was_converted_for_a_run_that_waits(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    rules = policy(tmp_path, tail=PAYOUTS, BTC=BTC, USDT_TRC20=("0", "0", "100"))
    record(desk, file, rules)
    assert convert(desk, file, rules) is None  # and the process ended
    assert rebalance(desk, rules, tmp_path / "rebalanced")["counts"] == {}
    cancel(desk, "run", by="Ada", why="another month")
    assert rebalance(desk, rules, tmp_path / "after")["counts"] == {"settled": 1}  # nobody needs it any more


def test_what_leaves_while_the_rebalancing_reads_the_balances_is_counted_once(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is sent between the rebalancing's look at the ledger and at the balances; then payments leave on and on."""
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(1300)})
    desk = open_desk(sandbox.base_url)
    rules = policy(tmp_path, tail=PAYOUTS, BTC=BTC, USDT_TRC20=("0", "0", "9000"))
    [ids] = paying.commit(desk, sheet(tmp_path, *OTHER, name="other.csv"), "other", rules)
    read, sent = round_inputs._from_service, [False]

    def read_while_it_is_sent(*args: Any) -> Any:
        if not sent[0]:
            sent[0] = bool(execution.send_orders(desk, "other", ids))
            execution.follow_orders(desk, "other", ids, 5)
        return read(*args)

    monkeypatch.setattr(round_inputs, "_from_service", read_while_it_is_sent)
    found = rebalancing.read_market(desk, rules)
    assert (found.available["USDT_TRC20"], found.obligations, found.notes) == (0, (), ())

    def read_while_more_is_recorded(*args: Any) -> Any:
        one = sheet(tmp_path, ("x", "1", f"1234567{next(numbers):04d}"), name="one.csv")
        paying.commit(desk, one, one.name + str(next(numbers)), rules)
        return read(*args)

    numbers = itertools.count(1000)
    monkeypatch.setattr(round_inputs, "_from_service", read_while_more_is_recorded)
    monkeypatch.setattr(round_inputs, "LOOK_SECONDS", 0.01)
    assert rebalancing.MOVED_MEANWHILE in rebalancing.read_market(desk, rules).notes


@pytest.mark.both_databases
def test_two_rounds_that_fit_into_a_limit_alone_do_not_pass_it_together(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "BTC": D("0.1")})
    tail = PAYOUTS + '[conversions]\nmax_value_per_day = "20000"\n'
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=tail, BTC=("0.1", "0.14", "0.9"))
    sandbox.deposit("USDT", "30000")
    file = sheet(tmp_path, ("a", "15000", "12345670001"))
    record(desk, file, rules)
    planned = plan_round(desk, file, rules)
    assert planned is not None
    sandbox.deposit("BTC", "-0.09")
    found = rebalancing.plan_round(desk, rules, None)  # both were planned before either is recorded
    assert found.plan.trades
    rebalancing.keep_plan(desk, found.run_key, found.plan, rules)
    commit_trades(desk, found.run_key, found.plan, rules)
    assert record_round(desk, planned, file, rules) == []
    assert convert(desk, file, rules) is not None
    assert [order["operation"] for order in sandbox.orders()] == []


# --- approvals and decisions ---------------------------------------------------------------------------------------


def test_a_look_at_a_run_whose_funds_are_low_for_a_moment_leaves_its_approval_alone(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=above("payouts", "USDT_TRC20", "1000"), BTC=BTC))
    file = sheet(tmp_path, *ROWS)
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    approve(desk)
    sandbox.deposit("USDT_TRC20", "-150")
    payments = paying.plan_of(desk, file, "run", rules)
    shown = agreeing.plan_to_execute(desk, payments, add=False, fund=True, keep=False)
    assert shown is not None
    assert shown.conversions[0].amount > 1150
    agreeing.plan_to_execute(desk, payments, add=False, fund=True)  # asked for on a terminal, and answered with no
    sandbox.deposit("USDT_TRC20", "150")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_approvals_count_what_earlier_plans_of_a_run_converted(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(
        desk,
        policy(
            tmp_path,
            "max_rate_age_seconds = 86400",
            tail=above("conversions", "USDT", "1500"),
            BTC=BTC,
        ),
    )
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    clock_of(desk).move(1)
    assert convert(desk, file, rules) is None
    sandbox.deposit("USDT_TRC20", "-600")
    clock_of(desk).move(660)  # a balance that does not show a conversion yet is taken for late at first
    with pytest.raises(ApprovalNeeded):  # 1000 and 600
        fund_and_pay(desk, file, rules, tmp_path / "out")
    assert [order["operation"] for order in sandbox.orders()] == ["conversion_execute"]
    approve(desk)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert [run.run_key for run in desk.ledger.runs()] == ["run.fund-2", "run.fund", "run"]


@RUNS
def test_a_conversion_that_nobody_knows_of_asks_for_a_decision_and_for_no_new_approval(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, ledger_url: str, key_file: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    rules, file = policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    spec = {"act": "fund and pay", "home": str(tmp_path), "base_url": sandbox.base_url, "key": str(key_file)}
    spec |= {"ledger": ledger_url, "rules": str(rules), "file": str(file), "out": str(tmp_path / "out"), "seconds": 3}
    assert in_own_process({**spec, "point": "send.marked", "hits": 1}).returncode == -9
    desk = open_desk(sandbox.base_url)
    [order] = desk.ledger.orders(run_key="run.fund")
    for _ in range(2):
        assert fund_and_pay(desk, file, rules, tmp_path / "out", seconds=1)["counts"] == {"not_sent": 3}
        [why] = {row["reason"] for row in results(tmp_path / "out").values()}
        assert f"nobody knows whether buy-USDT_TRC20 was made: treasury resolve {order.request_id}" in why
    assert "run.fund-2" not in [run.run_key for run in desk.ledger.runs()]
    clock_of(desk).move(3600)  # its quote cannot be confirmed any more
    [said] = resolve_as_not_sent(desk, order.request_id, by="Ada", why="the portal does not show it")
    assert said.done, said.says
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert [each["operation"] for each in sandbox.orders()].count("conversion_execute") == 1


def test_whoever_made_a_plan_cannot_approve_its_conversions(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=above("conversions", "USDT", "100"), BTC=BTC))
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")
    plan = waiting_plan(desk.ledger, "run")
    assert plan is not None
    with pytest.raises(InputError, match="does not count"):
        approve_plan(desk.ledger, "run", rules_of(desk, plan), plan.maker.os_user, name=plan.maker.name)
    assert sandbox.orders() == []


# --- an older ledger -----------------------------------------------------------------------------------------------


@pytest.mark.sqlite_alone
@pytest.mark.parametrize("moment", ["before the conversions", "before the payments"])
def test_a_ledger_that_is_put_back_converts_and_pays_nothing_twice(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, moment: str
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT": D(9000)})
    rules, file = policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    desk = open_desk(sandbox.base_url)
    record(desk, file, rules)
    if moment == "before the payments":
        assert convert(desk, file, rules) is None
    desk.close()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    again = open_desk(sandbox.base_url)
    assert fund_and_pay(again, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    made = len(sandbox.orders())
    again.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "ledger.db")
    older = open_desk(sandbox.base_url)
    for _ in range(2):
        fund_and_pay(older, file, rules, tmp_path / "older", seconds=2)
    paid = [order for order in sandbox.orders() if order["operation"] == "payout"]
    assert len(paid) == 3
    assert len(sandbox.orders()) == made, [order.state for order in older.ledger.orders()]


def test_a_start_of_the_conversions_of_a_run_sends_nothing_once_its_payments_are_cancelled(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    planned = plan_round(desk, file, rules)
    assert planned is not None
    [trade] = record_round(desk, planned, file, rules)
    for order in desk.ledger.orders(run_key="run"):
        cancel(desk, order.request_id, by="Ada", why="row by row")
    with pytest.raises(InputError, match="nothing of run run waits any more"):
        execution.send_orders(desk, trade["run_key"], trade["ids"])
    assert sandbox.orders() == []


def test_what_a_run_needs_that_was_recorded_later_does_not_keep_an_earlier_one_waiting(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(1600), "BTC": D(0), "USDT_TRC20": D(200)})
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    later = sheet(tmp_path, ("x", "1400", "12345670301"), ("y", "300", "12345670401"), name="later.csv")
    later.write_text(later.read_text().replace("USDT_TRC20", "USDT", 1))
    assert fund_and_pay(desk, later, rules, tmp_path / "later", "later")["counts"] == {"not_sent": 2}
    assert kinds(sandbox) == []
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert fund_and_pay(desk, later, rules, tmp_path / "later", "later")["counts"] == {"not_sent": 2}
    sandbox.deposit("USDT", "1500")
    assert fund_and_pay(desk, later, rules, tmp_path / "later", "later")["counts"] == {"settled": 2}
