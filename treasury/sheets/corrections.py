"""Corrected copies: a wrong sheet, or what is left out of one, comes back with what is wrong of each row, to be mended.

Their own columns in their own order, and `_status` and `_problem` beside them, which are not read. No formula is kept:
where its value is known that stands in its place, and where it is wrong it is text that is refused again.
"""

import csv
import io
import logging
import re
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from treasury.errors import InvalidSheet, RowProblem
from treasury.files import replacing, write_bytes
from treasury.sheets.characters import harmless, marked_apostrophe
from treasury.sheets.control import COLUMNS, CONTROL, HELPER_SHEETS, read_control
from treasury.sheets.headers import PROBLEM, STATUS, Layout
from treasury.sheets.opening import ZIP
from treasury.sheets.reading import UNSEEN

LOG = logging.getLogger("treasury")

NAME = "corrected-me"

MAX_BYTES = 100_000_000
MAX_LINES = 250_000
MAX_TITLE_LINES = 50
"""Lines among which the header is looked for."""

WRONG, RIGHT, NOT_CHECKED = "wrong", "ok", "not checked"

Line = tuple[int, list[Any]]


class _CannotBeCopiedError(Exception):
    """There is nothing to mend in a copy."""


@dataclass(frozen=True)
class _Marked:
    """A line as it is written."""

    cells: list[Any]
    wrong: frozenset[int] = frozenset()
    """Which of them are wrong."""
    is_header: bool = False


def write_corrected(
    folder: Path,
    source: Path,
    problems: Sequence[RowProblem],
    layout: Layout,
    sheet: str | None = None,
    only: Collection[int] | None = None,
) -> Path | None:
    """Write the corrected copy of a sheet into a folder: a workbook of a workbook, else CSV. Returns its path.

    `only`: the lines whose rows it holds; left out, it holds all of them.
    None for a file that cannot be read as a sheet at all, or has nothing that could be mended in a copy, and for one
    with hidden, struck-out or invisible parts: in a copy they would be like all others.
    """
    try:
        is_of_file = all(problem.column == "file" for problem in problems)
        if is_of_file or UNSEEN & {problem.code for problem in problems} or source.stat().st_size > MAX_BYTES:
            return None
        with source.open("rb") as file:
            is_workbook = file.read(len(ZIP)) == ZIP
        target = folder / f"{NAME}.{'xlsx' if is_workbook else 'csv'}"
        (_write_workbook if is_workbook else _write_csv)(target, source, _Marks(problems, layout, only), sheet)
    except OSError:
        raise
    except _CannotBeCopiedError:
        return None
    except Exception as error:  # a copy is a help: whatever a damaged file raises, the error report is there without it
        LOG.warning("no corrected copy of %s could be made: %s", source.name, type(error).__name__)
        return None
    return target


class _Marks:
    """The faults, by line; made by the lines that pass by."""

    def __init__(self, problems: Sequence[RowProblem], layout: Layout, only: Collection[int] | None = None) -> None:
        self.only = only
        """Lines whose rows are written; None for all."""
        self._layout = layout
        self._of_row: dict[int, list[RowProblem]] = defaultdict(list)
        for problem in problems:
            self._of_row[problem.row].append(problem)

    def over(self, lines: Iterable[Line]) -> Iterator[_Marked]:
        """These lines with their marks; raises `_CannotBeCopiedError` where no header is among the first."""
        lines = iter(lines)
        for number, cells in lines:
            if self._is_header(cells):
                break
            if number > MAX_TITLE_LINES:
                raise _CannotBeCopiedError
            yield _Marked(cells)
        else:
            raise _CannotBeCopiedError
        names = ["" if cell is None else str(cell).strip() for cell in cells]
        while names and not names[-1]:
            names.pop()
        kept = [at for at, name in enumerate(names) if name not in (STATUS, PROBLEM)]
        header = self._of_row.get(number, [])
        wrong = self._places(names, kept, (problem.column for problem in header))
        yield _Marked([*(cells[at] for at in kept), STATUS, PROBLEM], wrong, is_header=True)
        others = NOT_CHECKED if header else RIGHT
        of_sheet = [*self._of_row.get(0, []), *header]
        for row, values in lines:
            if self.only is not None and row not in self.only:
                continue
            if all(value in (None, "") for value in values):
                yield _Marked([])
                continue
            found = self._of_row.get(row, [])
            said = [*of_sheet, *found]
            of_sheet = []
            own = [values[at] if at < len(values) else None for at in kept]
            marks = [WRONG if said else others, "; ".join(f"{each.column}: {each.rule}" for each in said)]
            yield _Marked(
                [*own, *marks, *values[len(names) :]],
                self._places(names, kept, (problem.column for problem in found)),
            )

    def _is_header(self, cells: Sequence[Any]) -> bool:
        known = set(self._layout.known)
        return any(isinstance(cell, str) and (cell.strip() in known or _plain(cell) in known) for cell in cells)

    @staticmethod
    def _places(names: Sequence[str], kept: Sequence[int], columns: Iterable[str]) -> frozenset[int]:
        wanted = set(columns)
        plain = {_plain(column) for column in wanted} if wanted else set()
        return frozenset(
            at for at, own in enumerate(kept) if wanted and (names[own] in wanted or _plain(names[own]) in plain)
        )


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())


