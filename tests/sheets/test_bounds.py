"""Bounds of a workbook: each part is looked through before openpyxl parses it, and many rows are better a CSV file."""

import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import XMLPullParser

import pytest
from openpyxl.xml import functions

from tests.sheets.books import BANK, MAIN, Raw, number, parts, save, sheet_xml, table, workbook
from tests.sheets.hostile import doctype, unpacks
from tests.sheets.looks import WHITE, looking, styles_xml
from treasury.errors import InvalidSheet
from treasury.sheets import archive, looks
from treasury.sheets import workbook as books
from treasury.sheets.balances_sheet import read_balances
from treasury.sheets.beneficiaries import read_beneficiaries
from treasury.sheets.cells import MAX_WORKBOOK_ROWS
from treasury.sheets.reading import Layout, read_sheet

LAYOUT = Layout(key="ref", required=("amount",), amounts=frozenset({"amount"}))
LINES = table([BANK, BANK | {"row_ref": "r2"}])
WHOLE = parts({"Payroll": sheet_xml(LINES)}, strings="<si><t>x</t></si>")
SHEET = "xl/worksheets/sheet1.xml"


def refused(path: Path) -> tuple[int, str, str]:
    with pytest.raises(InvalidSheet) as caught:
        read_beneficiaries(path)
    [problem] = caught.value.problems
    return problem.row, problem.code, problem.rule


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The content that reaches a parser of XML, part by part."""
    seen: list[bytes] = []

    def noted(parse: Any) -> Any:
        def parses(source: Any) -> Any:
            seen.append(source)
            return parse(source)

        return parses

    for module, name in ((books, "fromstring"), (looks, "fromstring")):
        monkeypatch.setattr(module, name, noted(getattr(module, name)))
    monkeypatch.setattr("openpyxl.packaging.relationship.fromstring", noted(functions.fromstring))
    feeding = XMLPullParser.feed
    monkeypatch.setattr(XMLPullParser, "feed", lambda self, data: (seen.append(data), feeding(self, data)))
    return seen


def test_a_file_that_unpacks_to_too_much_reaches_no_parser(tmp_path: Path, parsed: list[bytes]) -> None:
    assert refused(unpacks(tmp_path))[:2] == (0, "too_big")
    many = save(tmp_path, WHOLE | {f"xl/{n}.xml": "" for n in range(archive.MAX_PARTS)})
    assert refused(many)[:2] == (0, "too_big")
    assert parsed == []


def bombs() -> dict[str, tuple[str, str | bytes]]:
    """A name -> the part that must reach no parser, and its content."""
    found: dict[str, tuple[str, str | bytes]] = {
        f"entities in {name}": (name, doctype(name)[name]) for name in WHOLE if not name.endswith(".rels")
    }
    for name in (each for each in WHOLE if each.endswith(".rels")):
        entity = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
        found[f"entities in {name}"] = (name, entity + WHOLE[name].replace("</", "&a;</", 1))
    declared = '<?xml version="1.0" encoding="{}"?>'
    found["UTF-16"] = (SHEET, (declared.format("utf-16") + WHOLE[SHEET]).encode("utf-16"))
    found["another encoding"] = (SHEET, declared.format("cp037") + WHOLE[SHEET])
    found["many elements"] = (SHEET, f"<worksheet xmlns={MAIN}>{'<x/>' * 500_000}<sheetData/></worksheet>")
    many = " ".join(f'a{n}="1"' for n in range(90_000))
    found["many attributes"] = (SHEET, f"<worksheet xmlns={MAIN}>{f'<x {many}/>' * 30}<sheetData/></worksheet>")
    found["many fonts"] = (
        "xl/styles.xml",
        f"<styleSheet xmlns={MAIN}><fonts>{'<font/>' * 500_000}</fonts></styleSheet>",
    )
    found["many texts"] = ("xl/sharedStrings.xml", f"<sst xmlns={MAIN}>{'<si/>' * 4_100_000}</sst>")
    return found


@pytest.mark.parametrize("name", bombs())
def test_a_part_that_would_fill_the_memory_reaches_no_parser(name: str, tmp_path: Path, parsed: list[bytes]) -> None:
    part, content = bombs()[name]
    assert refused(save(tmp_path, WHOLE | {part: content}))[:2] == (0, "not_a_workbook")
    begin = (content.encode() if isinstance(content, str) else content)[:4_000]
    assert not [each for each in parsed if each.startswith(begin)]


def test_a_part_that_describes_others_has_at_most_twenty_megabytes(tmp_path: Path) -> None:
    path = save(tmp_path, WHOLE | {"xl/styles.xml": "<x>" + (" " * 900_000 + "<y/>") * 23})
    assert refused(path)[:2] == (0, "too_big")


def test_more_formats_than_spreadsheet_programs_allow_are_not_made(tmp_path: Path) -> None:
    crowded = f"<styleSheet xmlns={MAIN}><fonts>{'<font/>' * (looks.MAX_FORMATS + 1)}</fonts></styleSheet>"
    assert refused(save(tmp_path, WHOLE | {"xl/styles.xml": crowded}))[:2] == (0, "not_a_workbook")


def test_cells_outside_of_rows_do_not_fill_the_memory(tmp_path: Path) -> None:
    loose = f"<worksheet xmlns={MAIN}>{'<c><v>1</v></c>' * 20_000}<sheetData/></worksheet>"
    assert refused(save(tmp_path, parts({"P": loose})))[:2] == (0, "not_a_workbook")


def ledger(folder: Path, rows: int) -> Path:
    lines = "".join(
        f'<row r="{n}"><c r="A{n}" t="str"><v>r{n}</v></c><c r="B{n}"><v>0.1</v></c></row>' for n in range(2, rows + 2)
    )
    first = sheet_xml([["ref", "amount"]]).replace("</sheetData>", lines + "</sheetData>")
    return save(folder, parts({"Payroll 2026": first}))


def test_a_workbook_has_at_most_twenty_thousand_rows_and_a_larger_one_is_to_be_a_csv_file(tmp_path: Path) -> None:
    rows = list(read_sheet(ledger(tmp_path, MAX_WORKBOOK_ROWS), LAYOUT, lambda row: row.values["amount"]))
    assert len(rows) == MAX_WORKBOOK_ROWS == 20_000
    assert set(rows) == {"0.1"}
    for more in (1, 5_000):
        with pytest.raises(InvalidSheet) as caught:
            read_sheet(ledger(tmp_path, MAX_WORKBOOK_ROWS + more), LAYOUT, lambda row: row)
        [problem] = caught.value.problems
        assert (problem.row, problem.column, problem.code) == (0, "file", "too_many_rows")
        assert "more than 20,000 rows in the sheet Payroll 2026: save it as CSV" in problem.rule


@pytest.mark.parametrize(
    ("stored", "amount"),
    [
        ("0.1", "0.1"),
        ("0.10000000000000001", "0.1"),
        ("123456789012345", "123456789012345"),
        ("1234567890.12345", "1234567890.12345"),
        ("12345678901234.5", "12345678901234.5"),
        ("0.000000000000001", "0.000000000000001"),
    ],
)
def test_a_number_is_the_decimal_that_stands_in_the_file(tmp_path: Path, stored: str, amount: str) -> None:
    path = workbook(tmp_path, [["currency", "available"], ["USDT", number(stored)]])
    assert read_balances(path)[0] == {"USDT": Decimal(amount)}


@pytest.mark.parametrize("stored", ["1234567890123456", "1234567890.123456", "0.1234567890123456", "9007199254740993"])
def test_a_number_of_more_than_fifteen_digits_is_refused_by_its_cell(tmp_path: Path, stored: str) -> None:
    path = workbook(tmp_path, [["currency", "available"], ["BTC", number("1")], ["USDT", number(stored)]])
    with pytest.raises(InvalidSheet) as caught:
        read_balances(path)
    [problem] = [each for each in caught.value.problems if each.code == "digits_lost"]
    assert (problem.row, problem.column) == (3, "available")
    assert "more than 15 digits" in problem.rule


def test_styles_and_texts_are_those_that_the_workbook_names_not_those_of_a_usual_name(tmp_path: Path) -> None:
    whole = parts({"Payroll": sheet_xml(looking())}, strings="<si><t>x</t></si>")
    related = "xl/_rels/workbook.xml.rels"
    elsewhere = {related: whole[related].replace("/xl/styles.xml", "/xl/mine.xml")}
    path = save(tmp_path, whole | elsewhere | {"xl/mine.xml": styles_xml(font=WHITE)})
    assert refused(path)[:2] == (3, "not_shown")
    lines = table([{**BANK, "account_name": Raw('<c r="{at}" t="s"><v>0</v></c>')}])
    whole = parts({"P": sheet_xml(lines)}, strings="<si><t>Siti Contoh</t></si>")
    named = {related: whole[related].replace("sharedStrings.xml", "mine.xml")}
    [row] = read_beneficiaries(
        save(tmp_path, whole | named | {"xl/mine.xml": f"<sst xmlns={MAIN}><si><t>Budi Contoh</t></si></sst>"})
    )
    assert "Budi Contoh" in str(row.bound_content)


def test_a_strict_workbook_is_named_and_what_to_do(tmp_path: Path) -> None:
    strict = MAIN.replace("http://schemas.openxmlformats.org", "http://purl.oclc.org/ooxml").replace("/2006", "")
    whole = {name: text.replace(MAIN, strict) for name, text in WHOLE.items()}
    row, code, rule = refused(save(tmp_path, whole))
    assert (row, code) == (0, "other_format")
    assert "save it as an ordinary Excel workbook" in rule


def test_a_sheet_in_other_names_is_refused_and_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    assert refused(save(tmp_path, WHOLE | {SHEET: WHOLE[SHEET].replace("/main", "/other")}))[:2] == (
        0,
        "not_a_workbook",
    )


def test_a_file_is_closed_when_it_was_read(tmp_path: Path) -> None:
    path = workbook(tmp_path, LINES)
    for _ in range(2):
        with zipfile.ZipFile(path) as book:
            assert SHEET in book.namelist()
        assert len(read_beneficiaries(path)) == 2
    path.unlink()
