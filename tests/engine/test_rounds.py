"""A treasurer's days: what is in flight, what has to be paid, several starts a day, and what cannot be had."""

import csv
import json
import os
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.funded import PAYOUTS
from tests.engine.own_process import in_own_process
from tests.engine.rounds import available, decided, policy, start, traded
from tests.engine.runs import sheet
from tests.moved_clock import RUNS, MovedClock, clock_of
from treasury.approving.tokens import Verb
from treasury.call import calls
from treasury.errors import ApprovalNeeded, InputError, LimitExceeded
from treasury.ledger.approvals import waiting_plans
from treasury.ledger.decisions import Word
from treasury.ledger.plans import has_consent
from treasury.ledger.policies import adopt_policy
from treasury.ledger.proposals import cancel_plan
from treasury.orders.states import State
from treasury.payments import execution
from treasury.payments.cancelling import cancel_order
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.payments.resolving import resolve_as_not_sent
from treasury.planning.single import judge_operation
from treasury.policy_file import read_policy
from treasury.provider.conversion import ConversionExecute
from treasury.rebalance import rebalancing, round_results, trade_orders
from treasury.rebalance.consent import KIND, say_yes

D = Decimal
OpenDesk = Callable[..., Desk]

BTC = ("0.2", "0.4", "0.6")
DOGE = ("1000", "2000", "4000")


def rows_of(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "results.csv").read_text().splitlines()))


def holding(**amounts: str) -> dict[str, Decimal]:
    return {"USDT": D(100_000), **{asset: D(amount) for asset, amount in amounts.items()}}


def test_a_purchase_on_its_way_is_counted_and_not_repeated(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(DOGE="0"), settle_seconds=3600)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, 'return_to = "target"', DOGE=DOGE)
    first = start(desk, rules, tmp_path / "one", seconds=0.1)
    assert first["counts"] == {"in_progress": 1}
    for number in range(3):
        again = start(desk, rules, tmp_path / f"again{number}", seconds=0.1)
        assert again["counts"] == {}
        assert again["today"] == "0 settled, 1 in progress"
    assert len(sandbox.orders()) == 1
    line = decided(desk, rules)["DOGE"]
    assert "on its way counted" in line["why"]
    assert D(line["incoming"]) > 1990


