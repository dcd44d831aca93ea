"""A statement of the service in a sheet: what is read of a line, to its last digit, and what is refused."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import openpyxl
import pytest

from treasury.errors import InvalidSheet
from treasury.reconciliation.entries import StatementEntry
from treasury.sheets.statement import read_statement


def line(folder: Path, currency: str, amount: str, fee_currency: str = "") -> StatementEntry:
    file = folder / "statement.csv"
    file.write_text(f"order_no,currency,amount,fee,fee_currency\nX1,{currency},{amount},1,{fee_currency}\n")
    [entry] = read_statement(file, UTC).entries
    return entry


@pytest.mark.parametrize("sign", ["", "-"])
def test_an_amount_is_read_to_its_last_digit(sign: str, tmp_path: Path) -> None:
    amount = "123456789012345678901234567890.123456789012345678"
    assert line(tmp_path, "ETH", sign + amount).amount == Decimal(amount)


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (["-50,", "20,charge", "0,"], []),
        (["-50,payout", "-20,charge"], []),
        (["50,payout", "20,charge"], []),
        (["-50,payout,44", "20,payout,44", "5,charge"], []),
        (["-50,", "20,"], [("X2", "came in by its sign")]),
        (["50,payout", "-20,charge"], [("X1", "came in by its sign"), ("X2", "left by its sign")]),
    ],
)
def test_where_one_amount_has_a_minus_each_sign_says_what_its_type_says(
    lines: list[str], wrong: list[tuple[str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "statement.csv"
    rows = (f"X{number},USDT,{line},99".split(",") for number, line in enumerate(lines, 1))
    text = "\n".join(",".join(row[:5]) for row in rows)
    file.write_text(f"order_no,currency,amount,order_type,status\n{text}\n")
    found = []
    try:
        read_statement(file, UTC)
    except InvalidSheet as error:
        found = [(each.row_ref, each.rule.partition(",")[0]) for each in error.problems]
    assert found == wrong


@pytest.mark.parametrize(
    ("types", "refused"),
    [
        (["payout", "extract", "charge"], []),
        (["payout", "extract", "exchange"], [4]),
        (["payout", "PAYOUT"], [3]),
        (["payout", ""], [3]),
        (["", "", "extract"], [3, 4]),
        (["charge", "pay"], [3]),
    ],
)
def test_a_number_may_be_there_twice_where_the_types_name_different_operations(
    types: list[str], refused: list[int], tmp_path: Path
) -> None:
    file = tmp_path / "statement.csv"
    rows = "".join(f"1,{order_type},USDT,5\n" for order_type in types)
    file.write_text(f"order_no,order_type,currency,amount\n{rows}")
    found: list[int] = []
    try:
        assert [each.order_type or "" for each in read_statement(file, UTC).entries] == types
    except InvalidSheet as error:
        found = [each.row for each in error.problems if each.rule == "is the same as in row 2"]
    assert found == refused


@pytest.mark.parametrize(("currency", "fee_currency"), [("usdt_trc20", ""), ("USDT TRC20", ""), ("USDT", "usdt")])
def test_a_currency_that_is_written_otherwise_than_the_accounts_know_it_is_refused(
    currency: str, fee_currency: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidSheet, match="must be written in capitals, as the service lists it"):
        line(tmp_path, currency, "5", fee_currency)


@pytest.mark.parametrize("column", ["order_no", "request_id", "currency", "fee_currency"])
def test_what_is_longer_than_the_ledger_keeps_it_is_refused(column: str, tmp_path: Path) -> None:
    """PostgreSQL refused what a report said of the line, and with it each later report."""
    row = {"order_no": "n-1", "request_id": "r-1", "currency": "USDT", "fee_currency": "USDT", "amount": "5"}
    file = tmp_path / "statement.csv"
    for text, is_kept in (("U" * 40, True), ("U" * 201, False)):
        file.write_text(f"{','.join(row)}\n{','.join((row | {column: text}).values())}\n")
        if is_kept:
            [entry] = read_statement(file, UTC).entries
            assert getattr(entry, column) == text
            continue
        with pytest.raises(InvalidSheet) as refused:
            read_statement(file, UTC)
        assert [(each.column, "characters" in each.rule) for each in refused.value.problems] == [(column, True)]


@pytest.mark.parametrize("style", ["yyyy-mm-dd hh:mm", "dd.mm.yyyy"])
@pytest.mark.parametrize("written", ["2026-11-25 14:30:05", "2026-11-25 23:59:59", "2026-11-25"])
def test_a_date_of_a_workbook_may_have_a_time(style: str, written: str, tmp_path: Path) -> None:
    made = openpyxl.Workbook()
    sheet = made.worksheets[0]
    sheet.append(["order_no", "currency", "amount", "date"])
    sheet.append(["X1", "EUR", 5.25, datetime.fromisoformat(written)])
    sheet["D2"].number_format = style
    made.save(tmp_path / "statement.xlsx")
    [entry] = read_statement(tmp_path / "statement.xlsx", UTC).entries
    assert entry.booked_on == date(2026, 11, 25)


@pytest.mark.parametrize(
    ("written", "in_auckland", "in_los_angeles"),
    [
        ("2026-12-31T22:30:00Z", date(2027, 1, 1), date(2026, 12, 31)),
        ("2027-01-01 03:30:00+00:00", date(2027, 1, 1), date(2026, 12, 31)),
        ("2027-01-01T23:30:00+13:00", date(2027, 1, 1), date(2027, 1, 1)),
        ("2027-01-01T03:30:00", date(2027, 1, 1), date(2027, 1, 1)),
        ("2027-01-01T00:00:00Z", date(2027, 1, 1), date(2027, 1, 1)),
        ("2027-01-01", date(2027, 1, 1), date(2027, 1, 1)),
    ],
)
def test_a_time_with_a_zone_is_of_the_day_of_the_policy(
    written: str, in_auckland: date, in_los_angeles: date, tmp_path: Path
) -> None:
    file = tmp_path / "statement.csv"
    file.write_text(f"order_no,currency,amount,date\nX1,USDT,5,{written}\n")
    zones = [ZoneInfo(name) for name in ("Pacific/Auckland", "America/Los_Angeles")]
    days = [entry.booked_on for zone in zones for entry in read_statement(file, zone).entries]
    assert days == [in_auckland, in_los_angeles]


@pytest.mark.parametrize("written", ["0001-01-01T01:00:00Z", "2027-01-01T25:00:00Z"])
def test_a_time_that_is_none_is_refused(written: str, tmp_path: Path) -> None:
    file = tmp_path / "statement.csv"
    file.write_text(f"order_no,currency,amount,date\nX1,USDT,5,{written}\n")
    with pytest.raises(InvalidSheet, match="must be a day as year-month-day"):
        read_statement(file, ZoneInfo("America/Los_Angeles"))
