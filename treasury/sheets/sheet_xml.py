"""One worksheet's XML as it streams by: its rows as lines, each cell as text or the reason why it has none."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal

from treasury.sheets.cells import MAX_CHARACTERS, MAX_COLUMNS, TOO_MANY_COLUMNS, BadCell, Cell, Line, Typed, is_filled
from treasury.sheets.looks import BLANK_FORMAT, OTHER_FORMAT, PLAIN, Font, Look, unseen
from treasury.sheets.number_formats import NumberFormat
from treasury.sheets.package import Unreadable, local
from treasury.sheets.styles import Painting, Pieces, Styles

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
MIN_HEIGHT, MIN_WIDTH = 2.0, 0.5
"""Of a row in points, of a column in characters: nobody sees what is in less."""

Area = tuple[int, int, int, int]
"""First column and row, last column and row; columns from 0, rows from 1."""


class SheetTooWide(Exception):
    """There is something in a column beyond those that are read."""

    def __init__(self, row: int) -> None:
        self.row = row
        super().__init__(TOO_MANY_COLUMNS)


class HidesRows(Exception):
    """Rows are hidden unless they say otherwise: programs differ in which of them they show."""


@dataclass
class Strings:
    """The workbook's table of texts, which of them are struck out, in part or as a whole, and their own fonts."""

    texts: list[str] = field(default_factory=list)
    struck: set[int] = field(default_factory=set)
    fonts: dict[int, frozenset[Font | None]] = field(default_factory=dict)
    """Of texts whose pieces have fonts of their own; None for that of the cell."""

    def keep(self, rich: Pieces) -> None:
        """Keep what is known of the pieces of the next text."""
        self.fonts[len(self.texts)] = frozenset(rich.fonts)
        if rich.is_struck:
            self.struck.add(len(self.texts))
        rich.clear()


_PLAIN = NumberFormat()
_PLAIN_LOOK = Look()


