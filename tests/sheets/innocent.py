"""Files that mean what they say, however they were saved: each is accepted, with these rows."""

import codecs
import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openpyxl
import xlsxwriter
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter

from tests.sheets import valid_numbers as valid
from tests.sheets.books import (
    BANK,
    MAIN,
    PERSON,
    Raw,
    csv_text,
    formula,
    number,
    parts,
    save,
    sheet_xml,
    styled,
    table,
    workbook,
    write,
)
from tests.sheets.looks import SEEN_BY_RULE, SEEN_NUMBERS, SEEN_TEXT
from tests.sheets.striking_rules import merged

ROWS = [BANK, PERSON | {"row_ref": "r2"}, BANK | {"row_ref": "r3", "amount": "980.00"}]
LINES = table(ROWS)


@dataclass(frozen=True)
class Innocent:
    """A file, its rows, and words that the notes about it hold."""

    name: str
    make: Callable[[Path], Path]
    rows: list[dict[str, str]]
    notes: tuple[str, ...] = ()
    sheet: str | None = None


def text_files() -> Iterator[Innocent]:
    encodings = {"utf-8": "utf-8", "utf-8 with a mark": "utf-8-sig", "utf-16-le": "utf-16-le", "utf-16-be": "utf-16-be"}
    marks = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
    for shown, encoding in encodings.items():
        for separator in ",;\t|":
            for end in ("\n", "\r\n"):
                content = marks.get(encoding, b"") + csv_text(LINES, separator, end).encode(encoding)
                yield Innocent(f"{shown} {separator!r} {end!r}", lambda at, c=content: write(at, c), ROWS)  # type: ignore[misc]
    for separator in ",;\t|":
        named = f"sep={separator}\r\n" + csv_text(LINES, separator, "\r\n")
        yield Innocent(f"sep={separator!r}", lambda at, c=named: write(at, c), ROWS)  # type: ignore[misc]
        quoted = csv_text(LINES, separator, quoting=csv.QUOTE_ALL)
        yield Innocent(f"all quoted {separator!r}", lambda at, c=quoted: write(at, c), ROWS)  # type: ignore[misc]
    yield Innocent("no line end at the end", lambda at: write(at, csv_text(LINES).rstrip()), ROWS)
    yield Innocent("blank lines", lambda at: write(at, "\n,,\n" + csv_text(LINES).replace("\n", "\n\n")), ROWS)
    yield Innocent(
        "blank columns at the end", lambda at: write(at, csv_text([[*line, "", ""] for line in LINES])), ROWS
    )
    yield Innocent(
        "spaces around", lambda at: write(at, csv_text([[f" {each} " for each in line] for line in LINES])), ROWS
    )
    around = csv_text([[f"\u00a0{each}\u00a0" if each else "" for each in line] for line in LINES])
    yield Innocent("no-break spaces around", lambda at: write(at, around), ROWS)


def headers() -> Iterator[Innocent]:
    for name, change in (
        ("upper case", str.upper),
        ("title case", str.title),
        ("spaces", lambda each: each.replace("_", " ")),
        ("hyphens", lambda each: each.replace("_", "-")),
        ("two spaces", lambda each: each.replace("_", "  ").capitalize()),
        ("no-break spaces", lambda each: each.replace("_", "\u00a0")),
    ):
        first = [each if each.startswith("field.") else change(each) for each in LINES[0]]
        lines = [first, *LINES[1:]]
        yield Innocent(f"names in {name}", lambda at, t=lines: write(at, csv_text(t)), ROWS)  # type: ignore[misc]
        yield Innocent(f"names in {name}, XLSX", lambda at, t=lines: workbook(at, t), ROWS)  # type: ignore[misc]
    turned = [line[::-1] for line in LINES]
    yield Innocent("columns turned round", lambda at: write(at, csv_text(turned)), ROWS)
    for title in (
        [["Payroll, November"]],
        [["Example GmbH"], [], ["Payroll", "", "November"]],
        [["Company:", "Example; Sons"], ["Date:", "2026-11-22"], ["Total", "2,242.50"]],
    ):
        lines = [*title, *LINES]
        said = (f"the header is in row {len(title) + 1}",)
        name = f"{len(title)} lines above ({len(title[1:] or title)}, {len(title[-1])})"
        yield Innocent(name, lambda at, t=lines: write(at, csv_text(t)), ROWS, said)  # type: ignore[misc]
        yield Innocent(f"{name}, ;", lambda at, t=lines: write(at, csv_text(t, ";")), ROWS, said)  # type: ignore[misc]
        yield Innocent(f"{name}, XLSX", lambda at, t=lines: workbook(at, t), ROWS, said)  # type: ignore[misc]
    for own in ("note", "Notes of Ada", "#", "# checked", "_status", "_problem"):
        lines = [[own, *LINES[0]], *(["=A1\u200b", *line] for line in LINES[1:])]
        yield Innocent(f"own column {own}", lambda at, t=lines: write(at, csv_text(t)), ROWS)  # type: ignore[misc]
    lines = [["note", "note", *LINES[0]], *([formula("x", "str"), number("4"), *line] for line in LINES[1:])]
    yield Innocent("own columns of any kind, XLSX", lambda at: workbook(at, lines), ROWS)


