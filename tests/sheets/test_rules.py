"""Rules behind the corpus: what number formats show, what a number is as text, and what is imported when."""

import csv
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from tests.sheets.books import BANK, csv_text, parts, save, sheet_xml, table, workbook, write
from treasury.errors import InvalidSheet, RowProblem
from treasury.runs.payout_plans import read_plan
from treasury.sheets.beneficiaries import read_beneficiaries
from treasury.sheets.card_users import read_card_users
from treasury.sheets.number_formats import read_format
from treasury.sheets.worksheet import number_text
from treasury.sheets.writing import write_errors


@pytest.mark.parametrize(
    ("code", "number", "shown"),
    [
        ("General", "1250.555", None),
        ("0.00", "1250.55", None),
        ("0.00", "1250.555", "1250.56"),
        ("#,##0.00;[Red]-#,##0.00", "1250.5", None),
        ("#,##0", "1250.5", "1251"),
        ('_-* #,##0.00\\ "€"_-;-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-', "12.5", None),
        ('"USD" 0.00', "1.005", "1.01"),
        ("[>=1000]0.0,;0", "1500", "something else"),
        ("0%", "0.5", "something else"),
        (";;;", "5", ""),
        ('"secret"', "5", "something else"),
    ],
)
def test_a_format_shows_what_a_person_sees(code: str, number: str, shown: str | None) -> None:
    assert read_format(code).shown(number) == shown


@pytest.mark.parametrize("code", ["yyyy-mm-dd", "[$-409]d\\-mmm\\-yy;@", "h:mm", "[h]:mm:ss", "dd/mm/yyyy"])
def test_dates_are_known_by_their_format(code: str) -> None:
    assert read_format(code).is_date


@pytest.mark.parametrize("code", ["0.00", "#,##0", '0.00" days"', "[Red]0", "@", "General", "0\\d"])
def test_numbers_are_no_dates(code: str) -> None:
    assert not read_format(code).is_date


@pytest.mark.parametrize(
    ("stored", "calculated", "text"),
    [
        ("1250", False, "1250"),
        ("1.1000000000000001", False, "1.1"),
        ("1E-3", False, "0.001"),
        ("0.30000000000000004", True, "0.3"),
        ("0.30000000000000004", False, None),
        ("12345678901234567", False, None),
        ("-0", False, "-0"),
    ],
)
def test_a_number_is_its_digits(stored: str, calculated: bool, text: str | None) -> None:
    assert number_text(stored, calculated=calculated) == text


def test_a_problem_of_the_whole_file_names_no_row(tmp_path: Path) -> None:
    with pytest.raises(InvalidSheet) as caught:
        read_beneficiaries(write(tmp_path, ""))
    assert "the file: is empty" in str(caught.value)
    assert "row" not in str(caught.value)


def test_the_report_of_errors_has_the_code_last(tmp_path: Path) -> None:
    problems = [RowProblem(3, "r2", "account_no", "is a number", "***", code="leading_zero_lost")]
    write_errors(tmp_path / "errors.csv", InvalidSheet("sheet.xlsx", problems))
    with (tmp_path / "errors.csv").open(newline="") as file:
        header, line = csv.reader(file)
    assert (header[-1], line[-1]) == ("code", "leading_zero_lost")


def test_a_sheet_of_card_users_is_named_too(tmp_path: Path) -> None:
    users = sheet_xml([["user_xid", "email"], ["u1", "a@example.com"]])
    path = save(tmp_path, parts({"Old": sheet_xml([["x"]]), "Users": users}))
    assert [user.user_xid for user in read_card_users(path, sheet="Users")] == ["u1"]
    with pytest.raises(InvalidSheet, match="--sheet"):
        read_card_users(path)


def test_the_libraries_are_imported_when_a_number_is_met() -> None:
    names = "{'schwifty', 'stdnum', 'phonenumbers', 'email_validator', 'openpyxl'}"
    code = f"import sys, treasury.sheets.beneficiaries\nprint(sorted({names} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_reading_asks_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    assert len(read_beneficiaries(workbook(tmp_path, table([BANK])))) == 1
    assert len(read_beneficiaries(write(tmp_path, csv_text(table([BANK]))))) == 1


def test_a_plan_is_made_of_the_sheet_that_is_named(tmp_path: Path) -> None:
    other = table([BANK | {"amount": "99"}])
    path = save(tmp_path, parts({"May": sheet_xml(other), "June": sheet_xml(table([BANK]))}))
    plans = {name: read_plan(path, "run", sheet=name) for name in ("May", "June")}
    assert [plan.debits["USDT_TRC20"] for plan in plans.values()] == [99, Decimal("12.50")]
    assert plans["June"].sha256 == read_plan(write(tmp_path, csv_text(table([BANK]))), "run").sha256
    with pytest.raises(InvalidSheet, match="May, June"):
        read_plan(path, "run")
