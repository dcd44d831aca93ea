"""From a path to the lines of the sheet in it, whatever the format; the first bytes of the file tell which it is."""

from collections.abc import Callable, Sequence
from pathlib import Path
from platform import node

from treasury.sheets.cells import MAX_BYTES, Table, file_problem, read_delimited

ZIP = b"PK\x03\x04"
"""How an XLSX file begins: it is a zip archive."""
OLD_EXCEL = b"\xd0\xcf\x11\xe0"
"""How an XLS file of the nineties begins."""


def read_table(path: Path, sheet: str | None, score: Callable[[Sequence[str]], int]) -> Table:
    """The lines of a CSV or XLSX file, blank ones included. `score`: how many of these cells are names of columns.

    Raises `InvalidSheet` when the file is missing, unreadable, empty or too large.
    """
    try:
        if path.exists() and not path.is_file():
            raise file_problem(
                path,
                "cannot be read: it is a folder, a pipe or a device; save the sheet as a file and name that",
                "no_file",
            )
        with path.open("rb") as file:
            size = path.stat().st_size
            content = file.read(len(ZIP)) if size <= MAX_BYTES else b""
            if size > MAX_BYTES:
                rule = f"has more than {MAX_BYTES // 1_000_000} MB: divide it into several files"
                raise file_problem(path, rule, "too_big")
            if content != ZIP:
                content += file.read(MAX_BYTES)
    except FileNotFoundError:
        raise file_problem(path, f"does not exist: {node()} has no {path.absolute()}", "no_file") from None
    except OSError as error:
        raise file_problem(path, f"cannot be read: {error.strerror}", "no_file") from None
    if not content.strip():
        raise file_problem(path, "is empty", "empty")
    if content.startswith(OLD_EXCEL):
        rule = "is an old Excel file (.xls) or has a password: save it as .xlsx or as CSV UTF-8"
        raise file_problem(path, rule, "other_format")
    if content == ZIP:
        from treasury.sheets.workbook import read_workbook

        return read_workbook(path, sheet)
    if sheet is not None:
        raise file_problem(path, "is a text file, which has no sheets: leave --sheet out", "no_such_sheet")
    return read_delimited(path, content, score)
