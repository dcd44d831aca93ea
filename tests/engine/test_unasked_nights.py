"""Payments that a night could not ask about, or was not to, stay in the accounts as the service last showed them."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.crash.payments import make_kind
from tests.engine.answers import ABSENT, accepted, ok, shown
from tests.engine.nights import DAY, ROWS, OpenDesk, balance, month_of, take
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.call import calls
from treasury.ledger.policies import adopt_policy
from treasury.money import canonical
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.policy_file import read_policy
from treasury.provider.orders import Pay
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.classes import BALANCE_CLASSES
from treasury.sandbox.behaviour import Behaviour

NOBODY = (None, {"answer": "failed", "seen_reason": "nobody answers"})


def unreached(desk: Desk, out: Path) -> dict[str, Any]:
    """A night that can read the balances, and ask about nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treasury.nights.sweep._ask", lambda *_: NOBODY)
        return night(desk, out)


@pytest.mark.both_databases
def test_a_pay_in_that_could_not_be_asked_about_has_not_gone_back(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)  # so that no month ends meanwhile
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    page = calls.send_operation(desk, Pay(request_id="in-1", amount="600", **fields))["data"]["checkout_url"]
    night(desk, tmp_path / "1")
    assert httpx.post(f"{page}/pay").status_code == 303
    take(desk, "by-hand", "25")
    assert balance(night(desk, tmp_path / "2"))["unexplained"] == "-25"
    clock_of(desk).move(DAY)
    without = unreached(desk, tmp_path / "3")
    clock_of(desk).move(DAY)
    for report, verdict in ((without, "incomplete"), (night(desk, tmp_path / "4"), "breaks")):
        lots = [(each["class"], each["lifecycle"]) for each in report["breaks"] if each["class"] != "query_failed"]
        said = (report["verdict"], balance(report)["unexplained"], lots)
        assert said == (verdict, "-25", [("balance_gap", "persisting")])
    assert month_of(desk, tmp_path / "month", Policy().day_of(desk.ledger.now())[:7])["received"] == "594"
    rows = (tmp_path / "month" / "entries.csv").read_text().splitlines()
    assert len([row for row in rows if "in-1" in row]) == 1


def test_a_payment_by_a_scanned_code_that_could_not_be_asked_about_stays_an_entry(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "0")
    make_kind("scan_to_pay").start(desk, tmp_path)
    sandbox.advance(60)
    assert night(desk, tmp_path / "1")["breaks"] == []
    for number in (2, 3):
        clock_of(desk).move(DAY)
        report = unreached(desk, tmp_path / f"{number}")
        assert {each["class"] for each in report["breaks"]} == {"query_failed"}, report["breaks"]
    clock_of(desk).move(DAY)
    last = night(desk, tmp_path / "4")
    assert {each["lifecycle"] for each in last["breaks"]} == {"resolved"}


def test_a_payment_by_a_scanned_code_that_a_policy_asks_about_no_more_stays_an_entry(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    rules = tmp_path / "policy.toml"
    limits = '[payouts]\nduplicate_days = 0\nmax_per_payout = {USDT = "1000"}\nmax_per_day = {USDT = "10000"}\n'
    ages = "[reconciliation.by_age]\nnightly_days = 2\nweekly_days = 20\nmonthly_days = 60\n"
    rules.write_text('time_zone = "UTC"\n' + limits + ages)
    adopt_policy(desk.ledger, read_policy(rules), "policy.toml", by="Ana", os_user="ana")
    make_kind("scan_to_pay").start(desk, tmp_path)
    night(desk, tmp_path / "0")
    sandbox.advance(60)
    make_kind("scan_to_pay", rows=2).start(desk, tmp_path)
    clock_of(desk).move(DAY)
    night(desk, tmp_path / "1")
    for number, days in enumerate((3, 1, 90, 1), 2):
        clock_of(desk).move(days * DAY)
        report = night(desk, tmp_path / f"{number}")
        assert report["breaks"] == [], (number, report["not_asked"])
    assert report["not_asked"]["orders"]


def test_what_is_open_since_before_the_opening_widens_the_range_once_fees_and_what_is_bought_with_it(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treasury.sandbox.handlers.funds.FROZEN", "reserved")
    behaviour = Behaviour(fee_on_top={"payout"})
    sandbox = start_sandbox(settle_seconds=100 * DAY, behaviour=behaviour)
    desk = open_desk(sandbox.base_url, service=ServiceRules(fee_on_top=frozenset({"payout"})))
    pay(desk, sheet(tmp_path, ("c", "2000", "12345670022")), tmp_path / "out", seconds=0)
    make_kind("conversion", rows=1).start(desk, tmp_path)
    make_kind("scan_to_pay", rows=1).start(desk, tmp_path)
    clock_of(desk).move(60)
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    found = {each["currency"]: each for each in night(desk, tmp_path / "2")["balances"]}
    orders = {order.operation: order for order in desk.ledger.orders()}
    payout, bought = orders["payout"], orders["conversion_execute"]
    [scanned] = [each["amount"] for each in sandbox.orders() if each["operation"] == "submit_scan_to_pay"]
    assert payout.amount is not None
    assert payout.fee is not None
    assert bought.receive_amount is not None
    ranges = {
        "USDT_TRC20": (-payout.amount - payout.fee, Decimal(0)),
        bought.receive_currency: (-Decimal(str(scanned)), bought.receive_amount),
    }
    for currency, (low, high) in ranges.items():
        shown = found[str(currency)]
        assert (shown["explained_low"], shown["explained_high"]) == (canonical(low), canonical(high)), shown


def test_a_fee_on_top_that_the_service_shows_later_or_otherwise_ends_the_lot_that_it_was(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    service.plans |= {"/v1/order/payout": [accepted], "/v1/balance/partner": [ok(balance="1000")]}
    desk = open_desk(service.base_url, service=ServiceRules(fee_on_top=frozenset({"payout"})))
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)
    for run_key, number in (("first", 8), ("second", 9)):
        service.plans["/v1/order/query"] = [ABSENT]
        row = (run_key, "10", f"1234567000{number}")
        pay(desk, sheet(tmp_path, row), tmp_path / run_key, run_key, seconds=0)
        service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20", order_no=None)]
        night(desk, tmp_path / f"{number}")
        service.plans["/v1/balance/partner"] = [ok(balance="989")]
        clock_of(desk).move(DAY)
    said = []
    for fee, left in (("1", "989"), ("1", "989"), ("3", "987"), ("3", "987")):
        told = {"fee_amount": fee, "arrive_amount": "10"}
        service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20", order_no=None, **told)]
        service.plans["/v1/balance/partner"] = [ok(balance=left)]
        report = night(desk, tmp_path / "later")
        lots = [(each["class"], each["lifecycle"]) for each in report["breaks"] if each["class"] in BALANCE_CLASSES]
        said.append((balance(report)["unexplained"], lots))
        clock_of(desk).move(DAY)
    assert said == [("0", [("balance_gap", "resolved")]), ("0", []), ("0", []), ("0", [])]
    found = month_of(desk, tmp_path / "month", Policy().day_of(desk.ledger.now())[:7])
    assert (found["fees"], found["closing"], found.get("difference")) == ("-3", "987", None)
