"""Corrected copies: their own columns, what is wrong of each row, and the same file to us once it is mended."""

import csv
import tempfile
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from treasury.errors import InvalidFields, InvalidSheet, Problem, RowProblem
from treasury.reports.refused import write_refused
from treasury.sheets.cells import CONTROL
from treasury.sheets.control import Control, read_control
from treasury.sheets.corrections import write_corrected
from treasury.sheets.reading import Layout, Row, read_sheet

LAYOUT = Layout(key="ref", required=("amount",), optional=("account_no", "note", "day"))


def judge(row: Row) -> dict[str, str]:
    if row.values.get("amount") in (None, "twelve"):
        raise InvalidFields("row", [Problem("amount", "is wrong")])
    return row.values


def read(path: Path) -> list[dict[str, str]]:
    return list(read_sheet(path, LAYOUT, judge))


def refused(path: Path) -> InvalidSheet:
    with pytest.raises(InvalidSheet) as caught:
        read(path)
    return caught.value


def corrected(path: Path) -> Path:
    copy = write_corrected(path.parent / "out", path, refused(path).problems, LAYOUT)
    assert copy is not None
    assert copy.stat().st_mode & 0o777 == 0o600
    return copy


def csv_file(folder: Path, text: str) -> Path:
    path = folder / "sheet.csv"
    path.write_text(text, encoding="utf-8")
    return path


def xlsx_file(folder: Path, *rows: list[Any]) -> Path:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in rows:
        book.active.append(row)
    path = folder / "sheet.xlsx"
    book.save(path)
    return path


