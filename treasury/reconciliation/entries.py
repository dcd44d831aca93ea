"""Entries of a statement: the service's own list of transactions, a third side beside ledger and answers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from decimal import Decimal
from typing import Any, Self

from treasury.money import format_amount
from treasury.provider.status import OrderStatus

INCOMING = ("charge", "pay")
"""Order types of money that comes in: deposits and pay-ins (public fact 2.2). No order of ours stands behind them."""


@dataclass(frozen=True)
class StatementEntry:
    """One transaction of the service's statement, `amount` in `currency`.

    `file`: SHA-256 of the file; `given_at`: when a report was given it first, Unix ms.
    """

    line: int
    order_no: str
    request_id: str | None
    order_type: str | None
    currency: str
    amount: Decimal
    status: OrderStatus | None
    booked_on: date | None = None
    fee: Decimal | None = None
    fee_currency: str | None = None
    file: str = ""
    given_at: int = 0

    @property
    def is_incoming(self) -> bool:
        """Tell whether money came in by it."""
        return (self.order_type or "").casefold() in INCOMING

    @property
    def has_effect(self) -> bool:
        """Tell whether money left by it, or is about to: it goes out, and did not fail."""
        return self.status not in (OrderStatus.FAILED, OrderStatus.CLOSED) and not self.is_incoming

    @property
    def has_moved(self) -> bool:
        """Tell whether its money has moved for good. A line without a status is one of an account's movements."""
        return self.status in (None, OrderStatus.SUCCESS)

    @property
    def words(self) -> str:
        """The transaction in words."""
        status = "" if self.status is None else f" {int(self.status)} {self.status.name.lower()}"
        booked = "" if self.booked_on is None else f" on {self.booked_on}"
        fee = "" if self.fee is None else f", fee {format_amount(self.fee)} {self.fee_currency or self.currency}"
        return f"line {self.line}: {self.order_no}{status} {format_amount(self.amount)} {self.currency}{fee}{booked}"

    @property
    def content(self) -> dict[str, str | int | None]:
        """What the line says, as JSON has it."""
        said = {name: value for name, value in asdict(self).items() if name not in ("file", "given_at")}
        return {name: value if value is None or isinstance(value, int) else str(value) for name, value in said.items()}

    @classmethod
    def of(cls, content: Mapping[str, Any], file: str, given_at: int) -> Self:
        """Make it of its `content`."""
        made = {name.name: content.get(name.name) for name in fields(cls)} | {"file": file, "given_at": given_at}
        for name in ("amount", "fee"):
            made[name] = None if made[name] is None else Decimal(str(made[name]))
        made["status"] = None if made["status"] is None else OrderStatus(int(str(made["status"])))
        made["booked_on"] = None if made["booked_on"] is None else date.fromisoformat(str(made["booked_on"]))
        return cls(**made)  # type: ignore[arg-type]

    def is_like(self, other: "StatementEntry") -> bool:
        """Tell whether both say the same, on whichever lines of their files."""
        return replace(self, line=other.line, file=other.file, given_at=other.given_at) == other


@dataclass(frozen=True)
class Statement:
    """A file of the service's transactions; `file`: SHA-256 of its bytes."""

    file: str
    entries: Sequence[StatementEntry]
