"""The parts of a file, whatever its format: lines of cells, the bounds of what is read, and CSV."""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
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


SEPARATORS = (",", ";", "\t", "|")

HEADER_WITHIN = 25
"""Filled lines from the top among which the header is looked for."""

Score = Callable[[Sequence[str]], int]
"""How many of these cells are names of columns."""

MAX_LINE = 1_000_000
"""Bytes of a line."""
MAX_LINES_OF_ROW = 1_000
"""Lines that quotation marks hold together."""

_UTF_8 = "utf-8-sig"
"""UTF-8, whether it says so or not."""
_CHUNK = 1 << 20
_SAMPLE = 1 << 18
"""Bytes from the top among which the header is looked for."""
_NAMED = re.compile(r'"?sep=(.)"?\s*\Z')
"""The first line by which spreadsheet programs are told the separator."""
_FILLED_LINE = re.compile(rb"[^\s,;|\"][^\n]*")


def read_delimited(path: Path, content: bytes, score: Score) -> Table:
    """The lines of a text file. Raises `InvalidSheet` when it cannot be decoded or has too many rows."""
    content = _as_utf_8(path, content)
    if _has_long_line(content):
        raise file_problem(path, "holds a line that is far too long: is it a sheet?", "too_long")
    if content.count(b"\n") > MAX_ROWS and _has_too_many_rows(content):
        raise file_problem(path, TOO_MANY_ROWS, "too_many_rows")
    sample = content[:_SAMPLE].decode(_UTF_8, errors="ignore").splitlines()
    named = _NAMED.match(sample[0]) if sample else None
    separator = named[1] if named else _separator(sample, score)
    lines = _lines(path, content, separator, skipped=1 if named else 0)
    return Table(lines, separator, names_separator=named is not None)


def _as_utf_8(path: Path, content: bytes) -> bytes:
    """The content in UTF-8, which is what all but one format is in: a spreadsheet program's "Unicode Text"."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return content.decode("utf-16").encode()
        except UnicodeError:
            raise file_problem(path, "is damaged text: save it again as CSV UTF-8", "wrong_encoding") from None
    if b"\x00" in content[:1000]:
        raise file_problem(path, "is not text in UTF-8: save it as CSV UTF-8 or as .xlsx", "wrong_encoding")
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(content), _CHUNK):
        before = len(decoder.getstate()[0])
        chunk = content[start : start + _CHUNK]
        try:
            decoder.decode(chunk, final=start + _CHUNK >= len(content))
        except UnicodeDecodeError as error:
            at = start - before + error.start
            line = content.count(b"\n", 0, at) + 1
            place = at - content.rfind(b"\n", 0, at)
            rule = f"is not UTF-8 (byte {place} of this line): save it as CSV UTF-8"
            raise file_problem(path, rule, "wrong_encoding", line) from None
    return content


def _has_long_line(content: bytes) -> bool:
    place = 0
    while place + MAX_LINE < len(content):
        end = max(content.rfind(mark, place, place + MAX_LINE) for mark in (b"\n", b"\r"))
        if end < 0:
            return True
        place = end + 1
    return False


def _has_too_many_rows(content: bytes) -> bool:
    found = islice(_FILLED_LINE.finditer(content), MAX_ROWS + HEADER_WITHIN, None)
    return next(found, None) is not None


def _separator(sample: Sequence[str], score: Score) -> str:
    """The separator with which one of the first lines names most columns; else the one that the first has most of."""
    lines = list(islice((line for line in sample if line.strip()), HEADER_WITHIN))
    best = max(((_best(lines, each, score), each) for each in reversed(SEPARATORS)), key=lambda found: found[0])
    if best[0] > 1:
        return best[1]
    return max(SEPARATORS, key=lines[0].count) if lines else ","


def _best(lines: Sequence[str], separator: str, score: Score) -> int:
    try:
        return max((score(cells) for cells in csv.reader(lines, delimiter=separator)), default=0)
    except csv.Error:
        return 0


def _lines(path: Path, content: bytes, separator: str, skipped: int) -> Iterator[Line]:
    text = io.TextIOWrapper(io.BytesIO(content), encoding=_UTF_8, newline="")
    for _ in range(skipped):
        text.readline()
    fed = 0

    def feed() -> Iterator[str]:
        nonlocal fed
        for line in text:
            fed += 1
            if fed > MAX_LINES_OF_ROW:
                raise csv.Error("a quotation mark is missing")
            yield line

    # Strict: a quotation mark that is never closed would otherwise swallow the rows after it without a word.
    reader = csv.reader(feed(), delimiter=separator, strict=True)
    number = skipped
    try:
        for number, cells in enumerate(reader, 1 + skipped):
            fed = 0
            yield Line(number, list(cells))
    except csv.Error as error:
        rule = f"is not valid CSV from here on: {error}"
        if "field larger" in str(error):
            rule = "holds a cell that is far too long from here on: is a quotation mark missing?"
        raise file_problem(path, rule, "not_csv", number + 1) from None
