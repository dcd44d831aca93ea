"""Fund and pay: nothing is paid that is not funded, nothing is converted that is not needed, whatever happens."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
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
    approve,
    convert,
    fund_and_pay,
    plan_round,
    propose,
    record,
    record_round,
    rules_of_a_day,
)
from tests.engine.own_process import desk_of_process, in_own_process, start_again
from tests.engine.rounds import available, kinds, policy
from tests.engine.runs import results, sheet
from tests.moved_clock import RUNS, MovedClock, clock_of
from tests.proofs import halves
from treasury.errors import ApprovalNeeded, InputError, LimitExceeded, PlanRejected
from treasury.ledger.approvals import reject_plan
from treasury.orders.states import State
from treasury.pay import agreeing, funding_plans
from treasury.payments import execution
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.payments.resolving import resolve_as_not_sent
from treasury.planning.payout_planner import with_conversions
from treasury.rebalance import round_results
from treasury.rebalance.rebalancing import kept_plan
from treasury.rebalance.trade_costs import trades_made
from treasury.reports.results import in_words, needs_a_person
from treasury.sending.stop_loss import StopLoss

D = Decimal
OpenDesk = Callable[..., Desk]

APPROVED = above("payouts", "USDT_TRC20", "1000")


def test_exactly_what_is_lacking_is_converted_and_the_books_say_so(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    done = fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")
    assert done["counts"] == {"settled": 3}
    assert sorted(kinds(sandbox)) == ["conversion_execute", *["payout"] * 3]
    [made] = trades_made(desk)
    assert (made.symbol, 990 < made.value < 1030) == ("USDT_TRC20-USDT", True)
    assert 0 <= available(sandbox, "USDT_TRC20") < 20
    content = json.loads((tmp_path / "out" / "funding" / "decisions.json").read_text())
    assert content["funds"] == {"run_key": "run", "needs": {"USDT_TRC20": "1200"}}
    assert [proof["verdict"] for proof in content["after"][0]["proofs"]] == ["proven", "proven"]
    assert fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert len(sandbox.orders()) == 4


def test_what_others_recorded_is_not_taken(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(1300)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    other = sheet(tmp_path, ("x", "250", "12345670301"), name="other.csv")
    paying.commit(desk, other, "other", rules)  # recorded, and not sent
    assert fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert kinds(sandbox).count("conversion_execute") == 1
    assert available(sandbox, "USDT_TRC20") >= 250


def test_two_steps_are_made_one_after_the_other(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances={"USDT": D(600), "BTC": D("0.8"), "USDT_TRC20": D(0)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    assert fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert kinds(sandbox).count("conversion_execute") == 2
    assert available(sandbox, "USDT") >= 500


def test_what_lacks_nothing_converts_nothing(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(1200)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    assert fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert kinds(sandbox) == ["payout"] * 3


def test_a_gap_smaller_than_the_smallest_trade_is_closed(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D("1199.99")})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    assert fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")["counts"] == {"settled": 3}
    [made] = trades_made(desk)
    assert 10 <= made.value < 11


def test_nothing_is_converted_for_a_row_that_is_held_as_a_duplicate(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(1000)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail="[payouts]\n", BTC=BTC)
    first = sheet(tmp_path, ROWS[0], name="first.csv")
    assert fund_and_pay(desk, first, rules, tmp_path / "first", "earlier")["counts"] == {"settled": 1}
    done = fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")  # 700 are left; b and c need 900
    assert done["counts"] == {"settled": 2, "held": 1}
    [made] = trades_made(desk)
    assert 200 <= made.value < 210


def test_floors_and_minimums_of_others_are_kept(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances={"USDT": D(900), "BTC": D("0.2"), "USDT_TRC20": D(200)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    done = fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")
    assert (done["counts"], sandbox.orders()) == ({"not_sent": 3}, [])
    assert all("not funded: 1000 USDT_TRC20 missing" in row["reason"] for row in results(tmp_path / "out").values())


def test_the_limits_of_conversions_apply(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=HELD)
    tail = PAYOUTS + '[conversions.max_per_trade]\nUSDT = "400"\n'
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=tail, BTC=BTC)
    done = fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")
    assert (done["counts"], sandbox.orders()) == ({"not_sent": 3}, [])
    assert "max_per_trade" in next(iter(results(tmp_path / "out").values()))["reason"]


def test_no_conversion_leaves_without_the_approval_of_the_payments(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC))
    file = sheet(tmp_path, *ROWS)
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    with pytest.raises(ApprovalNeeded):
        record(desk, file, rules)
    approve(desk)
    record(desk, file, rules)
    planned = plan_round(desk, file, rules)
    assert planned is not None
    [trade] = record_round(desk, planned, file, rules)
    cancelled = cancel(desk, "run", by="Checker", why="not now")  # recorded, and cancelled before its first byte
    assert [decision.order.run_key for decision in cancelled.decisions] == ["run", "run", "run", "run.fund"]
    execution.send_orders(desk, trade["run_key"], trade["ids"])
    assert sandbox.orders() == []
    assert plan_round(desk, file, rules) is None


def test_what_was_rejected_is_neither_converted_nor_paid(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC))
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")
    reject_plan(desk.ledger, "run", by="Checker", why="not now", os_user="somebody-else")
    with pytest.raises(PlanRejected):
        fund_and_pay(desk, sheet(tmp_path, *ROWS), rules, tmp_path / "out")
    assert sandbox.orders() == []


def test_an_approval_ends_where_more_is_needed_than_was_agreed_to(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC))
    file = sheet(tmp_path, *ROWS)
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    approve(desk)
    record(desk, file, rules)
    sandbox.deposit("USDT_TRC20", "-150")
    why = convert(desk, file, rules)
    assert why is not None
    assert why.startswith("not funded: 1150 USDT_TRC20 missing (more has to be converted than was agreed to: start")
    with pytest.raises(ApprovalNeeded):  # a start plans anew, and that waits for an approval of its own
        fund_and_pay(desk, file, rules, tmp_path / "out")
    assert sandbox.orders() == []
    approve(desk)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_an_approval_covers_less_and_nothing_more_is_converted(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC))
    file = sheet(tmp_path, *ROWS)
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    approve(desk)
    sandbox.deposit("USDT_TRC20", "900")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    [made] = trades_made(desk)
    assert made.value < 110


def test_a_conversion_that_fails_is_planned_again_at_the_next_start(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    planned = plan_round(desk, file, rules)
    assert planned is not None
    record_round(desk, planned, file, rules)  # recorded, and the process ended
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert [order.state for order in desk.ledger.orders(run_key="run.fund")] == [State.CANCELLED]
    assert [order.state for order in desk.ledger.orders(run_key="run.fund-2")] == [State.SETTLED]


def test_the_newest_conversion_says_first_why_a_run_is_not_funded(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """A reason that repeated all that earlier starts tried, and this run ended itself, would grow with each start."""
    desk, rules = open_desk(start_sandbox(balances=HELD).base_url), policy(tmp_path, "fee_bps = 1", PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    whys = [convert(desk, file, rules) or "" for _ in range(3)]
    assert "buy-USDT_TRC20 (run.fund-3): not sent, the quote's fee is " in whys[2]
    assert "cancelled" not in whys[2]
    assert len(whys[2]) - len(whys[0]) < 5


def test_rows_that_wait_are_funded_again_where_their_money_went(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(1300)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)  # recorded, and the process ended
    sandbox.deposit("USDT_TRC20", "-500")
    why = convert(desk, file, rules)
    assert why == (
        "not funded: 400 USDT_TRC20 missing (more has to be converted than was agreed to: start it again, and it is "
        "planned anew)"
    )
    assert {order.reason for order in desk.ledger.orders(run_key="run")} == {why}
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    [made] = trades_made(desk)
    assert 400 <= made.value < 415


def test_a_row_whose_debit_nobody_knows_is_named(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = policy(tmp_path, tail=PAYOUTS + '[payouts.max_per_run]\nUSDT_TRC20 = "1000"\n', BTC=BTC)
    with pytest.raises(LimitExceeded):
        paying.plan_of(desk, sheet(tmp_path, *ROWS), "run", rules)
    no_trading = tmp_path / "none.toml"
    no_trading.write_text('time_zone = "UTC"\n' + PAYOUTS)
    plan = paying.plan_of(desk, sheet(tmp_path, *ROWS), "run", no_trading)
    with pytest.raises(InputError, match=r"no \[rebalancing\] table"):
        agreeing.plan_to_execute(desk, plan, add=False, fund=True)


POINTS = [
    *(("intents.committed", hits) for hits in (1, 2)),
    *(("send.marked", 1), ("send.answered", 1), ("send.answered", 3), ("send.recorded", 1)),
    *(("quote.answered", 1), ("confirm.before", 1), ("apply.recorded", 1)),
]


def spec_of(folder: Path, sandbox: Any, key_file: Path, rules: Path) -> dict[str, Any]:
    """A start in a process of its own."""
    return {
        "act": "fund and pay",
        "out": str(folder / "out"),
        "home": str(folder),
        "base_url": sandbox.base_url,
        "key": str(key_file),
        "file": str(sheet(folder, *ROWS)),
        "rules": str(rules),
        "seconds": 6,
    }


@RUNS
@pytest.mark.parametrize(("point", "hits"), halves(POINTS)[0])
@pytest.mark.costly("up to four processes")
def test_killed_anywhere_it_is_funded_and_paid_once(
    start_sandbox: Any, tmp_path: Path, key_file: Path, point: str, hits: int
) -> None:
    sandbox = start_sandbox(balances=HELD)
    spec = spec_of(tmp_path, sandbox, key_file, policy(tmp_path, tail=PAYOUTS, BTC=BTC))
    killed = in_own_process({**spec, "point": point, "hits": hits})
    assert killed.returncode == -9, killed.stdout + killed.stderr
    for _ in range(3):
        ended = start_again(spec)
        if ended == {"settled": 3}:
            break
    conversions = [order for order in sandbox.orders() if order["operation"] == "conversion_execute"]
    paid = [order for order in sandbox.orders() if order["operation"] == "payout"]
    assert len(conversions) <= 1
    if (point, hits) == ("send.marked", 1):  # it may have left: no absence of a conversion is evidence
        assert (ended, paid) == ({"not_sent": 3}, [])
    else:
        assert (ended, len(conversions), len(paid)) == ({"settled": 3}, 1, 3)
        assert ",settled," in (tmp_path / "out" / "funding" / "results.csv").read_text()
        decisions = json.loads((tmp_path / "out" / "funding" / "decisions.json").read_text())
        assert [fill["outcome"] for each in decisions["after"] for fill in each["fills"]].count("settled") == 1


@RUNS
@pytest.mark.parametrize("point", ["send.marked", "send.answered"])
def test_a_person_says_what_became_of_a_conversion_and_the_run_goes_on(
    start_sandbox: Any, tmp_path: Path, key_file: Path, point: str, clock: MovedClock
) -> None:
    sandbox = start_sandbox(balances=HELD)
    spec = spec_of(tmp_path, sandbox, key_file, rules_of_a_day(tmp_path))
    assert in_own_process({**spec, "point": point, "hits": 1}).returncode == -9
    if point == "send.marked":
        assert start_again(spec) == {"not_sent": 3}
        [why] = {row["reason"] for row in results(tmp_path / "out").values()}
        assert "nobody knows whether buy-USDT_TRC20 was made: treasury resolve" in why
        spec["ahead"] = 3600
        clock.move(3600)  # its quote can be confirmed no more
        with closing(desk_of_process(spec)) as desk:
            [decided] = resolve_as_not_sent(desk, "run.fund", by="Ada", why="their support says that it never arrived")
        assert decided.done, decided.says
    assert start_again(spec) == {"settled": 3}
    assert sorted(kinds(sandbox)) == ["conversion_execute", *["payout"] * 3]


@RUNS
def test_a_conversion_that_nobody_knows_the_end_of_is_told_though_every_row_is_paid(
    start_sandbox: Any, tmp_path: Path, key_file: Path
) -> None:
    """Its money came from elsewhere meanwhile, and the command ended with 0."""
    sandbox = start_sandbox(balances=HELD)
    spec = spec_of(tmp_path, sandbox, key_file, policy(tmp_path, tail=PAYOUTS, BTC=BTC))
    assert in_own_process({**spec, "point": "send.marked", "hits": 1}).returncode == -9
    sandbox.deposit("USDT_TRC20", "1100")
    with closing(desk_of_process(spec)) as desk:
        for _ in range(2):  # the next start has nothing left to pay, and tells it again
            summary = fund_and_pay(desk, Path(spec["file"]), Path(spec["rules"]), tmp_path / "out")
            assert in_words(summary) == "3 settled, 1 conversion unknown"
            assert needs_a_person(summary)


def test_a_balance_that_does_not_move_by_the_conversions_is_a_break_of_the_run(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    found = plan_round(desk, file, rules)
    assert found is not None
    sandbox.deposit("USDT", "-7")
    ids = [each for trade in record_round(desk, found, file, rules) for each in trade["ids"]]
    with desk.hold("run"):
        execution.send_orders(desk, found["run_key"], ids)
        execution.follow_orders(desk, found["run_key"], ids, 10)
        done = round_results.prove_round(desk, found["run_key"], kept_plan(desk, found))
        summary = paying.write(desk, "run", tmp_path / "out", [done])
    assert [each["asset"] for each in summary["breaks"]] == ["USDT"]
    assert summary["conversions"] == {"settled": 1}
    assert needs_a_person(summary)
    assert in_words(summary) == "0 settled, 3 not sent, 1 balance break"


def test_rows_that_are_added_are_funded_as_a_plan_of_their_own(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    assert fund_and_pay(desk, sheet(tmp_path, *ROWS[:2]), rules, tmp_path / "out")["counts"] == {"settled": 2}
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules, add=True)
    planned = plan_round(desk, file, rules)
    assert planned is not None
    assert planned["run_key"] == "run.fund-2"
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert 500 <= trades_made(desk)[-1].value < 520


def test_what_was_spent_under_an_earlier_plan_does_not_count_against_a_later_one(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), rules_of_a_day(tmp_path)
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    assert convert(desk, file, rules) is None
    sandbox.deposit("USDT_TRC20", "-600")  # gone before the rows were sent
    clock_of(desk).move(660)  # a balance that does not show a conversion yet is taken for late at first
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_two_currencies_that_are_lacking_are_funded_in_every_round_alike(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(550), "USDT_TRC20": D(100), "BTC": D(3)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, ("a", "3215.40", "12345670001"), ("b", "1560.50", "12345670101"))
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1].replace("USDT_TRC20", "USDT"), lines[2]]) + "\n")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 2}


def test_a_quote_may_not_be_worse_than_the_rate_that_was_agreed_to(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    payments = paying.plan_of(desk, file, "run", rules)
    [shown] = propose(desk, file, rules).conversions
    worst = shown.rate * D("1.001")
    tighter = with_conversions(payments, (replace(shown, worst_rate=worst),))
    funding_plans._keep(desk, tighter, payments.sha256)
    paying.commit(desk, file, "run", rules, shown=tighter.sha256)
    planned = plan_round(desk, file, rules)
    assert planned is not None
    [trade] = record_round(desk, planned, file, rules)
    [order] = desk.ledger.orders(ids=trade["ids"])
    assert D(desk.ledger.payload(order)["bounds"]["max_rate"]) <= worst


def test_a_run_of_the_name_of_conversions_is_left_alone(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    with pytest.raises(InputError, match="choose a run key that does not end so"):
        paying.plan_of(desk, sheet(tmp_path, *ROWS), "payroll.fund", rules)


@RUNS
def test_a_run_of_which_nothing_waits_is_not_said_to_lack_anything(
    start_sandbox: Any, tmp_path: Path, key_file: Path
) -> None:
    """One row, of which nobody knows whether it was paid: there is nothing to fund."""
    rules = rules_of_a_day(tmp_path)
    spec = spec_of(tmp_path, start_sandbox(balances={**HELD, "USDT_TRC20": D(5000)}), key_file, rules)
    spec["file"] = str(sheet(tmp_path, ROWS[0]))
    assert in_own_process({**spec, "point": "send.marked", "hits": 1}).returncode == -9
    with closing(desk_of_process(spec)) as desk:
        payments = paying.plan_of(desk, Path(spec["file"]), "run", rules)
        assert agreeing.plan_to_execute(desk, payments, add=False, fund=True) is None
        [order] = desk.ledger.orders()
        assert order.state is State.SENDING


def test_nothing_is_converted_for_a_run_that_its_stop_loss_stopped(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    with desk.hold("run"):  # a start holds its run from beginning to end
        desk.stop_losses["run"] = StopLoss(why="50 sends in a row failed in the same way (500)")
        why = convert(desk, file, rules)
    assert why is not None
    assert "the run was stopped: 50 sends in a row failed" in why
    assert sandbox.orders() == []
