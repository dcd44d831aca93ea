"""Cells that nobody may see for a range of the sheet: merged ones, and those that conditional formatting may hide."""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence

from treasury.errors import RowProblem
from treasury.sheets.headers import Header

MERGED, SHOWN_BY_RULE = "merged", "shown_by_rule"

_RULES: Mapping[str, str] = {
    "struck_out": "may be struck out by the conditional format of {}: take it away, and delete what is not meant",
    "not_shown": "may not be seen, by the conditional format of {}: take it away, and delete what is not meant",
    SHOWN_BY_RULE: "may be shown as another amount by the conditional format of {}: take it away, or its number format",
    MERGED: "is merged ({}), which hides all but its first cell: unmerge it, and fill in the cell of each row",
}
"""Code of how a range hides its cells -> the message."""


def hidden_in_ranges(
    ranges: Sequence[tuple[str, str]], header: Header, rows: Sequence[int], amounts: Collection[str]
) -> Iterator[RowProblem]:
    """Columns that a range may hide, each at the first of the `rows` in it; of merged ones names of columns, too.

    Whether a rule holds depends on formulas, which only spreadsheet programs calculate.
    """
    for each, code in ranges:
        left, top, right, bottom = (bound or 0 for bound in _boundaries(each))
        columns = list(enumerate(header.columns))[max(left, 1) - 1 : right or None]
        if code == SHOWN_BY_RULE:
            columns = [(at, column) for at, column in columns if column in amounts]
        if code == MERGED and (left, top) == (right, bottom) != (0, 0):
            continue  # a single cell hides nothing
        if code == MERGED and top <= header.line <= bottom:
            first = left - 1 if top == header.line else None
            yield from (_problem(header.line, column, each, code) for at, column in columns if at != first and column)
        at = bisect_left(rows, top)
        if at < len(rows) and (not bottom or rows[at] <= bottom):
            yield from (_problem(rows[at], column, each, code) for _, column in columns if column)


def _problem(row: int, column: str, place: str, code: str) -> RowProblem:
    return RowProblem(row, None, column, _RULES[code].format(place), code=code)


def _boundaries(text: str) -> tuple[int | None, int | None, int | None, int | None]:
    """First column and row, last column and row of a range, from 1; None where it has no bound, or cannot be read."""
    from openpyxl.utils.cell import range_boundaries

    try:
        return range_boundaries(text)
    except ValueError:
        return None, None, None, None
