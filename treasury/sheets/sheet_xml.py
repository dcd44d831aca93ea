"""One worksheet's XML as it streams by: its rows as lines, each cell as text or the reason why it has none."""

import re
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal

from treasury.sheets.cells import MAX_CHARACTERS, MAX_COLUMNS, TOO_MANY_COLUMNS, BadCell, Cell, Line, Typed, is_filled
from treasury.sheets.number_formats import NumberFormat
from treasury.sheets.package import Unreadable, local

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

_REFERENCE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
_NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(T00:00:00(\.0+)?Z?)?")
_LAST_ROW = 1_048_576
_LAST_COLUMN = 16_384


class SheetTooWide(Exception):
    """There is something in a column beyond those that are read."""

    def __init__(self, row: int) -> None:
        self.row = row
        super().__init__(TOO_MANY_COLUMNS)


class HidesRows(Exception):
    """Rows are hidden unless they say otherwise: programs differ in which of them they show."""


@dataclass
class Strings:
    """The workbook's table of texts, and which of them are struck out, in part or as a whole."""

    texts: list[str] = field(default_factory=list)
    struck: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Styles:
    """What the cell formats of a workbook do, by number."""

    formats: list[NumberFormat]
    struck: list[bool]
    struck_by_rule: list[bool]
    """Of the formats of conditional formatting."""
    from_1904: bool


_PLAIN = NumberFormat()


