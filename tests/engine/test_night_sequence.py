"""Nights follow each other as they were made, however a clock is set and whichever sweep began first."""

from pathlib import Path
from typing import Any

import pytest

from tests.engine.answers import accepted, ok, shown
from tests.engine.approvers import adopt
from tests.engine.nights import DAY, ROWS, OpenDesk, balance, classes
from tests.engine.runs import night, pay, remake, sheet, without_opening
from tests.moved_clock import clock_of
from treasury.errors import InputError
from treasury.nights import sweep
from treasury.nights.reporting import judge_sweep
from treasury.nights.standing import standing_of
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.reconciliation.scope import Scope


@pytest.fixture
def desk(open_desk: OpenDesk, service: Any, tmp_path: Path) -> Desk:
    """A payment that is settled, and a balance of 100."""
    service.plans |= {"/v1/order/payout": [accepted], "/v1/balance/partner": [ok(balance="100")]}
    desk = open_desk(service.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=0)
    service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20")]
    return desk


@pytest.mark.parametrize("days", [-5, 5])
def test_a_lot_is_found_and_stays_however_the_wall_clock_is_set(
    desk: Desk, service: Any, tmp_path: Path, days: int
) -> None:
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    assert night(desk, tmp_path / "2")["verdict"] == "reconciled"
    service.plans["/v1/balance/partner"] = [ok(balance="75")]
    clock_of(desk).set_wall(days * DAY)
    found = []
    for number in range(3, 6):
        report = night(desk, tmp_path / f"{number}")
        found.append((balance(report)["opening"], balance(report)["unexplained"], classes(report)))
        clock_of(desk).set_wall(-DAY)
    lots = [{"USDT_TRC20": f"balance_gap {lifecycle}"} for lifecycle in ("new", "persisting", "persisting")]
    assert found == [("100", "-25", each) for each in lots]
    clock_of(desk).move(DAY)
    again = remake(desk, sweep.stored_sweep(desk, Scope()), tmp_path / "again")
    assert again["as_of"] == report["as_of"]


@pytest.mark.both_databases
def test_breaks_of_a_sweep_that_ended_after_a_later_one_are_known_from_that(
    desk: Desk, service: Any, tmp_path: Path
) -> None:
    night(desk, tmp_path / "1")
    slow = sweep.start_or_resume_sweep(desk, Scope())
    clock_of(desk).move(DAY)
    service.plans["/v1/balance/partner"] = [ok(balance="75")]
    assert classes(night(desk, tmp_path / "2")) == {"USDT_TRC20": "balance_gap new"}
    for ids in sweep.open_parts(desk, slow).values():
        sweep.ask_orders(desk, ids)
    clock_of(desk).move(DAY)
    sweep.end_sweep(desk, slow)
    late = remake(desk, slow, tmp_path / "late")
    assert (classes(late), late["missed_days"]) == ({"USDT_TRC20": "balance_gap persisting"}, [])
    [standing] = standing_of(desk)["breaks"]
    assert standing["age_days"] == 1
    clock_of(desk).move(DAY)
    last = night(desk, tmp_path / "4")
    assert (classes(last), last["missed_days"]) == ({"USDT_TRC20": "balance_gap persisting"}, [])


@pytest.mark.both_databases
@pytest.mark.parametrize("scope", [Scope(run_key="run"), Scope(currency="USDT_TRC20"), Scope(window_days=30)])
def test_a_narrowed_report_after_nights_without_a_payment_knows_them_and_their_breaks(
    desk: Desk, service: Any, tmp_path: Path, scope: Scope
) -> None:
    service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20", fee_amount="1")]
    night(desk, tmp_path / "1")
    service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20", fee_amount="2")]
    for number in range(2, 5):
        clock_of(desk).move(DAY)
        night(desk, tmp_path / f"{number}")
    for _ in range(2):
        report = night(desk, tmp_path / "narrowed", scope)
        assert (classes(report), report["missed_days"]) == ({"a": "fee_variance persisting"}, [])
        assert report["breaks"][0]["age_days"] == 2


def cut_off(desk: Desk) -> None:
    """A night that is killed after it recorded its breaks and before its files are there."""
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    for ids in sweep.open_parts(desk, sweep_id).values():
        sweep.ask_orders(desk, ids)
    sweep.end_sweep(desk, sweep_id)
    judge_sweep(desk, sweep_id, Policy())
    clock_of(desk).move(60)


