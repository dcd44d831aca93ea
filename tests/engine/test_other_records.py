"""An answer may be the record of another order: it says nothing about ours, and no number of it becomes ours."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.answers import ABSENT, OpenDesk, ok, shown
from tests.engine.nights import ROWS, classes
from tests.engine.runs import night, pay, sheet
from treasury.ledger.intents import commit_plan
from treasury.orders.records import Intent, Order
from treasury.orders.states import State
from treasury.payments.desk import Desk

Answer = Callable[[Mapping[str, Any]], tuple[int, Any]]

pytestmark = pytest.mark.sqlite_alone


def test_the_record_of_another_order_says_nothing_about_ours(open_desk: OpenDesk, service: Any, tmp_path: Path) -> None:
    service.plans |= {"/v1/order/payout": ["drop"], "/v1/balance/partner": [ok(balance="100")]}
    service.plans["/v1/order/query"] = [shown(99, request_id="somebody-elses", order_no="X9")]
    desk = open_desk(service.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=0)
    report = night(desk, tmp_path / "1")
    assert (report["verdict"], classes(report)) == ("breaks", {"a": "other_record new"})
    [found] = report["breaks"]
    assert found["severity"] == "high"
    assert "as request id somebody-elses" in found["evidence"]


def numbered(order_no: str, **changes: Any) -> Answer:
    """A request is accepted under this number."""

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        named = {"request_id": body["request_id"], "currency": body["currency"], "order_amount": body["amount"]}
        return ok(**{**named, "order_no": order_no, "status": 11, **changes})

    return answer


def by_row(desk: Desk) -> dict[str, Order]:
    return {order.row_ref: order for order in desk.ledger.orders()}


def withdraw(desk: Desk, amount: str) -> None:
    """Send a withdrawal of the row "w", as a run of its own."""
    fields = {"currency": "USDT_TRC20", "address": "TXYZ" + "e" * 30, "amount": amount, "customer_ref_id": "c"}
    money: dict[str, Any] = {"currency": "USDT_TRC20", "amount": Decimal(amount)}
    commit_plan(desk.ledger, "other", "test", {}, "0" * 64, [Intent("w", "withdraw", fields, fields, **money)])
    [order] = desk.ledger.orders(run_key="other")
    desk.submission.submit(order)


def test_a_service_may_count_its_orders_by_operation(open_desk: OpenDesk, service: Any, tmp_path: Path) -> None:
    """A withdrawal whose answer was lost has the number of a payout: the one is number 1, and so is the other."""
    service.plans |= {"/v1/order/payout": [numbered("1")], "/v1/balance/partner": [ok(balance="100")]}
    service.plans |= {"/v1/order/withdraw": ["drop"], "/v1/order/query": [ABSENT]}
    desk = open_desk(service.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=0)
    withdraw(desk, "10")
    assert by_row(desk)["w"].state is State.UNKNOWN
    service.plans["/v1/order/query"] = [shown(99, order_no="1", currency="USDT_TRC20")]
    assert classes(night(desk, tmp_path / "1")) == {}
    assert {order.state for order in desk.ledger.orders()} == {State.SETTLED}


def pay_two(desk: Desk, tmp_path: Path) -> None:
    """Pay "a", and then "b", which pays as much."""
    for row in (("a", "10", "12345670001"), ("b", "10", "12345670044")):
        pay(desk, sheet(tmp_path, row), tmp_path / "out", row[0], seconds=0)


@pytest.mark.parametrize("names", ["none", "ours"])
def test_a_record_under_the_number_of_another_order_is_not_taken_for_ours(
    open_desk: OpenDesk, service: Any, tmp_path: Path, names: str
) -> None:
    """Nothing was heard of the second order, and its query shows the first one."""
    service.plans |= {"/v1/order/payout": [numbered("1"), "drop"], "/v1/balance/partner": [ok(balance="100")]}
    service.plans["/v1/order/query"] = [ABSENT]
    desk = open_desk(service.base_url)
    pay_two(desk, tmp_path)
    assert by_row(desk)["b"].state is State.UNKNOWN
    named = {"request_id": None} if names == "none" else {}
    service.plans["/v1/order/query"] = [shown(99, order_no="1", currency="USDT_TRC20", **named)]
    for number, lifecycle in enumerate(("new", "persisting"), 1):
        assert classes(night(desk, tmp_path / f"{number}")) == {"b": f"other_record {lifecycle}"}
        order = by_row(desk)["b"]
        assert (order.state, order.order_no) == (State.UNKNOWN, None)


def test_an_answer_to_a_request_that_is_the_record_of_another_order_decides_nothing(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    """A proxy answers the second request with what it kept of the first; the service names no request ids."""
    kept = numbered("1", request_id=None)
    service.plans |= {"/v1/order/payout": [kept, kept], "/v1/balance/partner": [ok(balance="100")]}
    service.plans["/v1/order/query"] = [ABSENT]
    desk = open_desk(service.base_url)
    pay_two(desk, tmp_path)
    assert {name: order.state for name, order in by_row(desk).items()} == {"a": State.ACCEPTED, "b": State.UNKNOWN}
