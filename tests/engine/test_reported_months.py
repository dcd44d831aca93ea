"""A month that was reported stays as it was when the service shows something else of its payments later."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.crash.payments import make_kind
from tests.engine.answers import ABSENT, accepted, ok, refused, shown
from tests.engine.nights import DAY, OpenDesk, balance, month_of, take
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.call.calls import send_operation, submit_operation
from treasury.nights import sweep
from treasury.nights.month_reports import report_month
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.provider.conversion import ConversionExecute
from treasury.provider.orders import Pay
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.scope import Scope
from treasury.sandbox.behaviour import Behaviour


def this_month(desk: Desk) -> str:
    return Policy().day_of(desk.ledger.now())[:7]


@pytest.mark.both_databases
@pytest.mark.parametrize("is_on_top", [True, False])
@pytest.mark.parametrize("first", [None, "1"])
def test_a_fee_that_is_shown_later_or_otherwise_is_an_entry_of_the_month_that_learns_of_it(
    first: str | None, is_on_top: bool, open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    service.plans |= {"/v1/order/payout": [accepted], "/v1/balance/partner": [ok(balance="1000")]}
    on_top = frozenset({"payout"} if is_on_top else ())
    desk = open_desk(service.base_url, service=ServiceRules(fee_on_top=on_top))
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)
    month, known = this_month(desk), {} if first is None else {"fee_amount": first, "arrive_amount": "10"}
    for run_key, number in (("first", 8), ("second", 9)):
        service.plans["/v1/order/query"] = [ABSENT]
        pay(desk, sheet(tmp_path, (run_key, "10", f"1234567000{number}")), tmp_path / run_key, run_key, seconds=0)
        service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20", order_no=None, **known)]
        night(desk, tmp_path / run_key)
        clock_of(desk).move(DAY)
    reported, entries = month_of(desk, tmp_path / "month", month), (tmp_path / "month" / "entries.csv").read_text()
    clock_of(desk).move(30 * DAY)
    known = {"fee_amount": "3", "arrive_amount": "10"}
    service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20", order_no=None, **known)]
    for number in (3, 4):
        night(desk, tmp_path / str(number))
        clock_of(desk).move(DAY)
    assert month_of(desk, tmp_path / "month", month) == reported
    assert (tmp_path / "month" / "entries.csv").read_text() == entries
    later, more = month_of(desk, tmp_path / "later", this_month(desk)), Decimal(3) - Decimal(first or 0)
    assert (later["opening"], later["fees"]) == (reported["closing"], str(-more))
    assert later.get("paid", "0") == ("0" if is_on_top else str(more))
    ids = [line.split(",")[0] for line in (tmp_path / "later" / "entries.csv").read_text().splitlines()]
    assert len(ids) == len(set(ids)) == (2 if is_on_top else 3)


@pytest.mark.parametrize("is_on_top", [True, False])
def test_the_fee_of_what_comes_back_whole_is_no_cost_of_its_month(
    is_on_top: bool, open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    service.plans |= {"/v1/order/payout": [accepted], "/v1/balance/partner": [ok(balance="1000")]}
    desk = open_desk(service.base_url, service=ServiceRules(fee_on_top=frozenset({"payout"} if is_on_top else ())))
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)
    sums, known = [], {"fee_amount": "3", "arrive_amount": "10" if is_on_top else "7"}
    for run_key, number, status in (("opens", 8, 99), ("run", 9, 99), ("run", 9, 44)):
        service.plans["/v1/order/query"] = [ABSENT]
        pay(desk, sheet(tmp_path, (run_key, "10", f"1234567000{number}")), tmp_path / run_key, run_key, seconds=0)
        service.plans["/v1/order/query"] = [shown(status, currency="USDT_TRC20", order_no=None, **known)]
        night(desk, tmp_path / "night", Scope() if run_key == "opens" else Scope(run_key=run_key))
        clock_of(desk).move(DAY)
        month = month_of(desk, tmp_path / "month", this_month(desk))
        sums.append([month.get(name, "0") for name in ("paid", "fees", "returned")])
    paid = "10" if is_on_top else "7"
    assert sums == [["0"] * 3, [f"-{paid}", "-3", "0"], [f"-{paid}", "0", paid]]


def test_a_debit_of_a_scanned_code_that_is_shown_otherwise_is_an_entry_of_the_month_that_learns_of_it(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox, ask = start_sandbox(settle_seconds=1), sweep._ask
    desk = open_desk(sandbox.base_url)
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)
    make_kind("scan_to_pay", rows=1).start(desk, tmp_path)
    night(desk, tmp_path / "1")
    make_kind("scan_to_pay", rows=2).start(desk, tmp_path)
    sandbox.advance(60)
    night(desk, tmp_path / "2")
    month = this_month(desk)

    def usdt(name: str) -> dict[str, str]:
        accounts = report_month(desk, name, tmp_path / name, Policy())["accounts"]
        return next(each for each in accounts if each["currency"] == "USDT")

    reported = usdt(month)
    assert reported["paid"] != "0"

    def one_more(*asked: Any) -> tuple[Any, dict[str, Any]]:
        seen, side = ask(*asked)
        return seen, {**side, "seen_amount": side["seen_amount"] + 1}

    monkeypatch.setattr("treasury.nights.sweep._ask", one_more)
    clock_of(desk).move(31 * DAY)
    night(desk, tmp_path / "3")
    assert usdt(month) == reported
    later = usdt(this_month(desk))
    assert (later["opening"], later["paid"]) == (reported["closing"], "-2")


@pytest.mark.both_databases
def test_an_amount_that_is_shown_in_another_currency_is_no_debit_of_a_scanned_code(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """320 THB counted as 320 USDT, so that so much could have gone unseen."""
    sandbox, ask = start_sandbox(settle_seconds=1), sweep._ask
    desk = open_desk(sandbox.base_url)
    make_kind("scan_to_pay", rows=1).start(desk, tmp_path)
    sandbox.advance(60)
    night(desk, tmp_path / "1")
    make_kind("scan_to_pay", rows=2).start(desk, tmp_path)
    sandbox.advance(60)

    def in_baht(*asked: Any) -> tuple[Any, dict[str, Any]]:
        seen, side = ask(*asked)
        return seen, {**side, "seen_currency": "THB", "seen_amount": Decimal(320)}

    monkeypatch.setattr("treasury.nights.sweep._ask", in_baht)
    pages = [night(desk, tmp_path / "2")]
    monkeypatch.setattr("treasury.nights.sweep._ask", ask)
    pages.append(night(desk, tmp_path / "3"))
    wrong, right = (balance(page, "USDT") for page in pages)
    assert (wrong["unexplained"], right["unexplained"]) == (wrong["change"], "0")
    [sums] = [each for each in pages[0]["statement"] if each["currency"] == "USDT"]
    bounds = sum(Decimal(each["amount"]) for each in pages[0]["breaks"] if each["class"] == "currency_mismatch")
    assert Decimal(sums["breaks_gross"]) == bounds - Decimal(wrong["change"]) < 40
    assert [Decimal(page["fees"][0]["amount"]) > 0 for page in pages] == [False, True]


@pytest.mark.both_databases
@pytest.mark.parametrize("named", ["USDT", None])
def test_what_a_called_conversion_debits_is_what_its_answer_says_where_the_ledger_knows_no_quote_of_it(
    named: str | None, open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    """Neither its currency nor its amount is known here before the service shows them."""
    left, statement = {"USDT": "1000"}, tmp_path / "statement.csv"
    statement.write_text("order_no,currency,amount,status\nX1,USDT,1,44\n")  # so that its balance is read
    service.plans["/v1/order/query"] = [ABSENT]
    service.plans["/v1/conversion/execute"] = [ok(order_no="P1", quoteId="q")]
    service.plans["/v1/balance/partner"] = [lambda body: ok(balance=left[body["currency"]])]
    desk = open_desk(service.base_url)
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)
    for number, given in enumerate((statement, None)):
        night(desk, tmp_path / f"{number}", statement=given)
    submit_operation(desk, ConversionExecute(quote_id="q"))
    service.plans["/v1/order/query"] = [shown(99, currency=named, order_amount="100", arrive_amount="100")]
    left["USDT"] = "900" if named else "1000"
    clock_of(desk).move(DAY)
    for number in (2, 3):
        found = balance(night(desk, tmp_path / f"{number}"), "USDT")
        change = "-100" if named else "0"
        assert (found["explained_low"], found["change"], found["unexplained"]) == (change, change, "0")


@pytest.mark.parametrize("unread", ["USDT", "USDT_TRC20"])
def test_a_month_shows_a_pooled_balance_that_its_last_report_read_under_any_of_its_codes(
    unread: str, open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    desk, balances = open_desk(service.base_url), {"USDT": "1000", "USDT_TRC20": "1000"}

    def pay_one(row: str, currency: str) -> None:
        service.plans["/v1/order/query"] = [ABSENT]
        file = sheet(tmp_path, (row, "10", f"1234567000{len(desk.ledger.orders())}"))
        file.write_text(file.read_text().replace("USDT_TRC20", currency))
        pay(desk, file, tmp_path / row, row, seconds=0)
        service.plans["/v1/order/query"] = [lambda body: shown(99, currency=named[body["request_id"]])(body)]

    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)
    service.plans["/v1/order/payout"] = [accepted]
    service.plans["/v1/balance/partner"] = [
        lambda body: ok(balance=balances[body["currency"]]) if body["currency"] in balances else refused(500)
    ]
    for number, currency in enumerate(balances):
        pay_one(f"r{number}", currency)
    named = {order.request_id: order.currency for order in desk.ledger.orders()}
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    pay_one("r2", "USDT_TRC20")
    named |= {order.request_id: order.currency for order in desk.ledger.orders()}
    balances |= dict.fromkeys(balances, "990")
    lost = balances.pop(unread)
    night(desk, tmp_path / "2")
    month = this_month(desk)
    clock_of(desk).move(31 * DAY)
    balances[unread] = lost
    night(desk, tmp_path / "3")
    [found] = report_month(desk, month, tmp_path / "month", Policy())["accounts"]
    assert (found["opening"], found["closing"], found["shown"], found["difference"]) == ("1000", "990", "990", "0")


@pytest.mark.parametrize("account", ["12345670001", "12345670044"], ids=["settles", "fails"])
def test_what_left_after_the_last_report_of_a_month_is_no_difference_of_it(
    account: str, open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)
    pay(desk, sheet(tmp_path, ("a", "10", "12345670001")), tmp_path / "a", "a", seconds=20)
    night(desk, tmp_path / "1")
    month = this_month(desk)
    clock_of(desk).move(DAY / 2)
    pay(desk, sheet(tmp_path, ("b", "20", account)), tmp_path / "b", "b", seconds=20)
    found = month_of(desk, tmp_path / "month", month)
    paid = Decimal(found.get("paid", "0")) + Decimal(found.get("fees", "0"))
    assert paid == (-20 if account == "12345670001" else 0)
    assert (Decimal(found["closing"]), found.get("difference")) == (Decimal(found["shown"]) + paid, None)
    clock_of(desk).move(DAY)
    take(desk, "by-hand", "25")
    night(desk, tmp_path / "2")
    assert month_of(desk, tmp_path / "month", month)["difference"] == "-25"


@pytest.mark.parametrize("account", ["12345670001", "12345670044"], ids=["settles", "fails"])
def test_what_an_order_had_taken_when_the_account_was_opened_is_in_the_month_once(
    account: str, open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=100_000, behaviour=Behaviour(debited_when="accepted"))
    desk = open_desk(sandbox.base_url, service=ServiceRules(debited_when={"payout": "accepted"}))
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)
    pay(desk, sheet(tmp_path, ("a", "10", account)), tmp_path / "out", seconds=0)
    night(desk, tmp_path / "1")
    on_its_way = month_of(desk, tmp_path / "month", this_month(desk))
    assert on_its_way["difference"] == "-10"
    sandbox.advance(200_000)
    clock_of(desk).move(DAY)
    report = balance(night(desk, tmp_path / "2"))
    assert (report["unexplained"], report["judgement"]) == ("0", "explained")
    found = month_of(desk, tmp_path / "month", this_month(desk))
    assert (found["closing"], found.get("difference")) == (report["closing"], None)


def test_what_a_pay_in_brought_after_the_last_report_of_everything_is_no_difference_of_its_month(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    """A narrowed report learns of it, or one that ends after midnight."""
    desk = open_desk(service.base_url)
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)
    service.plans |= {"/v1/order/pay": [accepted], "/v1/order/query": [ABSENT]}
    service.plans["/v1/balance/partner"] = [ok(balance="100", currency="USDT_TRC20")]
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    send_operation(desk, Pay(request_id="in-1", amount="60", **fields))
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY // 2)
    came = str(int(clock_of(desk).wall()))
    service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20", order_amount="60", finish_time=came)]
    service.plans["/v1/balance/partner"] = [ok(balance="160", currency="USDT_TRC20")]
    clock_of(desk).move(3600)
    night(desk, tmp_path / "2", Scope(window_days=5))
    name = this_month(desk)
    month = month_of(desk, tmp_path / "month", name)
    assert (month["received"], month["closing"], month["shown"]) == ("60", "160", "100")
    assert "difference" not in month
    clock_of(desk).move(31 * DAY)
    night(desk, tmp_path / "3")
    assert month_of(desk, tmp_path / "month", name) == month


@pytest.mark.parametrize(("balance", "difference"), [("160", None), ("100", "-60")])
def test_what_a_pay_in_brought_before_a_report_that_knew_it_counts_however_the_clock_of_the_service_is_set(
    open_desk: OpenDesk, service: Any, tmp_path: Path, balance: str, difference: str | None
) -> None:
    """Else what the balance lacks of it would be no difference of its month."""
    desk = open_desk(service.base_url)
    service.plans |= {"/v1/order/pay": [accepted], "/v1/order/query": [ABSENT]}
    service.plans["/v1/balance/partner"] = [ok(balance="100", currency="USDT_TRC20")]
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    send_operation(desk, Pay(request_id="in-1", amount="60", **fields))
    night(desk, tmp_path / "1")
    clock_of(desk).move(3600)
    ahead = str(int(clock_of(desk).wall()) + 8 * 3600)
    service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20", order_amount="60", finish_time=ahead)]
    service.plans["/v1/balance/partner"] = [ok(balance=balance, currency="USDT_TRC20")]
    night(desk, tmp_path / "2")
    month = month_of(desk, tmp_path / "month", this_month(desk))
    assert (month["closing"], month["shown"], month.get("difference")) == ("160", balance, difference)