POINT = "with a decimal point (1.250 as 1.25, not as 1250)"


def decimal_commas() -> Iterator[Innocent]:
    for separator in ";\t":
        for text, meant in (("1250,00", "1250.00"), ("12,5", "12.5"), ("0,125", "0.125"), ("7,12345678", "7.12345678")):
            rows = [BANK | {"amount": text}, BANK | {"row_ref": "r2", "amount": "980.00"}]
            yield Innocent(
                f"{text} in {separator!r}",
                lambda at, r=rows, s=separator: write(at, csv_text(table(r), s)),  # type: ignore[misc]
                [rows[0] | {"amount": meant}, rows[1]],
                ("decimal comma",),
            )
    for separator, text in ((";", "1250.00"), (";", "0.125"), (",", "1.250"), ("\t", "1.250"), (",", "12.125")):
        rows = [BANK | {"amount": text}]
        content = csv_text(table(rows), separator)
        notes = (f"{POINT}: 1",) if text not in ("1250.00", "0.125") else ()
        yield Innocent(f"{text} in {separator!r}", lambda at, c=content: write(at, c), rows, notes)  # type: ignore[misc]
    rows = [BANK | {"amount": text, "row_ref": text} for text in ("1.250", "2.500")]
    yield Innocent("texts with a point, XLSX", lambda at, r=rows: workbook(at, table(r)), rows, (f"{POINT}: 2",))  # type: ignore[misc]


def made_by_openpyxl(folder: Path) -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for line in LINES:
        sheet.append([float(each) if each in ("12.50", "980.00") else each or None for each in line])
    sheet["A1"].font = Font(bold=True)
    sheet.auto_filter.ref = "A1:C4"
    sheet.freeze_panes = "A2"
    book.save(folder / "sheet.xlsx")
    return folder / "sheet.xlsx"


