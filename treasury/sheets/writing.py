"""Result files out: CSV, JSON and text, readable by their owner alone, complete or not there at all."""

import csv
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TextIO

from treasury.errors import InvalidSheet
from treasury.money import format_amount
from treasury.private_files import make_folder

ERROR_COLUMNS = ("row", "row_ref", "column", "rule", "value")

_FORMULA = ("=", "+", "-", "@", "\t")
"""How a cell begins that a spreadsheet program would run as a formula."""

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

_UNPRINTABLE = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f\\ud800-\\udfff\\ufffe\\uffff]")
"""What XML or UTF-8 cannot hold, and DEL, which nobody can see."""


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file of these bytes."""
    with _replacing(path) as file:
        file.buffer.write(content)


def write_text(path: Path, text: str) -> None:
    """Write a text file, UTF-8."""
    with _replacing(path) as file:
        file.write(text)


def write_json(path: Path, value: object) -> None:
    """Write a JSON file: amounts as text, dates in ISO form, everything else as JSON has it.

    It is made piece by piece, for the text of a large run is many times its rows. A member that is an iterator becomes
    a list, and only one item of it is there at a time.
    """
    with _replacing(path) as file:
        if isinstance(value, Mapping) and any(isinstance(member, Iterator) for member in value.values()):
            file.writelines(_with_iterators(value))
        else:
            file.writelines(_ENCODER.iterencode(value))
        file.write("\n")


def _with_iterators(members: Mapping[str, object]) -> Iterator[str]:
    before = "{"
    for name, member in members.items():
        yield f"{before}\n  {_ENCODER.encode(name)}: "
        before = ","
        if isinstance(member, Iterator):
            items = (_indented(item, 4) for item in member)
            first = next(items, None)
            yield "[]" if first is None else f"[\n    {first}"
            yield from (f",\n    {item}" for item in items)
            yield "" if first is None else "\n  ]"
        else:
            yield _indented(member, 2)
    yield "\n}"


def _indented(value: object, by: int) -> str:
    return _ENCODER.encode(value).replace("\n", "\n" + " " * by)  # no text of JSON holds a line break


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a CSV file of these columns; what a row lacks is blank. Raises `ValueError` for an unknown column."""
    with _replacing(path) as file:
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


def _plain(value: object) -> str:
    if isinstance(value, Decimal):
        return format_amount(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form here")


_ENCODER = json.JSONEncoder(ensure_ascii=False, indent=2, allow_nan=False, default=_plain)


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    """A file that takes its place in one step once all of it is on the disk; an error leaves what was there."""
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
