"""A service may count the orders of each operation from 1: a number of a line, or of a notification, counts for the
operation that its type names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.engine.answers import ABSENT, OpenDesk, ok
from tests.engine.nights import DAY, ROWS, balance, classes, month_of
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.ledger import schema
from treasury.ledger.notifications import keep_notifications
from treasury.payments.desk import Desk
from treasury.policy.model import Policy

pytestmark = pytest.mark.both_databases


@pytest.fixture
def desk(open_desk: OpenDesk, service: Any, tmp_path: Path) -> Desk:
    """A desk on the 12th of a month, that has paid 10 as payout 1; its account was opened with 90 after that."""

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        said = {"request_id": body["request_id"], "order_no": "1", "currency": "USDT_TRC20", "order_amount": "10"}
        return ok(**said, status=99)

    service.plans |= {"/v1/order/payout": [answer], "/v1/order/query": [ABSENT]}
    service.plans["/v1/balance/partner"] = [ok(balance="90")]
    desk = open_desk(service.base_url)
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=0)
    service.plans["/v1/order/query"] = [answer]
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    return desk


def given(desk: Desk, file: Path, *lines: str) -> Path:
    today = Policy().day_of(desk.ledger.now())
    rows = "".join(f"1,{line},{today}\n" for line in lines)
    file.write_text(f"order_no,order_type,currency,amount,status,date\n{rows}")
    return file


OURS, THEIRS, SCANNED, DEPOSIT = (
    *("payout,USDT_TRC20,10,99", "extract,USDT_TRC20,900,22", "proxy_pay,USDT_TRC20,5,99"),
    "charge,USDT_TRC20,50,99",
)


def test_a_line_is_of_the_order_of_its_operation_alone(desk: Desk, service: Any, tmp_path: Path) -> None:
    service.plans["/v1/balance/partner"] = [ok(balance="135")]
    month = Policy().day_of(desk.ledger.now())[:7]
    file = given(desk, tmp_path / "statement.csv", THEIRS, SCANNED, DEPOSIT)
    for number, (statement, lifecycle) in enumerate(((file, "new"), (None, "persisting"), (file, "persisting")), 2):
        report = night(desk, tmp_path / f"{number}", statement=statement)
        found = [(each["class"], each["amount"], each["lifecycle"]) for each in report["breaks"] if not each["row_ref"]]
        shown = [each for each in found if each[0] != "opening"]
        assert shown == [("missing_in_ledger", "900", lifecycle), ("missing_in_ledger", "5", lifecycle)]
        assert balance(report)["unexplained"] == "0"
        assert not [each for each in report["breaks"] if each["row_ref"]]
        assert len(desk.ledger.read(schema.statement_lines.select())) == 3
        clock_of(desk).move(DAY)
    of_month = month_of(desk, tmp_path / "month", month)
    assert (of_month["received"], of_month["paid"], of_month["closing"]) == ("50", "-5", "135")


def test_lines_of_one_number_and_several_operations_are_all_kept(desk: Desk, service: Any, tmp_path: Path) -> None:
    """Each is corrected by a line that may be of its operation."""
    service.plans["/v1/balance/partner"] = [ok(balance="85")]
    file = given(desk, tmp_path / "statement.csv", OURS, SCANNED)
    assert classes(night(desk, tmp_path / "2", statement=file)).get("USDT_TRC20") == "missing_in_ledger new"
    clock_of(desk).move(DAY)
    file = given(desk, tmp_path / "statement.csv", OURS.replace("10", "11"), SCANNED.replace("99", "44"))
    said = classes(night(desk, tmp_path / "3", statement=file))
    assert said["a"] == "amount_mismatch new"
    assert "missing_in_ledger" not in said.values()


def test_a_notification_of_another_operation_is_not_of_ours(desk: Desk, tmp_path: Path) -> None:
    said = {"order_no": "1", "currency": "USDT_TRC20", "order_amount": "7", "status": 99}
    keep_notifications(desk.ledger, [{**said, "order_type": each} for each in ("payout", "extract", "proxy_pay")])
    for number, (lines, told) in enumerate((((), 2), ((SCANNED,), 2), ((THEIRS,), 2)), 2):
        file = given(desk, tmp_path / "statement.csv", *lines) if lines else None
        report = night(desk, tmp_path / f"{number}", statement=file)
        assert report["counts"].get("missing_in_ledger") == told
        clock_of(desk).move(DAY)
