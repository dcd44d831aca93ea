"""Workbooks of plain tables, written cell by cell into a zip archive: text, exact amounts, whole numbers.

For what every run writes, such as `results.xlsx`: XlsxWriter takes several times as long for the same rows, and keeps
them in temporary files that a killed process leaves. What has charts, notes or drop-downs is made by it
(`book_cells.py`).
"""

import io
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from xml.sax.saxutils import escape

from treasury.files import write_bytes
from treasury.money import exact, format_amount
from treasury.orders.states import OUTCOMES
from treasury.sheets.writing import letter_of, printable, safe_cell

EXACT_DIGITS = 15
"""Digits of an amount that a spreadsheet's number holds; one with more is text."""

MAX_TEXT = 16_000

_LEADS = ("=", "+", "-", "@")
_HEADER, _EXACT = 1, 2
_FIRST_LOOK = 3
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_FLUSH_ROWS = 200


class _Kept(io.BytesIO):
    """The content of a workbook that nobody finishes because the disk is full: its archive writes an end all the same,
    and would print an error where the content went first."""

    def close(self) -> None:
        """Keep it."""


class PlainBook:
    """A workbook of tables with a frozen header and a filter. The same rows give the same bytes."""

    def __init__(self) -> None:
        self._file = _Kept()
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        self._tables: list[tuple[str, str]] = []
        self._looks: dict[int, int] = {}

    def over(
        self, name: str, columns: Sequence[str], rows: Iterable[Mapping[str, object]], widths: Mapping[str, int]
    ) -> Iterator[Mapping[str, object]]:
        """These rows, each written as it passes into a sheet of its own; what a row lacks is blank."""
        letters = [letter_of(at) for at in range(len(columns))]
        sheet = len(self._tables) + 1
        with self._zip.open(_entry(f"xl/worksheets/sheet{sheet}.xml"), "w") as out:
            out.write(_beginning(columns, widths, is_first=sheet == 1).encode())
            written = [self._row(1, letters, columns, _HEADER)]
            number = 1
            for number, row in enumerate(rows, 2):
                written.append(self._row(number, letters, [row.get(column) for column in columns]))
                yield row
                if len(written) == _FLUSH_ROWS:
                    out.write("".join(written).encode())
                    written.clear()
            area = f"A1:{letters[-1]}{max(number, 2)}"
            out.write(("".join(written) + _ending(area)).encode())
        self._tables.append((name, f"$A$1:${letters[-1]}${max(number, 2)}"))

    def finish(self) -> bytes:
        """The whole file."""
        for name, content in self._parts().items():
            self._zip.writestr(_entry(name), _XML + content)
        self._zip.close()
        return self._file.getvalue()

    def _row(self, number: int, letters: Sequence[str], values: Sequence[object], look: int = 0) -> str:
        cells = []
        for letter, value in zip(letters, values, strict=True):
            if value is None or value == "":
                continue
            if isinstance(value, Decimal):
                cells.append(self._amount(f"{letter}{number}", value))
            elif type(value) is int:
                cells.append(f'<c r="{letter}{number}"><v>{value}</v></c>')
            else:
                cells.append(f'<c r="{letter}{number}" s="{look}" t="inlineStr"><is><t>{_text(value)}</t></is></c>')
        return f'<row r="{number}">{"".join(cells)}</row>'

    def _amount(self, place: str, amount: Decimal) -> str:
        text = format_amount(amount)
        fraction = text.partition(".")[2]
        if len(text.lstrip("-").replace(".", "")) > EXACT_DIGITS:
            return f'<c r="{place}" s="{_EXACT}" t="inlineStr"><is><t>{text}</t></is></c>'
        look = self._looks.setdefault(len(fraction), _FIRST_LOOK + len(self._looks))
        return f'<c r="{place}" s="{look}"><v>{text}</v></c>'

    def _parts(self) -> dict[str, str]:
        numbered = list(enumerate(self._tables, 1))
        sheets = "".join(f'<sheet name="{name}" sheetId="{at}" r:id="rId{at}"/>' for at, (name, _) in numbered)
        filters = "".join(
            f'<definedName name="_xlnm._FilterDatabase" localSheetId="{at - 1}" hidden="1">{name}!{area}</definedName>'
            for at, (name, area) in numbered
        )
        titles = "".join(
            f'<definedName name="_xlnm.Print_Titles" localSheetId="{at - 1}">{name}!$1:$1</definedName>'
            for at, (name, _) in numbered
        )
        related = [("worksheet", f"worksheets/sheet{at}.xml") for at, _ in numbered] + [("styles", "styles.xml")]
        types = [(f"worksheets/sheet{at}", "worksheet") for at, _ in numbered] + [("styles", "styles")]
        overrides = "".join(
            f'<Override PartName="/xl/{part}.xml" ContentType="{_TYPE}.{kind}+xml"/>'
            for part, kind in [("workbook", "sheet.main"), *types]
        )
        return {
            "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" ContentType='
            f'"application/vnd.openxmlformats-package.relationships+xml"/>{overrides}</Types>',
            "_rels/.rels": _relations([("officeDocument", "xl/workbook.xml")]),
            "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{sheets}</sheets>'
            f"<definedNames>{filters}{titles}</definedNames></workbook>",
            "xl/_rels/workbook.xml.rels": _relations(related),
            "xl/styles.xml": self._styles(),
        }

    def _styles(self) -> str:
        looks = "".join(
            f'<numFmt numFmtId="{164 + at}" formatCode="#,##0{"." * bool(digits)}{"0" * digits}"/>'
            for at, digits in enumerate(self._looks)
        )
        count = len(self._looks)
        formats = f'<numFmts count="{count}">{looks}</numFmts>' if count else ""
        amounts = "".join(
            f'<xf numFmtId="{164 + at}" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
            for at in range(count)
        )
        font = '<sz val="11"/><name val="Calibri"/><family val="2"/>'
        empty = "<left/><right/><top/>"
        return (
            f'<styleSheet xmlns="{_MAIN}">{formats}'
            f'<fonts count="2"><font>{font}</font><font><b/>{font}</font></fonts>'
            '<fills count="3"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/>'
            '</fill><fill><patternFill patternType="solid"><fgColor rgb="FFEEF1F5"/></patternFill></fill></fills>'
            f'<borders count="2"><border>{empty}<bottom/><diagonal/></border><border>{empty}<bottom style="thin">'
            '<color rgb="FFC9D1DA"/></bottom><diagonal/></border></borders>'
            '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>'
            f'<cellXfs count="{_FIRST_LOOK + count}"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>'
            '<xf numFmtId="0" fontId="1" fillId="2" borderId="1" xfId="0" applyFont="1" applyFill="1" applyBorder="1"/>'
            '<xf numFmtId="49" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1" applyAlignment="1">'
            f'<alignment horizontal="right"/></xf>{amounts}</cellXfs>'
            '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
        )


