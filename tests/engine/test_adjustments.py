"""A month says what people accepted as the nights say it, and one that was reported stays as it was."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.nights import DAY, ROWS, OpenDesk, balance, month_of, take
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.ledger.kept_breaks import accept_break, withdraw_acceptances
from treasury.nights.standing import standing_of
from treasury.payments.desk import Desk
from treasury.policy.model import Policy


def this_month(desk: Desk, out: Path) -> dict[str, str]:
    return month_of(desk, out, Policy().day_of(desk.ledger.now())[:7])


@pytest.fixture
def gap(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> tuple[Desk, str]:
    """A lot of 100 that another program took on the 12th of a month, and that Ana has to accept."""
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "1")
    take(desk, "by-hand", "100")
    [found] = night(desk, tmp_path / "2")["breaks"]
    return desk, found["id"]


def test_a_part_of_an_accepted_lot_that_a_statement_explains_is_no_adjustment_any_more(
    gap: tuple[Desk, str], tmp_path: Path
) -> None:
    desk, lot = gap
    accept_break(desk.ledger, lot, by="Ana", os_user="ana", why="the other office")
    assert this_month(desk, tmp_path / "month")["adjustments"] == "-100"
    statement = tmp_path / "statement.csv"
    statement.write_text("order_no,currency,amount,status\nX1,USDT_TRC20,40,99\n")
    clock_of(desk).move(DAY)
    shown = balance(night(desk, tmp_path / "3", statement=statement))
    assert (shown["unexplained"], shown["adjusted"]) == ("-60", "0")
    found = this_month(desk, tmp_path / "month")
    assert (found["paid"], found.get("adjustments", "0"), found["difference"]) == ("-40", "0", "-60")
    accept_break(desk.ledger, lot, by="Ana", os_user="ana", why="the rest, too")
    found = this_month(desk, tmp_path / "month")
    assert (found["adjustments"], found.get("difference")) == ("-60", None)


@pytest.mark.parametrize("how", ["ends", "withdrawn", "explained"])
def test_a_month_stays_as_it_was_when_what_was_accepted_in_it_counts_no_more(
    gap: tuple[Desk, str], tmp_path: Path, how: str
) -> None:
    desk, lot = gap
    until = desk.ledger.now() + 40 * DAY * 1000 if how == "ends" else None
    for name in ("Ana", "Ben"):
        accept_break(desk.ledger, lot, by=name, os_user="ana", why="the other office", ends_at=until)
    name = Policy().day_of(desk.ledger.now())[:7]
    reported = month_of(desk, tmp_path / "month", name)
    assert reported["adjustments"] == "-100"
    clock_of(desk).move(41 * DAY)
    statement = tmp_path / "statement.csv"
    statement.write_text("order_no,currency,amount,status\nX1,USDT_TRC20,100,99\n")
    if how == "withdrawn":
        withdraw_acceptances(desk.ledger, lot, by="Ana", os_user="ana", why="it was not ours")
    shown = balance(night(desk, tmp_path / "3", statement=statement if how == "explained" else None))
    assert shown["unexplained"] == ("0" if how == "explained" else "-100")
    assert month_of(desk, tmp_path / "again", name) == reported
    later = this_month(desk, tmp_path / "later")
    assert later["opening"] == reported["closing"]
    explained = {"paid": "-100"} if how == "explained" else {}
    assert later["adjustments"] == "100"
    assert {name: later.get(name) for name in explained} == explained
    assert Decimal(later["closing"]) == Decimal(reported["closing"]) + (0 if explained else 100)


@pytest.mark.both_databases
def test_a_line_that_a_later_file_has_otherwise_is_corrected_in_the_month_of_that_file(
    gap: tuple[Desk, str], tmp_path: Path
) -> None:
    desk, _ = gap
    statement = tmp_path / "statement.csv"
    day = Policy().day_of(desk.ledger.now())

    def give(number: int, *lines: str) -> dict[str, str]:
        clock_of(desk).move(DAY)
        statement.write_text("\n".join(["order_no,currency,amount,status,date,fee", *lines]) + "\n")
        return balance(night(desk, tmp_path / f"{number}", statement=statement))

    assert give(3, f"X1,USDT_TRC20,90,99,{day},", f"X2,USDT_TRC20,5,11,{day},")["unexplained"] == "-10"
    reported = this_month(desk, tmp_path / "month")
    assert (reported["paid"], reported["difference"]) == ("-90", "-10")
    clock_of(desk).move(40 * DAY)
    assert give(4, f"X1,USDT_TRC20,90,99,{day},0", f"X2,USDT_TRC20,5,99,{day},")["unexplained"] == "-5"
    assert this_month(desk, tmp_path / "later")["paid"] == "-5"
    assert give(5, f"X1,USDT_TRC20,95,99,{day},0")["unexplained"] == "0"
    assert month_of(desk, tmp_path / "again", Policy().day_of(desk.ledger.now() - 41 * DAY * 1000)[:7]) == reported
    later = this_month(desk, tmp_path / "later")
    assert (later["opening"], later["paid"], later.get("difference", "0")) == (reported["closing"], "-10", "0")
    rows = (tmp_path / "later" / "entries.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0].partition("-")[0] for row in rows] == ["SX2", "SX1"]


def test_a_month_in_which_a_line_explained_an_accepted_lot_stays_when_the_line_is_taken_back(
    gap: tuple[Desk, str], tmp_path: Path
) -> None:
    desk, lot = gap
    accept_break(desk.ledger, lot, by="Ana", os_user="ana", why="the other office")
    statement, reported = tmp_path / "statement.csv", dict[str, dict[str, str]]()
    for number, status in enumerate((99, 44), 3):
        clock_of(desk).move(31 * DAY)
        statement.write_text(f"order_no,currency,amount,status\nX1,USDT_TRC20,100,{status}\n")
        shown = balance(night(desk, tmp_path / f"{number}", statement=statement))
        assert (shown["unexplained"], shown["adjusted"]) == ("0", "0" if status == 99 else "-100")
        for name, before in reported.items():
            assert month_of(desk, tmp_path / "again", name) == before
        found = this_month(desk, tmp_path / "month")
        assert (found["paid"], found["adjustments"]) == (("-100", "100") if status == 99 else ("100", "-100"))
        reported[Policy().day_of(desk.ledger.now())[:7]] = found


def test_a_lot_that_a_line_explained_is_not_back_when_its_acceptance_is_withdrawn(
    gap: tuple[Desk, str], tmp_path: Path
) -> None:
    desk, lot = gap
    accept_break(desk.ledger, lot, by="Ana", os_user="ana", why="the other office")
    statement = tmp_path / "statement.csv"
    statement.write_text("order_no,currency,amount,status\nX1,USDT_TRC20,100,99\n")
    clock_of(desk).move(DAY)
    assert balance(night(desk, tmp_path / "3", statement=statement))["unexplained"] == "0"
    clock_of(desk).move(1)
    withdraw_acceptances(desk.ledger, lot, by="Ana", os_user="ana", why="it was found")
    assert standing_of(desk)["unexplained"] == {}
    clock_of(desk).move(DAY)
    assert lot not in [each["id"] for each in night(desk, tmp_path / "4")["breaks"]]
