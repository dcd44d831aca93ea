"""Somebody hides what left otherwise: writes into the database what the morning report adds up. It says so."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, text, update

from tests.engine.nights import DAY, ROWS, OpenDesk, balance, classes, take
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.ledger import schema
from treasury.ledger.kept_breaks import accept_break
from treasury.ledger.ledger import Ledger
from treasury.payments.desk import Desk

CLASS = "changed_in_ledger"
LEFT = "25"
"""Another program takes it, and somebody hides it."""


def write(ledger: Ledger, *statements: Any) -> None:
    """Somebody with the database writes into it."""
    ledger.write(lambda connection: [connection.execute(each) for each in statements] and None)


def raise_opening(ledger: Ledger) -> None:
    """The balance that opened the account."""
    table = schema.sweep_balances
    first = select(table.c.sweep_id).order_by(table.c.sweep_id).limit(1).scalar_subquery()
    lower = text("CAST(CAST(after AS DECIMAL) - 25 AS TEXT)")
    write(ledger, update(table).where(table.c.sweep_id == first).values(after=lower))


def add_to_sums(ledger: Ledger) -> None:
    """The sums of the last report."""
    last = ledger.read(select(schema.reports).order_by(schema.reports.c.sweep_id.desc()))[0]
    said = last.statement.replace('"arrived": "10"', '"arrived": "35"')
    assert said != last.statement
    write(ledger, update(schema.reports).where(schema.reports.c.sweep_id == last.sweep_id).values(statement=said))


def make_it_narrow(ledger: Ledger) -> None:
    """The first report, whose balance counts no more."""
    write(ledger, update(schema.sweeps).where(schema.sweeps.c.id == 1).values(scope='{"run_key": "run"}'))


def pay_again(ledger: Ledger) -> None:
    """A step more of an order that is paid."""
    [step] = ledger.read(select(schema.journal).where(schema.journal.c.target == "settled"))
    again = {name: value for name, value in step._mapping.items() if name != "id"}
    write(ledger, insert(schema.journal).values(again))


def raise_fee(ledger: Ledger) -> None:
    """The fee of an order."""
    write(ledger, update(schema.orders).values(fee="25", fee_currency="USDT_TRC20"))


@pytest.fixture
def desk(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> Desk:
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    night(desk, tmp_path / "0")
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    clock_of(desk).move(DAY)
    assert night(desk, tmp_path / "1")["verdict"] == "reconciled"
    return desk


@pytest.mark.parametrize(
    ("hide", "verdict"),
    [
        (raise_opening, "breaks"),
        (add_to_sums, "breaks"),
        (make_it_narrow, "breaks"),
        (pay_again, "incomplete"),  # the statement of orders has a residual, too
        (raise_fee, "breaks"),
    ],
)
def test_who_hides_in_the_database_what_left_is_told_the_next_morning(
    desk: Desk, hide: Callable[[Ledger], None], verdict: str, tmp_path: Path
) -> None:
    take(desk, "by-hand", LEFT)
    hide(desk.ledger)
    report = night(desk, tmp_path / "2")
    told = [each for each in report["breaks"] if each["class"] == CLASS]
    assert [each["lifecycle"] for each in told] == ["new"], report["breaks"]
    assert report["verdict"] == verdict
    again = night(desk, tmp_path / "3")
    assert f"{CLASS} persisting" in classes(again).values()
    accept_break(desk.ledger, told[0]["id"], by="Ana", os_user="ana", why="repaired from a backup")
    accepted = night(desk, tmp_path / "4")
    assert [each["accepted"]["by"] for each in accepted["breaks"] if each["class"] == CLASS] == ["Ana"]


def test_a_ledger_that_nobody_changed_says_nothing_of_it(desk: Desk, tmp_path: Path) -> None:
    take(desk, "by-hand", LEFT)
    report = night(desk, tmp_path / "2")
    assert classes(report) == {"USDT_TRC20": "balance_gap new"}
    assert balance(report)["unexplained"] == "-25"
