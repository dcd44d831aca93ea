"""Fund and pay: everything that has to be there is counted once, whoever pays at the same moment."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import data
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
    propose,
    record,
    record_round,
)
from tests.engine.rounds import available, kinds, policy
from tests.engine.runs import results, sheet
from tests.moved_clock import RUNS, clock_of
from treasury.errors import ApprovalNeeded
from treasury.orders.states import State
from treasury.pay import funding, funding_needs, preview
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders
from treasury.provider.service_rules import ServiceRules
from treasury.rebalance import rebalancing, round_inputs, round_results
from treasury.rebalance.trade_costs import trades_made
from treasury.sandbox.behaviour import Behaviour

D = Decimal
OpenDesk = Callable[..., Desk]

# --- its own payments ----------------------------------------------------------------------------------------------


KILLED = """
import json, sys
from pathlib import Path
from tests.engine.own_process import desk_of_process
from tests.engine import paying
from treasury.concurrency import crash_points
from treasury.payments import execution
spec = json.loads(sys.argv[1])
desk, file, rules = desk_of_process(spec), Path(spec["file"]), Path(spec["rules"])
[ids] = paying.commit(desk, file, "run", rules)
crash_points.arm(spec["point"], 1)
execution.send_orders(desk, "run", ids[:1])
"""
"""Pays the first row of a run, and is killed; with more rows than are sent at once."""


@RUNS
@pytest.mark.parametrize("point", ["send.marked", "send.answered"])
def test_a_kill_while_paying_converts_nothing_for_what_may_have_been_paid(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, ledger_url: str, key_file: Path, point: str
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(1200)})  # everything is there
    rules, file = policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    spec = {"home": str(tmp_path), "base_url": sandbox.base_url, "key": str(key_file), "point": point}
    spec |= {"ledger": ledger_url, "file": str(file), "rules": str(rules)}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, json.dumps(spec)], capture_output=True, text=True, check=False
    )
    assert killed.returncode == -9, killed.stdout + killed.stderr
    time.sleep(1)  # what arrived is settled
    desk = open_desk(sandbox.base_url)
    counts = fund_and_pay(desk, file, rules, tmp_path / "out")["counts"]
    assert kinds(sandbox).count("conversion_execute") == 0
    assert counts == {"settled": 3}


# --- other runs ----------------------------------------------------------------------------------------------------


def test_what_another_run_pays_meanwhile_is_not_counted_twice(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run is sent between this one's look at the ledger and at the balance."""
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(0)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    other, file = sheet(tmp_path, *OTHER, name="other.csv"), sheet(tmp_path, *ROWS)
    [ids] = paying.commit(desk, other, "other", rules)
    record(desk, file, rules)  # agreed: 1300 of the other, 1200 of its own
    sandbox.deposit("USDT_TRC20", "1300")  # the other run's money came in, and it is sent
    read = round_inputs.read_position
    sent: list[int] = []

    def read_while_the_other_is_sent(*args: Any, **more: Any) -> Any:
        if not sent:
            sent.append(execution.send_orders(desk, "other", ids))
            execution.follow_orders(desk, "other", ids, 5)
        return read(*args, **more)

    monkeypatch.setattr(round_inputs, "read_position", read_while_the_other_is_sent)
    assert convert(desk, file, rules) is None
    assert sum(made.value for made in trades_made(desk)) < 1300  # 1200 are lacking


def test_nothing_is_converted_for_what_payments_on_their_way_took_already(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """The account says that the service debits payouts when it accepts them, and they take days."""
    balances = {**HELD, "USDT_TRC20": D(1800)}
    sandbox = start_sandbox(balances=balances, settle_seconds=100_000, behaviour=Behaviour(debited_when="accepted"))
    desk = open_desk(sandbox.base_url, service=ServiceRules(debited_when={"payout": "accepted"}))
    rules, other = policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *OTHER, name="other.csv")
    fund_and_pay(desk, other, rules, tmp_path / "other", "other", 0)
    assert available(sandbox, "USDT_TRC20") == 500
    file = sheet(tmp_path, ("a", "450", "12345670001"))
    assert fund_and_pay(desk, file, rules, tmp_path / "out", seconds=0)["counts"] == {"in_progress": 1}
    assert kinds(sandbox).count("conversion_execute") == 0


