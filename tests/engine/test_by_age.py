"""Orders that have long been final are asked about as often as the policy says, and a report says what it left out."""

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.funded import BTC
from tests.engine.nights import DAY, ROWS, OpenDesk, classes, take
from tests.engine.rounds import policy
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.ledger.policies import adopt_policy
from treasury.payments.desk import Desk
from treasury.policy.tolerances import DAY_MS, ByAge
from treasury.policy_file import read_policy
from treasury.reconciliation.scope import Scope
from treasury.reports.figures import before_all

BY_AGE = """[payouts]
duplicate_days = 0

[reconciliation.by_age]
nightly_days = 2
weekly_days = 20
monthly_days = 60
"""


FINAL = (*ROWS[:2], ("c", "30", "12345670011"))
"""Two settle, one fails."""


def asked(folder: Path) -> set[str]:
    """The rows that a night asked about."""
    with (folder / "orders.csv").open() as file:
        return {row["row_ref"] for row in csv.DictReader(file)}


def adopt(desk: Desk, folder: Path) -> None:
    rules = read_policy(policy(folder, tail=BY_AGE, BTC=BTC))
    adopt_policy(desk.ledger, rules, "policy.toml", by="Ana", os_user="ana")


def test_old_orders_are_asked_about_once_a_week_and_with_all_whenever_it_is_asked_for(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    adopt_policy(
        desk.ledger, read_policy(policy(tmp_path, tail=BY_AGE, BTC=BTC)), "policy.toml", by="Ana", os_user="ana"
    )
    pay(desk, sheet(tmp_path, *FINAL), tmp_path / "out", seconds=20)
    first = night(desk, tmp_path / "0")
    assert (first["not_asked"], before_all(first)) == ({"orders": 0, "rule": None}, [])
    clock_of(desk).move(3 * DAY)
    assert night(desk, tmp_path / "missed")["orders"] == 3  # what was due on a night that did not run
    clock_of(desk).move(DAY)
    seen: list[str] = []
    for number in range(1, 8):
        report = night(desk, tmp_path / f"{number}", files=True)
        seen += asked(tmp_path / f"{number}")
        assert report["not_asked"]["orders"] == 3 - len(asked(tmp_path / f"{number}"))
        assert report["verdict"] == "reconciled", report["breaks"]
        clock_of(desk).move(DAY)
    assert sorted(seen) == ["a", "b", "c"]
    assert night(desk, tmp_path / "all", ask_all=True, files=True)["not_asked"]["orders"] == 0
    assert asked(tmp_path / "all") == {"a", "b", "c"}
    assert night(desk, tmp_path / "run", Scope(run_key="run"))["orders"] == 3
    take(desk, "by-hand", "25")
    clock_of(desk).move(80 * DAY)
    night(desk, tmp_path / "after a long while")
    clock_of(desk).move(DAY)
    report = night(desk, tmp_path / "late", files=True)
    assert (asked(tmp_path / "late"), report["counts"]) == (set(), {"balance_gap": 1})
    [said] = before_all(report)
    assert said.startswith("3 orders not asked about")
    assert "only with --all" in said


def test_an_order_with_an_open_break_is_asked_about_however_old_it_is(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1, faults={"flip_final": 1.0}, flip_seconds=3600).base_url)
    adopt_policy(
        desk.ledger, read_policy(policy(tmp_path, tail=BY_AGE, BTC=BTC)), "policy.toml", by="Ana", os_user="ana"
    )
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "0")
    clock_of(desk).move(DAY)
    assert night(desk, tmp_path / "1")["counts"] == {"reversed_after_final": 1}
    clock_of(desk).move(100 * DAY)
    assert night(desk, tmp_path / "2", files=True)["counts"]["reversed_after_final"] == 1
    assert asked(tmp_path / "2") == {"a"}


@pytest.mark.both_databases
def test_money_that_came_back_unasked_is_a_lot_until_its_order_is_asked_about_and_named(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1, faults={"flip_final": 1.0}, flip_seconds=70 * DAY)
    desk = open_desk(sandbox.base_url)
    adopt(desk, tmp_path)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "0")
    clock_of(desk).move(69 * DAY)
    night(desk, tmp_path / "1")  # asks about what was due on the nights that did not run
    clock_of(desk).move(2 * DAY)
    assert classes(night(desk, tmp_path / "2", files=True)) == {"USDT_TRC20": "unexplained_inflow new"}
    clock_of(desk).move(DAY)
    report = night(desk, tmp_path / "3", ask_all=True)
    assert classes(report) == {"a": "reversed_after_final new", "USDT_TRC20": "unexplained_inflow resolved"}
    [order] = desk.ledger.orders()
    [evidence] = [each["evidence"] for each in report["breaks"] if each["class"] == "unexplained_inflow"]
    assert evidence.endswith(f"; ended by entries of this report; {order.request_id}")


def test_the_first_report_asks_about_every_order_however_old_it_is() -> None:
    assert ByAge().is_due(1, 0, None, 5_000 * DAY_MS)
    assert not ByAge().is_due(1, 0, 4_999 * DAY_MS, 5_000 * DAY_MS)


@given(
    number=st.integers(1, 10**9),
    nights=st.lists(st.booleans(), min_size=70, max_size=70),
    start=st.integers(0, 1000),
)
def test_no_week_and_no_month_goes_by_without_a_question_however_many_nights_did_not_run(
    number: int, nights: list[bool], start: int
) -> None:
    rule = ByAge(nightly_days=2, weekly_days=30, monthly_days=70)
    last = start * DAY_MS
    unasked = 0
    for age, runs in enumerate(nights):
        now = (start + age) * DAY_MS
        unasked += 1
        if not runs and age:
            continue
        if rule.is_due(number, start * DAY_MS, last, now):
            unasked = 0
        last = now
        if age <= 30:
            assert unasked < 7
        assert unasked < 30 + 7  # the last weekly question may be a week before the first monthly one counts
