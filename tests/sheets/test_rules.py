"""Rules behind the corpus: what number formats show, what a number is as text, and what is imported when."""

import csv
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.styles.numbers import BUILTIN_FORMATS

from tests.sheets.books import BANK, PERSON, csv_text, number, parts, save, sheet_xml, styled, table, workbook, write
from tests.sheets.looks import LOOK, book
from treasury.errors import InvalidSheet, RowProblem
from treasury.pay.payout_plans import read_plan
from treasury.sheets.balances_sheet import read_balances
from treasury.sheets.beneficiaries import LAYOUT, read_beneficiaries
from treasury.sheets.card_users_sheet import read_card_users
from treasury.sheets.corrections import write_corrected
from treasury.sheets.number_formats import read_format
from treasury.sheets.worksheet import number_text
from treasury.sheets.writing import write_errors

NEGATIVE = ("-0.00", "(0.00)", "0.00-", "\\-0", '"\u2212 "0.00', "0\u2013", '"("#,##0.00")"')
"""Formats that show an amount as a negative one."""
PARTED = ('0"\u00b7"00', "0-00", '0":"00', "00\\-00", '0"\u066b"00')
"""Formats that show 1250 as 12 and a half."""


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
        *((code, "1250", "something else") for code in NEGATIVE + PARTED),
        *((code, "-1250", None) for code in NEGATIVE),
        *(
            (code, "1250", None)
            for code in ("#,##0.-", '0".-"', "#\\'##0", "# ##0", "*-0.00", "[$€-407] 0.00", "_(0_);(0)")
        ),
    ],
)
def test_a_format_shows_what_a_person_sees(code: str, number: str, shown: str | None) -> None:
    assert read_format(code).shown(number) == shown


BESIDE = {
    "": (
        *("General", "@", "", "#,##0.00_);[Red]\\(#,##0.00\\)", "[$-407]#,##0.00", "[>5][Blue]0;0", "#\\ ##0.00"),
        *('_(* #,##0.00_);_(* \\(#,##0.00\\);_(* "-"??_);_(@_)', "[DBNum1]0", ";;;", "[>5]0;0.00 €", '"-"0;0" USD"'),
        '0;0;0;@" USD"',
    ),
    "EUR": ('#,##0.00 "EUR"', "[$EUR] #,##0.00", "[$EUR-407]0", "0\\E\\U\\R", 'General" EUR"'),
    "€": ("€ #,##0.00", "[$€-407] #,##0.00", "0.00\\ €", '_-* 0.00\\ "€"_-;-0;_-@_-', "[<5]0;0.00 €"),
    "000": ('0"000"',),
    ".": ('0"."00',),
    "%": ("0\\%",),
    "per day": ('0.00" per day"',),
    "9": ("*90",),
}


@pytest.mark.parametrize(("beside", "code"), [(beside, code) for beside, codes in BESIDE.items() for code in codes])
def test_a_format_may_show_something_beside_a_number(code: str, beside: str) -> None:
    assert read_format(code).beside("12") == beside


@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize("code", ['0.00" USDT"', "[$USDT_TRC20] 0.00", '"usdt" 0.00'])
def test_an_amount_may_be_shown_with_the_currency_of_its_row(tmp_path: Path, code: str, is_text: bool) -> None:
    [row] = read_beneficiaries(shown_amount(tmp_path, code, is_text=is_text))
    assert row.amount == 12


@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize("code", ['0.00" EUR"', "[$€-407] 0.00", "[$$-409]0.00", '0.00" USDT_ERC20"', '0.00"0"'])
def test_an_amount_shown_as_something_else_is_refused_and_so_is_its_copy(
    tmp_path: Path, code: str, is_text: bool
) -> None:
    path = shown_amount(tmp_path, code, is_text=is_text)
    with pytest.raises(InvalidSheet, match="out of the number format of the cell") as caught:
        read_beneficiaries(path)
    assert [(each.row, each.column, each.code) for each in caught.value.problems] == [(2, "amount", "shown_differs")]
    copy = write_corrected(tmp_path, path, caught.value.problems, LAYOUT)
    assert copy is not None
    with pytest.raises(InvalidSheet):
        read_beneficiaries(copy)


@pytest.mark.parametrize("number_format", [*range(5, 9), 42, 44])
def test_the_currency_of_whoever_opens_a_workbook_is_not_that_of_its_rows(tmp_path: Path, number_format: int) -> None:
    made = openpyxl.Workbook()
    sheet: Any = made.active
    for line in table([{**BANK, "amount": ""}]):
        sheet.append(line)
    sheet["C2"] = 12
    sheet["C2"].number_format = BUILTIN_FORMATS[number_format]
    made.save(tmp_path / "sheet.xlsx")
    with pytest.raises(InvalidSheet, match="the currency of the computer that opens it"):
        read_beneficiaries(tmp_path / "sheet.xlsx")


def shown_amount(folder: Path, code: str, *, is_text: bool) -> Path:
    """A sheet of one row, whose 12 has this format."""
    amount = styled("12", LOOK) if is_text else number("12", LOOK)
    code = code.replace("0.00", "@") if is_text else code
    return book(table([{**BANK, "amount": amount}]), code=code)(folder)


@pytest.mark.parametrize("code", ["[$EUR-407] #,##0.00", '#,##0.00 "€"', "[$USDT] 0"])
def test_each_amount_has_the_currency_of_its_own_column(tmp_path: Path, code: str) -> None:
    for column in ("pay_amount", "receive_amount"):
        mode = "source" if column == "pay_amount" else "dest"
        row = {**PERSON, "quote_mode": mode, "pay_amount": "", "receive_amount": "", column: number("12", LOOK)}
        path = book(table([row]), code=code)(tmp_path)
        if (column == "pay_amount") == ("USDT" in code):
            assert len(read_beneficiaries(path)) == 1
        else:
            with pytest.raises(InvalidSheet, match="is shown with"):
                read_beneficiaries(path)


def test_an_available_amount_may_have_the_currency_of_its_row(tmp_path: Path) -> None:
    lines = [["currency", "available"], ["USDT", number("12", LOOK)]]
    assert read_balances(book(lines, code='0.00" USDT"')(tmp_path))[0] == {"USDT": 12}
    with pytest.raises(InvalidSheet, match="EUR"):
        read_balances(book(lines, code='0.00" EUR"')(tmp_path))


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