# --- CSV -----------------------------------------------------------------------------------------------------------


def _write_csv(target: Path, source: Path, marks: _Marks, sheet: str | None) -> None:  # noqa: ARG001 - as the other
    text = _text_of(source.read_bytes())
    first, _, rest = text.partition("\n")
    said = re.fullmatch(r"sep=(.)\r?", first.strip(), re.IGNORECASE)
    skipped = 1 if said else 0
    delimiter = said[1] if said else _delimiter(text)
    reader = csv.reader(io.StringIO(rest if said else text, newline=""), delimiter=delimiter, strict=True)
    with replacing(target) as file:
        file.write("\N{ZERO WIDTH NO-BREAK SPACE}")  # spreadsheet programs read UTF-8 only where a file says so
        if said:
            file.write(f"sep={delimiter}\n")
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        for line in marks.over(islice(enumerate(reader, 1 + skipped), MAX_LINES)):
            writer.writerow([harmless(cell) for cell in line.cells])


def _text_of(content: bytes) -> str:
    utf_16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    return content.decode("utf-16" if utf_16 else "utf-8-sig")


def _delimiter(text: str) -> str:
    header = next((line for line in text.splitlines() if line.strip()), "")
    return max(",;\t|", key=header.count)


# --- XLSX ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Value:
    """The content of a written cell of a workbook, and how it looks."""

    value: Any
    look: str = "@"


@dataclass
class _Source:
    """A sheet of a workbook, row by row, and what its formulas came to."""

    content: bytes
    sheet: str | None
    title: str = field(init=False, default="sheet")

    def lines(self) -> Iterator[Line]:
        """Its lines; each cell text, or a `_Value`."""
        import openpyxl

        warnings.filterwarnings("ignore", category=UserWarning, module="openpyxl")
        book = openpyxl.load_workbook(io.BytesIO(self.content), read_only=True)
        names = [name for name in book.sheetnames if name not in HELPER_SHEETS]
        self.title = self.sheet if self.sheet in names else names[0]
        table: Any = book[self.title]
        table.reset_dimensions()
        calculated = self._calculated()
        at, values = 0, ()
        for number, cells in enumerate(islice(table.iter_rows(), MAX_LINES), 1):
            if any(cell.data_type == "f" for cell in cells):
                while at < number:
                    at, values = at + 1, next(calculated, ())
                line = [
                    _formula(cell, values[place] if place < len(values) else None)
                    if cell.data_type == "f"
                    else _value(cell)
                    for place, cell in enumerate(cells)
                ]
            else:
                line = [_value(cell) for cell in cells]
            yield number, line

    def _calculated(self) -> Iterator[tuple[Any, ...]]:
        import openpyxl

        book = openpyxl.load_workbook(io.BytesIO(self.content), read_only=True, data_only=True)
        table: Any = book[self.title]
        table.reset_dimensions()
        yield from table.iter_rows(values_only=True)


@dataclass(frozen=True)
class _Formula:
    """A formula: its text and, where it is right, what it came to."""

    text: str
    value: Any
    look: str


