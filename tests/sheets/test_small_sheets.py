"""Card users and balances."""

from decimal import Decimal
from pathlib import Path

import pytest

import data
from tests.sheets.books import parts, save, sheet_xml
from treasury.errors import InvalidSheet
from treasury.sheets.balances_sheet import read_balances
from treasury.sheets.card_users_sheet import CardUserRow, read_card_users


def write(folder: Path, text: str) -> Path:
    path = folder / "sheet.csv"
    path.write_text(text)
    return path


def test_card_users_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, "user_xid,email,user_name,level_name\nu1,a@example.com,Ann,level-2\nu2,b@x.example.com,,\n")
    assert list(read_card_users(path)) == [
        CardUserRow(2, "u1", "a@example.com", "Ann", "LEVEL-2"),
        CardUserRow(3, "u2", "b@x.example.com", None, None),
    ]


def test_optional_columns_of_card_users_may_be_absent(tmp_path: Path) -> None:
    assert list(read_card_users(write(tmp_path, "user_xid,email\nu1,a@example.com\n"))) == [
        CardUserRow(2, "u1", "a@example.com")
    ]


def test_every_problem_of_card_users_is_named_and_masked(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "user_xid,email,level_name\nu1,ann.example.com,LEVEL-3\nu1,,LEVEL-1\n,c@example.com,\nu4,d@@example.com,\nu5,e@com,\n",
    )
    with pytest.raises(InvalidSheet) as caught:
        read_card_users(path)
    assert [(problem.row, problem.column) for problem in caught.value.problems] == [
        (2, "level_name"),
        (2, "email"),
        (3, "user_xid"),
        (3, "email"),
        (4, "user_xid"),
        (5, "email"),
        (6, "email"),
    ]
    assert "ann" not in str(caught.value)
    assert "d@@" not in str(caught.value)


def test_a_card_user_does_not_show_the_email_when_printed() -> None:
    assert "ann" not in repr(CardUserRow(2, "u1", "ann@example.com", "ann"))


def test_balances_are_read_exactly(tmp_path: Path) -> None:
    path = write(tmp_path, "currency,available\nUSDT,1000.10\nETH,0\nBTC,0.123456789012345678\n")
    assert read_balances(path)[0] == {
        "USDT": Decimal("1000.10"),
        "ETH": Decimal(0),
        "BTC": Decimal("0.123456789012345678"),
    }


@pytest.mark.parametrize(
    ("row", "column", "rule"),
    [
        ("ETH,-1", "available", "must be zero or more"),
        ("ETH,", "available", "is required"),
        ("ETH,many", "available", "plain digits"),
        (",1", "currency", "is required"),
        ("USDT,1", "currency", "is the same as in row 2"),
    ],
)
def test_a_wrong_balance_is_named(tmp_path: Path, row: str, column: str, rule: str) -> None:
    with pytest.raises(InvalidSheet) as caught:
        read_balances(write(tmp_path, f"currency,available\nUSDT,5\n{row}\n"))
    [problem] = caught.value.problems
    assert (problem.row, problem.column) == (3, column)
    assert rule in problem.rule


def test_a_time_before_the_calendar_begins_is_a_wrong_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidSheet, match="must be a date and time such as"):
        read_balances(write(tmp_path, "currency,available,as_of\nUSDT,5,0001-01-01T00:00+08:00\n"))


def test_no_balances_is_an_error_and_not_an_empty_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidSheet, match="no rows"):
        read_balances(write(tmp_path, "currency,available\n"))


def test_the_samples_are_valid() -> None:
    assert len(read_card_users(data.path("card_users.csv"))) == 4
    assert set(read_balances(data.path("balances.csv"))[0]) == {"USDT", "USDT_TRC20", "BTC", "ETH", "DOGE"}


def test_a_workbook_of_several_sheets_says_what_to_do_where_no_sheet_can_be_named(tmp_path: Path) -> None:
    lines = sheet_xml([["currency", "available"], ["USDT", "5"]])
    with pytest.raises(InvalidSheet, match="save the one that is meant as a file of its own"):
        read_balances(save(tmp_path, parts({"May": lines, "June": lines})))
    assert read_balances(save(tmp_path, parts({"June": lines})))[0] == {"USDT": Decimal(5)}