def test_what_a_conversion_brings_for_rows_that_were_added_is_theirs_whatever_the_run_spent_before(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """The first purchase spent the base asset's own money, too, so that it is below its minimum."""
    sandbox = start_sandbox(balances={"USDT": D(1200), "BTC": D("0.8"), "USDT_TRC20": D(0)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, ("a", "700", "12345670001"), ("b", "620", "12345670101"))
    in_base = file.read_text().splitlines()
    in_base[2] = in_base[2].replace("USDT_TRC20", "USDT")
    file.write_text("\n".join(in_base) + "\n")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 2}
    before = sum(made.value for made in trades_made(desk))
    more = sheet(tmp_path, ("a", "700", "12345670001"), ("c", "600", "12345670201"), name="more.csv").read_text()
    file.write_text("\n".join([*in_base, more.splitlines()[2]]) + "\n")
    assert fund_and_pay(desk, file, rules, tmp_path / "out", add=True)["counts"] == {"settled": 3}
    assert sum(made.value for made in trades_made(desk)) - before < 2 * 630  # sold once, bought once


def test_a_plan_says_what_is_converted_for_orders_on_their_way(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """Nobody knows whether they were debited; the balance alone would do, so that the plan could not be redone."""
    balances = {**HELD, "USDT_TRC20": D(1800)}
    sandbox = start_sandbox(balances=balances, settle_seconds=100_000, behaviour=Behaviour(debited_when="accepted"))
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    fund_and_pay(desk, sheet(tmp_path, *OTHER, name="other.csv"), rules, tmp_path / "other", "other", 0)
    file = sheet(tmp_path, ("a", "450", "12345670001"))
    assert record(desk, file, rules).summary()["paid_first"] == ["orders on their way: 1300 USDT_TRC20"]
    sandbox.deposit("BTC", "-0.8")
    sandbox.deposit("USDT", "-5000")
    assert "orders on their way: 1300 USDT_TRC20: the service may still debit it" in str(convert(desk, file, rules))


@pytest.mark.parametrize(("amount", "lacks"), [("40", {}), ("80", {"USDT_TRC20": D(40)})])
@pytest.mark.parametrize("leaves", ["before the balance is read", "after it"])
def test_what_leaves_while_the_funds_of_a_run_are_judged_is_counted_once(
    open_desk: OpenDesk,
    start_sandbox: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    leaves: str,
    amount: str,
    lacks: dict[str, Decimal],
) -> None:
    desk = open_desk(start_sandbox(balances={"USDT_TRC20": D(100)}).base_url)
    [other] = paying.commit(desk, sheet(tmp_path, ("x", "60", "12345670301"), name="other.csv"), "other")
    file = sheet(tmp_path, ("a", amount, "12345670001"))
    paying.commit(desk, file, "run")
    read, sent = preview.balance_of, list[int]()

    def send() -> None:
        if not sent:
            sent.append(execution.send_orders(desk, "other", other))

    def read_meanwhile(*asked: Any) -> Decimal | None:
        if leaves.startswith("before"):
            send()
        found = read(*asked)
        send()
        return found

    monkeypatch.setattr(funding_needs, "balance_of", read_meanwhile)
    assert funding_needs.funds_of(desk, paying.plan_of(desk, file, "run")).lacks == lacks
    assert sent == [1]


def test_while_others_leave_again_and_again_nothing_is_converted_or_paid(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(1200)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file, number, read = sheet(tmp_path, *ROWS), [0], round_inputs.read_position
    record(desk, file, rules)

    def read_while_one_is_recorded(*args: Any, **more: Any) -> Any:
        number[0] += 1
        one = sheet(tmp_path, ("x", "1", f"12345670{300 + number[0]}"), name=f"{number[0]}.csv")
        paying.commit(desk, one, f"other-{number[0]}", rules)
        return read(*args, **more)

    monkeypatch.setattr(round_inputs, "read_position", read_while_one_is_recorded)
    monkeypatch.setattr(round_inputs, "LOOK_SECONDS", 0.01)
    why = convert(desk, file, rules)
    assert why == "not funded: other payments leave while the balance is read: start it again once they have ended"
    monkeypatch.undo()
    assert convert(desk, file, rules) is None


def test_rows_that_were_added_later_do_not_take_what_another_run_has(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(500), "BTC": D("0.2"), "USDT_TRC20": D(1300)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    record(desk, sheet(tmp_path, *ROWS[:2]), rules)  # 700
    other = sheet(tmp_path, OTHER[0], name="other.csv")  # 600
    record(desk, other, rules, "other")
    file = sheet(tmp_path, *ROWS)  # and 500 more
    assert record(desk, file, rules, add=True).unfunded is not None
    assert convert(desk, file, rules) is not None  # 1800 are to be paid, and 1300 are there
    assert convert(desk, other, rules, "other") is None
    assert sandbox.orders() == []


def quoted_by_receipt(folder: Path) -> Path:
    """One quoted row that fixes what is received, and has no ceiling."""
    head, *lines = data.path("beneficiaries.csv").read_text().splitlines()
    row = next(line for line in lines if line.startswith("INV-103,"))
    file = folder / "quoted.csv"
    file.write_text(f"{head}\n{row}\n")
    return file


def test_a_run_before_whose_debit_only_a_quote_will_tell_counts_by_the_rate_of_now(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(500), "BTC": D("0.2")})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    first = quoted_by_receipt(tmp_path)
    [(currency, need)] = funding_needs.needs_of(desk, paying.plan_of(desk, first, "first", rules)).items()
    assert (currency, need > 1000) == ("USDT", True)
    sandbox.deposit("USDT", str(need - 500))  # enough for it alone
    record(desk, first, rules, "first")
    other = sheet(tmp_path, ("x", "600", "12345670301"), name="other.csv")
    other.write_text(other.read_text().replace("USDT_TRC20", "USDT"))
    record(desk, other, rules, "other")
    why = convert(desk, other, rules, "other")
    assert why is not None
    assert why.startswith("not funded: 600"), why  # of 600; the first one's debit is counted


def test_other_runs_are_funded_beside_a_run_whose_larger_plan_waits(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """The waiting rows are in USDT, of which another run's conversions are paid: it is kept once for them."""
    sandbox = start_sandbox(balances={"USDT": D(3000), "BTC": D("0.2"), "USDT_TRC20": D(0)})
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=above("payouts", "USDT", "1000"), BTC=BTC))
    file = sheet(tmp_path, *ROWS, ("d", "100", "12345670601"))
    file.write_text(file.read_text().replace("USDT_TRC20", "USDT").replace("100,USDT,", "100,USDT_TRC20,"))
    plain = paying.plan_of(desk, file, "run", rules)
    with pytest.raises(ApprovalNeeded):
        paying.propose(desk, plain, rules)
    approve(desk)
    paying.commit(desk, file, "run", rules)
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    other = sheet(tmp_path, ("x", "900", "12345670301"), name="other.csv")
    found = funding_needs.what_it_lacks(desk, paying.plan_of(desk, other, "other", rules))
    assert found.trades  # 1200 are kept, 500 is the minimum, and 1000 of 3000 are spent


def test_nothing_is_converted_for_what_other_runs_lack(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(1200)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file, other = sheet(tmp_path, *ROWS), sheet(tmp_path, ("x", "950", "12345670301"), name="other.csv")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    paying.commit(desk, other, "other", rules)
    assert propose(desk, file, rules).conversions == ()  # all of it is settled
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    large = sheet(tmp_path, ("y", "9000", "12345670302"), name="large.csv")
    large.write_text(large.read_text().replace("USDT_TRC20", "USDT"))
    paying.commit(desk, large, "large", rules)  # 5000 USDT are there, and kept for it
    third = sheet(tmp_path, ("z", "100", "12345670303"), name="third.csv")
    found = funding_needs.what_it_lacks(desk, paying.plan_of(desk, third, "third", rules))
    assert found.trades
    assert sum(each.value for each in found.trades if each.symbol == "BTC-USDT") < 1100  # 950 and 100, none of 4000
    assert kinds(sandbox).count("conversion_execute") == 0


def test_a_run_that_was_overtaken_in_every_round_says_why_it_is_not_paid(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, "max_rounds = 2", tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    payments = paying.plan_of(desk, file, "run", rules)
    done: list[round_results.Done] = []
    for number in range(2):
        planned = funding.next_round(desk, paying.made(desk, payments, rules), done, 0)
        assert planned is not None
        one = sheet(tmp_path, ("x", "1", f"1234567030{number}"), name=f"{number}.csv")
        paying.commit(desk, one, f"other-{number}", rules)
        assert record_round(desk, planned, file, rules) == []
        done.append(round_results.prove_round(desk, planned["run_key"], rebalancing.kept_plan(desk, planned)))
    assert funding.next_round(desk, paying.made(desk, payments, rules), done, 0) is None
    why = funding.why_not_funded(desk, payments, done)
    assert why == (
        "not funded: 1000 USDT_TRC20 missing (other orders were recorded at the same moment, again and again: start "
        "it again)"
    )


# --- balances ------------------------------------------------------------------------------------------------------


def test_a_balance_that_is_shown_late_is_not_converted_for_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD, settle_seconds=1)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    sandbox.deposit("USDT_TRC20", "900")  # 100 are lacking

    def hide_it() -> None:
        """Let balances not show what was converted."""
        if "conversion_execute" in kinds(sandbox):
            sandbox.deposit("USDT_TRC20", "-101")
            clock_of(desk).meanwhile = lambda: None

    clock_of(desk).meanwhile = hide_it
    why = convert(desk, file, rules, seconds=5)
    for _ in range(2):
        assert why is not None
        assert "the balance does not show what was converted (USDT_TRC20: 101 USDT_TRC20 less is there" in why
        counts = fund_and_pay(desk, file, rules, tmp_path / "out")["counts"]  # a start right after it
        assert (counts, kinds(sandbox)) == ({"not_sent": 3}, ["conversion_execute"])
        [why] = {row["reason"] for row in results(tmp_path / "out").values()}
    sandbox.deposit("USDT_TRC20", "101")  # it is shown
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert kinds(sandbox).count("conversion_execute") == 1


# --- fees ----------------------------------------------------------------------------------------------------------


def test_fees_on_top_of_a_run_that_was_recorded_first_are_kept(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    on_top = frozenset({"payout"})
    balances = {"USDT": D(500), "BTC": D("0.2"), "USDT_TRC20": D(1200)}
    sandbox = start_sandbox(balances=balances, behaviour=Behaviour(fee_on_top=on_top))
    desk = open_desk(sandbox.base_url, service=ServiceRules(fee_on_top=on_top))
    rules, file = policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    need = funding_needs.needs_of(desk, paying.plan_of(desk, file, "run", rules))["USDT_TRC20"]
    other = sheet(tmp_path, OTHER[0], name="other.csv")
    more = funding_needs.needs_of(desk, paying.plan_of(desk, other, "other", rules))["USDT_TRC20"]
    assert need > 1200
    record(desk, file, rules)
    record(desk, other, rules, "other")
    sandbox.deposit("USDT_TRC20", str(more))  # 1200 and what the other one needs: the first one's fees are lacking
    assert convert(desk, other, rules, "other") is not None


def test_a_fee_on_top_that_nobody_knows_stops_a_quoted_run(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    on_top = frozenset({"create_fiat_payout"})
    sandbox = start_sandbox(balances={"USDT": D(9000), "BTC": D("0.2")}, behaviour=Behaviour(fee_on_top=on_top))
    desk = open_desk(sandbox.base_url, service=ServiceRules(fee_on_top=on_top))
    rules = policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    said = fund_and_pay(desk, quoted_by_receipt(tmp_path), rules, tmp_path / "out", "unknown")
    assert (said["counts"], sandbox.orders()) == ({"not_sent": 1}, [])
    [why] = {row["reason"] for row in results(tmp_path / "out").values()}
    assert why.endswith("the fee of payments in USDT is charged on top, and the service did not say it")


def test_a_limit_of_the_day_stops_no_run_that_lacks_nothing(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    assert fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")["counts"] == {"settled": 3}
    rules = policy(tmp_path, tail=PAYOUTS + '[conversions.max_per_day]\nUSDT = "400"\n', BTC=BTC)
    sandbox.deposit("USDT_TRC20", "600")
    assert propose(desk, sheet(tmp_path, OTHER[0], name="other.csv"), rules, "other").unfunded is None


# --- rows that are held --------------------------------------------------------------------------------------------


def test_nothing_is_planned_for_rows_that_will_be_held_for_their_payees(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT": D(700)})  # not enough for all of them
    tail = PAYOUTS + '[payouts.new_payee_above]\nUSDT_TRC20 = "350"\n'
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=tail, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    assert propose(desk, file, rules).conversions[0].amount < 115  # 100 are lacking for the first row
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 1, "held": 2}
    sandbox.deposit("USDT", "4000")
    for order in desk.ledger.orders(run_key="run", states=(State.HELD,)):
        assert all(said.done for said in release_orders(desk, order.request_id, "payee", by="Ada", why="known"))
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert 0 <= available(sandbox, "USDT_TRC20") < 40


def test_another_account_of_a_known_name_is_not_planned_for_while_it_waits(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(300)})
    tail = PAYOUTS + "cooling_days = 3\n"
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=tail, BTC=BTC)
    first = sheet(tmp_path, ROWS[0], name="first.csv")
    assert fund_and_pay(desk, first, rules, tmp_path / "first", "first")["counts"] == {"settled": 1}
    other = sheet(tmp_path, ROWS[1], name="other.csv")
    plan = propose(desk, other, rules, "other")
    assert (plan.conversions, plan.unfunded) == ((), None)
    assert fund_and_pay(desk, other, rules, tmp_path / "out", "other")["counts"] == {"held": 1}


def test_two_currencies_that_are_lacking_in_two_steps(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances={"USDT": D(900), "USDT_TRC20": D(0), "BTC": D(3)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], lines[2].replace("USDT_TRC20", "USDT"), lines[3]]) + "\n")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


# --- payments of other runs that are on their way ------------------------------------------------------------------


def test_what_another_run_was_paid_and_nobody_asked_about_is_counted_once(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """The other run is settled at the service, and on its way in the ledger: it is asked about."""
    sandbox = start_sandbox(balances=HELD, settle_seconds=1)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    one = sheet(tmp_path, ("x", "150", "12345670301"), ("y", "20", "12345670302"), name="one.csv")
    assert fund_and_pay(desk, one, rules, tmp_path / "one", "one", seconds=0.1)["counts"] == {"in_progress": 2}
    clock_of(desk).move(1.5)
    assert fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")["counts"] == {"settled": 3}
    [made] = trades_made(desk)
    assert 1165 < made.value < 1190  # 1170 are lacking


def test_what_another_run_has_on_its_way_is_held_back_and_counted_once(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD, settle_seconds=3)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    one = sheet(tmp_path, ("x", "170", "12345670301"), name="one.csv")
    assert fund_and_pay(desk, one, rules, tmp_path / "one", "one", seconds=0.1)["counts"] == {"in_progress": 1}
    assert fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out", seconds=15)["counts"] == {"settled": 3}
    [made] = trades_made(desk)
    assert 1165 < made.value < 1190
