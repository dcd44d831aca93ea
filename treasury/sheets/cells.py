"""From the bytes of a CSV or XLSX file to its lines of cells: exact text, or the reason why a cell has none."""

import csv
import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from treasury.errors import InvalidSheet, RowProblem

ZIP = b"PK\x03\x04"
"""How an XLSX file begins: it is a zip archive."""
OLD_EXCEL = b"\xd0\xcf\x11\xe0"
"""How an XLS file of the nineties begins."""
_UTF_8 = "utf-8-sig"
"""UTF-8, whether it says so or not."""
EXACT_DIGITS = 15
"""Digits that a spreadsheet program keeps of a number; it turns the ones after into zeros."""


@dataclass(frozen=True)
class BadCell:
    """A cell whose text cannot be known, and why."""

    rule: str


Cell = str | BadCell
Line = tuple[int, list[Cell]]
"""The number of a line as a spreadsheet program shows it (from 1), and its cells."""


def file_problem(path: Path, rule: str, row: int = 0) -> InvalidSheet:
    """An error about the file as a whole (row 0), or about the place where it cannot be read further."""
    return InvalidSheet(str(path), [RowProblem(row, None, "file", rule)])


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a CSV or XLSX file, blank ones included; its first bytes tell which it is.

    Raises `InvalidSheet` when the file is missing, unreadable or empty.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise file_problem(path, "does not exist") from None
    except OSError as error:
        raise file_problem(path, f"cannot be read: {error.strerror}") from None
    if not content.strip():
        raise file_problem(path, "is empty")
    if content.startswith(OLD_EXCEL):
        raise file_problem(path, "is an old Excel file (.xls) or has a password: save it as .xlsx or as CSV UTF-8")
    return _xlsx_lines(path, content) if content.startswith(ZIP) else _csv_lines(path, content)


def _csv_lines(path: Path, content: bytes) -> Iterator[Line]:
    delimiter = _delimiter(_decode(path, content))
    text = io.TextIOWrapper(io.BytesIO(content), encoding=_UTF_8, newline="")
    # Strict: a quotation mark that is never closed would otherwise swallow the rows after it without a word.
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    number = 0
    try:
        for number, cells in enumerate(reader, 1):
            yield number, list(cells)
    except csv.Error as error:
        raise file_problem(path, f"is not valid CSV from here on: {error}", number + 1) from None


def _delimiter(text: str) -> str:
    found = re.search(r"\S[^\n]*", text)
    header = found[0] if found else ""
    return ";" if header.count(";") > header.count(",") else ","


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode(_UTF_8)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        place = error.start - content.rfind(b"\n", 0, error.start)
        raise file_problem(path, f"is not UTF-8 (byte {place} of this line): save it as CSV UTF-8", line) from None


def _xlsx_lines(path: Path, content: bytes) -> Iterator[Line]:
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    # openpyxl warns of styles and validations, which carry no values.
    warnings.filterwarnings("ignore", category=UserWarning, module="openpyxl")
    try:
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=False)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # some programs write wrong ones, and rows beyond them would be lost
        for number, cells in enumerate(sheet.iter_rows(), 1):
            yield number, [_cell(cell) for cell in cells]
    except (InvalidFileException, zipfile.BadZipFile, ParseError, OSError, KeyError, IndexError, ValueError):
        raise file_problem(path, "is not a readable .xlsx workbook") from None


def _cell(cell: Any) -> Cell:
    """The exact text of a typed cell."""
    value = cell.value
    if cell.data_type == "f":
        return BadCell("is a formula: paste its value instead")
    if cell.data_type == "e":
        return BadCell("is an error of the spreadsheet")
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value)
    if isinstance(value, date) and not (isinstance(value, datetime) and value.time() != time.min):
        return f"{value:%Y-%m-%d}"
    return BadCell("is neither text, number nor date: format the column as text")


def _number(value: int | float) -> Cell:
    # repr is the shortest text that reads back as the same number, so 1.1 stored as 1.1000000000000001 is 1.1 again.
    text = format(Decimal(repr(value)), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if len(text.lstrip("-0.").replace(".", "")) > EXACT_DIGITS:
        return BadCell(
            f"is a number of more than {EXACT_DIGITS} digits, of which some are lost: format the column as text"
        )
    return text
