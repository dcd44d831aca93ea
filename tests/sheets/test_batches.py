"""A list that is kept as bytes gives back what was put into it."""

from pathlib import Path

import pytest

from tests.parts import QUOTED, sheet
from treasury.concurrency.batches import BLOCK, Packed
from treasury.orders.rows import Route
from treasury.sheets.beneficiaries import read_beneficiaries


@pytest.mark.parametrize("length", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 7])
def test_items_come_out_in_order_and_again(length: int) -> None:
    items = [(number, str(number)) for number in range(length)]
    packed = Packed[tuple[int, str]]()
    for item in items:
        packed.append(item)
    assert len(packed) == length
    assert list(packed) == list(packed) == items


def test_rows_of_a_long_sheet_are_those_of_a_short_one(tmp_path: Path) -> None:
    """A sheet of more rows than a block: the last of them were never packed."""
    packed, plain = (list(read_beneficiaries(sheet(tmp_path, count))) for count in (2 * BLOCK, 9))
    assert packed[:9] == plain
    assert [row.row_ref for row in packed] == [f"r{number}" for number in range(2 * BLOCK)]
    assert [row.line for row in packed] == list(range(2, 2 * BLOCK + 2))
    assert "Example Person" not in repr(packed[0])
    quoted = next(iter(read_beneficiaries(sheet(tmp_path, BLOCK, QUOTED))))
    assert quoted.route is Route.QUOTED
    assert quoted.purpose_code == "22"