def test_a_sale_on_its_way_is_not_made_again_whenever_the_service_debits(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"), settle_seconds=3600)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    start(desk, rules, tmp_path / "one", seconds=0.1)
    [(_, _, sold)] = traded(desk)
    assert sold == D("1.4")  # to the nearest edge: only a proportional cost is known
    assert start(desk, rules, tmp_path / "two", seconds=0.1)["counts"] == {}
    found = rebalancing.read_market(desk, rules)
    debits_late = replace(found, available={**found.available, "BTC": D(2)}, held={})
    line = {each.asset: each for each in rebalancing.plan_from(desk, rules, debits_late).decided.lines}["BTC"]
    assert line.change == 0, line.why
    assert "may be on its way out" in line.why
    assert len(sandbox.orders()) == 1


def test_a_day_has_as_many_rounds_as_it_needs(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=holding(BTC="0.4"))
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    assert start(desk, rules, tmp_path / "morning")["counts"] == {}
    sandbox.deposit("BTC", "1.2")
    noon = start(desk, rules, tmp_path / "noon")
    assert noon["counts"] == {"settled": 1}
    sandbox.deposit("BTC", "1")
    evening = start(desk, rules, tmp_path / "evening")
    assert (evening["counts"], evening["today"]) == ({"settled": 1}, "2 settled")
    assert available(sandbox, "BTC") == D("0.6")
    keys = [run_key for run_key, _, _ in traded(desk)]
    assert keys[1] == f"{keys[0]}-2"
    last = start(desk, rules, tmp_path / "night")
    assert (last["counts"], last["today"]) == ({}, "2 settled")
    rows = rows_of(tmp_path / "night")
    assert [row["outcome"] for row in rows] == ["settled", "settled"]


def test_what_a_sale_brings_is_spent_in_the_next_round_of_the_same_start(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(500), "BTC": D(1), "DOGE": D(0)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC, DOGE=DOGE)
    done = start(desk, rules, tmp_path / "out")
    assert done["counts"]["settled"] == 2, done
    (first, sale, _), (second, purchase, _) = traded(desk)
    assert (sale, purchase) == ("sell-BTC", "buy-DOGE")
    assert second == f"{first}-2"
    assert available(sandbox, "DOGE") >= 1000
    assert available(sandbox, "USDT") >= 500


def test_an_asset_whose_pair_or_balance_cannot_be_had_stops_by_name_and_the_others_go_on(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"))
    desk = open_desk(sandbox.base_url)
    rules = policy(tmp_path, BTC=BTC, NOCOIN=("1", "2", "3"))
    done = start(desk, rules, tmp_path / "out")
    assert done["counts"] == {"settled": 1, "not_sent": 1}
    [skipped] = done["skipped"]
    assert skipped["asset"] == "NOCOIN"
    assert "could not be had" in skipped["reason"]
    rows = {row["row_ref"]: row for row in rows_of(tmp_path / "out")}
    assert rows["buy-NOCOIN"]["outcome"] == "not_sent"
    assert "could not be had" in rows["buy-NOCOIN"]["reason"]


def test_a_run_that_waits_is_an_obligation_and_is_funded(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(USDT_TRC20="100"))
    desk = open_desk(sandbox.base_url)
    paying.commit(desk, sheet(tmp_path, ("a", "2000", "12345670001"), ("b", "3000", "12345670002")), "payroll")
    rules = policy(tmp_path)
    with rules.open("a") as file:
        file.write('[assets.DOGE]\ntarget = "0"\nmaximum = "9999999"\n')
    line = decided(desk, rules)["USDT_TRC20"]
    assert line["obligations"] == [{"what": "run payroll, not sent yet", "amount": "5000"}]
    done = start(desk, rules, tmp_path / "out")
    assert done["counts"] == {"settled": 1}
    assert available(sandbox, "USDT_TRC20") >= 5000
    assert start(desk, rules, tmp_path / "again")["counts"] == {}


def test_an_obligation_that_cannot_be_met_is_named_with_the_cost_of_one_more(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(1000), "USDT_TRC20": D(0)})
    desk = open_desk(sandbox.base_url)
    paying.commit(desk, sheet(tmp_path, ("a", "4000", "12345670001")), "payroll")
    rules = policy(tmp_path, DOGE=("0", "0", "9999999"))
    done = start(desk, rules, tmp_path / "out")
    [skipped] = [each for each in done["skipped"] if each["asset"] == "USDT_TRC20"]
    assert 3490 < D(skipped["amount"]) < 3540
    assert available(sandbox, "USDT") >= 500  # its floor holds
    content = json.loads((tmp_path / "out" / "decisions.json").read_text())
    assert content["decided"]["one_more_unit_costs"]["USDT_TRC20"] is None


def test_balances_of_another_year_are_not_believed(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"))
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    file = tmp_path / "balances.csv"
    file.write_text("currency,available\nUSDT,5000\nBTC,9\n")
    os.utime(file, (1_560_000_000, 1_560_000_000))
    with pytest.raises(InputError, match=r"too old: it was last changed 2019-06-08"):
        start(desk, rules, tmp_path / "out", balances=file)
    file.write_text("currency,available,as_of\nUSDT,5000,2019-06-08T06:30:00Z\nBTC,9,2019-06-08\n")
    with pytest.raises(InputError, match=r"too old: its column as_of says 2019-06-08 00:00 UTC"):
        start(desk, rules, tmp_path / "out", balances=file)
    assert sandbox.orders() == []


@pytest.mark.parametrize(
    ("zone", "written", "at"),
    [
        ("Asia/Singapore", "2019-06-08 04:00", "2019-06-07 20:00"),
        ("Asia/Kathmandu", "2019-06-08", "2019-06-07 18:15"),
        ("Europe/Berlin", "2019-10-27 02:30", "2019-10-27 00:30"),  # the first of two hours of this name
        ("Europe/Berlin", "2019-10-27 02:30+01:00", "2019-10-27 01:30"),
    ],
)
def test_balances_are_as_old_as_the_clock_of_the_policy_says(
    zone: str, written: str, at: str, open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk, rules = open_desk(start_sandbox(balances=holding(BTC="2")).base_url), policy(tmp_path, BTC=BTC)
    rules.write_text(rules.read_text().replace('"UTC"', f'"{zone}"'))
    file = tmp_path / "balances.csv"
    file.write_text(f"currency,available,as_of\nUSDT,5000,{written}\nBTC,9,{written}\n")
    with pytest.raises(InputError, match=f"as_of says {at} UTC"):
        start(desk, rules, tmp_path / "out", balances=file)


def test_a_rate_that_moved_too_far_stops_its_pair_and_the_second_source_too(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2", DOGE="0"))
    desk = open_desk(sandbox.base_url)
    references = tmp_path / "rates.csv"
    references.write_text("symbol,rate\nBTC-USDT,32000\nDOGE-USDT,0.12\n")
    more = f'reference_rates = "{references}"\nmax_reference_move_bps = 1000'
    rules = policy(tmp_path, more, BTC=BTC, DOGE=DOGE)
    done = start(desk, rules, tmp_path / "out")
    assert done["counts"] == {"settled": 1, "not_sent": 1}
    [skipped] = done["skipped"]
    assert skipped["asset"] == "BTC"
    assert "the reference rate is 32000" in skipped["reason"]


def test_a_pair_that_costs_too_much_is_named_with_its_limit(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"))
    rules = policy(tmp_path, tail="[conversions]\nmax_cost_bps = 1\n", BTC=BTC)
    done = start(open_desk(sandbox.base_url), rules, tmp_path / "out")
    [skipped] = done["skipped"]
    assert "BTC-USDT costs " in skipped["reason"]
    assert "over max_cost_bps, 1" in skipped["reason"]


def test_what_has_to_be_paid_is_bought_where_the_day_has_no_room_for_a_band(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": Decimal(5000), "BTC": Decimal(2), "USDT_TRC20": Decimal(0)})
    desk = open_desk(sandbox.base_url)
    rules = policy(tmp_path, tail=PAYOUTS + '[conversions.max_per_day]\nBTC = "0.5"\n', BTC=BTC)
    file = sheet(tmp_path, ("a", "1200", "12345670001"))
    paying.commit(desk, file, "salaries", rules)  # they wait
    done = start(desk, rules, tmp_path / "out")
    bought = [order for order in desk.ledger.orders() if order.receive_currency == "USDT_TRC20"]
    assert [order.state for order in bought if order.run_key != "salaries"] == [State.SETTLED]
    sold = [order.amount for order in desk.ledger.orders() if order.currency == "BTC"]
    assert sum(amount or 0 for amount in sold) <= Decimal("0.5")
    [skipped] = [each for each in done["skipped"] if each["asset"] == "BTC"]
    assert "max_per_day" in skipped["reason"]


@pytest.mark.both_databases
def test_turnover_counts_the_rounds_of_a_day_together(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"))
    desk = open_desk(sandbox.base_url)
    rules = policy(tmp_path, tail='[conversions.max_turnover]\nBTC = "2"\n', BTC=BTC)
    start(desk, rules, tmp_path / "one")
    sandbox.deposit("BTC", "5")
    with pytest.raises(LimitExceeded, match=r"max_turnover, of which 0\.6 BTC are left today"):
        start(desk, rules, tmp_path / "two")
    assert sum(amount or 0 for _, _, amount in traded(desk)) <= 2


def test_what_was_decided_can_be_planned_again_from_its_file(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2", DOGE="10"))
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC, DOGE=DOGE)
    start(desk, rules, tmp_path / "out")
    content = json.loads((tmp_path / "out" / "decisions.json").read_text())
    again, same = rebalancing.explain(content)
    assert same
    assert len(again.plan.trades) == 2
    content["snapshot"]["available"]["BTC"] = "0.5"
    assert not rebalancing.explain(content)[1]


def test_less_than_the_fills_explain_is_a_break_the_same_minute(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"))
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    proven = start(desk, rules, tmp_path / "one")
    content = json.loads((tmp_path / "one" / "decisions.json").read_text())
    assert [each["verdict"] for each in content["after"][0]["proofs"]] == ["proven", "proven"], content["after"]
    assert proven["breaks"] == []
    clock_of(desk).move(1)
    sandbox.deposit("BTC", "3")
    found = rebalancing.planned_round(
        desk, None, rules, rebalancing.rates_for(desk, rules, rebalancing.position_for(desk, rules, None, None)), None
    )
    sandbox.deposit("USDT", "-7")
    assert rebalancing.kept_plan(desk, found).trades
    with desk.hold(found["run_key"]):
        rebalancing.propose(desk, found, rules)
        plan = rebalancing.kept_plan(desk, found)
        [trade] = trade_orders.record_trades(desk, found["run_key"], plan, rules)
        execution.send_orders(desk, found["run_key"], trade["ids"])
        execution.follow_orders(desk, found["run_key"], trade["ids"], 10)
        done = round_results.prove_round(desk, found["run_key"], plan)
    broken = [each for each in done["proofs"] if each["verdict"] == "break"]
    assert [(each["asset"], each["why"].split()[0]) for each in broken] == [("USDT", "7")]


def test_a_mistyped_limit_refuses_the_whole_plan_at_every_door(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"))
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    found = rebalancing.plan_round(desk, rules, None)
    stricter = policy(tmp_path, tail='[conversions.max_per_trade]\nBTC = "1"\n', BTC=BTC)
    rebalancing.keep_plan(desk, found.run_key, found.plan, stricter)
    with pytest.raises(LimitExceeded, match="max_per_trade"):
        trade_orders.commit_trades(desk, found.run_key, found.plan, stricter)
    assert desk.ledger.orders(states=(State.PREPARED,)) == []


def test_what_is_scheduled_is_held_ready_until_its_run_has_begun(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(USDT_TRC20="100"))
    desk = open_desk(sandbox.base_url)
    weekday = f"{MovedClock().now():%A}".lower()
    tail = f'[[scheduled]]\nname = "rent"\ncurrency = "USDT_TRC20"\namount = "700"\nweekday = "{weekday}"\n'
    rules = policy(tmp_path, tail=tail, DOGE=("0", "0", "9999999"))
    assert decided(desk, rules)["USDT_TRC20"]["need"] == "700"
    start(desk, rules, tmp_path / "out")
    assert available(sandbox, "USDT_TRC20") >= 700
    paying.commit(desk, sheet(tmp_path, ("a", "700", "12345670001")), "rent-2026-11")
    [obligation] = decided(desk, rules)["USDT_TRC20"]["obligations"]
    assert obligation["what"] == "run rent-2026-11, not sent yet"


def test_a_rate_is_judged_by_the_last_good_one(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2", DOGE="0"))
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC, DOGE=DOGE)
    found = rebalancing.plan_round(desk, rules, None)
    decisions = rebalancing.decisions_of(desk, found, rules)
    rates = decisions["snapshot"]["rates"]["BTC-USDT"]
    rates |= {side: str(D(rate) * 2) for side, rate in rates.items()}
    rebalancing.keep_snapshot(desk, decisions)
    done = start(desk, rules, tmp_path / "out")
    assert done["counts"] == {"settled": 1, "not_sent": 1}
    [skipped] = done["skipped"]
    assert skipped["asset"] == "BTC"
    assert "when it was last good: further than max_rate_move_bps, 2500" in skipped["reason"]


@RUNS
def test_a_file_of_balances_is_not_believed_twice(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=holding(BTC="5"))
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    file = tmp_path / "balances.csv"
    file.write_text("currency,available\nUSDT,5000\nBTC,2\n")
    assert start(desk, rules, tmp_path / "one", balances=file)["counts"] == {"settled": 1}
    with pytest.raises(InputError, match="conversions were made since these balances were true"):
        start(desk, rules, tmp_path / "two", balances=file)
    file.write_text("currency,available,as_of\nUSDT,5000,2999-01-01\nBTC,9,2999-01-01\n")
    with pytest.raises(InputError, match="which is still to come"):
        start(desk, rules, tmp_path / "three", balances=file)
    assert len(sandbox.orders()) == 1


def test_a_start_whose_position_was_read_before_another_one_traded_trades_nothing(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"))
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    position = rebalancing.position_for(desk, rules, None, None)
    assert start(desk, rules, tmp_path / "other")["counts"] == {"settled": 1}
    found = rebalancing.planned_round(desk, None, rules, rebalancing.rates_for(desk, rules, position), None)
    other = replace(rebalancing.kept_plan(desk, found), policy_version="another")
    with pytest.raises(InputError, match="began meanwhile with another plan"):
        trade_orders.record_trades(desk, found["run_key"], other, rules)
    assert len(sandbox.orders()) == 1


def test_what_waits_for_proceeds_that_did_not_come_is_told(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(500), "BTC": D(1), "DOGE": D(0)}, settle_seconds=3600)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC, DOGE=DOGE)
    done = start(desk, rules, tmp_path / "out", seconds=0.1)
    assert done["counts"] == {"in_progress": 1, "not_sent": 1}
    [row] = [row for row in rows_of(tmp_path / "out") if row["outcome"] == "not_sent"]
    assert (row["row_ref"], row["reason"]) == ("buy-DOGE", "what pays for it is not settled yet")


@RUNS
def test_what_no_further_round_of_the_start_makes_says_why(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    held = {"USDT": D(500), "BTC": D(1), "DOGE": D(0)}
    file = tmp_path / "balances.csv"
    file.write_text("currency,available\n" + "".join(f"{asset},{amount}\n" for asset, amount in held.items()))
    desk, rules = open_desk(start_sandbox(balances=held).base_url), policy(tmp_path, BTC=BTC, DOGE=DOGE)
    assert start(desk, rules, tmp_path / "one", balances=file)["counts"] == {"settled": 1, "not_sent": 1}
    [row] = [row for row in rows_of(tmp_path / "one") if row["outcome"] == "not_sent"]
    assert row["reason"].endswith("which a file of balances does not show: rebalance without --balances")


def test_a_start_of_one_round_says_what_the_next_start_makes(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(balances={"USDT": D(500), "BTC": D(1), "DOGE": D(0)}).base_url)
    rules = policy(tmp_path, "max_rounds = 1", BTC=BTC, DOGE=DOGE)
    assert start(desk, rules, tmp_path / "one")["counts"] == {"settled": 1, "not_sent": 1}
    [row] = [row for row in rows_of(tmp_path / "one") if row["outcome"] == "not_sent"]
    assert row["reason"].endswith("as many rounds as the policy's max_rounds allows")
    assert start(desk, rules, tmp_path / "two")["counts"] == {"settled": 1}


def test_a_called_conversion_of_which_nothing_is_known_stops_nothing(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"))
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    calls.submit_operation(desk, ConversionExecute(quote_id="unknown-quote"))
    assert start(desk, rules, tmp_path / "out")["counts"] == {"settled": 1}


def test_approvals_count_all_rounds_of_a_day(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"))
    desk, limits = open_desk(sandbox.base_url), '[conversions.one_approval_above]\nBTC = "2"\n'
    adopt_policy(desk.ledger, read_policy(policy(tmp_path, tail=limits, BTC=BTC)), "p", by="Ada", os_user="ada")
    say_yes(desk, governing(desk).version)
    assert start(desk, None, tmp_path / "one")["counts"] == {"settled": 1}
    sandbox.deposit("BTC", "1")
    with pytest.raises(ApprovalNeeded):
        start(desk, None, tmp_path / "two")
    assert len(sandbox.orders()) == 1


def test_what_a_day_is_worth_is_judged_again_when_a_plan_is_recorded(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"))
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    found = rebalancing.plan_round(desk, rules, None)
    stricter = policy(tmp_path, tail='[conversions]\nmax_value_per_day = "1000"\n', BTC=BTC)
    rebalancing.keep_plan(desk, found.run_key, found.plan, stricter)
    with pytest.raises(LimitExceeded, match="over max_value_per_day, 1000"):
        trade_orders.commit_trades(desk, found.run_key, found.plan, stricter)


LIMITS = (
    *('max_value_per_day = "1"', 'max_cost_per_day = "1"', "max_cost_bps = 1", "max_share_percent = 1"),
    'max_per_pair = { "BTC-USDT" = "1" }',
)


@pytest.mark.parametrize("limit", LIMITS)
def test_a_call_of_which_nothing_is_known_is_refused_where_anything_is_limited(limit: str, tmp_path: Path) -> None:
    rules = read_policy(policy(tmp_path, tail=f"[conversions]\n{limit}\n", BTC=BTC))
    judged = judge_operation(ConversionExecute(quote_id="q"), rules)
    assert "treasury rebalance" in judged.problems[0]


def test_one_run_stands_for_one_date_and_one_that_ended_unpaid_for_none(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(balances=holding(USDT_TRC20="9000")).base_url)
    weekday = f"{MovedClock().now():%A}".lower()
    tail = f'[[scheduled]]\nname = "rent"\ncurrency = "USDT_TRC20"\namount = "700"\nweekday = "{weekday}"\n'
    rules = policy(tmp_path, "horizon_days = 8", tail, DOGE=("0", "0", "9999999"))
    paying.commit(desk, sheet(tmp_path, ("a", "5", "12345670001")), "rental-cars")
    assert [each["amount"] for each in decided(desk, rules)["USDT_TRC20"]["obligations"]] == ["5", "1400"]
    paying.commit(desk, sheet(tmp_path, ("b", "700", "12345670002"), name="rent.csv"), "rent-2026-11")
    assert [each["amount"] for each in decided(desk, rules)["USDT_TRC20"]["obligations"]] == ["700", "5", "700"]
    for order in desk.ledger.orders(run_key="rent-2026-11"):
        cancel_order(desk, order, "not paid after all")
    assert [each["amount"] for each in decided(desk, rules)["USDT_TRC20"]["obligations"]] == ["5", "1400"]


def test_a_cancelled_plan_does_not_end_the_day(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"))
    desk, limits = open_desk(sandbox.base_url), '[conversions.one_approval_above]\nBTC = "1"\n'
    adopt_policy(desk.ledger, read_policy(policy(tmp_path, tail=limits, BTC=BTC)), "p", by="Ada", os_user="ada")
    say_yes(desk, governing(desk).version)
    with pytest.raises(ApprovalNeeded):
        start(desk, None, tmp_path / "one")
    [plan] = waiting_plans(desk.ledger)
    cancel_plan(desk.ledger, plan, Word(Verb.CANCEL, "Ada", "another way", "ada"))
    with pytest.raises(ApprovalNeeded):
        start(desk, None, tmp_path / "two")
    [again] = waiting_plans(desk.ledger)
    assert again.run_key == f"{plan.run_key}-2"
    assert sandbox.orders() == []


@RUNS
def test_what_a_dead_start_left_sending_is_named_and_a_person_can_end_it(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, ledger_url: str, key_file: Path
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="0.1"))
    rules = policy(tmp_path, BTC=BTC)
    spec = {"act": "rebalance", "home": str(tmp_path), "base_url": sandbox.base_url, "key": str(key_file)}
    spec |= {
        "ledger": ledger_url,
        "rules": str(rules),
        "out": str(tmp_path / "killed"),
        "seconds": 5,
        "point": "send.marked",
        "hits": 1,
    }
    assert in_own_process(spec).returncode == -9
    desk = open_desk(sandbox.base_url)
    [order] = desk.ledger.orders()
    assert order.state is State.SENDING
    [said] = resolve_as_not_sent(desk, order.request_id, by="Ada", why="the portal does not show it")
    assert "its quote may still be confirmed until" in said.says
    done = start(desk, rules, tmp_path / "out")
    assert done["counts"] == {"not_sent": 1, "unknown": 1}
    [row] = [row for row in rows_of(tmp_path / "out") if row["outcome"] == "not_sent"]
    assert order.request_id in row["reason"]
    assert "treasury resolve says what became of it" in row["reason"]
    assert [order.state for order in desk.ledger.orders()] == [State.UNKNOWN]
    idle = start(desk, policy(tmp_path, BTC=("0", "1", "100")), tmp_path / "idle")
    assert idle["counts"] == {"unknown": 1}, "a start that has nothing to do ended with 0"


def test_a_start_over_midnight_tells_the_rounds_of_both_days(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2", DOGE="2000"))
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, "max_rate_age_seconds = 86400", BTC=BTC, DOGE=DOGE)
    now = desk.clock.now()
    start(desk, rules, tmp_path / "before")
    left = 86_400 - (now.hour * 3600 + now.minute * 60 + now.second)
    clock_of(desk).move(left)
    sandbox.deposit("DOGE", "9000")
    start(desk, rules, tmp_path / "after")
    rounds = [json.loads((tmp_path / name / "decisions.json").read_text()) for name in ("before", "after")]
    assert len({each["run_key"] for each in rounds}) == 2
    contents, done = [each["rounds"][0] for each in rounds], [each["after"][0] for each in rounds]
    told = round_results.write_decisions(desk, contents, done, tmp_path / "both")
    assert (told["counts"], told["today"]) == ({"settled": 2}, "2 settled")
    assert {row["row_ref"] for row in rows_of(tmp_path / "both")} == {"sell-BTC", "sell-DOGE"}


def test_a_yes_to_a_plan_is_none_to_the_policy_that_came_into_force_meanwhile(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk, seen = open_desk(start_sandbox(balances=holding(BTC="2")).base_url), []
    for most in ("2", "3"):
        limits = f'[conversions.max_per_trade]\nBTC = "{most}"\n'
        adopt_policy(desk.ledger, read_policy(policy(tmp_path, tail=limits, BTC=BTC)), "p", by="Ada", os_user="ada")
        seen.append(governing(desk).version)
    with pytest.raises(InputError, match="another policy came into force meanwhile"):
        say_yes(desk, seen[0])
    assert [has_consent(desk.ledger, version, KIND) for version in seen] == [False, False]
    say_yes(desk, seen[1])
    assert has_consent(desk.ledger, seen[1], KIND)
