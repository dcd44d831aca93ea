"""The statement in: the service's own list of transactions, when the operator has one, as a third side."""

from decimal import Decimal
from pathlib import Path

from treasury.errors import InvalidFields, Problem
from treasury.money import parse_amount
from treasury.provider.status import OrderStatus
from treasury.reconciliation.entries import StatementEntry
from treasury.sheets.reading import Layout, Row, read_sheet

LAYOUT = Layout(
    key="order_no",
    required=("currency",),
    optional=("amount", "order_amount", "request_id", "order_type", "status"),
    amounts=frozenset({"amount", "order_amount"}),
    free_prefix="",  # a service's export has columns of its own; what is not needed is not read
)


def read_statement(path: Path) -> list[StatementEntry]:
    """The transactions of a statement, in its order. Raises `InvalidSheet` with every problem of every line."""
    return list(read_sheet(path, LAYOUT, _entry))


def _entry(row: Row) -> StatementEntry:
    problems = [] if "currency" in row.values else [Problem("currency", "is required")]
    amount, status = Decimal(0), None
    given = row.values.get("amount", row.values.get("order_amount"))
    if given is None:
        problems.append(Problem("amount", "is required (or order_amount)"))
    else:
        try:
            amount = abs(parse_amount(given))
        except ValueError as error:
            problems.append(Problem("amount", str(error), repr(given)))
    text = row.values.get("status")
    if text is not None and text.isascii() and text.isdigit() and len(text) < 6:
        status = OrderStatus(int(text))
    elif text is not None:
        problems.append(Problem("status", "must be a status number, for example 99", repr(text)))
    if problems:
        raise InvalidFields("row", problems)
    named = (row.values.get("request_id"), row.values.get("order_type"))
    return StatementEntry(row.line, row.ref, *named, row.values["currency"], amount, status)
