"""Lines of statements over months: each movement is an entry once, of the month in which the ledger learnt of it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.engine.answers import ABSENT, accepted, ok, shown
from tests.engine.approvers import adopt
from tests.engine.nights import DAY, ROWS, OpenDesk, balance, month_of, take
from tests.engine.runs import night, pay, remake, sheet
from tests.moved_clock import clock_of
from treasury.errors import InputError
from treasury.nights.sweep import stored_sweep
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.reconciliation.scope import Scope

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
