"""Lines of statements over nights and months: each movement is an entry once, of the month that learns of it."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine.answers import ABSENT, accepted, ok, shown
from tests.engine.approvers import adopt
from tests.engine.nights import DAY, ROWS, OpenDesk, balance, classes, month_of, take
from tests.engine.runs import night, pay, remake, sheet
from tests.moved_clock import clock_of
from treasury.call.calls import send_operation
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.kept_breaks import accept_break
from treasury.ledger.notifications import keep_notifications
from treasury.ledger.receipts import known_numbers, learnt_numbers
from treasury.nights import sweep
from treasury.nights.sweep import stored_sweep
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.provider.orders import Pay
from treasury.reconciliation.scope import Scope
from treasury.settings import os_user

ENTRY = (
    '<Ntry><Amt Ccy="USDT_TRC20">{}</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><Dt>{}</Dt></BookgDt>'
    "<NtryDtls><TxDtls><Refs><EndToEndId>{}</EndToEndId></Refs></TxDtls></NtryDtls></Ntry>"
)


def today(desk: Desk) -> str:
    return Policy().day_of(desk.ledger.now())


@pytest.fixture
def desk(open_desk: OpenDesk, start_sandbox: Callable[..., Any], tmp_path: Path) -> Desk:
    """A desk on the 12th of a month, whose account was opened that day, after a payment."""
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    clock_of(desk).move((42 - int(today(desk)[8:])) * DAY)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "1")
    return desk


def test_a_currency_that_only_a_statement_names_is_watched(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(balances={"USDT": Decimal(500), "BTC": Decimal(1)}).base_url)
    statement = tmp_path / "statement.csv"
    statement.write_text("order_no,currency,amount,status\nX1,BTC,1,99\n")
    night(desk, tmp_path / "1", statement=statement)
    clock_of(desk).move(DAY)
    assert balance(night(desk, tmp_path / "2"), "BTC")["judgement"] == "first"


@pytest.mark.both_databases
def test_a_statement_is_kept_and_compared_both_ways(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    accounts = [("a", "100", "12345670001"), ("b", "20", "12345670002"), ("c", "30", "12345670003")]
    pay(desk, sheet(tmp_path, *accounts), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "1")
    a, b, c = (order.order_no for order in desk.ledger.orders())
    take(desk, "by-hand", "5000")
    statement = tmp_path / "statement.csv"

    def text(of_a: int, of_b: int, *more: str) -> str:
        lines = ["order_no,currency,amount,status", f"{a},USDT_TRC20,{of_a},99", f"{b},USDT_TRC20,20,{of_b}"]
        return "\n".join([*lines, "X1,USDT_TRC20,5000,99", *more]) + "\n"

    statement.write_text(text(900, 44))
    kinds = {"a": "amount_mismatch", "b": "status_conflict", "c": "missing_in_statement"}
    expected = {**kinds, "USDT_TRC20": "missing_in_ledger"}
    for number, given in enumerate((statement, None, statement), 2):
        report = night(desk, tmp_path / f"{number}", statement=given)
        found = {name: said.split()[0] for name, said in classes(report).items()}
        assert (report["verdict"], found, balance(report)["unexplained"]) == ("breaks", expected, "0"), number
        clock_of(desk).move(DAY)
    statement.write_text(text(100, 99, f"{c},USDT_TRC20,30,99"))
    corrected = night(desk, tmp_path / "5", statement=statement)
    said = {"a": "amount_mismatch resolved", "b": "status_conflict resolved", "c": "missing_in_statement resolved"}
    assert classes(corrected) == {**said, "USDT_TRC20": "missing_in_ledger persisting"}
    assert len(desk.ledger.read(schema.statement_lines.select())) == 6, "the line that is as it was is kept once"
    assert corrected["scope"]["statement"].startswith(f"4 lines, the newest by {os_user()} (SHA-256 ")


def test_a_file_of_all_days_so_far_lacks_a_payment_between_two_that_it_shows(desk: Desk, tmp_path: Path) -> None:
    """Of the days that an earlier file showed nothing was missing: an unchanged line was of that file alone."""
    lines, reports = ["order_no,currency,amount,status,date"], []
    statement = tmp_path / "statement.csv"
    for number in range(3):
        clock_of(desk).move(DAY)
        row = (f"n{number}", str(11 + number), f"1234567010{number}")
        pay(desk, sheet(tmp_path, row), tmp_path / f"out{number}", run_key=f"run{number}", seconds=20)
        [order] = desk.ledger.orders(run_key=f"run{number}")
        if number != 1:
            lines.append(f"{order.order_no},USDT_TRC20,{11 + number},99,{today(desk)}")
            statement.write_text("\n".join(lines) + "\n")
            reports.append(night(desk, tmp_path / f"of {number}", statement=statement))
    clock_of(desk).move(DAY)
    reports.append(night(desk, tmp_path / "later"))
    assert [classes(report).get("n1") for report in reports] == [
        None,
        "missing_in_statement new",
        "missing_in_statement persisting",
    ]


def test_a_line_that_another_file_has_in_another_currency_is_not_accepted_with_it(desk: Desk, tmp_path: Path) -> None:
    """A file of another account is given first, and has the same number."""
    statement = tmp_path / "statement.csv"
    for currency in ("USDC_ERC20", "USDT_TRC20"):
        statement.write_text(f"order_no,currency,amount\nX1,{currency},40\n")
        report = night(desk, tmp_path / currency, statement=statement)
        for number in range(2):
            standing = [each for each in report["breaks"] if each["lifecycle"] != "resolved"]
            [found] = [each for each in standing if each["class"] == "missing_in_ledger"]
            assert (found["currency"], found["accepted"], number) == (currency, None, number)
            clock_of(desk).move(DAY)
            report = night(desk, tmp_path / f"{currency}-{number}")
        accept_break(desk.ledger, found["id"], by="Ana", os_user="ana", why="made in the portal")
        assert night(desk, tmp_path / f"{currency}-accepted")["counts"]["missing_in_ledger"] == 1
        clock_of(desk).move(DAY)


def test_a_line_that_is_put_right_ends_what_an_earlier_file_said_in_another_currency(
    desk: Desk, tmp_path: Path
) -> None:
    """Also where it had that currency before, and where the wrong one came first."""
    statement = tmp_path / "statement.csv"
    for number, currency in enumerate(("USDT_TRC20", "USDC_ERC20", "USDT_TRC20", "ETH", "USDT_TRC20")):
        statement.write_text(f"order_no,currency,amount\nX1,{currency},40\n")
        report = night(desk, tmp_path / f"{number}", statement=statement)
        standing = [each for each in report["breaks"] if each["lifecycle"] != "resolved"]
        assert [each["currency"] for each in standing if each["class"] == "missing_in_ledger"] == [currency]
        clock_of(desk).move(DAY)


@pytest.mark.parametrize("before", [True, False])
def test_lines_explain_nothing_that_are_given_while_people_are_listed_and_others_go_on_to(
    before: bool, open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    statement = tmp_path / "statement.csv"
    statement.write_text("order_no,currency,amount,status\nX1,USDT_TRC20,50,99\n")
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "1")
    if not before:
        adopt(desk)
    take(desk, "by-hand", "50")
    expected = "0" if before else "-50"
    assert balance(night(desk, tmp_path / "2", statement=statement))["unexplained"] == expected
    shown = month_of(desk, tmp_path / "month", f"{clock_of(desk).now():%Y-%m}")
    adopt(desk) if before else adopt(desk, {}, "ada")
    clock_of(desk).move(DAY)
    assert balance(night(desk, tmp_path / "3"))["unexplained"] == expected
    assert month_of(desk, tmp_path / "month", f"{clock_of(desk).now():%Y-%m}") == shown
    if not before:  # given again, where a typed name may accept it, too, it explains
        assert balance(night(desk, tmp_path / "4", statement=statement))["unexplained"] == "0"


@pytest.mark.both_databases
def test_a_line_that_somebody_changed_in_the_database_explains_nothing(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "1")
    take(desk, "by-hand", "5000")
    statement = tmp_path / "statement.csv"
    statement.write_text("order_no,currency,amount,status\nX1,USDT_TRC20,1,99\n")
    assert balance(night(desk, tmp_path / "2", statement=statement))["unexplained"] == "-4999"
    table = schema.statement_lines
    [row] = desk.ledger.read(table.select())
    content = row.content.replace('"amount": "1"', '"amount": "5000"')
    assert content != row.content
    desk.ledger.write(lambda connection: connection.execute(update(table).values(content=content)).rowcount)
    assert balance(night(desk, tmp_path / "3"))["unexplained"] == "-5000"


def test_a_standing_order_is_an_entry_of_each_month_and_a_payment_that_is_booked_twice_is_seen(
    desk: Desk, tmp_path: Path
) -> None:
    statement, [order] = tmp_path / "statement.xml", desk.ledger.orders()
    for number in (2, 3):
        take(desk, f"rent-{number}", "100")
        lines = ENTRY.format("100", today(desk), "RENT") + ENTRY.format("10", today(desk), order.request_id)
        statement.write_text(f"<Document><BkToCstmrStmt><Stmt>{lines}</Stmt></BkToCstmrStmt></Document>")
        report = night(desk, tmp_path / f"{number}", statement=statement)
        assert balance(report)["unexplained"] == "0"
        assert month_of(desk, tmp_path / "month", today(desk)[:7])["paid"] == "-100"
        assert report["counts"].get("duplicate_effect", 0) == number - 2
        clock_of(desk).move(31 * DAY)


@pytest.mark.both_databases
@pytest.mark.parametrize("is_dated", [True, False])
def test_a_line_that_proves_to_be_of_an_order_is_taken_back_in_the_month_that_learns_it(
    is_dated: bool, open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    desk, numbers = open_desk(service.base_url), dict[str, str]()

    def query(body: Mapping[str, Any]) -> tuple[int, Any]:
        [row] = [order.row_ref for order in desk.ledger.orders() if order.request_id == body["request_id"]]
        return shown(99, currency="USDT_TRC20", order_no=numbers[row])(body) if row in numbers else ABSENT

    clock_of(desk).move((42 - int(today(desk)[8:])) * DAY)
    service.plans |= {"/v1/order/payout": [accepted], "/v1/balance/partner": [ok(balance="1000")]}
    service.plans["/v1/order/query"] = [query]
    pay(desk, sheet(tmp_path, ("first", "10", "12345670009")), tmp_path / "out", "first", seconds=0)
    numbers["first"] = "P1"
    night(desk, tmp_path / "1")
    service.plans["/v1/order/payout"] = [(500, {})]
    pay(desk, sheet(tmp_path, ("lost", "10", "12345670001")), tmp_path / "out", seconds=0)
    service.plans["/v1/balance/partner"] = [ok(balance="985")]
    clock_of(desk).move(DAY)
    statement = tmp_path / "statement.csv"
    statement.write_text(
        f"order_no,currency,amount,status,date\nP2,USDT_TRC20,10,99,{today(desk) if is_dated else ''}\n"
    )
    night(desk, tmp_path / "3", statement=statement)
    name = today(desk)[:7]
    reported = month_of(desk, tmp_path / "month", name)
    clock_of(desk).move(31 * DAY)
    numbers["lost"] = "P2"
    night(desk, tmp_path / "4")
    assert month_of(desk, tmp_path / "month", name) == reported
    later = month_of(desk, tmp_path / "later", today(desk)[:7])
    assert later["opening"] == reported["closing"]
    assert later["closing"] == "990"


def test_a_line_without_a_day_that_a_later_file_has_otherwise_stays_an_entry_of_its_month(
    desk: Desk, tmp_path: Path
) -> None:
    statement = tmp_path / "statement.csv"
    take(desk, "by-hand", "100")

    def give(number: int, amount: str, fee: str) -> dict[str, str]:
        statement.write_text(f"order_no,currency,amount,status,fee\nX1,USDT_TRC20,{amount},99,{fee}\n")
        return balance(night(desk, tmp_path / f"{number}", statement=statement))

    assert give(2, "90", "")["unexplained"] == "-10"
    name, reported = today(desk)[:7], month_of(desk, tmp_path / "month", today(desk)[:7])
    assert reported["paid"] == "-90"
    clock_of(desk).move(31 * DAY)
    assert give(3, "90", "1")["unexplained"] == "-10"
    assert month_of(desk, tmp_path / "month", name) == reported
    assert give(4, "100", "1")["unexplained"] == "0"
    assert month_of(desk, tmp_path / "month", name) == reported
    later = month_of(desk, tmp_path / "later", today(desk)[:7])
    assert (later["opening"], later["paid"], later.get("difference")) == (reported["closing"], "-10", None)


@pytest.mark.parametrize("meanwhile", ["a month", "people"])
def test_a_report_that_is_made_again_takes_no_lines_of_another_month_or_without_the_key_of_a_person(
    meanwhile: str, desk: Desk, tmp_path: Path
) -> None:
    take(desk, "by-hand", "100")
    night(desk, tmp_path / "2")
    statement, name = tmp_path / "statement.csv", today(desk)[:7]
    statement.write_text("order_no,currency,amount,status\nX1,USDT_TRC20,100,99\n")
    reported, made = month_of(desk, tmp_path / "month", name), stored_sweep(desk, Scope())
    adopt(desk) if meanwhile == "people" else clock_of(desk).move(31 * DAY)
    why = "a policy lists people since then" if meanwhile == "people" else "its month is over, and stays as it was"
    with pytest.raises(InputError, match=f"takes no more lines of statements: {why}; run `treasury reconcile`"):
        remake(desk, made, tmp_path / "2", statement)
    assert month_of(desk, tmp_path / "month", name) == reported
    remake(desk, made, tmp_path / "2")
    expected = "-100" if meanwhile == "people" else "0"
    assert balance(night(desk, tmp_path / "3", statement=statement))["unexplained"] == expected


def test_a_report_whose_files_were_never_written_takes_no_lines_once_its_month_was_reported(
    desk: Desk, tmp_path: Path
) -> None:
    take(desk, "by-hand", "100")
    made = sweep.start_or_resume_sweep(desk, Scope())
    for ids in sweep.open_parts(desk, made).values():
        sweep.ask_orders(desk, ids)
    sweep.end_sweep(desk, made)  # and the disk is full
    name = today(desk)[:7]
    clock_of(desk).move(31 * DAY)
    statement, reported = tmp_path / "statement.csv", month_of(desk, tmp_path / "month", name)
    statement.write_text("order_no,currency,amount,status\nX1,USDT_TRC20,100,99\n")
    with pytest.raises(InputError, match="its month is over"):
        remake(desk, made, tmp_path / "2", statement)
    assert month_of(desk, tmp_path / "month", name) == reported
    assert balance(night(desk, tmp_path / "3", statement=statement))["unexplained"] == "0"


@pytest.mark.parametrize("is_known", [True, False])
def test_a_pay_in_is_ours_in_a_night_that_hears_nothing_of_it_and_from_when_its_number_is_learnt(
    is_known: bool, open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    """A line names it by the service's number alone."""
    desk, answers = open_desk(service.base_url), {"status": 22 if not is_known else 99}

    def query(body: Mapping[str, Any]) -> tuple[int, Any]:
        number = "P9" if answers["status"] == 99 else ""
        told = shown(answers["status"], currency="USDT_TRC20", order_amount="60", order_no=number)
        return told(body) if answers["status"] else (500, {})

    clock_of(desk).move((42 - int(today(desk)[8:])) * DAY)
    service.plans |= {"/v1/order/pay": [accepted], "/v1/order/query": [lambda body: ABSENT]}
    service.plans["/v1/balance/partner"] = [ok(balance="100")]
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    send_operation(desk, Pay(request_id="in-1", amount="60", **fields))
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    service.plans |= {"/v1/order/query": [query], "/v1/balance/partner": [ok(balance="160")]}
    statement, name = tmp_path / "statement.csv", today(desk)[:7]
    statement.write_text(f"order_no,order_type,currency,amount,status,date\nP9,pay,USDT_TRC20,60,99,{today(desk)}\n")
    assert balance(night(desk, tmp_path / "2", statement=statement))["unexplained"] == "0"
    reported = month_of(desk, tmp_path / "month", name)
    assert (reported["received"], reported["closing"]) == ("60", "160")
    answers["status"] = 0 if is_known else 99
    clock_of(desk).move(31 * DAY)
    assert balance(night(desk, tmp_path / "3"))["unexplained"] == "0"
    assert month_of(desk, tmp_path / "month", name) == reported
    later = month_of(desk, tmp_path / "later", today(desk)[:7])
    assert (later["opening"], later["closing"], later.get("received", "0")) == ("160", "160", "0")
    assert learnt_numbers(desk.ledger).keys() == known_numbers(desk.ledger, stored_sweep(desk, Scope()))


