"""Cells that conditional formatting may strike out or make invisible: which columns, and from which row on."""

import re
from collections.abc import Iterator, Mapping, Sequence

from treasury.errors import RowProblem
from treasury.sheets.headers import Header

_RANGE = re.compile(r"\$?([A-Z]{0,3})\$?([0-9]{0,7})(?::\$?([A-Z]{0,3})\$?([0-9]{0,7}))?")

_RULES: Mapping[str, str] = {
    "struck_out": "may be struck out by the conditional format of {}: take it away, and delete what is not meant",
    "not_shown": "may not be seen, by the conditional format of {}: take it away, and delete what is not meant",
}
"""What is said, by the code of what a rule does."""


def hidden_by_rule(ranges: Sequence[tuple[str, str]], header: Header, last: int) -> Iterator[RowProblem]:
    """Columns between the header and the last row that a rule may hide, each at the first such row.

    Whether a rule holds depends on formulas, which only spreadsheet programs calculate.
    """
    for each, code in ranges:
        columns, rows = _columns_and_rows(each, len(header.columns), last)
        first = max(rows[0], header.line + 1)
        if first <= min(rows[1], last):
            for column in filter(None, header.columns[columns[0] : columns[1] + 1]):
                yield RowProblem(first, None, column, _RULES[code].format(each), code=code)


def area_of(text: str) -> tuple[int, int, int, int] | None:
    """First column and row, last column and row of a range with all four; columns from 0, rows from 1."""
    found = _RANGE.fullmatch(text)
    if found is None or not all(found.groups()):
        return None
    return _column(found[1]), int(found[2]), _column(found[3]), int(found[4])


def _columns_and_rows(text: str, columns: int, last: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """First and last column and row of a range; all of them for what cannot be read."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return (0, columns), (0, last)
    left, top, right, bottom = found[1], found[2], found[3], found[4]
    if found[3] is None:
        right, bottom = left, top
    across = _column(left) if left else 0, _column(right) if right else columns
    return across, (int(top or 0), int(bottom or last))


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number - 1
