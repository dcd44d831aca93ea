"""Entries of a statement: the service's own list of transactions, a third side beside ledger and answers."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from treasury.money import format_amount
from treasury.provider.status import OrderStatus

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


def by_request(entries: Iterable[StatementEntry]) -> dict[str, list[StatementEntry]]:
    """Request id -> its transactions that have an effect; those without a request id are left out."""
    found: dict[str, list[StatementEntry]] = {}
    for entry in entries:
        if entry.request_id is not None and entry.has_effect:
            found.setdefault(entry.request_id, []).append(entry)
    return found
