"""Cells that conditional formatting may strike out or make invisible: which columns, and from which row on."""

from collections.abc import Iterator, Mapping, Sequence

from treasury.errors import RowProblem
from treasury.sheets.headers import Header

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
        left, top, right, bottom = _boundaries(each)
        first = max(top or 1, header.line + 1)
        if first <= min(bottom or last, last):
            for column in filter(None, header.columns[(left or 1) - 1 : right]):
                yield RowProblem(first, None, column, _RULES[code].format(each), code=code)


def _boundaries(text: str) -> tuple[int | None, int | None, int | None, int | None]:
    """First column and row, last column and row of a range, from 1; None where it has no bound, or cannot be read."""
    from openpyxl.utils.cell import range_boundaries

    try:
        return range_boundaries(text)
    except ValueError:
        return None, None, None, None
