"""The sheet of what remains of a run: its rows that ended unpaid, each bound to the payment that it replaces."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treasury.orders.rows import BENEFICIARY_OBJECTS, LeftOut, Route
from treasury.sheets.beneficiaries import CEILING
from treasury.sheets.headers import PROBLEM, STATUS, Layout
from treasury.sheets.payees import FIELD
from treasury.sheets.writing import write_plain_book, write_plain_csv

FILES = ("remaining.csv", "remaining.xlsx")


@dataclass(frozen=True)
class Remaining:
    """A row that may be paid again."""

    row_ref: str
    replaces: str
    """Request id of the payment that it is paid instead of."""
    route: Route
    payload: Mapping[str, Any] | None = field(repr=False)
    """The content that was sent, as the ledger kept it; None where it keeps it no more. Personal."""
    outcome: str = ""
    reason: str = ""
    """Why it was not paid; nothing in it is personal."""


def write_remaining(
    folder: Path, layout: Layout, rows: Iterable[Remaining], left_out: Iterable[LeftOut] = ()
) -> list[Path]:
    """Write `remaining.csv` and `remaining.xlsx`, in the columns of the sheet that was paid; returns both paths.

    Without rows they hold the header alone. Read again, each row is the one that was read before; those that were left
    out are refused again until they are mended.
    """
    cells = [
        *(cells_of(row, layout) for row in rows),
        *({**row.cells, STATUS: "left out", PROBLEM: row.problem} for row in left_out),
    ]
    columns, written = _columns(cells, layout), [folder / name for name in FILES]
    write_plain_csv(written[0], columns, cells)
    write_plain_book(written[1], columns, cells)
    return written


def write_remaining_csv(file: Path, layout: Layout, rows: Iterable[Remaining]) -> None:
    """Write the same as one CSV file."""
    cells = [cells_of(row, layout) for row in rows]
    write_plain_csv(file, _columns(cells, layout), cells)


def _columns(cells: Sequence[Mapping[str, str]], layout: Layout) -> list[str]:
    used = {name for row in cells for name in row}
    first = [name for name in FIRST if name != ROUTE or ROUTE in layout.known]
    fixed = [name for name in layout.known if name in used and name not in FIRST]
    return [*first, *fixed, *sorted(name for name in used if name.startswith(FIELD))]


ROUTE = "route"
FIRST = ("row_ref", "replaces", ROUTE, STATUS, PROBLEM)
"""The columns that the sheet begins with; as in a corrected copy two of them are not read."""


def cells_of(row: Remaining, layout: Layout) -> dict[str, str]:
    """The cells of a row, by column: what the sheet said that it was read from."""
    named = {"row_ref": row.row_ref, "replaces": row.replaces}
    named |= {ROUTE: row.route.value} if ROUTE in layout.known else {}
    named |= {STATUS: row.outcome, PROBLEM: row.reason}
    if row.payload is None:
        return named
    if row.route is Route.QUOTED:
        return named | dict(_quoted(row.payload))
    return named | {name: str(value) for name, value in row.payload.items()}


def _quoted(payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in payload["quote"].items():
        if name in BENEFICIARY_OBJECTS.values():
            yield from ((member, str(each)) for member, each in value.items())
        elif name == "beneficiaryFields":
            yield from ((FIELD + member, str(each)) for member, each in value.items())
        else:
            yield name, str(value)
    yield from ((name, str(value)) for name, value in payload["confirm"].items())
    bounds = payload["bounds"]
    if bounds.get("pay_amount") is None and bounds.get("max_pay") is not None:
        yield CEILING, str(bounds["max_pay"])
