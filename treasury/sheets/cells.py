"""The parts of a file, whatever its format: lines of cells, and the bounds of what is read."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from treasury.errors import InvalidSheet, RowProblem

MAX_BYTES = 100_000_000
"""Bytes of a file."""
MAX_UNPACKED = 500_000_000
"""Bytes that a workbook may unpack to."""
MAX_ROWS = 200_000
"""Rows of a CSV file that hold something."""
MAX_WORKBOOK_ROWS = 20_000
"""Rows of a workbook's sheet that hold something."""
MAX_COLUMNS = 200
MAX_CELLS = 2_000_000
"""Cells of a workbook's sheet."""
MAX_CHARACTERS = 32_767
"""Characters of one cell: what spreadsheet programs allow."""

CONTROL = "_control"
"""The sheet that holds how many rows and which sums a table is to hold."""

LISTS = "_lists"
"""The sheet that drop-downs take their choices from."""

HELPER_SHEETS = frozenset((CONTROL, LISTS))
"""Sheets that a template brings besides the table."""

TOO_MANY_ROWS = f"has more than {MAX_ROWS:,} rows: divide it into several files"
TOO_MANY_COLUMNS = f"has more than {MAX_COLUMNS} columns: delete those that do not belong to the sheet"


@dataclass(frozen=True, slots=True)
class BadCell:
    """A cell whose text cannot be known, why, and the stable code of the reason."""

    rule: str
    code: str
    text: str = ""
    """The content, as far as it is known."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A cell of a workbook that is no text, or is not seen: what it stands for, and what a person sees of it."""

    text: str
    """As it would be typed: plain digits, or a date as YYYY-MM-DD, which a time may follow."""
    formula: bool = False
    """True when a formula gave it."""
    date: bool = False
    shown: str | None = None
    """The value that a person sees, where that is another one."""
    unseen: str | None = None
    """Why a person sees nothing of it, though its row and its column are shown."""
    is_text: bool = False
    """True: it is a text, and its number format shows something beside it."""
    beside: str = ""
    """The words and signs that its number format shows beside it."""
    number_format: str | None = None
    """The number format of a number or a date, as the workbook writes it; None for a text."""


Cell = str | BadCell | Typed


class Line(NamedTuple):
    """A line of a file."""

    number: int
    """As a spreadsheet program shows it, from 1."""
    cells: list[Cell]
    hidden: bool = False


@dataclass
class Table:
    """The lines of one sheet, and what is said about all of them."""

    lines: Iterator[Line]
    separator: str | None = None
    """The character between two cells of a text file; None in a workbook."""
    names_separator: bool = False
    """True: the first line of the text file says which one it is; that line is not among the lines."""
    title: str = ""
    """The name of a workbook's sheet."""
    max_rows: int = MAX_ROWS
    too_many_rows: str = TOO_MANY_ROWS
    """The rule that more rows break."""
    hidden_columns: list[tuple[int, int]] = field(default_factory=list)
    """First and last of each range of hidden columns, from 0; complete when the first line is there."""
    hidden_ranges: list[tuple[str, str]] = field(default_factory=list)
    """Ranges that are merged, or whose conditional format hides what is in them, as the workbook writes them, each with
    the code of how; complete after the last line."""

    def hides(self, column: int) -> bool:
        """Tell whether a column, from 0, is hidden."""
        return any(first <= column <= last for first, last in self.hidden_columns)


def is_filled(cell: Cell) -> bool:
    """Tell whether there is something in a cell."""
    return bool(cell.strip()) if isinstance(cell, str) else True


def file_problem(path: Path, rule: str, code: str, row: int = 0) -> InvalidSheet:
    """An error about the file as a whole (row 0), or about the place where it cannot be read further."""
    return InvalidSheet(str(path), [RowProblem(row, None, "file", rule, code=code)])
