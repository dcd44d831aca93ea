"""Orders of one operation that were told one order number: of all but one the service showed another's record."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.engine.answers import ABSENT, OpenDesk, ok
from tests.engine.nights import DAY, classes
from tests.engine.runs import night, pay, remake, sheet
from tests.moved_clock import clock_of
from treasury.ledger.kept_breaks import accept_break
from treasury.nights.sweep import stored_sweep
from treasury.payments.desk import Desk
from treasury.reconciliation.scope import Scope

pytestmark = pytest.mark.both_databases

Numbers = dict[str, str | None]


def answering(desk: Desk, numbers: Numbers, *, named: bool = True) -> Callable[[Mapping[str, Any]], tuple[int, Any]]:
    """A query shows the order of this number for each row, or none."""

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        [row] = [each.row_ref for each in desk.ledger.orders() if each.request_id == body["request_id"]]
        said = {"request_id": body["request_id"] if named else None, "currency": "USDT_TRC20", "order_amount": "10"}
        return ok(**said, order_no=numbers[row], status=99) if numbers[row] else ABSENT

    return answer


def paid(open_desk: OpenDesk, service: Any, tmp_path: Path, *, is_lost: bool) -> Desk:
    """A desk that paid "a" and "b", each in a run of its own: both requests are lost, or both are answered with 1."""

    def accepted(body: Mapping[str, Any]) -> tuple[int, Any]:
        return ok(request_id=body["request_id"], order_no="1", status=11)

    service.plans |= {"/v1/order/payout": ["drop" if is_lost else accepted], "/v1/order/query": [ABSENT]}
    service.plans["/v1/balance/partner"] = [ok(balance="100")]
    desk: Desk = open_desk(service.base_url)
    for row in (("a", "10", "12345670001"), ("b", "10", "12345670044")):
        pay(desk, sheet(tmp_path, row), tmp_path / "out", row[0], seconds=0)
    return desk


@pytest.mark.parametrize("is_lost", [True, False])
def test_they_are_named_until_the_service_shows_one_of_them_under_another_number(
    open_desk: OpenDesk, service: Any, tmp_path: Path, is_lost: bool
) -> None:
    """Both are asked before the answer about one of them is recorded, or the answers to the requests named them."""
    desk = paid(open_desk, service, tmp_path, is_lost=is_lost)
    numbers: Numbers = {"a": "1", "b": "1"}
    service.plans["/v1/order/query"] = [answering(desk, numbers, named=not is_lost)]
    for number, lifecycle in enumerate(("new", "persisting"), 1):
        report = night(desk, tmp_path / f"{number}")
        assert classes(report) == dict.fromkeys("ab", f"other_record {lifecycle}")
        a, b = sorted(report["breaks"], key=lambda each: str(each["row_ref"]))
        assert f"as request id {b['request_id']}" in a["evidence"]
        assert f"as request id {a['request_id']}" in b["evidence"]
        clock_of(desk).move(DAY)
    for each in report["breaks"]:
        accept_break(desk.ledger, each["id"], by="Ana", os_user="ana", why="the service counts wrong")
    assert night(desk, tmp_path / "3")["verdict"] == "reconciled"
    numbers["b"] = "2"
    for number in (4, 5):
        clock_of(desk).move(DAY)
        report = night(desk, tmp_path / f"{number}")
        assert report["counts"] == {"matched": 2}


def test_they_end_by_another_number_and_stay_while_one_of_them_is_not_shown(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    desk = paid(open_desk, service, tmp_path, is_lost=False)
    numbers: Numbers = {"a": "1", "b": None}
    service.plans["/v1/order/query"] = [answering(desk, numbers)]
    assert classes(night(desk, tmp_path / "1")) == {"a": "other_record new", "b": "missing_at_service new"}
    numbers["b"] = "2"
    clock_of(desk).move(DAY)
    ended = night(desk, tmp_path / "2")
    assert classes(ended) == {"a": "other_record resolved", "b": "missing_at_service resolved"}
    assert remake(desk, stored_sweep(desk, Scope()), tmp_path / "2")["counts"] == ended["counts"]
