"""The files about a sheet that is refused, or rows that are left out: error report and corrected copy."""

from collections.abc import Collection
from pathlib import Path

from treasury.errors import InvalidSheet
from treasury.files import copy_file
from treasury.reports.starts import end_start, is_changed, start_folder
from treasury.sheets.corrections import write_corrected
from treasury.sheets.reading import Layout
from treasury.sheets.writing import write_errors


def write_refused(
    folder: Path, file: Path, error: InvalidSheet, layout: Layout, sheet: str | None = None
) -> list[Path]:
    """Write what a person gets, and end the start."""
    written = write_wrong(folder, file, error, layout, sheet)
    end_start()
    return written


def write_wrong(
    folder: Path,
    file: Path,
    error: InvalidSheet,
    layout: Layout,
    sheet: str | None = None,
    only: Collection[int] | None = None,
) -> list[Path]:
    """Write `errors.csv` and `corrected-me.xlsx` or `.csv` for this start and as the newest; returns the paths.

    `only`: the lines of those rows that are left out; the copy holds no other, for the others are paid.

    The error names the copy afterwards. One that somebody changed since it was written is not replaced, unless it is
    the very file that was refused: the new one then stands in the folder of this start alone.
    """
    own = start_folder(folder)
    write_errors(own / "errors.csv", error)
    copy_file(own / "errors.csv", folder / "errors.csv")
    copy = write_corrected(own, file, error.problems, layout, sheet, only)
    if copy is not None:
        newest = folder / copy.name
        if not _is_somebodys(newest, file, is_refused=only is None):
            copy_file(copy, newest)
            copy = newest
        error.corrected = str(copy)
    return [folder / "errors.csv", *([] if copy is None else [copy])]


def _is_somebodys(copy: Path, file: Path, *, is_refused: bool) -> bool:
    """Tell whether a corrected copy is there that a person went on with, or that is the file of this start."""
    if not copy.exists():
        return False
    if file.exists() and copy.samefile(file):
        return not is_refused  # what is paid of it is read again by the next step
    return is_changed(copy)
