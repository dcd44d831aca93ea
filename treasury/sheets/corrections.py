"""Sheets that come back: a wrong one with what is wrong of each row, and the remaining rows of a run.

A corrected copy has a person's own columns in their own order, and `_status` and `_problem` beside them, which are not
read. No formula is kept: where its value is known that stands in its place, and where it is wrong it is text that is
refused again. Of the rows that remain, each is bound to the payment that it replaces.
"""

import csv
import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from treasury.errors import InvalidSheet, RowProblem
from treasury.files import replacing
from treasury.orders.rows import BENEFICIARY_OBJECTS, LeftOut, Route
from treasury.sheets.beneficiaries import CEILING, FIELD
from treasury.sheets.cell_texts import harmless, marked_apostrophe
from treasury.sheets.cells import CONTROL, BadCell, Cell, Line, Table, Typed, is_filled
from treasury.sheets.control import COLUMNS, read_control
from treasury.sheets.file_lines import read_table
from treasury.sheets.headers import PROBLEM, STATUS, Layout, texts_of
from treasury.sheets.reading import UNSEEN
from treasury.sheets.writing import BookFile, write_plain_book, write_plain_csv

LOG = logging.getLogger("treasury")

NAME = "corrected-me"

MAX_BYTES = 100_000_000
MAX_LINES = 250_000
MAX_TITLE_LINES = 50
"""Lines among which the header is looked for."""

WRONG, RIGHT, NOT_CHECKED = "wrong", "ok", "not checked"


class _CannotBeCopiedError(Exception):
    """There is nothing to mend in a copy."""


@dataclass(frozen=True)
class _Marked:
    """A line as it is written."""

    cells: Sequence[Cell]
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
        table = read_table(source, sheet, layout.score)
        lines = _Marks(problems, layout, only).over(islice(_without_gaps(table), MAX_LINES))
        target = folder / f"{NAME}.{'csv' if table.separator else 'xlsx'}"
        if table.separator:
            _write_csv(target, table, lines)
        else:
            # Of some rows, what is expected of all of them would not be true.
            _write_workbook(target, table.title, lines, source if only is None else None)
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

    def over(self, lines: Iterator[Line]) -> Iterator[_Marked]:
        """These lines with their marks; raises `_CannotBeCopiedError` where no header is among the first."""
        for number, cells, _ in lines:
            if self._is_header(cells):
                break
            if number > MAX_TITLE_LINES:
                raise _CannotBeCopiedError
            yield _Marked(cells)
        else:
            raise _CannotBeCopiedError
        names = [name.strip() for name in texts_of(cells)]
        while names and not names[-1]:
            names.pop()
        kept = [at for at, name in enumerate(names) if name not in (STATUS, PROBLEM)]
        header = self._of_row.get(number, [])
        wrong = self._places(names, kept, (problem.column for problem in header))
        yield _Marked([*(cells[at] for at in kept), STATUS, PROBLEM], wrong, is_header=True)
        others = NOT_CHECKED if header else RIGHT
        of_sheet = [*self._of_row.get(0, []), *header]
        for row, values, _ in lines:
            if self.only is not None and row not in self.only:
                continue
            if not any(map(is_filled, values)):
                yield _Marked([])
                continue
            found = self._of_row.get(row, [])
            said = [*of_sheet, *found]
            of_sheet = []
            own = [values[at] if at < len(values) else "" for at in kept]
            marks = [
                WRONG if said else others,
                "; ".join(": ".join(filter(None, (each.column, each.rule))) for each in said),
            ]
            yield _Marked(
                [*own, *marks, *values[len(names) :]],
                self._places(names, kept, (problem.column for problem in found)),
            )

    def _is_header(self, cells: Sequence[Cell]) -> bool:
        known = set(self._layout.known)
        return any(name.strip() in known or _plain(name) in known for name in texts_of(cells))

    @staticmethod
    def _places(names: Sequence[str], kept: Sequence[int], columns: Iterable[str]) -> frozenset[int]:
        wanted = set(columns)
        plain = {_plain(column) for column in wanted} if wanted else set()
        return frozenset(
            at for at, own in enumerate(kept) if wanted and (names[own] in wanted or _plain(names[own]) in plain)
        )


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())


def _without_gaps(table: Table) -> Iterator[Line]:
    """Yield the lines of a file, and a blank one for each that it leaves out."""
    last = int(table.names_separator)
    for line in table.lines:
        yield from (Line(number, []) for number in range(last + 1, line.number))
        yield line
        last = line.number


def _write_csv(target: Path, table: Table, lines: Iterable[_Marked]) -> None:
    with replacing(target) as file:
        file.write("\N{ZERO WIDTH NO-BREAK SPACE}")  # spreadsheet programs read UTF-8 only where a file says so
        if table.names_separator:
            file.write(f"sep={table.separator}\n")
        writer = csv.writer(file, delimiter=table.separator or ",", lineterminator="\n")
        for line in lines:
            writer.writerow([harmless(str(cell)) for cell in line.cells])