def cells(path: Path, delimiter: str = ",") -> list[list[str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.reader(file, delimiter=delimiter))


def test_a_csv_comes_back_in_its_own_columns_with_what_is_wrong(tmp_path: Path) -> None:
    copy = corrected(csv_file(tmp_path, "note;amount;ref\n hé, x;twelve;r1\n\n;7;r2\n"))
    assert copy.name == "corrected-me.csv"
    assert cells(copy, ";") == [
        ["note", "amount", "ref", "_status", "_problem"],
        ["hé, x", "twelve", "r1", "wrong", "amount: is wrong"],
        [],
        ["", "7", "r2", "ok", ""],
    ]


def test_mended_there_and_given_again_it_is_the_same_file_to_us(tmp_path: Path) -> None:
    text = "ref,amount,account_no,note\nr1,twelve,0481926357,+62 812-000\nr2,2,00012,@home\nr3,3,007,-5% off\n"
    copy = corrected(csv_file(tmp_path, text))
    raw = cells(copy)
    assert [row[3] for row in raw[1:]] == ["+62 812-000", "'@home", "'-5% off"]  # no program runs it
    copy.write_text(copy.read_text().replace("twelve", "12"))
    assert read(copy) == read(csv_file(tmp_path, text.replace("twelve", "12")))
    assert read(copy)[1]["note"] == "@home"


def test_a_copy_that_nobody_mended_is_refused_as_before(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "ref,amount,note\nr1,twelve,'=1\nr2,2,'0481\nEXAMPLE-3,3,x\n")
    before = refused(path).problems
    copy = corrected(path)
    assert refused(copy).problems == before
    again = write_corrected(tmp_path / "again", copy, refused(copy).problems, LAYOUT)
    assert again is not None
    assert [row[:3] for row in cells(again)] == [row[:3] for row in cells(copy)]
    assert cells(again)[0] == ["ref", "amount", "note", "_status", "_problem"]


def test_cells_beyond_the_header_stay_beyond_it(tmp_path: Path) -> None:
    copy = corrected(csv_file(tmp_path, "ref,amount\nr1,1,oops\nr2,2\n"))
    assert cells(copy)[1] == ["r1", "1", "wrong", "row: has more cells than the header", "oops"]
    assert [problem.rule for problem in refused(copy).problems] == ["has more cells than the header"]


def test_what_is_wrong_with_the_header_stands_in_the_first_row(tmp_path: Path) -> None:
    copy = corrected(csv_file(tmp_path, "ref,amonut\nr1,1\nr2,2\n"))
    _, first, second = cells(copy)
    assert first[2] == "wrong"
    assert "amonut: is not a column of this sheet: did you mean amount?" in first[3]
    assert "amount: this column is missing" in first[3]
    assert second[2:] == ["not checked", ""]


@pytest.mark.parametrize("content", [b"", b"ref,amount\n", b"r1,1,2\n", b'ref,amount\nr1,"1\n', b"PK\x03\x04 broken"])
def test_what_cannot_be_mended_in_a_copy_has_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "sheet"
    path.write_bytes(content)
    assert write_corrected(tmp_path / "out", path, refused(path).problems, LAYOUT) is None
    assert not list(tmp_path.glob("out/*"))


def test_a_workbook_keeps_text_numbers_and_dates_and_shows_wrong_cells(tmp_path: Path) -> None:
    path = xlsx_file(
        tmp_path,
        ["day", "ref", "amount", "account_no", "note"],
        [date(2026, 11, 3), "r1", "twelve", "0481926357", "@text"],
        [],
        [datetime(2026, 11, 4, 9, 30), "r2", 1250.5, "00012", "1.0"],  # noqa: DTZ001
    )
    book = openpyxl.load_workbook(path)
    book.worksheets[0]["E2"].data_type = "s"  # text that only looks like a formula
    book.save(path)
    copy = corrected(path)
    assert copy.name == "corrected-me.xlsx"
    sheet = openpyxl.load_workbook(copy).worksheets[0]
    assert [cell.value for cell in sheet[1]] == ["day", "ref", "amount", "account_no", "note", "_status", "_problem"]
    assert [cell.value for cell in sheet[2]][1:] == ["r1", "twelve", "0481926357", "@text", "wrong", "amount: is wrong"]
    assert {cell.data_type for cell in sheet[2][1:]} == {"s"}
    assert [cell.fill.fgColor.rgb == "FFFFB3AB" for cell in sheet[2]] == [False, False, True, *[False] * 4]
    assert (sheet["A4"].value, sheet["C4"].value, sheet["D4"].value) == (datetime(2026, 11, 4, 9, 30), 1250.5, "00012")  # noqa: DTZ001
    assert sheet["D2"].number_format == "@"
    book = openpyxl.load_workbook(copy)
    book.worksheets[0]["C2"].value = 12
    book.save(copy)
    mended = openpyxl.load_workbook(path)
    mended.worksheets[0]["C2"].value = 12
    mended.worksheets[0]["E2"].data_type = "s"
    mended.save(path)
    assert read(copy) == read(path)


def test_no_formula_is_kept_and_none_becomes_right(tmp_path: Path) -> None:
    path = xlsx_file(
        tmp_path, ["ref", "amount", "note"], ["r1", "=1+1", "x"], ["r2", 2, "#N/A"], ["r3", 3, True], ["r4", 4, "'=1"]
    )
    before = [(problem.row, problem.column) for problem in refused(path).problems]
    copy = corrected(path)
    sheet = openpyxl.load_workbook(copy).worksheets[0]
    assert not [cell for row in sheet.iter_rows() for cell in row if cell.data_type in ("f", "e")]
    assert sheet["B2"].value == "''=1+1"
    assert [(problem.row, problem.column) for problem in refused(copy).problems] == before


def test_a_formula_whose_value_is_right_comes_back_as_its_value(tmp_path: Path) -> None:
    import xlsxwriter

    path = tmp_path / "sheet.xlsx"
    book = xlsxwriter.Workbook(str(path))
    sheet = book.add_worksheet("Mine")
    sheet.write_row(0, 0, ["ref", "amount", "note"])
    sheet.write_row(1, 0, ["r1", 1, "bad"])
    sheet.write_row(2, 0, ["r2"])
    sheet.write_formula(2, 1, "=B2*2", None, 2)
    book.close()
    copy = write_corrected(tmp_path / "out", path, [RowProblem(2, "r1", "note", "is bad")], LAYOUT)
    assert copy is not None
    table = openpyxl.load_workbook(copy)["Mine"]
    assert (table["B3"].value, table["B3"].data_type) == (2, "n")


def test_a_copy_keeps_the_place_of_each_row_and_the_number_formats(tmp_path: Path) -> None:
    path = xlsx_file(
        tmp_path, ["ref", "amount", "day", "note"], ["r1", "twelve"], [], ["r2", 1250.125, date(2026, 11, 3)]
    )
    book = openpyxl.load_workbook(path)
    sheet = book.worksheets[0]
    sheet.title = "November"
    sheet["B4"].number_format, sheet["C4"].number_format = "#,##0.00", "dd/mm/yyyy"
    sheet["D4"].value = True
    book.save(path)
    layout = replace(LAYOUT, amounts=frozenset({"amount"}))

    def problems(file: Path) -> tuple[RowProblem, ...]:
        with pytest.raises(InvalidSheet) as caught:
            read_sheet(file, layout, judge)
        return caught.value.problems

    before = {(problem.row, problem.column) for problem in problems(path)}
    assert before == {(2, "amount"), (4, "amount"), (4, "note")}
    copy = write_corrected(tmp_path / "out", path, problems(path), layout)
    assert copy is not None
    book = openpyxl.load_workbook(copy)
    assert book.sheetnames == ["November"]
    copied = book["November"]
    assert [cell.value for cell in copied[3]][:4] == [None] * 4
    assert (copied["B4"].value, copied["B4"].number_format) == (1250.125, "#,##0.00")
    assert (copied["C4"].value, copied["C4"].number_format) == (datetime(2026, 11, 3), "dd/mm/yyyy")  # noqa: DTZ001
    assert copied["D4"].value == "''TRUE"
    assert {(problem.row, problem.column) for problem in problems(copy)} == before


def test_no_row_of_a_copy_waits_in_the_folder_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a killed command left them; here the folder is missing, so whoever writes to it fails."""
    path = xlsx_file(tmp_path, ["ref", "amount"], ["r1", "twelve"])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert corrected(path) == tmp_path / "out" / "corrected-me.xlsx"
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["corrected-me.xlsx"]


def test_what_a_person_expects_of_the_rows_is_kept_beside_the_copy(tmp_path: Path) -> None:
    path = xlsx_file(tmp_path, ["ref", "amount"], ["r1", "twelve"])
    book = openpyxl.load_workbook(path)
    control = book.create_sheet(CONTROL)
    for row in (["what", "counted", "expected"], ["rows", "=COUNTA(Sheet!A2:A9)", 2], ["USDT", "=SUM(B2:B9)", None]):
        control.append(row)
    book.save(path)
    copy = corrected(path)
    assert read_control(copy) == Control({}, {"rows": "2"})
    copied = openpyxl.load_workbook(copy)[CONTROL]
    assert [[cell.value for cell in row] for row in copied] == [["what", "counted", "expected"], ["rows", None, "2"]]


def test_both_reports_are_written_for_the_start_and_as_the_newest(tmp_path: Path) -> None:
    path, out = csv_file(tmp_path, "ref,amount\nr1,twelve\n"), tmp_path / "out"
    error = refused(path)
    files = write_refused(out, path, error, LAYOUT)
    assert files == [out / "errors.csv", out / "corrected-me.csv"]
    assert error.corrected == str(out / "corrected-me.csv")
    [start] = (out / "starts").iterdir()
    for file in files:
        assert (start / file.name).read_bytes() == file.read_bytes()
        assert file.stat().st_mode & 0o777 == 0o600


def test_a_copy_that_somebody_went_on_with_is_not_overwritten(tmp_path: Path) -> None:
    path, out = csv_file(tmp_path, "ref,amount\nr1,twelve\nr2,twelve\n"), tmp_path / "out"
    _, copy = write_refused(out, path, refused(path), LAYOUT)
    copy.write_text(copy.read_text().replace("r1,twelve", "r1,12"))
    theirs = copy.read_bytes()
    error = refused(path)
    _, other = write_refused(out, path, error, LAYOUT)
    assert copy.read_bytes() == theirs
    assert other.parent.parent == out / "starts"
    assert error.corrected == str(other)
    _, again = write_refused(out, copy, refused(copy), LAYOUT)  # their own, given again: theirs with new marks
    assert again == copy
    assert [row[:4] for row in cells(copy)] == [
        ["ref", "amount", "_status", "_problem"],
        ["r1", "12", "ok", ""],
        ["r2", "twelve", "wrong", "amount: is wrong"],
    ]


LINES: list[list[Any]] = [
    ["Payroll"],
    ["note", "ref", "amount"],
    ["x", "r1", "1"],
    ["y", "r2", "twelve"],
    ["z", "r3", 3],
]


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_of_rows_that_are_left_out_the_copy_holds_nothing_else(suffix: str, tmp_path: Path) -> None:
    if suffix == "csv":
        path = csv_file(tmp_path, "".join(",".join(map(str, line)) + "\n" for line in LINES))
    else:
        path = xlsx_file(tmp_path, *LINES)
        book = openpyxl.load_workbook(path)
        for row in (["what", "counted", "expected"], ["rows", None, "3"]):
            (book[CONTROL] if CONTROL in book.sheetnames else book.create_sheet(CONTROL)).append(row)
        book.save(path)
    copy = write_corrected(tmp_path / "out", path, refused(path).problems, LAYOUT, only={4})
    assert copy is not None
    if suffix == "csv":
        found = cells(copy)
    else:
        book = openpyxl.load_workbook(copy)
        assert book.sheetnames == ["Sheet"]  # what is expected of all rows is not true of these
        found = [["" if cell.value is None else str(cell.value) for cell in row] for row in book["Sheet"]]
        assert book["Sheet"]["C3"].fill.fgColor.rgb == "FFFFB3AB"
    assert [[cell for cell in line if cell] for line in found] == [
        ["Payroll"],
        ["note", "ref", "amount", "_status", "_problem"],
        ["y", "r2", "twelve", "wrong", "amount: is wrong"],
    ]
