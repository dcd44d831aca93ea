"""Sheets through LibreOffice, which is too large to install for every test run: `make office`, where `soffice` is.

A template is opened there, filled, saved, refused, mended in its corrected copy, saved again and paid: once.
"""

import subprocess
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.utils import get_column_letter

from tests.commands.office import Office
from treasury.sandbox import RunningSandbox
from treasury.sheets.beneficiaries import read_beneficiaries
from treasury.sheets.cells import CONTROL
from treasury.sheets.control import MAX_ROWS, read_control
from treasury.sheets.templates import KINDS

pytestmark = pytest.mark.prefect

ROWS: tuple[dict[str, Any], ...] = (
    {"row_ref": "0001", "account_no": "0481926357", "amount": "1250.50", "account_name": "Budi Santoso Contoh"},
    {"row_ref": "0002", "account_no": "0000481926", "amount": "ten", "account_name": "Siti Rahma Contoh"},
    {"row_ref": "0003", "account_no": "0081926355", "amount": 20.25, "account_name": "Dewi Contoh"},
)
SAME: dict[str, Any] = {
    "route": "direct",
    "currency": "USDT_TRC20",
    "settle_currency": "IDR",
    "payout_method": "bank_transfer",
    "country": "ID",
    "bank_code": "1000120",
    "phone": "+6281200001111",
    "email": "payee@example.com",
    "remark": "=November",
}

Save = Callable[[Path], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Open a sheet in LibreOffice and save it as a workbook, formulas calculated."""

    def saved(file: Path, as_what: str = "xlsx") -> Path:
        profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
        out = tmp_path / f"saved-{len(list(tmp_path.glob('saved-*')))}"
        command = ["soffice", profile, "--headless", "--convert-to", as_what, "--outdir", str(out), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        [found] = out.iterdir()
        return found

    return saved


def fill(file: Path) -> None:
    """Put three rows in place of the examples, as text where they are text."""
    book = openpyxl.load_workbook(file)
    sheet = book.worksheets[0]
    names = [str(cell.value) for cell in sheet[1]]
    for line, row in enumerate(ROWS, 2):
        values = SAME | row
        for at, name in enumerate(names, 1):
            cell = sheet.cell(line, at)
            cell.value = values.get(name)
            if isinstance(cell.value, str):
                cell.data_type = "s"
    book[CONTROL]["C5"] = "3"
    book.save(file)


def mend(file: Path, column: str, row: int, value: object) -> None:
    """Write another value into one cell."""
    book = openpyxl.load_workbook(file)
    sheet = book.worksheets[0]
    at = next(cell.column for cell in sheet[1] if cell.value == column)
    sheet.cell(row, at).value = value  # type: ignore[assignment]
    book.save(file)


def drop_downs(sheet: Any) -> dict[str, int]:
    """Column -> the last row that its drop-down reaches."""
    ranges = (str(each.sqref).split(":") for each in sheet.data_validations.dataValidation)
    return {first.rstrip("0123456789"): int(last.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")) for first, last in ranges}


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_keeps_its_text_columns_drop_downs_and_notes(kind: str, office: Office, save: Save) -> None:
    file = office.home / f"{kind}-kept.xlsx"
    assert office.run("template", kind, "--out", file).code == 0
    before, after = openpyxl.load_workbook(file), openpyxl.load_workbook(save(file))
    assert after.sheetnames == before.sheetnames
    old, new = before.worksheets[0], after.worksheets[0]
    assert [cell.value for cell in new[1]] == [cell.value for cell in old[1]]
    for header in new[1]:
        assert header.comment is not None, header.value
    # LibreOffice keeps drop-downs of the first thousand rows below the last filled one; text columns it keeps whole.
    reach, whole = drop_downs(new), drop_downs(old)
    assert reach.keys() == whole.keys()
    assert set(whole.values()) <= {MAX_ROWS + 1}
    assert all(row > 1_000 for row in reach.values())
    looks = {letter: each.number_format for letter, each in new.column_dimensions.items()}
    assert looks[get_column_letter(1)] == "@"


def test_a_sheet_is_filled_mended_and_paid_once_and_no_zero_is_lost(
    office: Office, sandbox: RunningSandbox, save: Save
) -> None:
    template = office.home / "november.xlsx"
    assert office.run("template", "pay", "--country", "ID", "--out", template).code == 0
    refused = office.run("pay", save(template), "--run-key", "november", "--yes")
    assert refused.code == 2
    assert "replace the example row" in refused.err
    fill(template)
    filled = save(template)
    control = read_control(filled)
    assert control is not None
    assert (control.counted["rows"], control.counted["USDT_TRC20"]) == (3, 1270.75)  # LibreOffice counted them
    wrong = office.run("pay", filled, "--run-key", "november", "--yes")
    copy = office.home / "runs" / "november" / "corrected-me.xlsx"
    assert wrong.code == 2
    assert "row 3 (0002), amount" in wrong.err
    assert str(copy) in wrong.out
    assert sandbox.orders() == []
    mend(copy, "amount", 3, "10")
    mended = save(copy)
    assert [(row.row_ref, row.account) for row in read_beneficiaries(mended)] == [
        (row["row_ref"], row["account_no"]) for row in ROWS
    ]
    assert {(row.fields["phone"], row.fields["remark"]) for row in read_beneficiaries(mended)} == {
        (SAME["phone"], SAME["remark"])
    }
    paid = office.run("pay", mended, "--run-key", "november", "--yes", "--follow", "20")
    assert (paid.code, paid.last) == (0, "3 settled"), paid.out + paid.err
    assert sorted(order["amount"] for order in sandbox.orders()) == [Decimal(10), Decimal("20.25"), Decimal("1250.50")]
    mend(template, "amount", 3, "10")
    for again in (copy, mended, save(template)):
        ended = office.run("pay", again, "--run-key", "november", "--yes")
        assert (ended.code, ended.last) == (0, "3 settled"), ended.out + ended.err
    assert [order["effects"] for order in sandbox.orders()] == [1, 1, 1]


def test_the_results_open_there(office: Office, sandbox: RunningSandbox, save: Save) -> None:
    sheet = office.sheet(("a", "10.10", "0481926357"), name="opened.csv")
    assert office.run("pay", sheet, "--run-key", "opened", "--yes", "--follow", "20").code == 0
    file = office.home / "runs" / "opened" / "results.xlsx"
    before, after = openpyxl.load_workbook(file), openpyxl.load_workbook(save(file))
    for name in before.sheetnames:
        old, new = ([[cell.value for cell in row] for row in book[name]] for book in (before, after))
        assert new == old
