"""Rows, and how reports are read, for tests of several nights in a row."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.moved_clock import clock_of
from treasury.nights.month_reports import report_month
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.policy.model import Policy
from treasury.provider.catalogue import CATALOGUE

DAY = 86_400

OpenDesk = Callable[..., Desk]

ROWS = (("a", "10", "12345670001"), ("b", "20", "12345670044"), ("c", "30", "12345670022"))
"""Settles, fails, stays on its way."""


def classes(report: dict[str, Any]) -> dict[str, str]:
    return {each["row_ref"] or each["currency"]: f"{each['class']} {each['lifecycle']}" for each in report["breaks"]}


def balance(report: dict[str, Any], currency: str = "USDT_TRC20") -> dict[str, str]:
    return next(each for each in report["balances"] if each["currency"] == currency)


def take(desk: Desk, request_id: str, amount: str) -> None:
    """Another program takes money out, and a day passes."""
    fields = {"request_id": request_id, "currency": "USDT_TRC20", "amount": amount, "customer_ref_id": "c"}
    desk.client.send(CATALOGUE["withdraw"](**fields, address="TXYZ" + "e" * 30))
    clock_of(desk).move(DAY)


def month_of(desk: Desk, out: Path, month: str) -> dict[str, str]:
    """The account of a month, without what is 0; its sums are its closing."""
    said = report_month(desk, month, out, governing(desk, None).policy or Policy())
    assert all(Path(file).is_file() for file in said["files"])
    [found] = [each for each in said["accounts"] if each["currency"] == "USDT_TRC20"]
    sums = ("opening", "received", "paid", "fees", "returned", "adjustments")
    assert sum(Decimal(found[name]) for name in sums) == Decimal(found["closing"])
    return {name: value for name, value in found.items() if value != "0"}
