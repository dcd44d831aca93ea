"""One worksheet as openpyxl's parser hands over its elements: rows as lines, each cell as text or why it has none.

openpyxl makes floats of numbers, and drops formats by conditions that it does not know: a cell is judged here by its
text in the file, a condition by its elements.
"""

import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from openpyxl.utils.cell import column_index_from_string, range_boundaries
from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH, from_excel
from openpyxl.worksheet import _reader as tags
from openpyxl.worksheet._reader import WorkSheetParser
from openpyxl.xml.constants import SHEET_MAIN_NS

from treasury.sheets.archive import LAST_ROW, Unreadable
from treasury.sheets.cells import (
    MAX_CHARACTERS,
    MAX_COLUMNS,
    TOO_MANY_COLUMNS,
    BadCell,
    Cell,
    Line,
    Typed,
    file_problem,
    is_filled,
)
from treasury.sheets.headers import MAX_NAME
from treasury.sheets.hidden_ranges import MERGED
from treasury.sheets.looks import (
    BLANK_FORMAT,
    NOT_SHOWN,
    OTHER_FORMAT,
    PLAIN,
    Letters,
    Look,
    RichText,
    Styles,
    lean,
    local,
    unseen,
)
from treasury.texts import cut_text

DAY_SECONDS = 86_400

EXACT_DIGITS = 15
"""Digits that a spreadsheet program keeps of a number; it turns the ones after into zeros."""

STRUCK = BadCell("is struck out: delete it, or take the line through it away", "struck_out")
ERROR = BadCell("is an error of the spreadsheet: write the value that is meant", "error_cell")
NO_VALUE = BadCell("is a formula that was never calculated: paste its value instead", "formula")
UNTYPED = BadCell("is neither text, number nor date: format the column as text", "wrong_type")
INEXACT = BadCell(
    f"is a number of more than {EXACT_DIGITS} digits, of which some are lost: format the column as text and enter it "
    "again",
    "digits_lost",
)
TOO_LONG = BadCell(f"holds more than {MAX_CHARACTERS:,} characters", "too_long")

_NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_ISO_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}:\d{2})?(?:\.\d+)?Z?")
_ON = ("1", "true")
_MERGED = f"{{{SHEET_MAIN_NS}}}mergeCell"
_VIEW = f"{{{SHEET_MAIN_NS}}}sheetView"
_LAST_COLUMN = 16_384
MIN_HEIGHT, MIN_WIDTH = 2.0, 0.5
"""Of a row in points, of a column in characters: nobody sees what is in less."""

Area = tuple[int, int, int, int]
"""First column and row, last column and row; all from 1."""