def _value(cell: Any) -> Any:
    value = cell.value
    if value is None:
        return value
    if isinstance(value, str) and cell.data_type != "e":
        return marked_apostrophe(value, runs=False)  # text of a workbook does not run
    if cell.data_type == "e" or isinstance(value, bool | time | timedelta):
        return _refused(value)
    return _Value(value, cell.number_format)


def _formula(cell: Any, value: Any) -> _Formula:
    text = getattr(cell.value, "text", None) or cell.value
    return _Formula(str(text), value, cell.number_format)


def _refused(value: object) -> str:
    """Text that the reader refuses as it refused the cell: nothing becomes right by being copied."""
    return f"''{value}"


def _write_workbook(target: Path, source: Path, marks: _Marks, sheet: str | None) -> None:
    from xlsxwriter import Workbook

    file = io.BytesIO()
    options = {
        "constant_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
    }
    table = _Source(source.read_bytes(), sheet)
    lines = table.lines()
    first = next(lines, None)
    if first is None:
        raise _CannotBeCopiedError
    book = Workbook(file, options)
    try:
        _write_table(book, table.title, marks.over(_chained(first, lines)))
        if marks.only is None:  # of some rows it would not be true
            _keep_expected(book, source)
    finally:
        book.close()  # or its temporary files, which hold the rows, would stay
    write_bytes(target, file.getvalue())


def _write_table(book: Any, title: str, lines: Iterable[_Marked]) -> None:
    out = book.add_worksheet(title)
    out.ignore_errors({"number_stored_as_text": "A1:XFD1048576"})
    looks = _Looks(book)
    for row, line in enumerate(lines):
        if line.is_header:
            for at, name in enumerate(line.cells):
                out.set_column(at, at, 60 if name == PROBLEM else max(12, len(str(name or "")) + 2))
            out.freeze_panes(row + 1, 1)
        for at, cell in enumerate(line.cells):
            _write_cell(out, row, at, cell, looks, wrong=at in line.wrong, header=line.is_header)


def _chained(first: Line, rest: Iterator[Line]) -> Iterator[Line]:
    yield first
    yield from rest


class _Looks:
    """Formats by what they look like."""

    def __init__(self, book: Any) -> None:
        self._book = book
        self._made: dict[tuple[str, bool, bool], Any] = {}

    def of(self, number_format: str, *, wrong: bool, header: bool) -> Any:
        """The format of a cell."""
        key = number_format, wrong, header
        if key not in self._made:
            look: dict[str, Any] = {"num_format": number_format}
            look |= {"bg_color": "#ffb3ab"} if wrong else {}
            look |= {"bold": True, "bottom": 1} if header else {}
            self._made[key] = self._book.add_format(look)
        return self._made[key]


def _write_cell(out: Any, row: int, at: int, cell: Any, looks: _Looks, *, wrong: bool, header: bool) -> None:
    if isinstance(cell, _Formula):
        has_value = not wrong and cell.value is not None and not isinstance(cell.value, bool | time | timedelta)
        cell = _Value(cell.value, cell.look) if has_value else _refused(cell.text)
    value, look = (cell.value, cell.look) if isinstance(cell, _Value) else (cell, "@")
    made = looks.of(look, wrong=wrong, header=header)
    if value in (None, ""):
        if wrong:
            out.write_blank(row, at, None, made)
    elif isinstance(value, datetime | date):
        out.write_datetime(row, at, value, made)
    elif isinstance(value, int | float):
        out.write_number(row, at, value, made)
    else:
        out.write_string(row, at, str(value), made)


def _keep_expected(book: Any, source: Path) -> None:
    """Keep what a person expects of the rows; what formulas counted is not known of the copy."""
    with suppress(InvalidSheet):
        control = read_control(source)
        expected: Mapping[str, object] = {} if control is None else control.expected
        if not expected:
            return
        sheet = book.add_worksheet(CONTROL)
        text = book.add_format({"num_format": "@"})
        sheet.set_column(0, 2, 22)
        for row, line in enumerate((COLUMNS, *((what, None, value) for what, value in expected.items()))):
            for at, value in enumerate(line):
                if value is not None:
                    sheet.write_string(row, at, _typed(value), text)


def _typed(value: object) -> str:
    return format(value, ".15g") if isinstance(value, float) else str(value)
