"""What conditional formatting may strike out: which columns, and from which row on."""

import re
from collections.abc import Iterator, Sequence

from treasury.errors import RowProblem
from treasury.sheets.headers import Header

_RANGE = re.compile(r"\$?([A-Z]{0,3})\$?([0-9]{0,7})(?::\$?([A-Z]{0,3})\$?([0-9]{0,7}))?")


def struck_by_rule(ranges: Sequence[str], header: Header, last: int) -> Iterator[RowProblem]:
    """Columns between the header and the last row that a rule may strike out, each at the first such row.

    Whether a rule holds depends on formulas, which only spreadsheet programs calculate.
    """
    for each in ranges:
        found = _RANGE.fullmatch(each)
        if found is None:
            columns, rows = (0, len(header.columns)), (0, last)
        else:
            left, top, right, bottom = found[1], found[2], found[3], found[4]
            if found[3] is None:
                right, bottom = left, top
            columns = (_column(left) if left else 0, _column(right) if right else len(header.columns))
            rows = (int(top or 0), int(bottom or last))
        first = max(rows[0], header.line + 1)
        if first <= min(rows[1], last):
            rule = f"may be struck out by the conditional format of {each}: take it away, and delete what is not meant"
            for column in filter(None, header.columns[columns[0] : columns[1] + 1]):
                yield RowProblem(first, None, column, rule, code="struck_out")


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number - 1