class SheetReader:
    """Handlers of an XML parser; the lines that are complete are taken after each piece of the part."""

    def __init__(self, strings: Strings, styles: Styles) -> None:
        self.hidden_columns: list[tuple[int, int]] = []
        self.hides_rows = False
        """Whether rows are hidden that do not say otherwise."""
        self.struck_by_rule: list[str] = []
        """Ranges that conditional formatting may strike out."""
        self._ranges: str | None = None
        self._rule_struck = False
        self._strings = strings
        self._styles = styles
        self._columns: dict[str, int] = {}
        self._done: list[Line] = []
        self._row = 0
        self._hidden = False
        self._cells: list[Cell] = []
        self._column = -1
        self._kind = ""
        self._style = 0
        self._formula = False
        self._run_struck = False
        self._pieces: list[str] | None = None
        self._value = ""
        self._in_hint = False

    def take(self) -> list[Line]:
        """The lines that were completed since the last call."""
        done, self._done = self._done, []
        return done

    def started(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        name = local(tag)
        if name == "c":
            self._start_cell(attributes)
        elif name == "v" or (name == "t" and not self._in_hint):
            self._pieces = []
        elif name == "row":
            self._start_row(attributes)
        elif name == "f":
            self._formula = True
        elif name == "rPh":
            self._in_hint = True
        elif name == "r":
            self._run_struck = False
        elif name == "strike" and self._ranges is None:
            self._run_struck = _is_on(attributes)
        elif name == "sheetFormatPr":
            self.hides_rows = attributes.get("zeroHeight") in ("1", "true")
        elif name == "conditionalFormatting" or self._ranges is not None:
            self._rule_started(name, attributes)
        elif name == "sheetFormatPr":
            self.hides_rows = attributes.get("zeroHeight") in ("1", "true")
        elif name == "conditionalFormatting" or self._ranges is not None:
            self._rule_started(name, attributes)
        elif name == "col":
            self._start_column(attributes)

    def _start_column(self, attributes: dict[str, str]) -> None:
        if attributes.get("hidden") in ("1", "true") or attributes.get("width") == "0":
            self.hidden_columns.append((int(attributes["min"]) - 1, int(attributes["max"]) - 1))
            if len(self.hidden_columns) > _LAST_COLUMN:
                raise Unreadable("more columns than there are")

    def _rule_started(self, name: str, attributes: dict[str, str]) -> None:
        """An element of conditional formatting begins."""
        if name == "conditionalFormatting":
            self._ranges, self._rule_struck = attributes.get("sqref", ""), False
        elif name == "cfRule" and "dxfId" in attributes:
            number, struck = int(attributes["dxfId"]), self._styles.struck_by_rule
            self._rule_struck |= 0 <= number < len(struck) and struck[number]
        elif name == "strike":
            self._rule_struck |= _is_on(attributes)
        elif name == "sqref":
            self._pieces = []

    def text(self, data: str) -> None:
        """Text inside an element."""
        if self._pieces is not None:
            self._pieces.append(data)
            if len(self._pieces) > MAX_CHARACTERS:
                raise Unreadable("a cell without an end")
            if self._run_struck and data.strip():
                self._kind = "struck"

    def ended(self, tag: str) -> None:
        """An element ends."""
        name = local(tag)
        if name == "c":
            self._end_cell()
        elif name in ("v", "t") and self._pieces is not None:
            self._value += "".join(self._pieces)
            self._pieces = None
        elif name == "row":
            self._done.append(Line(self._row, self._cells, self._hidden))
            self._cells = []
        elif name == "rPh":
            self._in_hint = False
        elif name == "r":
            self._run_struck = False
        elif name == "sqref" and self._pieces is not None:
            self._ranges, self._pieces = "".join(self._pieces), None
        elif name == "conditionalFormatting":
            if self._rule_struck and self._ranges:
                self.struck_by_rule += self._ranges.split()
                if len(self.struck_by_rule) > _LAST_ROW:
                    raise Unreadable("more ranges than rows")
            self._ranges = None

    def _start_row(self, attributes: dict[str, str]) -> None:
        number = int(attributes.get("r", self._row + 1))
        if number <= self._row or number > _LAST_ROW:
            raise Unreadable("rows are not in order")
        if self.hides_rows:
            raise HidesRows
        self._row, self._column, self._cells = number, -1, []
        height = attributes.get("ht")
        self._hidden = attributes.get("hidden") in ("1", "true") or (height is not None and float(height) == 0)

    def _start_cell(self, attributes: dict[str, str]) -> None:
        reference = attributes.get("r")
        column = self._column + 1 if reference is None else self._column_of(reference)
        if column <= self._column:
            raise Unreadable("cells are not in order")
        self._column = column
        self._kind = attributes.get("t", "n")
        self._style = int(attributes.get("s", "0"))
        self._formula = False
        self._value = ""

    def _column_of(self, reference: str) -> int:
        found = _REFERENCE.fullmatch(reference)
        if found is None or int(found[2]) != self._row:
            raise Unreadable("a cell is not in its row")
        letters = found[1]
        if letters not in self._columns:
            number = 0
            for letter in letters:
                number = number * 26 + ord(letter) - 64
            self._columns[letters] = number - 1
        return self._columns[letters]

    def _end_cell(self) -> None:
        cell = self._read()
        if cell == "":
            return  # blank cells at the end of a row are not kept, those in between are made up for
        if self._column >= MAX_COLUMNS and is_filled(cell):
            raise SheetTooWide(self._row)
        self._cells.extend([""] * (self._column - len(self._cells)))
        self._cells.append(cell)

    def _read(self) -> Cell:
        if self._kind == "s":
            index = int(self._value or -1)
            if not 0 <= index < len(self._strings.texts):
                raise Unreadable("a text is not there")
            self._value = self._strings.texts[index]
            if index in self._strings.struck:
                return STRUCK
        value, style = self._value, self._style
        if self._kind == "struck" or (style < len(self._styles.struck) and self._styles.struck[style]):
            return STRUCK if value.strip() or self._formula else ""
        if self._kind == "e":
            return ERROR
        if not value:
            return NO_VALUE if self._formula else ""
        return TOO_LONG if len(value) > MAX_CHARACTERS else self._typed(value)

    def _typed(self, value: str) -> Cell:
        """What a cell's value stands for, by the kind of the cell."""
        if self._kind in ("s", "str", "inlineStr"):
            text = _unescaped(value) if "_x" in value else value
            if self._format.hides and text.strip():
                return Typed(text, self._formula, shown="")
            return Typed(text, formula=True) if self._formula else text
        if self._kind == "n":
            return self._number(value)
        if self._kind == "d" and _ISO_DATE.fullmatch(value):
            return Typed(value[:10], self._formula, date=True)
        return UNTYPED

    @property
    def _format(self) -> NumberFormat:
        return self._styles.formats[self._style] if self._style < len(self._styles.formats) else _PLAIN

    def _number(self, value: str) -> Cell:
        if not _NUMBER.fullmatch(value):
            raise Unreadable("a number is none")
        shown = self._format
        if shown.is_date:
            text = _date(float(value), from_1904=self._styles.from_1904)
            return UNTYPED if text is None else Typed(text, self._formula, date=True)
        exact = number_text(value, calculated=self._formula)
        return INEXACT if exact is None else Typed(exact, self._formula, shown=shown.shown(exact))


def _is_on(attributes: dict[str, str]) -> bool:
    return attributes.get("val", "1") in ("1", "true", "on")


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


def _date(days: float, *, from_1904: bool) -> str | None:
    """The day of a serial number, as YYYY-MM-DD; None for a time of day and what no calendar has."""
    if days != int(days) or not 1 <= days < 2_958_466:
        return None
    if from_1904:
        return f"{date(1904, 1, 1) + timedelta(days=int(days)):%Y-%m-%d}"
    # Day 60 is 29 February 1900, which never was.
    if days == 60:
        return None
    start = date(1899, 12, 31) if days < 60 else date(1899, 12, 30)
    return f"{start + timedelta(days=int(days)):%Y-%m-%d}"


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
