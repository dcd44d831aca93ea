"""Sheets in: the same rows from CSV and XLSX, and every problem named by row and column."""

from datetime import date, datetime, timedelta
from pathlib import Path
from platform import node
from typing import Any

import openpyxl
import pytest

from treasury.errors import InvalidFields, InvalidSheet, Problem
from treasury.sheets.cells import MAX_LINE
from treasury.sheets.reading import Layout, Row, read_sheet

MIDNIGHT = datetime.fromisoformat("2026-11-03")
LAYOUT = Layout(key="ref", required=("amount",), optional=("account_no", "note"), free_prefix="field.")


def csv_file(folder: Path, text: str | bytes) -> Path:
    path = folder / "sheet.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def xlsx_file(folder: Path, *rows: list[Any]) -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in rows:
        sheet.append(row)
    path = folder / "sheet.xlsx"
    book.save(path)
    return path


def values(path: Path) -> list[tuple[int, dict[str, str]]]:
    return list(read_sheet(path, LAYOUT, lambda row: (row.line, row.values)))


def problems(path: Path) -> list[tuple[int, str, str]]:
    """(row, column, rule) of everything that is wrong."""
    with pytest.raises(InvalidSheet) as caught:
        read_sheet(path, LAYOUT, lambda row: row)
    return [(problem.row, problem.column, problem.rule) for problem in caught.value.problems]


@pytest.mark.parametrize(
    "text",
    [
        "ref,amount,note\nr1,1.50,hé\n",
        "\ufeffref,amount,note\nr1,1.50,hé\n",
        "ref;amount;note\nr1;1.50;hé\n",
        "\ufeffref;amount;note\r\nr1;1.50;hé\r\n",
        'ref,amount,note\n"r1"," 1.50 ","hé"',
        "note,ref,amount,,\nhé,r1,1.50,,\n",
        "\n , \nref,amount,note\nr1,1.50,hé",
        "REF,Amount,NOTE\nr1,1.50,hé\n",
        "sep=;\nref;amount;note\nr1;1.50;hé\n",
        "ref\tamount\tnote\nr1\t1.50\thé\n",
        "ref|amount|note\nr1|1.50|hé\n",
        "ref\tamount\tnote\r\nr1\t1.50\thé\r\n".encode("utf-16"),
        "Payroll, November\nref,amount,note\nr1,1.50,hé\n",
        "ref,amount,note,notes of mine,# hidden,_status\nr1,1.50,hé,=1,#N/A,paid\n",
    ],
    ids=[
        "plain",
        "bom",
        "semicolon",
        "bom, semicolon, CRLF",
        "quoted",
        "other order, empty columns",
        "blank lines first",
        "other letter case",
        "sep=",
        "tabs",
        "bars",
        "Unicode Text of Excel",
        "title",
        "own columns",
    ],
)
def test_dialects_of_csv_read_the_same(tmp_path: Path, text: str | bytes) -> None:
    assert [row for _, row in values(csv_file(tmp_path, text))] == [{"ref": "r1", "amount": "1.50", "note": "hé"}]


def test_blank_lines_are_skipped_and_lines_counted_as_a_spreadsheet_does(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "ref,amount\nr1,1\n\n,\n  ,\t\nr2,2\n")
    assert values(path) == [(2, {"ref": "r1", "amount": "1"}), (6, {"ref": "r2", "amount": "2"})]


def test_a_row_may_be_shorter_than_the_header_but_not_longer(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "ref,amount,note\nr1,1\nr2,2,n,,\nr3,3,n,oops\n")
    assert problems(path) == [(4, "row", "has more cells than the header")]