class SheetReader:
    """Handlers of an XML parser; the lines that are complete are taken after each piece of the part."""

    def __init__(self, strings: Strings, styles: Styles, painted: Sequence[Area] = ()) -> None:
        """`painted`: where a table may have put a colour behind the cells."""
        self.hidden_columns: list[tuple[int, int]] = []
        self.hides_rows = False
        """Whether rows are hidden that do not say otherwise."""
        self.hidden_by_rule: list[tuple[str, str]] = []
        """Ranges in which conditional formatting may hide something, each with the code of how."""
        self._ranges: str | None = None
        self._codes: dict[str, None] = {}
        self._painting: Painting | None = None
        self._painted = painted
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
        self._rich = Pieces(styles.palette)
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
            self._rich.piece = Painting()
        elif self._rich.piece is not None:
            self._rich.piece.started(name, attributes)
        elif name == "sheetFormatPr":
            self.hides_rows = attributes.get("zeroHeight") in ("1", "true")
        elif name == "conditionalFormatting" or self._ranges is not None:
            self._rule_started(name, attributes)
        elif name == "col":
            self._start_column(attributes)

    def _start_column(self, attributes: dict[str, str]) -> None:
        if attributes.get("hidden") in ("1", "true") or float(attributes.get("width", "9")) < MIN_WIDTH:
            self.hidden_columns.append((int(attributes["min"]) - 1, int(attributes["max"]) - 1))
            if len(self.hidden_columns) > _LAST_COLUMN:
                raise Unreadable("more columns than there are")

    def _rule_started(self, name: str, attributes: dict[str, str]) -> None:
        """An element of conditional formatting begins."""
        if name == "conditionalFormatting":
            self._ranges, self._codes = attributes.get("sqref", ""), {}
        elif name == "cfRule":
            self._rule_ended()
            self._painting = Painting()
            number, known = int(attributes.get("dxfId", "-1")), self._styles.by_rule
            if 0 <= number < len(known) and (code := known[number]) is not None:
                self._codes[code] = None
        elif name == "sqref":
            self._pieces = []
        elif self._painting is not None:
            self._painting.started(name, attributes)

    def _rule_ended(self) -> None:
        """All of a rule of conditional formatting is known."""
        if self._painting is not None:
            code = self._painting.may_do(self._styles.palette, is_filled=self._styles.is_filled)
            self._codes |= {} if code is None else {code: None}
        self._painting = None

    def text(self, data: str) -> None:
        """Text inside an element."""
        if self._pieces is not None:
            self._pieces.append(data)
            if len(self._pieces) > MAX_CHARACTERS:
                raise Unreadable("a cell without an end")
            if self._rich.piece is not None and data.strip():
                self._rich.letters()

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
            self._rich.piece = None
        elif name == "sqref" and self._pieces is not None:
            self._ranges, self._pieces = "".join(self._pieces), None
        elif name == "conditionalFormatting":
            self._rule_ended()
            if self._codes and self._ranges:
                self.hidden_by_rule += [(each, code) for code in self._codes for each in self._ranges.split()]
                if len(self.hidden_by_rule) > _LAST_ROW:
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
        self._hidden = attributes.get("hidden") in ("1", "true") or (height is not None and float(height) < MIN_HEIGHT)

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
        if self._rich.fonts:
            self._rich.clear()

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
        fonts: Collection[Font | None] = self._rich.fonts
        if self._kind == "s":
            index = int(self._value or -1)
            if not 0 <= index < len(self._strings.texts):
                raise Unreadable("a text is not there")
            self._value = self._strings.texts[index]
            if index in self._strings.struck:
                return STRUCK
            if self._strings.fonts:
                fonts = self._strings.fonts.get(index, fonts)
        value = self._value
        if fonts or self._style in self._styles.doubtful:
            return self._doubted(value, fonts)
        return self._plain(value)

    def _plain(self, value: str) -> Cell:
        """The cell, whose letters are seen."""
        if self._kind == "e":
            return ERROR
        if not value:
            return NO_VALUE if self._formula else ""
        return TOO_LONG if len(value) > MAX_CHARACTERS else self._typed(value)

    def _doubted(self, value: str, fonts: Collection[Font | None]) -> Cell:
        """The cell, whose letters may not be seen."""
        is_blank = not value.strip() and not self._formula
        looks = self._styles.looks
        look = looks[self._style] if self._style < len(looks) else _PLAIN_LOOK
        if self._rich.is_struck or look.is_struck:
            return "" if is_blank else STRUCK
        cell = self._plain(value)
        if is_blank or isinstance(cell, BadCell):
            return cell
        own, behind = self._coloured(look.font), look.behind
        if behind is PLAIN and any(map(self._is_in, self._painted)):
            behind = None
        why = next((why for font in fonts or (None,) if (why := unseen(font or own, behind)) is not None), None)
        if why is None:
            return cell
        return Typed(cell, self._formula, unseen=why) if isinstance(cell, str) else replace(cell, unseen=why)

    def _coloured(self, font: Font) -> Font:
        """The font of the cell, in the colour that its number format sets, if it does."""
        section = self._format.of_number(self._value) if self._kind == "n" else self._format.text
        if section is None or not section.colour:
            return font
        return Font(self._styles.palette.named(section.colour), font.size)

    def _is_in(self, area: Area) -> bool:
        """Tell whether the cell is in an area."""
        return area[0] <= self._column <= area[2] and area[1] <= self._row <= area[3]

    def _typed(self, value: str) -> Cell:
        """Return what a cell's value stands for, by the kind of the cell."""
        if self._kind in ("s", "str", "inlineStr"):
            text = _unescaped(value) if "_x" in value else value
            section = self._format.text
            if section is not None and not section.holds_text and text.strip():
                return Typed(text, self._formula, unseen=BLANK_FORMAT if section.is_blank else OTHER_FORMAT)
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
        if exact is None:
            return INEXACT
        seen = shown.shown(exact)
        return (
            Typed(exact, self._formula, unseen=BLANK_FORMAT) if seen == "" else Typed(exact, self._formula, shown=seen)
        )


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
