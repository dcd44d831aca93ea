"""The statement in: the service's own list of transactions, when the operator has one, as a third side."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from treasury.errors import InvalidFields, Problem
from treasury.interface.status import OrderStatus
from treasury.money import format_amount, parse_amount
from treasury.sheets.reading import Layout, Row, read_sheet

LAYOUT = Layout(
    key="order_no",
    required=("currency",),
    optional=("amount", "order_amount", "request_id", "order_type", "status"),
    free_prefix="",  # a service's export has columns of its own; what is not needed is not read
)

INCOMING = ("charge", "pay")
"""Order types of money that comes in: deposits and pay-ins (public fact 2.2). No order of ours stands behind them."""


@dataclass(frozen=True)
class StatementEntry:
    """One transaction of the service's statement, amount in `currency`."""

    line: int
    order_no: str
    request_id: str | None
    order_type: str | None
    currency: str
    amount: Decimal
    status: OrderStatus | None

    @property
    def has_effect(self) -> bool:
        """Whether money left, or is about to: it goes out, and did not fail."""
        went_back = self.status in (OrderStatus.FAILED, OrderStatus.CLOSED)
        return not went_back and (self.order_type or "").casefold() not in INCOMING

    @property
    def words(self) -> str:
        """The transaction in words."""
        status = "" if self.status is None else f" {int(self.status)} {self.status.name.lower()}"
        return f"line {self.line}: {self.order_no}{status} {format_amount(self.amount)} {self.currency}"


def read_statement(path: Path) -> list[StatementEntry]:
    """The transactions of a statement, in its order. Raises `InvalidSheet` with every problem of every line."""
    return list(read_sheet(path, LAYOUT, _entry))


def by_request(entries: Iterable[StatementEntry]) -> dict[str, list[StatementEntry]]:
    """Request id -> its transactions that have an effect; those without a request id are left out."""
    found: dict[str, list[StatementEntry]] = {}
    for entry in entries:
        if entry.request_id is not None and entry.has_effect:
            found.setdefault(entry.request_id, []).append(entry)
    return found


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
