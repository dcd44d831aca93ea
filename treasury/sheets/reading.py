"""Sheets in: rows of named text values with their line, and every problem of the file in one error."""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from treasury.concurrency.batches import Packed
from treasury.errors import InvalidFields, InvalidSheet, RowProblem
from treasury.sheets.cells import BadCell, Line, file_problem, read_lines

T = TypeVar("T")

_ROUNDED = re.compile(r"\d+(?:[.,]\d+)?[eE][+-]\d+")
"""How spreadsheet programs write a long number once they lost its digits, such as 1.23E+10."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Layout:
    """Which columns a sheet has."""

    key: str
    """The column that names a row: never blank, never twice."""
    required: tuple[str, ...] = ()
    """Columns that must be there, besides the key."""
    optional: tuple[str, ...] = ()
    free_prefix: str | None = None
    """Columns that begin with this are welcome whatever follows, letter case kept."""

    @property
    def known(self) -> tuple[str, ...]:
        """All columns that have a fixed name."""
        return (self.key, *self.required, *self.optional)

    def allows(self, column: str) -> bool:
        """Whether a sheet may have this column."""
        free = self.free_prefix is not None and column.startswith(self.free_prefix) and column != self.free_prefix
        return free or column in self.known


@dataclass(frozen=True)
class Row:
    """One row: its line as a spreadsheet program shows it, its key, and its values without the blank ones."""

    line: int
    ref: str
    values: dict[str, str] = field(repr=False)


def read_sheet(path: Path, layout: Layout, make: Callable[[Row], T]) -> Packed[T]:
    """What `make` makes of each row of a CSV or XLSX file of this layout, row by row.

    Its `InvalidFields`, whose fields are columns, count as the row's problems. Raises `InvalidSheet` when the file, its
    header, or the lack of rows leaves nothing to read; else with all problems of all rows, one for each cell.
    """
    lines = ((number, cells) for number, cells in read_lines(path) if any(_filled(cell) for cell in cells))
    header = next(lines, None)
    if header is None:
        raise file_problem(path, "is empty")
    columns = _read_header(path, header, layout)
    problems: list[RowProblem] = []
    made = Packed[T]()
    seen: dict[str, int] = {}
    row = Row(0, "", {})
    for line in lines:
        row = _read_row(problems, columns, line, layout.key, row.values)
        first = seen.setdefault(row.ref, row.line)
        if not row.ref:
            problems.append(RowProblem(row.line, None, layout.key, "is required"))
        elif first != row.line:
            rule = f"is the same as in row {first}"
            problems.append(RowProblem(row.line, row.ref, layout.key, rule, repr(row.ref)))
        try:
            made.append(make(row))
        except InvalidFields as error:
            found = (RowProblem(row.line, row.ref or None, p.field, p.rule, p.value) for p in error.problems)
            problems.extend(found)
    if not seen:
        raise file_problem(path, "has no rows under its header")
    if problems:
        first_of_cell: dict[tuple[int, str], RowProblem] = {}
        for problem in problems:
            first_of_cell.setdefault((problem.row, problem.column), problem)
        raise InvalidSheet(str(path), list(first_of_cell.values()))
    return made


def _filled(cell: str | BadCell) -> bool:
    return isinstance(cell, BadCell) or bool(cell.strip())


def _read_header(path: Path, line: Line, layout: Layout) -> list[str]:
    number, cells = line
    names = [cell.strip() if isinstance(cell, str) else "" for cell in cells]
    while names and not names[-1]:
        names.pop()
    if not any(layout.allows(name) for name in names):
        # Not shown: without a header the first line holds somebody's account.
        known = ", ".join(layout.known[:4])
        raise file_problem(path, f"has no column names in its first line ({known}, ...)", number)
    problems = [RowProblem(number, None, name, _unknown(name, layout)) for name in names if not layout.allows(name)]
    twice = sorted({name for name in names if name and names.count(name) > 1})
    problems += [RowProblem(number, None, name, "is there twice") for name in twice]
    missing = [name for name in (layout.key, *layout.required) if name not in names]
    problems += [RowProblem(number, None, name, "this column is missing") for name in missing]
    if problems:
        raise InvalidSheet(str(path), problems)
    return names


def _unknown(name: str, layout: Layout) -> str:
    if not name:
        return "a column has no name"
    near = difflib.get_close_matches(name.lower().replace(" ", "_"), layout.known, n=1)
    return "is not a column of this sheet" + (f": did you mean {near[0]}?" if near else "")


def _read_row(problems: list[RowProblem], columns: list[str], line: Line, key: str, above: Mapping[str, str]) -> Row:
    """A row; what is wrong with it is added to the problems. A value that the row above has too is kept once."""
    number, cells = line
    values: dict[str, str] = {}
    faults: dict[str, str] = {}
    for column, cell in zip(columns, cells, strict=False):
        if isinstance(cell, BadCell):
            faults[column] = cell.rule
        elif text := cell.strip():
            same = above.get(column)
            values[column] = same if same == text else text
            if text.isalnum():
                continue  # most cells are, and nothing below can be wrong with them
            if _CONTROL.search(text):
                # Also how a quotation mark that swallowed the next rows shows itself.
                faults[column] = "holds a line break or another control character"
            elif _ROUNDED.fullmatch(text):
                faults[column] = "was rounded by a spreadsheet program: format the column as text and enter it again"
            elif text.startswith("'"):
                faults[column] = "begins with an apostrophe, which would be sent: remove it"
    ref = values.get(key, "")
    if any(_filled(cell) for cell in cells[len(columns) :]):
        faults["row"] = "has more cells than the header"
    problems += [RowProblem(number, ref or None, column, rule) for column, rule in faults.items()]
    return Row(number, ref, values)
