"""The balances sheet: what is available of each asset, for planning without asking the service."""

from decimal import Decimal
from pathlib import Path

from treasury.errors import InvalidFields, Problem
from treasury.money import parse_amount
from treasury.sheets.reading import Layout, Row, read_sheet

LAYOUT = Layout(key="currency", required=("available",))


def read_balances(path: Path) -> dict[str, Decimal]:
    """Asset -> available amount in it, zero or more. Raises `InvalidSheet` with every problem of every row."""
    return dict(read_sheet(path, LAYOUT, _balance))


def _balance(row: Row) -> tuple[str, Decimal]:
    text = row.values.get("available")
    if text is None:
        raise InvalidFields("row", [Problem("available", "is required")])
    try:
        amount = parse_amount(text)
    except ValueError as error:
        raise InvalidFields("row", [Problem("available", str(error), repr(text))]) from None
    if amount < 0:
        raise InvalidFields("row", [Problem("available", "must be zero or more", repr(text))])
    return row.ref, amount
