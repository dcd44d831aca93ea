"""Sheets from the command line: templates that are written, and wrong sheets that come back."""

import json
from collections.abc import Callable

import openpyxl
import pytest
from openpyxl.utils import get_column_letter

from tests.commands.office import Office, one_line_error
from tests.commands.terminal import on_a_terminal
from treasury.sandbox import RunningSandbox


@pytest.fixture(scope="module")
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    """A home whose commands must never need Prefect: an API that is not there would fail them."""
    return open_office(sandbox.base_url, prefect=False, PREFECT_API_URL="http://127.0.0.1:9/api")


def test_a_template_is_written_once_for_its_owner_alone_and_needs_no_account(office: Office) -> None:
    none = {"TREASURY_BASE_URL": "", "TREASURY_PARTNER_ID": "", "TREASURY_PRIVATE_KEY_FILE": ""}
    file = office.home / "new.xlsx"
    ended = office.run("template", "pay", "--country", "id", "--out", file, **none)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [f"  {file}", "19 columns; replace the example rows"]
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_bytes()
    again = office.run("template", "pay", "--out", file, **none)
    assert again.code == 2
    assert "is there already" in one_line_error(again)
    assert file.read_bytes() == before
    assert office.run("template", "provision").code == 0
    assert (office.home / "provision.xlsx").exists()


@pytest.mark.parametrize(
    ("country", "column", "bank"),
    [("id", "bank_code", "1000120: Bank Central Asia"), ("DE", "beneficiary_bank_id", "2000800: Deutsche Bank")],
)
def test_the_banks_of_a_template_have_the_names_that_the_service_says(
    office: Office, country: str, column: str, bank: str
) -> None:
    file = office.home / f"{country}.xlsx"
    assert office.run("template", "pay", "--country", country, "--out", file).code == 0
    book = openpyxl.load_workbook(file)
    names = [str(cell.value) for cell in book.worksheets[0][1]]
    area = f"{get_column_letter(names.index(column) + 1)}2"
    [rule] = [each for each in book.worksheets[0].data_validations.dataValidation if area in str(each.sqref).split(":")]
    listed = str(rule.formula1)
    if listed.startswith("_"):
        sheet, _, cells = listed.partition("!")
        listed = " ".join(str(cell.value) for (cell,) in book[sheet][cells])
    assert bank in listed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["payroll"], "pay, withdraw, scan-pay, collect, addresses, provision, balances, statement"),
        (["pay", "--country", "Indonesia"], "two letters"),
        (["balances", "--country", "ID"], "leave --country out"),
        (["pay", "--out", "new.ods"], ".xlsx or .csv"),
    ],
)
def test_a_template_that_there_is_not_ends_with_2(arguments: list[str], said: str, office: Office) -> None:
    ended = office.run("template", *arguments)
    assert ended.code == 2
    assert said in one_line_error(ended)


def test_a_template_as_it_is_is_refused(office: Office) -> None:
    file = office.home / "as-it-is.csv"
    office.run("template", "pay", "--out", file)
    ended = office.run("pay", file, "--run-key", "as-it-is", "--dry-run")
    assert ended.code == 2
    assert "row 2 (EXAMPLE-1), row_ref: replace the example row" in one_line_error(ended)


def test_a_wrong_sheet_comes_back_and_is_paid_once_it_is_mended_there(office: Office) -> None:
    good = office.sheet(("a", "10", "0481926357"), ("b", "20", "0481926358"), name="good.csv")
    bad = office.file("bad.csv", good.read_text().replace(",10,", ",ten,"))
    ended = office.run("pay", bad, "--run-key", "mended", "--dry-run")
    folder = office.home / "runs" / "mended"
    copy = folder / "corrected-me.csv"
    assert ended.code == 2
    assert [line.strip() for line in ended.out.splitlines()] == [str(folder / "errors.csv"), str(copy)]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert len(list(folder.glob("starts/*/corrected-me.csv"))) == 1
    assert ",ok," in copy.read_text()
    copy.write_text(copy.read_text().replace(",ten,", ",10,"))
    hashes = []
    for file in (copy, good):
        planned = office.run("pay", file, "--run-key", "mended", "--dry-run")
        assert planned.last == "2 payments planned, nothing was sent"
        hashes.append(json.loads((folder / "plan.json").read_text())["plan_sha256"])
    assert hashes[0] == hashes[1]


def test_a_wrong_sheet_of_card_users_comes_back_too(office: Office) -> None:
    file = office.file("users.csv", "user_xid,email\nu-1,nobody\n")
    ended = office.run("provision", file)
    copy = office.home / "runs" / "card-users" / "corrected-me.csv"
    assert ended.code == 2
    assert str(copy) in ended.out
    assert "u-1,nobody,wrong,email: is no e-mail address" in copy.read_text()
    book = openpyxl.Workbook()
    book.worksheets[0].append(["other"])
    for line in (["user_xid", "email"], ["u-1", "nobody"]):
        (book["Users"] if "Users" in book.sheetnames else book.create_sheet("Users")).append(line)
    book.save(office.home / "users.xlsx")
    assert office.run("provision", office.home / "users.xlsx", "--sheet", "Users").code == 2
    assert openpyxl.load_workbook(copy.with_suffix(".xlsx")).sheetnames == ["Users"]


def test_what_a_header_means_is_asked_once_on_a_terminal_and_never_confirmed_by_a_yes(office: Office) -> None:
    sheet = office.sheet(("a", "10", "0481926357"), name="own.csv")
    sheet.write_text(sheet.read_text().replace("account_no", "Konto"))
    planned = ["pay", sheet, "--run-key", "own", "--dry-run"]
    ended = office.run(*planned, "--yes")
    assert ended.code == 2
    assert "Konto: is not a column of this sheet: did you mean account_no? Say so once" in one_line_error(ended)
    said_no = on_a_terminal(office, planned, [('Use "Konto" for account_no? [y/N] ', "n")])
    assert said_no.code == 2
    said_yes = on_a_terminal(office, planned, [('Use "Konto" for account_no? [y/N] ', "y")])
    assert said_yes.code == 0, said_yes
    assert "errors.csv" not in said_yes.out
    assert "the column Konto was read as account_no, as somebody confirmed" in said_yes.out
    assert (office.home / "mappings.json").stat().st_mode & 0o777 == 0o600
    again = office.run(*planned)
    assert (again.code, again.last) == (0, "1 payment planned, nothing was sent")
    assert "was read as account_no" in again.out


def test_what_a_header_of_card_users_means_is_asked_too_and_counts_for_every_start(office: Office) -> None:
    file = office.file("own-users.csv", "user_xid,Mail\nu-1,nobody\n")
    asked = ["provision", file]
    ended = office.run(*asked)
    assert ended.code == 2
    assert "Mail: is not a column of this sheet: did you mean email? Say so once" in one_line_error(ended)
    question = 'Use "Mail" for email? [y/N] '
    said_no = on_a_terminal(office, asked, [(question, "n")])
    assert (said_no.code, "did you mean email?" in said_no.out) == (2, True)
    said_yes = on_a_terminal(office, asked, [(question, "y")])  # it is read, and its row is wrong: nobody is created
    assert said_yes.code == 2
    assert "email: is no e-mail address" in said_yes.out
    again = office.run(*asked)
    assert "email: is no e-mail address" in one_line_error(again)