def test_lines_that_end_as_old_macintosh_programs_end_them_are_lines_in_a_long_file_too(tmp_path: Path) -> None:
    rows = [f"r{n},1.50,{'x' * 1_000}" for n in range(MAX_LINE // 1_000)]
    assert len(values(csv_file(tmp_path, "\r".join(["ref,amount,note", *rows, ""])))) == len(rows)


def test_a_comma_inside_a_semicolon_file_is_text(tmp_path: Path) -> None:
    assert values(csv_file(tmp_path, "ref;amount\nr1;1,50\n")) == [(2, {"ref": "r1", "amount": "1,50"})]


def test_typed_cells_become_exact_text(tmp_path: Path) -> None:
    path = xlsx_file(
        tmp_path,
        ["ref", "amount", "account_no", "note", "field.Swift"],
        ["r1", 1250, 123456789012345, date(2026, 11, 3), "AB"],
        [],
        ["r2", 0.1, "00012", MIDNIGHT, "1.1"],
        ["r3", 1250.0, -2.5, " x ", " 0.000001 "],
        ["r4", 1, None, MIDNIGHT + timedelta(hours=12)],
    )
    assert values(path) == [
        (
            2,
            {"ref": "r1", "amount": "1250", "account_no": "123456789012345", "note": "2026-11-03", "field.Swift": "AB"},
        ),
        (4, {"ref": "r2", "amount": "0.1", "account_no": "00012", "note": "2026-11-03", "field.Swift": "1.1"}),
        (5, {"ref": "r3", "amount": "1250", "account_no": "-2.5", "note": "x", "field.Swift": "0.000001"}),
        (6, {"ref": "r4", "amount": "1", "note": "2026-11-03T12:00:00"}),
    ]


@pytest.mark.parametrize("number", [1234567890123450, 0.1234567890123456, 1e20, 12345678901234.56])
def test_a_number_whose_digits_excel_has_lost_is_refused(tmp_path: Path, number: float) -> None:
    [(row, column, rule)] = problems(xlsx_file(tmp_path, ["ref", "amount"], ["r1", number]))
    assert (row, column) == (2, "amount")
    assert "more than 15 digits" in rule
    assert "format the column as text" in rule


@pytest.mark.parametrize(
    ("cell", "rule"),
    [
        ("=1+1", "is a formula"),
        (True, "is neither text, number nor date"),
        (timedelta(hours=12), "is neither text, number nor date"),
        ("#N/A", "is an error of the spreadsheet"),
    ],
)
def test_cells_without_a_text_of_their_own_are_refused(tmp_path: Path, cell: object, rule: str) -> None:
    [(row, column, said)] = problems(xlsx_file(tmp_path, ["ref", "amount"], ["r1", 1], ["r2", cell]))
    assert (row, column) == (3, "amount")
    assert said.startswith(rule)


def test_a_workbook_with_wrong_dimensions_is_read_whole(tmp_path: Path) -> None:
    import zipfile

    path = xlsx_file(tmp_path, ["ref", "amount"], ["r1", 1], ["r2", 2])
    parts = {}
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"]
    assert b'ref="A1:B3"' in sheet
    parts["xl/worksheets/sheet1.xml"] = sheet.replace(b'ref="A1:B3"', b'ref="A1:A2"')
    with zipfile.ZipFile(path, "w") as book:
        for name, content in parts.items():
            book.writestr(name, content)
    assert [row["ref"] for _, row in values(path)] == ["r1", "r2"]


def test_every_problem_is_named_not_only_the_first(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "ref,amount,note\nr1,1,a\n,2,b\nr1,3,c\nr4,4,d,e\n")
    assert problems(path) == [
        (3, "ref", "is required"),
        (4, "ref", "is the same as in row 2"),
        (5, "row", "has more cells than the header"),
    ]


def test_a_name_of_a_row_is_no_longer_than_the_ledger_keeps_it(tmp_path: Path) -> None:
    """SQLite kept it all the same; on PostgreSQL its run ended where it was recorded."""
    longest = "é" * 200
    assert values(csv_file(tmp_path, f"ref,amount\n{longest},1\n")) == [(2, {"ref": longest, "amount": "1"})]
    path = csv_file(tmp_path, f"ref,amount\nr1,1\n{longest}é,1\n")
    assert problems(path) == [(3, "ref", "has 201 characters, and may have 200")]


def test_problems_of_the_reader_and_of_the_caller_come_together_one_a_cell(tmp_path: Path) -> None:
    def judge(row: Row) -> None:
        if "amount" not in row.values:
            raise InvalidFields("row", [Problem("amount", "is required"), Problem("note", "is required")])

    path = xlsx_file(tmp_path, ["ref", "amount"], ["r1", "=A1"], [None, 2])
    with pytest.raises(InvalidSheet) as caught:
        read_sheet(path, LAYOUT, judge)
    found = [(problem.row, problem.row_ref, problem.column, problem.rule) for problem in caught.value.problems]
    assert found == [
        (2, "r1", "amount", "is a formula that was never calculated: paste its value instead"),
        (2, "r1", "note", "is required"),
        (3, None, "ref", "is required"),
    ]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("ref,amout", [("amout", "is not a column of this sheet: did you mean amount?"), ("amount", "missing")]),
        ("ref,Amounts", [("Amounts", "did you mean amount?"), ("amount", "missing")]),
        ("ref,amount,account nr", [("account nr", "did you mean account_no?")]),
        ("ref,amount,zzzz", [("zzzz", "is not a column of this sheet")]),
        ("ref,amount,note,note", [("note", "is there twice")]),
        ("ref,,amount", [("", "column B has no name")]),
        ("amount,note", [("ref", "this column is missing")]),
        ("ref,amount,field.", [("field.", "is not a column")]),
    ],
)
def test_a_wrong_header_is_explained(tmp_path: Path, header: str, expected: list[tuple[str, str]]) -> None:
    found = problems(csv_file(tmp_path, header + "\nr1,1,2,3\n"))
    assert [(row, column) for row, column, _ in found] == [(1, column) for column, _ in expected]
    assert all(part in rule for (_, _, rule), (_, part) in zip(found, expected, strict=True))


def test_a_column_without_a_name_is_named_by_its_letter(tmp_path: Path) -> None:
    file = csv_file(tmp_path, 'ref,,amount,note,"",field.a\nr1,,2,,,\n')
    with pytest.raises(InvalidSheet) as refused:
        read_sheet(file, LAYOUT, lambda row: row)
    assert [str(problem) for problem in refused.value.problems] == [
        "row 1: column B has no name: name it, or delete it",
        "row 1: column E has no name: name it, or delete it",
    ]