def _text(value: object) -> str:
    """The text of a cell, escaped: on one line, and nothing that would run where it is saved as CSV."""
    plain = type(value) is str and value.isascii() and value.isprintable() and value[:1] not in _LEADS
    text = str(value) if plain else printable(safe_cell(value))
    return escape(text[:MAX_TEXT])


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # of 1980: the same rows give the same bytes
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _relations(targets: Iterable[tuple[str, str]]) -> str:
    each = "".join(
        f'<Relationship Id="rId{at}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for at, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{each}</Relationships>'


def _beginning(columns: Sequence[str], widths: Mapping[str, int], *, is_first: bool) -> str:
    selected = ' tabSelected="1"' if is_first else ""
    cols = "".join(
        f'<col min="{at}" max="{at}" width="{widths.get(name, max(11, len(name) + 2))}" customWidth="1"/>'
        for at, name in enumerate(columns, 1)
    )
    return (
        f'{_XML}<worksheet xmlns="{_MAIN}"><sheetViews><sheetView{selected} workbookViewId="0"><pane xSplit="1" '
        'ySplit="1" topLeftCell="B2" activePane="bottomRight" state="frozen"/></sheetView></sheetViews>'
        f'<sheetFormatPr defaultRowHeight="15"/><cols>{cols}</cols><sheetData>'
    )


def _ending(area: str) -> str:
    return (
        f'</sheetData><autoFilter ref="{area}"/><pageSetup paperSize="9" orientation="landscape"/>'
        f'<ignoredErrors><ignoredError sqref="{area}" numberStoredAsText="1"/></ignoredErrors></worksheet>'
    )


WIDTHS = {"request_id": 32, "reason": 30, "order_no": 22, "next_action": 50, "payee_name": 26, "reference": 24}

TOTALS = ("outcome", "currency", "rows", "amount")


class ResultBook:
    """A workbook that takes rows as they pass by and keeps none of them."""

    def __init__(self) -> None:
        self._book = PlainBook()
        self._totals = _Totals()

    def over(self, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
        """These rows, each written as it passes."""
        return self._book.over("Results", columns, self._totals.over(rows), WIDTHS)

    def finish(self, path: Path) -> None:
        """Write the totals, and the file."""
        for _ in self._book.over("Totals", TOTALS, self._totals.lines(), dict.fromkeys(TOTALS, 18)):
            pass
        write_bytes(path, self._book.finish())


class _Totals:
    """Rows and amounts per outcome and currency of what passes by."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)

    def over(self, rows: Iterable[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
        """These rows, each counted as it passes."""
        for row in rows:
            self._take(row)
            yield row

    @exact
    def _take(self, row: Mapping[str, object]) -> None:
        key = str(row.get("outcome") or ""), str(row.get("currency") or "")
        self._counts[key] += 1
        amount = row.get("amount")
        if isinstance(amount, Decimal):
            self._sums[key] += amount

    def lines(self) -> Iterator[Mapping[str, object]]:
        """The totals, in the order in which people want to read outcomes."""
        order = {outcome: place for place, outcome in enumerate(OUTCOMES)}
        for key in sorted(self._counts, key=lambda key: (order.get(key[0], len(order)), key[1])):
            yield dict(zip(TOTALS, (*key, self._counts[key], self._sums.get(key)), strict=True))
