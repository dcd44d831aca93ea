"""Entries of a statement: the service's own list of transactions, a third side beside ledger and answers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Self

from treasury.money import format_amount
from treasury.provider.status import OrderStatus

PAYIN = "pay"
INCOMING = ("charge", PAYIN)
"""Order types of money that comes in: deposits and pay-ins (public fact 2.2). No order of ours stands behind them."""


@dataclass(frozen=True)
class StatementEntry:
    """One transaction of the service's statement, `amount` in `currency`.

    `file`: SHA-256 of the file; `given_by`, `given_at`: who gave it to a report, and when, Unix ms; `time_zone`: that
    of the policy that was in force then, None where none was.
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
    given_by: str = ""
    given_at: int = 0
    time_zone: str | None = None

    @property
    def is_incoming(self) -> bool:
        """Tell whether money came in by it."""
        return (self.order_type or "").casefold() in INCOMING

    @property
    def is_payin(self) -> bool:
        """Tell whether a customer paid an invoice by it, which a program asked for."""
        return (self.order_type or "").casefold() == PAYIN

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
        """Return what the line says, as JSON has it."""
        said = {name: value for name, value in asdict(self).items() if name not in (*GIVEN, "time_zone")}
        return {name: value if value is None or isinstance(value, int) else str(value) for name, value in said.items()}

    @classmethod
    def of(cls, content: Mapping[str, Any], **given: Any) -> Self:
        """Make it of its `content`, and of the facts in `GIVEN`."""
        made = {**content, **given}
        for name, read in (("amount", Decimal), ("fee", Decimal), ("status", OrderStatus)):
            made[name] = None if made[name] is None else read(made[name])
        made["booked_on"] = None if made["booked_on"] is None else date.fromisoformat(made["booked_on"])
        return cls(**made)

    def is_like(self, other: "StatementEntry") -> bool:
        """Tell whether both say the same, on whichever lines of their files."""
        return {**self.content, "line": other.line} == other.content


GIVEN = ("file", "given_by", "given_at")
"""Facts of an entry that do not stand on its line."""


@dataclass(frozen=True)
class Statement:
    """A file of the service's transactions; `file`: SHA-256 of its bytes."""

    file: str
    entries: Sequence[StatementEntry]
