"""CSV files out, and what may stand in one cell or on one line of a page."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path

from treasury.errors import InvalidSheet
from treasury.files import replacing
from treasury.money import format_amount

ERROR_COLUMNS = ("row", "row_ref", "column", "rule", "value")

_FORMULA = ("=", "+", "-", "@", "\t")
"""How a cell begins that a spreadsheet program would run as a formula."""

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

_UNPRINTABLE = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f\\ud800-\\udfff\\ufffe\\uffff]")
"""What XML or UTF-8 cannot hold, and DEL, which nobody can see."""


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a CSV file of these columns; what a row lacks is blank. Raises `ValueError` for an unknown column."""
    with replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(_cells(row, columns, frozenset(columns)) for row in rows)


def _cells(row: Mapping[str, object], columns: Sequence[str], known: frozenset[str]) -> list[str]:
    if not known.issuperset(row):
        raise ValueError(f"no such column: {', '.join(sorted(row.keys() - known))}")
    return [safe_cell(row.get(column)) for column in columns]


def write_errors(path: Path, error: InvalidSheet) -> None:
    """Write the error report: one line for each problem; personal values are masked already."""
    write_csv(path, ERROR_COLUMNS, (asdict(problem) for problem in error.problems))


def printable(text: str) -> str:
    """The text with a visible stand-in for each character that a page or a workbook cannot hold."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def safe_cell(value: object) -> str:
    """A value as one cell's text: one line, amounts plain, and nothing that a spreadsheet program would run."""
    if value is None:
        return ""
    if isinstance(value, str) and value.isalnum():
        return value  # most are, and nothing below changes them
    if isinstance(value, Decimal):
        return format_amount(value)
    text = " ".join(str(value).splitlines())  # a lone CR is left unquoted by the csv module, and ends the row
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
