"""A policy with another time zone: what was reported by the days of the one before it stays as it was."""

from pathlib import Path
from typing import Any

import pytest

from tests.engine.judged import adopt
from tests.engine.nights import DAY, OpenDesk, balance, month_of, take
from tests.engine.runs import night, pay, remake, sheet
from tests.moved_clock import clock_of
from treasury.errors import InputError
from treasury.nights.sweep import stored_sweep
from treasury.payments.desk import Desk
from treasury.reconciliation.scope import Scope

FIRST_OF_FEBRUARY = 1_801_440_000
"""2027-02-01 at midnight, UTC; in Singapore it is 8 o'clock."""

LIMITS: dict[str, Any] = {"payouts": {"max_per_payout": {"USDT_TRC20": "1000"}}}


def until(desk: Desk, moment: int) -> None:
    clock_of(desk).move(moment - desk.clock.wall())


def test_a_month_ends_by_the_time_zone_that_was_in_force_then(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    adopt(desk, **LIMITS)
    until(desk, FIRST_OF_FEBRUARY - 20 * 3600)
    pay(desk, sheet(tmp_path, ("before", "20", "12345670008")), tmp_path / "before", "before", seconds=20)
    night(desk, tmp_path / "1")
    until(desk, FIRST_OF_FEBRUARY - 3600)  # 7 o'clock on the first in Singapore
    pay(desk, sheet(tmp_path, ("a", "10", "12345670001")), tmp_path / "a", "a", seconds=20)
    until(desk, FIRST_OF_FEBRUARY + 3600)
    night(desk, tmp_path / "2")
    reported = month_of(desk, tmp_path / "month", "2027-01")
    assert (reported["paid"], reported["fees"]) == ("-9.9", "-0.1")
    clock_of(desk).move(DAY)
    adopt(desk, time_zone="Asia/Singapore", **LIMITS)
    assert month_of(desk, tmp_path / "month", "2027-01") == reported
    february = month_of(desk, tmp_path / "month", "2027-02")
    assert (february["opening"], february["closing"]) == (reported["closing"],) * 2


@pytest.mark.both_databases
def test_a_line_stays_of_the_day_that_it_was_when_it_was_given(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    adopt(desk, **LIMITS)
    until(desk, FIRST_OF_FEBRUARY - 6 * 3600)  # on the first in Singapore
    pay(desk, sheet(tmp_path, ("a", "10", "12345670001")), tmp_path / "a", "a", seconds=20)
    night(desk, tmp_path / "1")
    statement = tmp_path / "statement.csv"
    statement.write_text("order_no,currency,amount,status,date\nX1,USDT_TRC20,25,99,2027-02-01\n")
    until(desk, FIRST_OF_FEBRUARY + 3600)
    night(desk, tmp_path / "2", statement=statement)
    take(desk, "by-hand", "25")
    assert balance(night(desk, tmp_path / "3"))["unexplained"] == "0"
    reported = month_of(desk, tmp_path / "month", "2027-02")
    adopt(desk, time_zone="Asia/Singapore", **LIMITS)
    assert balance(night(desk, tmp_path / "4"))["unexplained"] == "0"
    assert month_of(desk, tmp_path / "month", "2027-02") == reported


@pytest.mark.both_databases
def test_a_month_and_a_line_of_before_the_first_policy_stay_of_the_days_that_counted_then(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    until(desk, FIRST_OF_FEBRUARY - 20 * 3600)
    pay(desk, sheet(tmp_path, ("before", "20", "12345670008")), tmp_path / "before", "before", seconds=20)
    night(desk, tmp_path / "1")
    until(desk, FIRST_OF_FEBRUARY - 3600)  # 7 o'clock on the first in Singapore
    pay(desk, sheet(tmp_path, ("a", "10", "12345670001")), tmp_path / "a", "a", seconds=20)
    statement = tmp_path / "statement.csv"
    statement.write_text("order_no,currency,amount,status,date\nX1,USDT_TRC20,25,99,2027-02-01\n")
    until(desk, FIRST_OF_FEBRUARY + 3600)
    take(desk, "by-hand", "25")
    night(desk, tmp_path / "2", statement=statement)
    reported = [month_of(desk, tmp_path / "month", month) for month in ("2027-01", "2027-02")]
    assert [each["paid"] for each in reported] == ["-9.9", "-25"]
    adopt(desk, time_zone="Asia/Singapore", **LIMITS)
    assert [month_of(desk, tmp_path / "month", month) for month in ("2027-01", "2027-02")] == reported
    assert balance(night(desk, tmp_path / "3"))["unexplained"] == "0"


def test_a_report_of_a_month_that_was_over_by_the_days_of_then_takes_no_lines(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    adopt(desk, **LIMITS)
    pay(desk, sheet(tmp_path, ("a", "10", "12345670001")), tmp_path / "a", "a", seconds=20)
    night(desk, tmp_path / "1")
    take(desk, "by-hand", "25")
    until(desk, FIRST_OF_FEBRUARY - 3600)  # of February in Singapore
    night(desk, tmp_path / "2")
    until(desk, FIRST_OF_FEBRUARY + 3600)
    reported = month_of(desk, tmp_path / "month", "2027-01")
    adopt(desk, time_zone="Asia/Singapore", **LIMITS)
    statement = tmp_path / "statement.csv"
    statement.write_text("order_no,currency,amount,status\nX1,USDT_TRC20,25,99\n")
    with pytest.raises(InputError, match="its month is over, and stays as it was"):
        remake(desk, stored_sweep(desk, Scope()), tmp_path / "2", statement)
    assert month_of(desk, tmp_path / "month", "2027-01") == reported
