"""Lines of statements over months: each movement is an entry once, of the month in which the ledger learnt of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.nights import DAY, ROWS, OpenDesk, balance, month_of, take
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.payments.desk import Desk
from treasury.policy.model import Policy

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
