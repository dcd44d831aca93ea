"""The sheets of balances and of reference rates: what is available of each asset, and rates of a second source."""

from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from pathlib import Path

from treasury.errors import InvalidFields, Problem
from treasury.money import parse_amount
from treasury.sheets.reading import Layout, Row, read_sheet

LAYOUT = Layout(key="currency", required=("available",), optional=("as_of",), amounts=frozenset({"available"}))
RATES = Layout(key="symbol", required=("rate",), amounts=frozenset({"rate"}))


def read_balances(path: Path, zone: tzinfo = UTC) -> tuple[dict[str, Decimal], datetime | None]:
    """Asset -> available amount in it, zero or more; and when the oldest of them was true, where the sheet says it.

    `zone`: of times that are written without one. Raises `InvalidSheet` with every problem of every row.
    """
    rows = list(read_sheet(path, LAYOUT, lambda row: _balance(row, zone)))
    times = [time for _, _, time in rows if time is not None]
    return {asset: amount for asset, amount, _ in rows}, min(times, default=None)


def read_rates_sheet(path: Path) -> dict[str, Decimal]:
    """Trading pair -> reference rate, above zero. Raises `InvalidSheet` with every problem of every row."""
    return dict(read_sheet(path, RATES, lambda row: (row.ref, _amount(row, "rate", above_zero=True))))


def _balance(row: Row, zone: tzinfo) -> tuple[str, Decimal, datetime | None]:
    amount, text = _amount(row, "available"), row.values.get("as_of")
    if text is None:
        return row.ref, amount, None
    try:
        time = datetime.fromisoformat(text)
        return row.ref, amount, (time if time.tzinfo is not None else time.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        rule = "must be a date and time such as 2026-11-22T06:30:00Z"
        raise InvalidFields("row", [Problem("as_of", rule, repr(text))]) from None


def _amount(row: Row, column: str, *, above_zero: bool = False) -> Decimal:
    text = row.values.get(column)
    if text is None:
        raise InvalidFields("row", [Problem(column, "is required")])
    try:
        amount = parse_amount(text)
    except ValueError as error:
        raise InvalidFields("row", [Problem(column, str(error), repr(text))]) from None
    if amount < 0 or (above_zero and not amount):
        rule = "must be greater than zero" if above_zero else "must be zero or more"
        raise InvalidFields("row", [Problem(column, rule, repr(text))])
    return amount
