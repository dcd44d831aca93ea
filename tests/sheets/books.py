"""Files for the reader, made part by part: what a spreadsheet program, or somebody who means harm, could have saved."""

import csv
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from openpyxl.utils import get_column_letter

BANK = {
    "row_ref": "r1",
    "route": "direct",
    "amount": "12.50",
    "currency": "USDT_TRC20",
    "settle_currency": "IDR",
    "payout_method": "bank_transfer",
    "account_no": "0481926357",
    "account_name": "Budi Contoh",
    "country": "ID",
    "bank_code": "1000120",
    "phone": "628120000999",
    "email": "budi@example.com",
    "remark": "November",
}
"""A row of the direct route that is right."""

PERSON = {
    "row_ref": "r1",
    "route": "quoted",
    "quote_mode": "source",
    "pay_currency": "USDT",
    "pay_amount": "100.00",
    "receive_currency": "EUR",
    "beneficiary_country": "DE",
    "beneficiary_bank_id": "2000800",
    "account_type": "PERSONAL",
    "beneficiary_relationship": "third",
    "clear_network": "SWIFT",
    "account_no": "DE02120300000000202051",
    "bank_name": "Musterbank",
    "address": "Ring 1, Köln",
    "full_name": "Zoë Muster",
    "date_of_birth": "1988-04-17",
    "field.swift": "BYLADEM1001",
    "purpose_code": "01",
    "description": "November",
}
"""A row of the quoted route that is right."""

Rows = Sequence[Mapping[str, Any]]


def table(rows: Rows) -> list[list[Any]]:
    """Rows with their header above them."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return [columns, *([row.get(column, "") for column in columns] for row in rows)]


def csv_text(lines: Sequence[Sequence[Any]], separator: str = ",", end: str = "\n", quoting: Any = 0) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=separator, lineterminator=end, quoting=quoting).writerows(lines)
    return out.getvalue()


def write(folder: Path, content: bytes | str, name: str = "sheet.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


class Raw(str):
    """The XML of a cell, with `{at}` for its place."""

    __slots__ = ()


def number(value: str, style: int = 0) -> Raw:
    return Raw(f'<c r="{{at}}" s="{style}"><v>{value}</v></c>')


def formula(cached: str, kind: str = "n", style: int = 0, text: str = "A1") -> Raw:
    return Raw(f'<c r="{{at}}" s="{style}" t="{kind}"><f>{text}</f><v>{cached}</v></c>')


def styled(text: str, style: int) -> Raw:
    return Raw(f'<c r="{{at}}" s="{style}" t="inlineStr"><is><t>{escape(text)}</t></is></c>')


FORMATS = {
    1: "General",
    2: "0.00",
    3: "#,##0.00",
    4: "0",
    5: "0000000000",
    6: "@",
    7: ";;;",
    8: "0%",
    9: "yyyy\\-mm\\-dd",
    10: "#,##0",
    11: "0.0,",
    12: "# ?/?",
    13: "0.00E+00",
    14: "[$€-407] #,##0.00",
    15: '0.00" USD"',
    16: "[Red]0.0",
}
"""Number of a style in the workbooks made here -> its format; style 20 is struck out, and so is conditional style 1."""
STRUCK = 20


def styles_xml() -> str:
    formats = "".join(f'<numFmt numFmtId="{200 + n}" formatCode={quoteattr(code)}/>' for n, code in FORMATS.items())
    cells = "".join(
        f'<xf numFmtId="{200 + n if n in FORMATS else 0}" fontId="{int(n == STRUCK)}"/>' for n in range(STRUCK + 1)
    )
    return (
        f"<styleSheet xmlns={MAIN}><numFmts>{formats}</numFmts><fonts><font><sz val='11'/></font>"
        f"<font><strike/></font></fonts><cellXfs>{cells}</cellXfs>"
        "<dxfs><dxf><font><strike val='0'/></font></dxf><dxf><font><b/><strike/></font></dxf></dxfs></styleSheet>"
    )


MAIN = '"http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
KIND = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"


def cell_xml(value: Any, at: str) -> str:
    if isinstance(value, Raw):
        return value.replace("{at}", at)
    if value is None or value == "":
        return ""
    return f'<c r="{at}" t="inlineStr"><is><t xml:space="preserve">{escape(str(value))}</t></is></c>'


def sheet_xml(
    lines: Sequence[Sequence[Any]], rows: Mapping[int, str] | None = None, before: str = "", after: str = ""
) -> str:
    """A worksheet. `rows`: attributes of a row by its number; `before` and `after`: what stands around the rows."""
    made = [
        f'<row r="{n}" {(rows or {}).get(n, "")}>'
        + "".join(cell_xml(value, f"{get_column_letter(m)}{n}") for m, value in enumerate(line, 1))
        + "</row>"
        for n, line in enumerate(lines, 1)
    ]
    return f"<worksheet xmlns={MAIN}>{before}<sheetData>{''.join(made)}</sheetData>{after}</worksheet>"


def parts(sheets: Mapping[str, str], states: Mapping[str, str] | None = None, strings: str = "") -> dict[str, str]:
    """The parts of a workbook of these sheets, by name; `states`: hidden or veryHidden."""
    named = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{n}" state="{(states or {}).get(name, "visible")}" r:id="r{n}"/>'
        for n, name in enumerate(sheets, 1)
    )
    related = "".join(
        f'<Relationship Id="r{n}" Type="{KIND}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in range(1, len(sheets) + 1)
    )
    made = {
        "_rels/.rels": f'<Relationships xmlns="{RELATIONS}"><Relationship Id="r1" Type="{KIND}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns={MAIN} xmlns:r="{KIND}"><sheets>{named}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{RELATIONS}">{related}'
        f'<Relationship Id="s" Type="{KIND}/styles" Target="/xl/styles.xml"/>'
        f'<Relationship Id="t" Type="{KIND}/sharedStrings" Target="sharedStrings.xml"/></Relationships>',
        "xl/styles.xml": styles_xml(),
    }
    if strings:
        made["xl/sharedStrings.xml"] = f"<sst xmlns={MAIN}>{strings}</sst>"
    return made | {f"xl/worksheets/sheet{n}.xml": xml for n, xml in enumerate(sheets.values(), 1)}


def save(folder: Path, content: Mapping[str, str | bytes], name: str = "sheet.xlsx") -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as book:
        for part, text in content.items():
            book.writestr(part, text)
    return path


def workbook(folder: Path, lines: Sequence[Sequence[Any]], **sheet: Any) -> Path:
    """A workbook of one sheet."""
    return save(folder, parts({"Payroll": sheet_xml(lines, **sheet)}))
