"""Sheets in: rows of named text values with their line, and every problem of the file in one error."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from treasury.concurrency.batches import Packed
from treasury.errors import InvalidFields, InvalidRows, InvalidSheet, Problem, RowProblem, UnknownHeaders
from treasury.orders.rows import LeftOut
from treasury.provider.fields import MAX_ID
from treasury.provider.operation import Operation
from treasury.sheets.cell_texts import (
    EXAMPLE,
    SEPARATOR,
    Amounts,
    Fault,
    code_of,
    judge_amount,
    judge_identifier,
    judge_text,
    looks_run,
    unit_fault,
)
from treasury.sheets.cells import HEADER_WITHIN, BadCell, Cell, Line, Table, Typed, file_problem, is_filled
from treasury.sheets.file_lines import read_table
from treasury.sheets.headers import Header, Layout, Mappings, find_header
from treasury.sheets.hidden_ranges import MERGED, SHOWN_BY_RULE, hidden_in_ranges
from treasury.texts import cut_text

PLACEHOLDER = "0"
"""Stands for the reference, which only the run knows, while a row is judged."""


def body_of(operation: type[Operation[Any]], fields: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """The wire body of an operation without its reference; what its class objects to is added to the problems."""
    assert operation.reference is not None
    try:
        body = operation(**{operation.reference: PLACEHOLDER, **fields}).body()
    except InvalidFields as error:
        problems += error.problems
        return {}
    del body[operation.reference]
    return body


__all__ = ["Layout", "Row", "Sheet", "read_sheet"]

T = TypeVar("T")

MAX_PROBLEMS = 5_000
"""Problems after which the rest of a file is not read."""

HIDDEN_ROW = ("is hidden, filtered out or above frozen panes: show it and look at it, or delete it", "hidden_row")
STRUCK_ROW = ("is struck out: delete the row, or take the line through it away", "struck_out")
NOT_SEEN = "cannot be seen, for {}: make its text visible, or delete it"
ZERO_LOST = (
    "is a number: format the column as text and type it again, for a spreadsheet drops the zeros in front",
    "leading_zero_lost",
)

DATE_IN_IDENTIFIER = (
    "is a date to the spreadsheet: format the column as text and type it again",
    "taken_for_a_date",
)


class Sheet(Packed[T]):
    """The rows that were made of a sheet, and remarks on how it was read."""

    notes: tuple[str, ...] = ()
    """Sentences for whoever looks at the plan; nothing in them is personal."""
    mapped: Mapping[str, str] = MappingProxyType({})
    """Header -> the column that it is read as, because somebody confirmed it."""
    left_out: tuple[LeftOut, ...] = ()
    """Rows that it was read without."""


@dataclass(frozen=True)
class Row:
    """One row: its line as a spreadsheet program shows it, its key, and its values without the blank ones."""

    line: int
    ref: str
    values: dict[str, str] = field(repr=False)


@dataclass
class _Reading:
    """One file while it is read."""

    layout: Layout
    columns: list[str]
    amounts: Amounts
    problems: list[RowProblem]
    typed: bool
    """True when cells may be other things than text, as in a workbook."""
    is_corrected: bool
    """True for a copy of ours that somebody corrected."""
    formulas: list[str] = field(default_factory=list)
    """Amounts that formulas gave, by column and line."""


UNSEEN = frozenset(("hidden_row", "hidden_column", "hidden_sheet", "struck_out", "not_shown", SHOWN_BY_RULE, MERGED))
"""Codes of problems with what nobody saw."""

_OF_ALL = UNSEEN | {"too_many_cells_in_row"}
"""Codes of problems that no row is left out for: nobody knows what is meant, so none is sent."""


def read_sheet(
    path: Path,
    layout: Layout,
    make: Callable[[Row], T],
    sheet: str | None = None,
    leaving: Collection[RowProblem] = (),
    mappings: Mappings = Mappings(),
) -> Sheet[T]:
    """Return what `make` makes of each row of a CSV or XLSX file of this layout, row by row. `sheet`: which of a
    workbook.

    Its `InvalidFields`, whose fields are columns, count as the row's problems. Raises `InvalidSheet` when the file, its
    header, or the lack of rows leaves nothing to read; else with all problems of all rows, one for each cell:
    `InvalidRows` where those could be left out, `UnknownHeaders` where somebody could say what columns mean. Rows with
    a problem in `leaving` are left out; so is each row whose reference is there twice, if one of them is.
    """
    leaves = _Leaving(leaving)
    table = read_table(path, sheet, layout.score)
    filled = (line for line in table.lines if any(map(is_filled, line.cells)))
    header, lines = _header_of(path, filled, layout, mappings)
    reading = _Reading(
        layout,
        header.columns,
        Amounts(table.separator),
        _hidden_columns(header, table),
        not table.separator,
        header.is_corrected,
    )
    made = Sheet[T]()
    seen: dict[str, int] = {}
    values: dict[str, str] = {}
    numbers: list[int] = []
    row = 0
    for row, line in enumerate(lines, 1):
        if reading.typed:
            numbers.append(line.number)
        if row > table.max_rows:
            raise file_problem(path, table.too_many_rows, "too_many_rows")
        if len(reading.problems) > MAX_PROBLEMS:
            rule = f"has more than {MAX_PROBLEMS:,} problems: its rows from here on were not read"
            reading.problems.append(RowProblem(line.number, None, "file", rule, code="too_many_problems"))
            break
        if (hidden := _why_hidden(line, typed=reading.typed)) is not None:
            rule, code = hidden
            reading.problems.append(RowProblem(line.number, None, "row", rule, code=code))
            continue
        faults = len(reading.problems)
        read = _read_row(reading, line, values)
        values = read.values
        if leaves.takes(read):
            marked = {each.column for each in reading.problems[faults:]} | reading.amounts.unclear(line.number)
            del reading.problems[faults:]
            leaves.out.append(leaves.left_out(read, _cells(reading, line, read, marked), layout.key))
            continue
        _check_key(reading.problems, read, layout.key, {} if layout.repeats else seen)
        try:
            made.append(make(read))
        except InvalidFields as error:
            reading.problems += [
                RowProblem(read.line, read.ref or None, each.field, each.rule, each.value, code=each.code)
                for each in error.problems
            ]
    if not row:
        raise file_problem(path, "has no rows under its header", "no_rows")
    unclear = (problem for problem in reading.amounts.problems() if problem.row not in leaves.problems)
    in_ranges = islice(hidden_in_ranges(table.hidden_ranges, header, numbers, layout.amounts), MAX_PROBLEMS)
    _raise_if_any(path, [*reading.problems, *unclear, *in_ranges])
    made.mapped = header.mapped
    made.left_out = tuple(leaves.out)
    made.notes = tuple(_notes(header, reading))
    return made


def _raise_if_any(path: Path, problems: list[RowProblem]) -> None:
    if problems:
        first_of_cell: dict[tuple[int, str], RowProblem] = {}
        for problem in problems:
            first_of_cell.setdefault((problem.row, problem.column), problem)
        of_all = any(problem.column == "file" or problem.code in _OF_ALL for problem in problems)
        raise (InvalidSheet if of_all else InvalidRows)(str(path), list(first_of_cell.values()))


class _Leaving:
    """Which rows are left out, by what is known to be wrong with them."""

    def __init__(self, problems: Collection[RowProblem]) -> None:
        self.problems: dict[int, list[RowProblem]] = defaultdict(list)
        self.out: list[LeftOut] = []
        self._twice = set[str | None]()
        for problem in problems:
            self.problems[problem.row].append(problem)
            if problem.code == "twice":
                self._twice.add(problem.row_ref)

    def takes(self, row: Row) -> bool:
        """Tell whether a row is left out."""
        return row.line in self.problems or row.ref in self._twice

    def left_out(self, row: Row, cells: Mapping[str, str], key: str) -> LeftOut:
        """The row as it is left out."""
        first = RowProblem(row.line, row.ref, key, "is there more than once", repr(row.ref), code="twice")
        return LeftOut(row.line, row.ref, cells, tuple(self.problems.get(row.line) or [first]))


def _cells(reading: _Reading, line: Line, row: Row, marked: Collection[str]) -> dict[str, str]:
    """Return what stands in a row, by column, as text that means the same in another file; `marked`: what is refused
    there."""
    found: dict[str, str] = {}
    for column, cell in zip(reading.columns, line.cells, strict=False):
        if column and is_filled(cell):
            text = cell.text if isinstance(cell, Typed) else cell.strip() if isinstance(cell, str) else cell.rule
            # Nothing becomes right by being written as text: the reader refuses what begins like this.
            found[column] = f"''{text}" if column in marked else row.values.get(column, text)
    return found


def _header_of(path: Path, filled: Iterator[Line], layout: Layout, mappings: Mappings) -> tuple[Header, Iterator[Line]]:
    """The header, and the filled lines below it."""
    first = list(islice(filled, HEADER_WITHIN))
    if not first:
        raise file_problem(path, "is empty", "empty")
    header = find_header(first, layout, mappings)
    if header is None:
        # Not shown: without a header the first line holds somebody's account.
        rule = f"has no column names in its first lines ({', '.join(layout.known[:4])}, ...)"
        raise file_problem(path, rule, "no_header", first[0].number)
    if header.problems and header.proposal and not any(problem.column == "row" for problem in header.problems):
        raise UnknownHeaders(str(path), header.problems, header.names, header.proposal)
    if header.problems:
        raise InvalidSheet(str(path), header.problems)
    if hidden := _hidden_names(header, next(line for line in first if line.number == header.line)):
        raise InvalidSheet(str(path), hidden)
    return header, chain((line for line in first if line.number > header.line), filled)


def _hidden_names(header: Header, line: Line) -> list[RowProblem]:
    """Return what of the header nobody sees."""
    if line.hidden:
        return [RowProblem(line.number, None, "row", HIDDEN_ROW[0], code=HIDDEN_ROW[1])]
    return [
        RowProblem(line.number, None, column, NOT_SEEN.format(cell.unseen), code="not_shown")
        for column, cell in zip(header.columns, line.cells, strict=False)
        if column and isinstance(cell, Typed) and cell.unseen is not None
    ]


def _hidden_columns(header: Header, table: Table) -> list[RowProblem]:
    rule = "is hidden, or left of frozen panes: show the column and look at it, or delete it"
    return [
        RowProblem(header.line, None, column, rule, code="hidden_column")
        for number, column in enumerate(header.columns)
        if column and table.hides(number)
    ]


def _why_hidden(line: Line, *, typed: bool) -> Fault | None:
    """Why all of a row is not seen; None where some of it is."""
    if line.hidden:
        return HIDDEN_ROW
    end = line.cells[-1]
    if not typed or (isinstance(end, str) and end.strip()):
        return None  # most rows end with a text that is seen
    filled = [cell for cell in line.cells if is_filled(cell)]
    if all(isinstance(cell, BadCell) and cell.code == STRUCK_ROW[1] for cell in filled):
        return STRUCK_ROW
    unseen = [cell.unseen for cell in filled if isinstance(cell, Typed) and cell.unseen is not None]
    return (NOT_SEEN.format(unseen[0]), "not_shown") if len(unseen) == len(filled) else None


def _check_key(problems: list[RowProblem], row: Row, key: str, seen: dict[str, int]) -> None:
    if not row.ref:
        problems.append(RowProblem(row.line, None, key, "is required", code="required"))
        return
    if len(row.ref) > MAX_ID:
        rule = f"has {len(row.ref)} characters, and may have {MAX_ID}"
        problems.append(RowProblem(row.line, cut_text(row.ref, MAX_ID), key, rule, code="too_long"))
    first = seen.setdefault(row.ref, row.line)
    if first != row.line:
        problems.append(
            RowProblem(row.line, row.ref, key, f"is the same as in row {first}", repr(row.ref), code="twice")
        )


def _read_row(reading: _Reading, line: Line, above: Mapping[str, str]) -> Row:
    """A row; what is wrong with it is added to the problems. A value that the row above has too is kept once."""
    values: dict[str, str] = {}
    faults: dict[str, Fault] = {}
    cells = [_as_typed(cell) for cell in line.cells] if reading.typed else line.cells
    for column, cell in zip(reading.columns, cells, strict=False):
        if not column or cell == "":
            continue
        if isinstance(cell, str) and cell.isascii() and cell.isalnum():
            text = cell  # most cells are, and nothing can be wrong with them
        else:
            text, fault = _text(reading, column, cell)
            if fault is not None:
                faults[column] = fault
        if text:
            same = above.get(column)
            values[column] = same if same == text else text
    ref = values.get(reading.layout.key, "")
    _read_amounts(reading, line, cells, values, faults)
    if len(cells) > len(reading.columns) and any(map(is_filled, cells[len(reading.columns) :])):
        faults["row"] = ("has more cells than the header", "too_many_cells_in_row")
    if reading.typed:
        reading.formulas += _formulas(reading, line, faults)
    reading.problems += [
        RowProblem(line.number, ref or None, column, rule, code=code) for column, (rule, code) in faults.items()
    ]
    return Row(line.number, ref, values)


def _as_typed(cell: Cell) -> Cell:
    """A cell, without the words that a number format shows beside a text."""
    return cell.text if isinstance(cell, Typed) and cell.is_text and cell.unseen is None else cell


def _read_amounts(
    reading: _Reading, line: Line, cells: list[Cell], values: dict[str, str], faults: dict[str, Fault]
) -> None:
    """Read the amounts among the values of a row; what is wrong with them is added to the faults."""
    for column in reading.layout.amounts & values.keys() - faults.keys():
        at = reading.columns.index(column)
        cell = cells[at]
        if not isinstance(cell, Typed) or cell.number_format is None:  # a text, be it of a formula
            amount = reading.amounts.read(line.number, values.get(reading.layout.key), column, values[column])
            if isinstance(amount, str):
                values[column] = amount
            else:
                faults[column] = amount
        shown = line.cells[at]
        if column not in faults and isinstance(shown, Typed) and shown.beside:
            unit = unit_fault(column, shown.beside, values)
            faults |= {} if unit is None else {column: unit}


def _text(reading: _Reading, column: str, cell: Cell) -> tuple[str, Fault | None]:
    """The text of a cell, and what is wrong with it."""
    if isinstance(cell, BadCell):
        return "", (cell.rule, cell.code)
    if isinstance(cell, Typed):
        return cell.text.strip(), _judge_typed(reading.layout, column, cell)
    text = cell.strip()
    if not text:
        return "", None
    if reading.is_corrected and text.startswith("'") and looks_run(text[1:]):
        text = text[1:]  # made harmless in a corrected copy
    if text.startswith(EXAMPLE):
        return text, ("replace the example row", "example_row")
    fault = judge_text(text)
    if fault is None and SEPARATOR in text:
        text, fault = code_of(column, text)
    if fault is None and not text.isascii() and column in reading.layout.amounts:
        fault = judge_amount(text)
    elif fault is None and reading.layout.is_identifier(column):
        fault = judge_identifier(text)
    return text, fault


def _judge_typed(layout: Layout, column: str, cell: Typed) -> Fault | None:
    """Return what is wrong with a number, a date or a formula in a column."""
    if cell.unseen is not None:
        return NOT_SEEN.format(cell.unseen), "not_shown"
    if cell.formula and column not in layout.amounts:
        return "is a formula: paste its value instead", "formula"
    if layout.is_identifier(column):
        return DATE_IN_IDENTIFIER if cell.date else ZERO_LOST
    return _judge_number(cell) if column in layout.amounts else None


def _judge_number(cell: Typed) -> Fault | None:
    if cell.date:
        return "is a date to the spreadsheet: format the column as a number and type it again", "taken_for_a_date"
    if cell.shown is None:
        return None
    rule = f"holds {cell.text} and shows {cell.shown}: write the amount that is meant, with all its digits"
    return rule, "shown_differs"


def _formulas(reading: _Reading, line: Line, faults: Mapping[str, Fault]) -> list[str]:
    return [
        f"{column} of row {line.number}"
        for column, cell in zip(reading.columns, line.cells, strict=False)
        if column and isinstance(cell, Typed) and cell.formula and column not in faults
    ]


def _notes(header: Header, reading: _Reading) -> Iterator[str]:
    if header.above:
        yield f"the header is in row {header.line}; what stands above it ({len(header.above)}) was not read"
    for name, column in header.mapped.items():
        yield f"the column {name} was read as {column}, as somebody confirmed"
    if reading.amounts.commas:
        yield f"amounts that were read with a decimal comma (1250,00 as 1250.00): {reading.amounts.commas}"
    if reading.amounts.fractions:
        yield f"amounts that were read with a decimal point (1.250 as 1.25, not as 1250): {reading.amounts.fractions}"
    if reading.formulas:
        shown = ", ".join(reading.formulas[:5]) + (", ..." if len(reading.formulas) > 5 else "")
        yield f"amounts that are results of formulas, as last calculated ({len(reading.formulas)}): {shown}"