class SheetReader(WorkSheetParser):
    """The lines of a worksheet, and what hides parts of it."""

    def __init__(
        self,
        path: Path,
        title: str,
        strings: Sequence[str | RichText],
        styles: Styles,
        painted: Sequence[Area] = (),
        *,
        from_1904: bool = False,
    ) -> None:
        """`painted`: where a table may have put a colour behind the cells."""
        super().__init__(io.BytesIO(), [], epoch=MAC_EPOCH if from_1904 else WINDOWS_EPOCH)
        self.hidden_columns: list[tuple[int, int]] = []
        self.hidden_ranges: list[tuple[str, str]] = []
        """Ranges in which something may be hidden, each with the code of how."""
        self._path, self._title = path, title
        self._strings = strings
        self._styles = styles
        self._painted = painted
        self._looks: dict[str, Look] = {}
        self._row = ""
        self._hides_rows = self._hides_columns = False
        self._first_row = 1
        """The first row that frozen panes let anybody see."""
        self._height: str | None = None
        """Of a row that says none."""
        self._wide: list[tuple[int, int]] = []
        """First and last of each range of columns that have a width, from 0."""

    def lines(self, elements: Iterable[Any]) -> Iterator[Line]:
        """The lines that its elements make, each as it ends.

        Raises `InvalidSheet` for what is hidden or too wide, `Unreadable` and what openpyxl raises for odd parts.
        """
        handlers = {
            tags.COL_TAG: self.parse_column_dimensions,
            tags.FORMAT_TAG: self._parse_defaults,
            tags.CF_TAG: self.parse_formatting,
            tags.EXT_TAG: self.parse_extensions,
            _MERGED: self._parse_merged,
            _VIEW: self._parse_view,
        }
        waiting, element = 0, None
        for element in elements:
            if element.tag == tags.CELL_TAG:
                waiting += 1
                if waiting > _LAST_COLUMN:
                    raise Unreadable("a row of more cells than there are columns, or cells outside of rows")
            elif element.tag == tags.ROW_TAG:
                waiting -= len(element)
                yield self._line(element)
                element.clear()
            elif (handler := handlers.get(element.tag)) is not None:
                handler(element)
                element.clear()
        if element is None or element.tag != f"{{{SHEET_MAIN_NS}}}worksheet":
            raise Unreadable("no worksheet of the names that openpyxl reads")

    def _line(self, row: Any) -> Line:
        if self._hides_rows:
            rule = (
                f"hides the rows of {cut_text(self._title, MAX_NAME)} by default: show all of its rows, save the file"
            )
            raise file_problem(self._path, rule, "hidden_row")
        if self._hides_columns:
            self._hides_columns = False
            own = [each for each in range(MAX_COLUMNS) if not any(low <= each <= high for low, high in self._wide)]
            self.hidden_columns += [(each, each) for each in own]
        before, self._row = self.row_counter, row.get("r") or str(self.row_counter + 1)
        found: Any  # what `parse_cell` below returns
        number, found = self.parse_row(row)
        if not before < number <= LAST_ROW:
            raise Unreadable("rows are not in order")
        cells: list[Cell] = []
        for column, cell in found:
            if cell != "":  # blank cells at the end of a row are not kept, those in between are made up for
                cells.extend([""] * (column - 1 - len(cells)))
                cells.append(cell)
        self.row_dimensions.clear()
        height = row.get("ht", self._height)
        is_low = height is not None and float(height) < MIN_HEIGHT
        return Line(number, cells, row.get("hidden") in _ON or is_low or number < self._first_row)

    def parse_column_dimensions(self, col: Any) -> None:
        """Note columns that are hidden."""
        is_hidden = col.get("hidden") in _ON or float(col.get("width", "9")) < MIN_WIDTH
        noted = self.hidden_columns if is_hidden else self._wide
        noted.append((int(col.get("min")) - 1, int(col.get("max")) - 1))
        if len(noted) > _LAST_COLUMN:
            raise Unreadable("more columns than there are")

    def _parse_view(self, view: Any) -> None:
        """Note what stands before frozen panes, where nobody can scroll."""
        column, row = (each or 1 for each in range_boundaries(view.get("topLeftCell", "A1"))[:2])
        for pane in view:
            if local(pane) == "pane" and pane.get("state") in ("frozen", "frozenSplit"):
                if float(pane.get("ySplit", "0")):
                    self._first_row = row
                if float(pane.get("xSplit", "0")) and column > 1:
                    self.hidden_columns.append((0, column - 2))

    def _parse_defaults(self, element: Any) -> None:
        self._hides_rows = element.get("zeroHeight") in _ON
        self._hides_columns = float(element.get("defaultColWidth", "9")) < MIN_WIDTH
        self._height = element.get("defaultRowHeight") if element.get("customHeight") in _ON else None

    def parse_extensions(self, element: Any) -> None:
        """Note what conditional formatting of newer programs may hide."""
        for each in element.iter():
            if local(each) == "conditionalFormatting":
                self.parse_formatting(each)

    def parse_formatting(self, element: Any) -> None:
        """Note what conditional formatting may hide."""
        ranges = element.get("sqref") or " ".join(each.text or "" for each in element.iter() if local(each) == "sqref")
        codes = dict.fromkeys(code for each in element.iter() if local(each) == "cfRule" for code in self._does(each))
        for code in codes:
            self._hide(ranges.split(), code)

    def _parse_merged(self, element: Any) -> None:
        self._hide([element.get("ref", "")], MERGED)

    def _hide(self, ranges: Iterable[str], code: str) -> None:
        self.hidden_ranges += [(each, code) for each in ranges]
        if len(self.hidden_ranges) > LAST_ROW:
            raise Unreadable("more ranges than rows")

    def _does(self, rule: Any) -> Iterator[str]:
        """The codes of what a rule may do to a cell."""
        number, known = int(rule.get("dxfId", "-1")), self._styles.by_rule
        if 0 <= number < len(known) and (code := known[number]) is not None:
            yield code
        for each in rule.iter():
            if local(each) == "dxf" and (code := self._styles.may_do(lean(each))) is not None:
                yield code
            elif local(each) in ("iconSet", "dataBar") and each.get("showValue") in ("0", "false"):
                yield NOT_SHOWN

    def parse_cell(self, element: Any) -> tuple[int, Cell]:  # type: ignore[override]
        """A cell: its column, from 1, and what it is."""
        if element.tag != tags.CELL_TAG:
            return self.col_counter, ""
        column = self.col_counter + 1
        if (place := element.get("r")) is not None:
            column = column_index_from_string(place.removesuffix(self._row))
            if column <= self.col_counter:
                raise Unreadable("cells are not in order")
        self.col_counter = column
        value, formula, rich = "", None, None
        for child in element:
            if child.tag == tags.VALUE_TAG:
                value += child.text or ""
            elif child.tag == tags.INLINE_STRING:
                text = self._styles.palette.text(child)
                rich, text = (text, text.text) if isinstance(text, RichText) else (rich, text)
                value += text
            elif child.tag == tags.FORMULA_TAG:
                formula = child.text or ""
        kind, style = element.get("t", "n"), element.get("s", "0")
        if kind == "s":
            shared = self._shared(value)
            rich, value = (shared, shared.text) if isinstance(shared, RichText) else (rich, shared)
        look = self._looks.get(style) or self._look(style)
        if rich is not None or look.is_doubtful:
            cell = self._doubted(kind, value, formula, look, () if rich is None else rich.letters)
        else:
            cell = self._plain(kind, value, formula, look)
        if column > MAX_COLUMNS and is_filled(cell):
            raise file_problem(self._path, TOO_MANY_COLUMNS, "too_many_columns", self.row_counter)
        return column, cell

    def _shared(self, value: str) -> str | RichText:
        number = int(value or -1)
        if not 0 <= number < len(self._strings):
            raise Unreadable("a text is not there")
        return self._strings[number]

    def _look(self, style: str) -> Look:
        number = int(style)
        look = self._styles.looks[number] if 0 <= number < len(self._styles.looks) else Look()
        return self._looks.setdefault(style, look)

    def _plain(self, kind: str, value: str, formula: str | None, look: Look) -> Cell:
        """The cell, whose letters are seen."""
        if kind == "e":
            return replace(ERROR, text=value)
        if not value:
            return "" if formula is None else replace(NO_VALUE, text=f"={formula}")
        if len(value) > MAX_CHARACTERS:
            return TOO_LONG
        if kind == "n":
            return self._number(value, look, calculated=formula is not None)
        return _text(value, formula, look) if kind in ("s", "str", "inlineStr") else _other(kind, value, formula)

    def _doubted(
        self, kind: str, value: str, formula: str | None, look: Look, pieces: Collection[Letters | None]
    ) -> Cell:
        """The cell, whose letters may not be seen; `pieces`: those of a text that has several looks."""
        is_blank = not value.strip() and formula is None
        if look.letters.is_struck or any(each is not None and each.is_struck for each in pieces):
            return "" if is_blank else STRUCK
        cell = self._plain(kind, value, formula, look)
        if is_blank or isinstance(cell, BadCell):
            return cell
        own, behind = self._coloured(kind, value, look), look.behind
        if behind is PLAIN and any(map(self._is_in, self._painted)):
            behind = None
        why = next((why for each in pieces or (None,) if (why := unseen(each or own, behind)) is not None), None)
        if why is None:
            return cell
        return Typed(cell, formula is not None, unseen=why) if isinstance(cell, str) else replace(cell, unseen=why)

    def _coloured(self, kind: str, value: str, look: Look) -> Letters:
        """The letters of the cell, in the colour that its number format sets, if it does."""
        section = look.format.of_number(value) if kind == "n" else look.format.text
        if section is None or not section.colour:
            return look.letters
        return look.letters._replace(colour=self._styles.palette.named(section.colour))

    def _is_in(self, area: Area) -> bool:
        """Tell whether the cell is in an area."""
        return area[0] <= self.col_counter <= area[2] and area[1] <= self.row_counter <= area[3]

    def _number(self, value: str, look: Look, *, calculated: bool) -> Cell:
        if not _NUMBER.fullmatch(value):
            raise Unreadable("a number is none")
        if look.format.is_date:
            moment = self._moment(float(value))
            if moment is None:
                return replace(UNTYPED, text=value)
            return Typed(moment, calculated, date=True, number_format=look.code)
        exact = number_text(value, calculated=calculated)
        if exact is None:
            return replace(INEXACT, text=value)
        seen = look.format.shown(exact)
        if seen == "":
            return Typed(exact, calculated, unseen=BLANK_FORMAT)
        return Typed(exact, calculated, shown=seen, beside=look.format.beside(exact), number_format=look.code)

    def _moment(self, days: float) -> str | None:
        """The day of a serial number, as YYYY-MM-DD, and its time, if it has one, as THH:MM:SS; None for a time alone
        and what no calendar has."""
        day, seconds = divmod(round(days * DAY_SECONDS), DAY_SECONDS)
        is_never = day == 60 and self.epoch is WINDOWS_EPOCH  # 29 February 1900
        if is_never or not 1 <= day < 2_958_466 - 1_462 * (self.epoch is MAC_EPOCH):
            return None
        moment = from_excel(day, self.epoch) + timedelta(seconds=seconds)
        return f"{moment:%Y-%m-%dT%H:%M:%S}" if seconds else f"{moment:%Y-%m-%d}"