@pytest.mark.both_databases
def test_what_only_a_night_without_files_found_is_new_in_the_next_report(
    desk: Desk, service: Any, tmp_path: Path
) -> None:
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    service.plans["/v1/balance/partner"] = [ok(balance="75")]
    for _ in range(2):
        cut_off(desk)
        assert [each["class"] for each in standing_of(desk)["breaks"]] == ["balance_gap"]
    found = [classes(night(desk, tmp_path / f"{number}")) for number in (2, 3)]
    assert found == [{"USDT_TRC20": "balance_gap new"}, {"USDT_TRC20": "balance_gap persisting"}]


@pytest.mark.both_databases
def test_what_only_a_night_without_files_found_is_new_in_the_next_report_however_often_that_is_made(
    desk: Desk, service: Any, tmp_path: Path
) -> None:
    """It may be cut off, too, before its files are there, and is then made again, offline or by Prefect."""
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    service.plans["/v1/balance/partner"] = [ok(balance="75")]
    cut_off(desk)
    report = night(desk, tmp_path / "2")
    again = without_opening(remake(desk, sweep.stored_sweep(desk, Scope()), tmp_path / "2"))
    assert classes(again) == classes(report) == {"USDT_TRC20": "balance_gap new"}


@pytest.mark.both_databases
def test_what_only_a_night_without_files_resolved_is_shown_as_resolved_by_the_next_report(
    desk: Desk, service: Any, tmp_path: Path
) -> None:
    night(desk, tmp_path / "1")
    right = service.plans["/v1/order/query"]
    service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20", order_amount="11.00")]
    assert classes(night(desk, tmp_path / "2")) == {"a": "amount_mismatch new"}
    service.plans["/v1/order/query"] = right
    cut_off(desk)
    found = [classes(night(desk, tmp_path / f"{number}")) for number in (3, 4)]
    assert found == [{"a": "amount_mismatch resolved"}, {}]


@pytest.mark.both_databases
@pytest.mark.parametrize("is_dated", [True, False])
def test_a_line_counts_in_the_report_that_was_given_it_however_the_wall_clock_is_set(
    is_dated: bool, desk: Desk, service: Any, tmp_path: Path
) -> None:
    night(desk, tmp_path / "1")
    clock_of(desk).set_wall(10 * DAY)
    night(desk, tmp_path / "2")
    clock_of(desk).set_wall(-8 * DAY)
    service.plans["/v1/balance/partner"] = [ok(balance="75")]
    statement, day = tmp_path / "statement.csv", f"{clock_of(desk).now():%Y-%m-%d}"
    statement.write_text(f"order_no,currency,amount,status,date\nX1,USDT_TRC20,25,99,{day if is_dated else ''}\n")
    for given in (statement, None):
        report = night(desk, tmp_path / "3", statement=given)
        found = [each["class"] for each in report["breaks"]]
        assert (balance(report)["unexplained"], found) == ("0", ["missing_in_ledger"])
        clock_of(desk).move(DAY)


def test_no_line_explains_by_a_clock_that_was_set_back_to_before_people_were_listed(
    desk: Desk, service: Any, tmp_path: Path
) -> None:
    night(desk, tmp_path / "1")
    clock_of(desk).move(10 * DAY)
    adopt(desk)
    service.plans["/v1/balance/partner"] = [ok(balance="75")]
    clock_of(desk).move(DAY)
    assert balance(night(desk, tmp_path / "2"))["unexplained"] == "-25"
    statement = tmp_path / "statement.csv"
    statement.write_text("order_no,currency,amount,status\nX1,USDT_TRC20,25,99\n")
    clock_of(desk).set_wall(-5 * DAY)
    with pytest.raises(InputError, match="a policy lists people since then"):
        night(desk, tmp_path / "3", statement=statement)
    clock_of(desk).set_wall(5 * DAY)
    clock_of(desk).move(DAY)
    assert balance(night(desk, tmp_path / "4", statement=statement))["unexplained"] == "-25"


def test_what_is_made_again_is_the_last_report_that_was_narrowed_just_so(
    desk: Desk, service: Any, tmp_path: Path
) -> None:
    whole, some = Scope(), Scope(window_days=0)
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    service.plans["/v1/balance/partner"] = [ok(balance="75")]
    report = night(desk, tmp_path / "2")
    clock_of(desk).move(60)
    narrowed = night(desk, tmp_path / "3", some)
    for scope, made in ((whole, report), (some, narrowed)):
        again = remake(desk, sweep.stored_sweep(desk, scope), tmp_path / "again")
        assert (again["as_of"], again["verdict"]) == (made["as_of"], made["verdict"])
    assert (report["verdict"], narrowed["verdict"]) == ("breaks", "reconciled")
    with pytest.raises(InputError, match="no stored answers"):
        sweep.stored_sweep(desk, Scope(window_days=3))
