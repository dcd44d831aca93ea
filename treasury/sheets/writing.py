"""CSV files and workbooks out, and what may stand in one cell or on one line of a page."""

import csv
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from treasury.errors import InvalidSheet
from treasury.files import replacing, write_bytes
from treasury.money import format_amount
from treasury.private_files import make_folder
from treasury.sheets.cell_texts import harmless, marked_apostrophe

if TYPE_CHECKING:
    from xlsxwriter import Workbook

ERROR_COLUMNS = ("row", "row_ref", "column", "rule", "value", "code")

_FORMULA = ("=", "+", "-", "@", "\t")
"""How a cell begins that a spreadsheet program would run as a formula."""

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

_UNPRINTABLE = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f\\ud800-\\udfff\\ufffe\\uffff]")
"""Characters that XML or UTF-8 cannot hold, and DEL, which nobody can see."""


@contextmanager
def csv_file(path: Path, columns: Sequence[str]) -> Iterator[Callable[[Iterable[Sequence[str]]], None]]:
    """Open a CSV file of these columns; yields a function that adds rows of cells, which `safe_cell` made."""
    with replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        yield writer.writerows


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a CSV file of these columns; what a row lacks is blank. Raises `ValueError` for an unknown column."""
    try:
        with csv_file(path, columns) as add:
            add(_cells(row, columns, frozenset(columns)) for row in rows)
    finally:
        if isinstance(rows, Generator):  # on a full disk it closes what else it writes them into, here and not later
            rows.close()


def _cells(row: Mapping[str, object], columns: Sequence[str], known: frozenset[str]) -> list[str]:
    if not known.issuperset(row):
        raise ValueError(f"no such column: {', '.join(sorted(row.keys() - known))}")
    return [safe_cell(row.get(column)) for column in columns]


def write_plain_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    """Write a CSV file for a sheet that is to be read back as a corrected copy is: no program runs a cell of it."""
    with replacing(path) as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: harmless(cell) for name, cell in row.items()} for row in rows)


class BookFile:
    """A workbook that is written row by row: what is on the disk already costs no memory, and no text of a cell runs.

    The rows wait in files beside the workbook, so that a killed process leaves none of them in a folder of others.
    """

    def __init__(self, path: Path) -> None:
        from xlsxwriter import Workbook  # 35 ms, which most commands never need

        make_folder(path.parent)
        self._path, self._content = path, BytesIO()
        rows = tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)
        self.book = Workbook(self._content, {"constant_memory": True, "tmpdir": rows, **AS_TEXT})
        self._forget_rows = weakref.finalize(self, _forget, self.book, rows)

    def finish(self) -> None:
        """Write the file. Raises `OSError`."""
        from xlsxwriter.exceptions import FileCreateError

        try:
            self.book.close()
        except FileCreateError as error:
            raise error.args[0] from None  # of a full disk, which it wraps
        self._forget_rows()
        write_bytes(self._path, self._content.getvalue())


AS_TEXT = dict.fromkeys(("strings_to_formulas", "strings_to_urls", "strings_to_numbers"), False)
"""Options of a workbook whose texts stay texts."""


def _forget(book: "Workbook", rows: str) -> None:
    """Close and delete the files of a workbook's rows, also of one that nobody finished."""
    for file in (file for sheet in book.worksheets() for file in (sheet.row_data_fh, sheet.fh) if file is not None):
        with suppress(OSError):  # of a full disk
            file.close()
    shutil.rmtree(rows, ignore_errors=True)


def write_plain_book(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    """Write rows as a workbook: every cell is text, so that no zero is lost and nothing is run."""
    file = BookFile(path)
    sheet, is_text = file.book.add_worksheet("payments"), file.book.add_format({"num_format": "@"})
    sheet.freeze_panes(1, 1)
    sheet.set_column(0, len(columns) - 1, 18, is_text)
    for place, name in enumerate(columns):
        sheet.write_string(0, place, name, is_text)
    for line, row in enumerate(rows, 1):
        for place, name in enumerate(columns):
            if row.get(name):
                sheet.write_string(line, place, printable(marked_apostrophe(row[name], runs=False)), is_text)
    file.finish()


def write_errors(path: Path, error: InvalidSheet) -> None:
    """Write the error report: one line for each problem; personal values are masked already."""
    write_csv(path, ERROR_COLUMNS, ({**asdict(each), "row": each.row or None} for each in error.problems))


def letter_of(at: int) -> str:
    """The name of a column in a spreadsheet, from 0: A, B, ..., AA."""
    letters = ""
    at += 1
    while at:
        at, digit = divmod(at - 1, 26)
        letters = chr(65 + digit) + letters
    return letters


def printable(text: str) -> str:
    """The text with a visible stand-in for each character that a page or a workbook cannot hold."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def safe_cell(value: object) -> str:
    """A value as one cell's text: one line, amounts plain, and nothing that a spreadsheet program would run."""
    if value is None:
        return ""
    if isinstance(value, str) and value.isprintable() and not value.startswith(_FORMULA):
        return value  # most are so, and nothing below changes them
    if isinstance(value, Decimal):
        return format_amount(value)
    text = " ".join(str(value).splitlines())  # a lone CR is left unquoted by the csv module, and ends the row
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