def number_text(value: str, *, calculated: bool) -> str | None:
    """The plain digits of a number as a workbook stores it; None when it has more digits than a number keeps.

    A calculated one is taken in the fifteen digits that a spreadsheet program shows: 0.1 + 0.2 is stored as
    0.30000000000000004.
    """
    if value.lstrip("-").isdigit():
        text = format(Decimal(value), "f")
    else:
        number = float(value)
        # repr is the shortest text that reads back as the same number: 1.1 stored as 1.1000000000000001 is 1.1 again.
        written = f"{number:.{EXACT_DIGITS}g}" if calculated else repr(number)
        if written in ("inf", "-inf", "nan"):
            return None
        text = format(Decimal(written), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return None if len(text.lstrip("-0.").replace(".", "")) > EXACT_DIGITS else text


def _text(value: str, formula: str | None, look: Look) -> Cell:
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value) if "_x" in value else value
    section = look.format.text
    if section is not None and not section.holds_text and text.strip():
        return Typed(text, formula is not None, unseen=BLANK_FORMAT if section.is_blank else OTHER_FORMAT)
    if formula is None and section is not None and section.beside and text.strip():
        return Typed(text, is_text=True, beside=section.beside)
    return text if formula is None else Typed(text, formula=True, beside="" if section is None else section.beside)


def _other(kind: str, value: str, formula: str | None) -> Cell:
    """A day that is written as such, with its time, or what has no text of its own."""
    if kind == "d" and (found := _ISO_DATE.fullmatch(value)):
        text = f"{found[1]}{'' if found[2] == 'T00:00:00' else found[2] or ''}"
        return Typed(text, formula is not None, date=True, number_format="yyyy-mm-dd hh:mm:ss"[: len(text)])
    return replace(UNTYPED, text={"b1": "TRUE", "b0": "FALSE"}.get(kind + value, value))