def made_by_xlsxwriter(**options: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        book = xlsxwriter.Workbook(str(folder / "sheet.xlsx"), options)
        sheet = book.add_worksheet("Payroll")
        text = book.add_format({"num_format": "@"})
        for n, line in enumerate(LINES):
            for m, value in enumerate(line):
                if value:
                    sheet.write_string(n, m, value, text)
        sheet.set_column(40, 60, 8, text, {"hidden": True})
        sheet.data_validation(1, 1, 5000, 1, {"validate": "list", "source": ["direct", "quoted"]})
        hidden = book.add_worksheet("lists")
        hidden.hide()
        hidden.write(0, 0, "direct")
        book.close()
        return folder / "sheet.xlsx"

    return make


def one(column: str, value: Any, text: str, base: dict[str, str] = BANK, notes: tuple[str, ...] = ()) -> Innocent:
    """A workbook in which one cell is not text."""
    lines = table([{**base, column: value}])
    return Innocent(f"{column} {text} {value[9:]}", lambda at: workbook(at, lines), [base | {column: text}], notes)


def workbooks() -> Iterator[Innocent]:
    yield Innocent("openpyxl", made_by_openpyxl, [ROWS[0] | {"amount": "12.5"}, ROWS[1], ROWS[2] | {"amount": "980"}])
    yield Innocent("xlsxwriter", made_by_xlsxwriter(), ROWS)
    yield Innocent("xlsxwriter, row by row", made_by_xlsxwriter(constant_memory=True), ROWS)
    good, other = sheet_xml(LINES), sheet_xml([["x"]])
    yield Innocent("plain", lambda at: save(at, parts({"P": good})), ROWS)
    yield Innocent("hidden second", lambda at: save(at, parts({"P": good, "L": other}, {"L": "veryHidden"})), ROWS)
    for name in ("June", "june ", "JUNE"):
        made = parts({"May": other, "June": good})
        yield Innocent(f"sheet named {name!r}", lambda at, b=made: save(at, b), ROWS, sheet=name)  # type: ignore[misc]
    made = parts({"Old": other, "June": good}, {"Old": "hidden"})
    yield Innocent("sheet named, first hidden", lambda at: save(at, made), ROWS, sheet="June")
    alike = parts({"June": good, "JUNE ": good})
    yield Innocent("sheet named, another one alike", lambda at: save(at, alike), ROWS, sheet="June")
    blank = [*LINES, ["", ""], ["", " "]]
    yield Innocent("hidden blank row", lambda at: workbook(at, blank, rows={5: 'hidden="1"'}), ROWS)
    rules = "".join(
        f'<conditionalFormatting sqref="{place}"><cfRule type="expression" dxfId="{look}" priority="1"><formula>1'
        "</formula></cfRule></conditionalFormatting>"
        for place, look in (("A1:Z99", 0), ("BA1:BB99", 1), ("A2000:Z3000", 1))
    )
    titled = [["Payroll"], ["November"], *LINES[:1], [], *LINES[1:], [], []]
    places = merged("A1:F2", "A3:A4", f"{get_column_letter(len(LINES[0]) + 1)}4:ZZ7", "A8:Z9", "A90:Z99")
    above = ("the header is in row 3",)
    yield Innocent("merged elsewhere", lambda at: workbook(at, titled, after=places), ROWS, above)
    yield Innocent("struck out by a rule elsewhere", lambda at: workbook(at, LINES, after=rules), ROWS)
    column = '<cols><col min="60" max="16384" hidden="1"/></cols>'
    yield Innocent("hidden blank columns", lambda at: workbook(at, LINES, before=column), ROWS)
    panes = '<sheetViews><sheetView topLeftCell="{}"><pane {} state="frozen"/></sheetView></sheetViews>'
    for name, view in {
        "frozen header": panes.format("A1", 'ySplit="1" xSplit="1" topLeftCell="B2"'),
        "scrolled below a frozen header": panes.format("A1", 'ySplit="1" topLeftCell="A3"'),
        "scrolled beside frozen rows": panes.format("C1", 'ySplit="1" topLeftCell="C2"'),
        "split and scrolled": panes.format("C3", 'xSplit="900" ySplit="900" topLeftCell="D4"').replace(
            "frozen", "split"
        ),
    }.items():
        yield Innocent(name, lambda at, v=view: workbook(at, LINES, before=v), ROWS)  # type: ignore[misc]
    wide = '<sheetFormatPr defaultColWidth="0" defaultRowHeight="15"/><cols><col min="1" max="60" width="9"/></cols>'
    yield Innocent("blank columns hidden by default", lambda at: workbook(at, LINES, before=wide), ROWS)
    own = [["note", *LINES[0]], *(["x", *line] for line in LINES[1:])]
    first = '<cols><col min="1" max="1" hidden="1"/></cols>'
    yield Innocent("hidden own column", lambda at: workbook(at, own, before=first), ROWS)
    struck = [*LINES, [styled(" ", 20)]]
    yield Innocent("struck out and blank", lambda at: workbook(at, struck), ROWS)
    prefixed = good.replace("<", "<x:").replace("<x:/", "</x:").replace(f"xmlns={MAIN}", f"xmlns:x={MAIN}")
    yield Innocent("elements with a prefix", lambda at: save(at, parts({"P": prefixed})), ROWS)
    bare = [
        [Raw(f'<c t="inlineStr"><is><t>{each}</t></is></c>') if each else Raw("<c/>") for each in line]
        for line in LINES
    ]
    yield Innocent("cells without a place", lambda at: workbook(at, bare), ROWS)
    phonetic = "<si><t>Budi Contoh</t><rPh sb='0' eb='1'><t>ブディ</t></rPh></si>"
    lines = table([{**BANK, "account_name": Raw('<c r="{at}" t="s"><v>0</v></c>')}])
    yield Innocent("phonetic hints", lambda at: save(at, parts({"P": sheet_xml(lines)}, strings=phonetic)), [BANK])
    rich = Raw(
        '<c r="{at}" t="inlineStr"><is><r><t>Budi </t></r><r><rPr><strike val="0"/></rPr><t>Contoh</t></r></is></c>'
    )
    yield one("account_name", rich, "Budi Contoh")
    for value, style, text in (
        ("12.5", 0, "12.5"), ("12.5", 2, "12.5"), ("1250", 3, "1250"), ("12", 4, "12"),
        ("1250", 10, "1250"), ("12.5", 16, "12.5"), ("1.1000000000000001", 2, "1.1"),
        ("12.5", 6, "12.5"), ("1E2", 2, "100"),
    ):  # fmt: skip
        yield one("amount", number(value, style), text)
    for cached, text in (("1250.5", "1250.5"), ("0.30000000000000004", "0.3"), ("12", "12")):
        yield one("amount", formula(cached, style=2), text, notes=("results of formulas",))
    yield one("date_of_birth", number("32250", 9), "1988-04-17", PERSON)
    yield one("row_ref", number("17"), "17")


def looks() -> Iterator[Innocent]:
    """Cells that look special, and hide nothing."""
    two = [BANK, BANK | {"row_ref": "r2"}]
    for group, shown in (("text", SEEN_TEXT), ("number", SEEN_NUMBERS), ("by a rule", SEEN_BY_RULE)):
        for name, make in shown.items():
            yield Innocent(f"seen {group}: {name}", make, two)


NAMES = (
    "O'Brien Example", "D’Arcy Sample", "Đặng Văn Mẫu",
    "山田 太郎 見本", "محمد نمونه‌ای", "क्‍षमा उदाहरण", "Иван Примеров",
    "Αννα Παράδειγμα", "Müller-Lüdenscheidt", "J. R. “Bob” Doe", "Zoë M.", "María-José Ñandú", "Ann\u2010Marie Example",
)  # fmt: skip
ADDRESSES = (
    "#12-34 Orchard Road",
    "Ring 1/2, 50667 Köln",
    "شارع المثال ٥",
    "1-2-3 見本町",
    "Apt. 5+1 @ Mall",
    "№ 5, ул. Примерная",
)


def texts() -> Iterator[Innocent]:
    for name in NAMES:
        rows = [BANK | {"account_name": name}, PERSON | {"row_ref": "r2", "full_name": name}]
        yield Innocent(f"name {name}", lambda at, r=rows: write(at, csv_text(table(r))), rows)  # type: ignore[misc]
    for address in ADDRESSES:
        rows = [PERSON | {"address": address}]
        yield Innocent(f"address {address}", lambda at, r=rows: workbook(at, table(r)), rows)  # type: ignore[misc]


def numbers() -> Iterator[Innocent]:
    """One file for each kind of number, and one for each country's IBAN."""
    for iban in (each for each in valid.IBANS if each[:2] != "XK"):  # no country of ISO 3166
        rows = [PERSON | {"beneficiary_country": iban[:2], "account_no": iban}]
        yield Innocent(f"IBAN {iban[:2]}", lambda at, r=rows: write(at, csv_text(table(r))), rows)  # type: ignore[misc]
    pix = BANK | {"payout_method": "wallet_transfer", "wallet_code": "pix", "country": "BR", "bank_code": ""}
    american = {name: value for name, value in PERSON.items() if name != "field.swift"} | {"beneficiary_country": "US"}
    kinds: dict[str, list[dict[str, str]]] = {
        "BIC": [PERSON | {"field.swift": each} for each in valid.BICS],
        "ABA": [american | {"account_no": "889104526337", "field.routing_number": each} for each in valid.ROUTING],
        "CPF": [pix | {"account_type": "CPF", "account_no": each, "phone": "11900003456"} for each in valid.CPFS],
        "CNPJ": [pix | {"account_type": "CNPJ", "account_no": each, "phone": "11900003456"} for each in valid.CNPJS],
        "CBU": [american | {"beneficiary_country": "AR", "account_no": each} for each in valid.CBUS],
        "CLABE": [american | {"beneficiary_country": "MX", "account_no": each} for each in valid.CLABES],
        "phone": [BANK | {"country": country, "phone": each} for country, each in valid.PHONES],
        "e-mail": [BANK | {"email": each} for each in valid.EMAILS],
    }
    for kind, country, examples in (
        *(
            ("PAN", "IN", valid.PANS),
            ("IFSC", "IN", valid.IFSCS),
            ("NIK", "ID", valid.NIKS),
            ("NPWP", "ID", valid.NPWPS),
        ),
        *(("CNIC", "PK", valid.CNICS), ("PASSPORT", "ID", ("X1234567", "КС123456")), ("DRIVING", "GB", ("O1234567",))),
    ):
        known = {"country": country, "document_type": kind, "phone": "+6281200001111"}
        kinds[kind] = [BANK | known | {"document_id": each} for each in examples]
    for kind, given in kinds.items():
        rows = [row | {"row_ref": f"r{n}"} for n, row in enumerate(given)]
        yield Innocent(f"valid {kind}", lambda at, r=rows: write(at, csv_text(table(r))), rows)  # type: ignore[misc]


def all_innocent() -> list[Innocent]:
    groups = (text_files, headers, decimal_commas, workbooks, looks, texts, numbers)
    return [each for group in groups for each in group()]