@pytest.mark.both_databases
def test_a_payment_of_others_that_a_notification_and_a_line_tell_is_one_break(desk: Desk, tmp_path: Path) -> None:
    """The bank's line has the request id, and a number of the bank's own."""
    told = {"order_type": "payout", "currency": "USDT_TRC20", "order_amount": "33.33", "status": 99}
    names = [{"request_id": "theirs-1", "order_no": "2026-1"}, {"request_id": "theirs-2", "order_no": "2026-2"}]
    keep_notifications(desk.ledger, [told | each for each in names])
    before = night(desk, tmp_path / "2")
    assert before["counts"]["missing_in_ledger"] == 2
    [first] = [each["id"] for each in before["breaks"] if each["order_no"] == "2026-1"]
    accept_break(desk.ledger, first, by="Ana", os_user="ana", why="the other program's")
    lines = ["order_no,request_id,currency,amount,order_type,status,date"]
    lines.append(f"BANK-1,theirs-1,USDT_TRC20,33.33,payout,99,{today(desk)}")
    lines.append(f"BANK-2,theirs-2,USDT_TRC20,33.33,charge,99,{today(desk)}")
    statement = tmp_path / "bank.csv"
    statement.write_text("\n".join(lines) + "\n")
    report = night(desk, tmp_path / "3", statement=statement)
    found = {each["order_no"]: each for each in report["breaks"] if each["class"] == "missing_in_ledger"}
    assert {name: each["lifecycle"] for name, each in found.items()} == {"BANK-1": "persisting", "2026-2": "persisting"}
    assert (found["BANK-1"]["id"], found["BANK-1"]["accepted"]["by"]) == (first, "Ana")
    again = night(desk, tmp_path / "4")
    assert [each["accepted"] is None for each in again["breaks"] if each["class"] == "missing_in_ledger"].count(
        True
    ) == 1
