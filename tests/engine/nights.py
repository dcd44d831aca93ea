"""Rows, and how reports are read, for tests of several nights in a row."""

from collections.abc import Callable
from typing import Any

from tests.moved_clock import clock_of
from treasury.payments.desk import Desk
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