def test_without_a_header_nobodys_account_is_shown(tmp_path: Path) -> None:
    with pytest.raises(InvalidSheet, match="no column names") as caught:
        read_sheet(csv_file(tmp_path, "r1,4000111122223333,Jane Doe\n"), LAYOUT, lambda row: row)
    assert "4000111122223333" not in str(caught.value)
    assert "Jane" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "row", "rule"),
    [
        (b"", 0, "is empty"),
        (b" \n\n", 0, "is empty"),
        (b",,\n,\n", 0, "is empty"),
        (b"ref,amount\n", 0, "has no rows under its header"),
        (b"ref,amount\n,\n", 0, "has no rows under its header"),
        ("ref,amount\nr1,1\nr2,Köln\n".encode("latin-1"), 3, "is not UTF-8 (byte 5 of this line)"),
        ("ref,amount\nr1,1\n".encode("utf-16-le"), 0, "is not text in UTF-8"),
        (b'ref,amount\nr1,1\nr2,"2\nr3,3\n', 3, "is not valid CSV from here on"),
        (b'ref,amount\nr1,"1"2\n', 2, "is not valid CSV from here on"),
        (b"PK\x03\x04 not a workbook", 0, "is not a readable .xlsx workbook"),
        (b"\xd0\xcf\x11\xe0 old", 0, "is an old Excel file"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_why(tmp_path: Path, content: bytes, row: int, rule: str) -> None:
    [(found_row, column, found)] = problems(csv_file(tmp_path, content))
    assert (found_row, column) == (row, "file")
    assert found.startswith(rule)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    said = f"does not exist: {node()} has no {tmp_path / 'none.csv'}"  # a form names a path of another machine
    assert problems(tmp_path / "none.csv") == [(0, "file", said)]
    [(_, _, rule)] = problems(tmp_path)
    assert rule.startswith("cannot be read")


def test_a_quotation_mark_that_swallows_rows_is_noticed(tmp_path: Path) -> None:
    path = csv_file(tmp_path, 'ref,amount,note\nr1,1,"x\nr2,2,y"\nr3,3,z\n')
    assert problems(path) == [(2, "note", "holds a line break or another control character")]


def test_columns_with_the_free_prefix_keep_their_letter_case(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "ref,amount,field.Iban,field.iban\nr1,1,A,b\n")
    assert values(path) == [(2, {"ref": "r1", "amount": "1", "field.Iban": "A", "field.iban": "b"})]


def test_a_sheet_without_problems_is_what_is_made_of_its_rows(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "ref,amount,note\nr1,1,a\nr2,1,a\n")
    assert list(read_sheet(path, LAYOUT, lambda row: row.values["amount"])) == ["1", "1"]


def test_a_value_that_repeats_down_a_column_is_in_memory_once(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "ref,amount,note\n" + "".join(f"r{number},1,same words\n" for number in range(5)))
    assert len({id(note) for note in read_sheet(path, LAYOUT, lambda row: row.values["note"])}) == 1


def test_values_are_not_shown_when_a_row_is_printed() -> None:
    assert "4000111122223333" not in repr(Row(2, "r1", {"account_no": "4000111122223333"}))


@pytest.mark.parametrize("damaged", ["1.23E+10", "1,23E+10", "12E+05", "6.2812E+12"])
def test_a_number_that_a_spreadsheet_rounded_is_refused(tmp_path: Path, damaged: str) -> None:
    [(line, column, rule)] = problems(csv_file(tmp_path, f'ref,amount,note\nr1,1,"{damaged}"\n'))
    assert (line, column) == (2, "note")
    assert "rounded" in rule


def test_a_leading_apostrophe_is_refused(tmp_path: Path) -> None:
    [(_, column, rule)] = problems(csv_file(tmp_path, "ref,amount,note\nr1,1,'0481926357\n"))
    assert (column, "apostrophe" in rule) == ("note", True)


def test_columns_that_begin_with_an_underscore_are_not_read(tmp_path: Path) -> None:
    path = csv_file(tmp_path, '_status,ref,amount,_problem\nwrong,r1,1,"amount: is\n\'odd"\nok,r2,2\n')
    assert [row for _, row in values(path)] == [{"ref": "r1", "amount": "1"}, {"ref": "r2", "amount": "2"}]


def test_a_file_of_unread_columns_alone_has_no_header(tmp_path: Path) -> None:
    with pytest.raises(InvalidSheet, match="no column names"):
        read_sheet(csv_file(tmp_path, "_status,_problem\nok,\n"), LAYOUT, lambda row: row)


def test_the_example_rows_of_a_template_are_refused_until_they_are_replaced(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "ref,amount,account_no\nEXAMPLE-1,1,00012\nr2,2,EXAMPLE-0481\nr3,3,0481\n")
    assert problems(path) == [(2, "ref", "replace the example row"), (3, "account_no", "replace the example row")]
