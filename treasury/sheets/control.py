"""The control of a sheet: how many rows and which sums it is to hold, beside the table, checked when it is read."""

import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from treasury.errors import InvalidSheet, RowProblem
from treasury.money import exact, format_amount, parse_amount
from treasury.sheets.cells import CONTROL, BadCell, Cell, Line
from treasury.sheets.headers import texts_of

COLUMNS = ("what", "counted", "expected")
"""Its columns: `rows` or a currency; what a formula counted; what a person expects."""

ROWS = "rows"

MAX_ROWS = 5_000
"""Rows of a table that a template's formulas count, and that its drop-downs reach."""

AMOUNTS = (("amount", "currency"), ("pay_amount", "pay_currency"), ("receive_amount", "receive_currency"))
"""Columns that are summed, each with the column of its currency: amounts as they are written."""

_MAX_LINES = 500

_FLOAT_DIGITS = Decimal("1e-12")
"""How far apart, relatively, a spreadsheet's sum and the exact one are where both are right."""


@dataclass(frozen=True)
class Control:
    """The sums of the control: `rows` or a currency -> the number that a formula counted, or a person typed."""

    counted: Mapping[str, str | Decimal]
    expected: Mapping[str, str | Decimal]

    def problems(self, rows: Iterable[Mapping[str, Any]]) -> list[RowProblem]:
        """Return what differs between the control and these rows, by column; each difference with both numbers."""
        found = _sums(rows)
        return [
            RowProblem(0, None, f"{CONTROL}: {what}", rule)
            for named, said in (("counts", self.counted), ("expects", self.expected))
            for what, value in said.items()
            for rule in _differences(named, what, value, found.get(what, Decimal(0)), found[ROWS])
        ]


def _differences(named: str, what: str, value: str | Decimal, found: Decimal, rows: Decimal) -> Iterator[str]:
    given = _number(value)
    if given is None:
        if named == "expects":
            yield f"expects {value!r}, which is not a number: write plain digits, for example 1250.00"
    elif abs(given - found) > abs(found) * _FLOAT_DIGITS:
        unit = "rows" if what == ROWS else what
        more = (
            f"; its formulas count {MAX_ROWS:,} rows: put the others into another file, or delete the sheet {CONTROL}"
            if named == "counts" and rows > MAX_ROWS
            else ""
        )
        yield f"{named} {format_amount(given)} {unit}, and the sheet has {format_amount(found)}{more}"


def _number(value: str | Decimal) -> Decimal | None:
    try:
        return parse_amount(value)
    except (ValueError, ArithmeticError):
        return None


@exact
def _sums(rows: Iterable[Mapping[str, Any]]) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        sums[ROWS] += 1
        for amount, currency in AMOUNTS:
            if amount in row and currency in row:
                sums[str(row[currency])] += Decimal(row[amount])
    return dict(sums)


def check_control(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Raise `InvalidSheet` where the control of a workbook, if it has one, says something else than its rows do.

    `rows`: of each row its amounts and currencies, by column. A formula that no program calculated says nothing.
    """
    control = read_control(path)
    if control is not None and (problems := control.problems(rows)):
        raise InvalidSheet(str(path), problems)


def read_control(path: Path) -> Control | None:
    """The control of a workbook; None for one without, and for what is no workbook.

    Raises `InvalidSheet` for one that cannot be read.
    """
    if not zipfile.is_zipfile(path):
        return None
    from treasury.sheets.workbook import read_helper

    try:
        table = read_helper(path, CONTROL)
        return None if table is None else _read(islice(table.lines, _MAX_LINES))
    except InvalidSheet:
        rule = "cannot be read: delete this sheet, or take a new template"
        raise InvalidSheet(str(path), [RowProblem(0, None, CONTROL, rule)]) from None


def _read(lines: Iterator[Line]) -> Control:
    for line in lines:
        if tuple(texts_of(line.cells)[:3]) == COLUMNS:
            break
    counted: dict[str, str | Decimal] = {}
    expected: dict[str, str | Decimal] = {}
    for line in lines:
        what = texts_of(line.cells[:1])
        for cell, said in zip(line.cells[1:3], (counted, expected), strict=False):
            value = _value(cell)
            if what and what[0].strip() and value != "":
                said[what[0].strip()] = value
    return Control(counted, expected)


def _value(cell: Cell) -> str | Decimal:
    """The text or the number of a cell; blank for a formula that no program calculated."""
    if isinstance(cell, BadCell):
        return "" if cell.code == "formula" else cell.text
    return cell if isinstance(cell, str) else Decimal(cell.text) if cell.number_format and not cell.date else cell.text
