"""A lot that nothing explains stays beside payments and pay-ins that moved since: neither ends the other one."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.crash.payments import make_kind
from tests.engine.answers import ABSENT, accepted, ok, shown
from tests.engine.nights import DAY, ROWS, OpenDesk, balance
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.call import calls
from treasury.money import canonical
from treasury.provider.orders import Pay


def lots(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    found = [(each["class"], each["lifecycle"], canonical(Decimal(each["amount"]))) for each in report["breaks"]]
    return sorted(each for each in found if each[0] in ("balance_gap", "unexplained_inflow"))


def test_a_scanned_code_that_was_paid_since_pays_no_theft_back_with_a_strangers_deposit(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    make_kind("scan_to_pay", rows=1).start(desk, tmp_path)
    sandbox.advance(60)
    night(desk, tmp_path / "1")
    sandbox.deposit("USDT", "-100")
    clock_of(desk).move(DAY)
    assert lots(night(desk, tmp_path / "2")) == [("balance_gap", "new", "100")]
    clock_of(desk).move(DAY)
    make_kind("scan_to_pay", rows=2).start(desk, tmp_path)
    sandbox.advance(60)
    sandbox.deposit("USDT", "30")
    third = night(desk, tmp_path / "3")
    assert lots(third) == [("balance_gap", "persisting", "100"), ("unexplained_inflow", "new", "30")]
    assert balance(third, "USDT")["unexplained"] == "-70"


def test_a_pay_in_that_came_since_hides_no_theft_behind_an_earlier_strangers_deposit(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "1")
    sandbox.deposit("USDT_TRC20", "700")
    clock_of(desk).move(DAY)
    assert lots(night(desk, tmp_path / "2")) == [("unexplained_inflow", "new", "700")]
    clock_of(desk).move(DAY)
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    page = calls.send_operation(desk, Pay(request_id="in-1", amount="600", **fields))["data"]["checkout_url"]
    assert httpx.post(f"{page}/pay").status_code == 303
    sandbox.deposit("USDT_TRC20", "-250")
    third = night(desk, tmp_path / "3")
    assert lots(third) == [("balance_gap", "new", "250"), ("unexplained_inflow", "persisting", "700")]
    assert balance(third)["unexplained"] == "450"


@pytest.mark.parametrize("hours_ahead", [0, 8])
def test_a_pay_in_that_a_report_knew_pays_no_theft_back_however_the_clock_of_the_service_is_set(
    open_desk: OpenDesk, service: Any, tmp_path: Path, hours_ahead: int
) -> None:
    service.plans |= {"/v1/order/pay": [accepted], "/v1/order/query": [ABSENT]}
    service.plans["/v1/balance/partner"] = [ok(balance="100")]
    desk = open_desk(service.base_url)
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    calls.send_operation(desk, Pay(request_id="in-1", amount="60", **fields))
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    came = str(int(clock_of(desk).wall()) + hours_ahead * 3600)
    service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20", order_amount="60", finish_time=came)]
    assert lots(night(desk, tmp_path / "2")) == [("balance_gap", "new", "60")]
    clock_of(desk).move(DAY)
    service.plans["/v1/balance/partner"] = [ok(balance="160")]
    third = night(desk, tmp_path / "3")
    assert lots(third) == [("balance_gap", "persisting", "60"), ("unexplained_inflow", "new", "60")]