def _write_workbook(target: Path, title: str, lines: Iterable[_Marked], source: Path | None) -> None:
    """Write the lines as a workbook; `source`: that of the expectations that it keeps."""
    file = BookFile(target)
    out, looks = file.book.add_worksheet(title), _Looks(file.book)
    out.ignore_errors({"number_stored_as_text": "A1:XFD1048576"})
    for row, line in enumerate(lines):
        if line.is_header:
            for at, name in enumerate(texts_of(line.cells)):
                out.set_column(at, at, 60 if name == PROBLEM else max(12, len(name) + 2))
            out.freeze_panes(row + 1, 1)
        for at, cell in enumerate(line.cells):
            _write_cell(out, row, at, cell, looks, wrong=at in line.wrong, header=line.is_header)
    if source is not None:
        _keep_expected(file.book, source)
    file.finish()


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


def _write_cell(out: Any, row: int, at: int, cell: Cell, looks: _Looks, *, wrong: bool, header: bool) -> None:
    """Write a cell as it was read; nothing becomes right by being copied."""
    number = cell if isinstance(cell, Typed) and cell.number_format and not (cell.formula and wrong) else None
    made = looks.of(number.number_format or "@" if number else "@", wrong=wrong, header=header)
    if number is not None and number.date:
        out.write_datetime(row, at, datetime.fromisoformat(number.text), made)
    elif number is not None:
        out.write_number(row, at, float(number.text), made)
    elif isinstance(cell, BadCell) or (isinstance(cell, Typed) and (cell.formula or cell.is_text) and wrong):
        out.write_string(row, at, f"''{cell.text}", made)  # the reader refuses what begins like this
    elif text := cell.text if isinstance(cell, Typed) else cell:
        out.write_string(row, at, marked_apostrophe(text, runs=False), made)  # text of a workbook does not run
    elif wrong:
        out.write_blank(row, at, None, made)


def _keep_expected(book: Any, source: Path) -> None:
    """Keep what a person expects of the rows; what formulas counted is not known of the copy."""
    with suppress(InvalidSheet):
        control = read_control(source)
        if control is None or not control.expected:
            return
        sheet = book.add_worksheet(CONTROL)
        text = book.add_format({"num_format": "@"})
        sheet.set_column(0, 2, 22)
        for row, line in enumerate((COLUMNS, *((what, None, value) for what, value in control.expected.items()))):
            for at, value in enumerate(line):
                if value is not None:
                    sheet.write_string(row, at, str(value), text)


FILES = ("remaining.csv", "remaining.xlsx")


@dataclass(frozen=True)
class Remaining:
    """A row that may be paid again."""

    row_ref: str
    replaces: str
    """Request id of the payment that it is paid instead of."""
    route: Route
    payload: Mapping[str, Any] | None = field(repr=False)
    """The content that was sent, as the ledger kept it; None where it keeps it no more. Personal."""
    outcome: str = ""
    reason: str = ""
    """Why it was not paid; nothing in it is personal."""


def write_remaining(
    folder: Path, layout: Layout, rows: Iterable[Remaining], left_out: Iterable[LeftOut] = ()
) -> list[Path]:
    """Write `remaining.csv` and `remaining.xlsx`, in the columns of the sheet that was paid; returns both paths.

    Without rows they hold the header alone. Read again, each row is the one that was read before; those that were left
    out are refused again until they are mended.
    """
    cells = [
        *(cells_of(row, layout) for row in rows),
        *({**row.cells, STATUS: "left out", PROBLEM: row.problem} for row in left_out),
    ]
    columns, written = _columns(cells, layout), [folder / name for name in FILES]
    write_plain_csv(written[0], columns, cells)
    write_plain_book(written[1], columns, cells)
    return written


def write_remaining_csv(file: Path, layout: Layout, rows: Iterable[Remaining]) -> None:
    """Write the same as one CSV file."""
    cells = [cells_of(row, layout) for row in rows]
    write_plain_csv(file, _columns(cells, layout), cells)


def _columns(cells: Sequence[Mapping[str, str]], layout: Layout) -> list[str]:
    used = {name for row in cells for name in row}
    first = [name for name in FIRST if name != ROUTE or ROUTE in layout.known]
    fixed = [name for name in layout.known if name in used and name not in FIRST]
    return [*first, *fixed, *sorted(name for name in used if name.startswith(FIELD))]


ROUTE = "route"
FIRST = ("row_ref", "replaces", ROUTE, STATUS, PROBLEM)
"""The columns that the sheet begins with; as in a corrected copy two of them are not read."""


def cells_of(row: Remaining, layout: Layout) -> dict[str, str]:
    """The cells of a row, by column: what the sheet said that it was read from."""
    named = {"row_ref": row.row_ref, "replaces": row.replaces}
    named |= {ROUTE: row.route.value} if ROUTE in layout.known else {}
    named |= {STATUS: row.outcome, PROBLEM: row.reason}
    if row.payload is None:
        return named
    if row.route is Route.QUOTED:
        return named | dict(_quoted(row.payload))
    return named | {name: str(value) for name, value in row.payload.items()}


def _quoted(payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in payload["quote"].items():
        if name in BENEFICIARY_OBJECTS.values():
            yield from ((member, str(each)) for member, each in value.items())
        elif name == "beneficiaryFields":
            yield from ((FIELD + member, str(each)) for member, each in value.items())
        else:
            yield name, str(value)
    yield from ((name, str(value)) for name, value in payload["confirm"].items())
    bounds = payload["bounds"]
    if bounds.get("pay_amount") is None and bounds.get("max_pay") is not None:
        yield CEILING, str(bounds["max_pay"])
