"""The control of a sheet: how many rows and which sums it is to hold, beside the table, checked when it is read."""

import io
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

CONTROL = "_control"
"""The sheet that holds it."""

LISTS = "_lists"
"""The sheet that drop-downs take their choices from."""

HELPER_SHEETS = frozenset((CONTROL, LISTS))
"""Sheets that a template brings besides the table."""

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

    counted: Mapping[str, object]
    expected: Mapping[str, object]

    def problems(self, rows: Iterable[Mapping[str, Any]]) -> list[RowProblem]:
        """Return what differs between the control and these rows, by column; each difference with both numbers."""
        found = _sums(rows)
        return [
            RowProblem(0, None, f"{CONTROL}: {what}", rule)
            for named, said in (("counts", self.counted), ("expects", self.expected))
            for what, value in said.items()
            for rule in _differences(named, what, value, found.get(what, Decimal(0)), found[ROWS])
        ]


def _differences(named: str, what: str, value: object, found: Decimal, rows: Decimal) -> Iterator[str]:
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


def _number(value: object) -> Decimal | None:
    try:
        return parse_amount(format(Decimal(repr(value)), "f") if isinstance(value, float) else value)
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
    try:
        with zipfile.ZipFile(path) as parts:
            if f'"{CONTROL}"'.encode() not in parts.read("xl/workbook.xml"):
                return None
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
    try:
        return _read(path.read_bytes())
    except Exception:  # whatever a damaged sheet raises, nobody can say that it agrees
        rule = "cannot be read: delete this sheet, or take a new template"
        raise InvalidSheet(str(path), [RowProblem(0, None, CONTROL, rule)]) from None


def _read(content: bytes) -> Control | None:
    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    if CONTROL not in book.sheetnames:
        return None
    sheet = book[CONTROL]
    sheet.reset_dimensions()
    lines = islice(sheet.iter_rows(values_only=True), _MAX_LINES)
    for line in lines:
        if tuple(line[:3]) == COLUMNS:
            break
    counted: dict[str, object] = {}
    expected: dict[str, object] = {}
    for line in lines:
        what, *numbers = (*line, None, None, None)[:3]
        if what in (None, ""):
            continue
        name = str(what).strip()
        for given, said in zip(numbers, (counted, expected), strict=True):
            if given not in (None, ""):
                said[name] = given
    return Control(counted, expected)
