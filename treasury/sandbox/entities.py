"""The sandbox's memory: orders and their statuses, quotes, card users, notifications. Times are Unix seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

from treasury.sandbox.books import BookAccount


class OrderStatus(IntEnum):
    """The listed numbers; what is shown of them may be others (`Behaviour.statuses`)."""

    SUBMITTED = 11
    PROCESSING = 22
    FAILED = 44
    CLOSED = 88
    SUCCESS = 99


ENDED = frozenset({OrderStatus.FAILED, OrderStatus.CLOSED, OrderStatus.SUCCESS})
LISTED = tuple(int(status) for status in OrderStatus)
UNLISTED = 12
"""Seen in one public example, explained nowhere (public fact 2.1)."""


class Ending(StrEnum):
    """How an order ends; chosen by the last digits of who is paid."""

    SUCCESS = "success"
    FAILED = "failed"
    CLOSED = "closed"
    PROCESSING = "processing"
    """Never ends."""
    UNLISTED = "unlisted"
    """Reports the status 12, which no list explains, for ever."""


ENDINGS: Mapping[str, Ending] = {
    "0044": Ending.FAILED,
    "0088": Ending.CLOSED,
    "0022": Ending.PROCESSING,
    "0012": Ending.UNLISTED,
}
"""Last four characters of an account number, address or document number -> the ending."""


def ending_of(account: str) -> Ending:
    """The ending that an account number, address or document number chooses."""
    return ENDINGS.get(account[-4:], Ending.SUCCESS)


@dataclass
class Order:
    """An order: `debit` leaves `source`, `credit` reaches `target`, `fee` stays with the service."""

    order_no: str
    request_id: str
    operation: str
    order_type: str
    status: int
    source: BookAccount
    """`hold` for what the partner pays, `world` for what customers pay in."""
    currency: str
    """Currency of `amount` and `debit`."""
    amount: Decimal
    """The order amount, as the query shows it."""
    debit: Decimal
    fee_currency: str
    fee: Decimal
    target: BookAccount
    credit_currency: str
    credit: Decimal
    created_at: float
    ending: Ending = Ending.SUCCESS
    reason: str = ""
    finished_at: float | None = None
    due_at: float | None = None
    """When the next status comes; None when none will."""
    effects: int = 0
    """How many times it moved money out of (or, for a pay-in, into) the partner's available balance."""
    notify_url: str | None = None
    customer_ref_id: str | None = None
    return_url: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    reply: dict[str, Any] = field(default_factory=dict)
    """Data of its first answer."""

    @property
    def arrive_amount(self) -> Decimal | None:
        """Return what is left of the order amount after the fee; None when the fee is in another currency
        (conversions)."""
        return self.debit - self.fee if self.fee_currency == self.currency else None


@dataclass
class Quote:
    """A quote of a fiat payout or of a conversion; it confirms once, before `expires_at`."""

    number: str
    reference: str
    """The `request_id` of a fiat quote, the `xid` of a conversion."""
    operation: str
    pay_currency: str
    pay_amount: Decimal
    fee_currency: str
    fee: Decimal
    receive_currency: str
    receive_amount: Decimal
    rate: Decimal
    created_at: float
    expires_at: float
    content: dict[str, Any]
    """The request's own fields: an identical repeat is answered with this quote."""
    ending: Ending = Ending.SUCCESS
    confirmed: bool = False
    advanced: float = 0.0
    """Seconds that the clock was put forward by when it was made."""

    def shown_ms(self, at: float) -> int:
        """Return a time of this quote by the clock that `Date` shows, Unix ms: clients compare the two."""
        return int((at - self.advanced) * 1000)


@dataclass
class CardUser:
    """A cardholder. `kyc_status`: 0 not set, 1 waiting, 2 in audit, 3 passed, 4 refused (public fact 2.4)."""

    user_xid: str
    user_id: str
    email: str
    kyc_status: str = "0"
    kyc_level: str = "0"
    first_name: str | None = None
    last_name: str | None = None
    document_type: str | None = None
    document_number: str | None = None
    due_at: float | None = None


@dataclass
class Notification:
    """One notification: its body without signature, and what became of each attempt."""

    number: int
    url: str
    body: dict[str, Any]
    created_at: float
    due_at: float | None
    """When the next attempt is due; None when delivered, given up, or not deliverable."""
    attempts: list[str] = field(default_factory=list)
    """One line an attempt: `HTTP 200`, or why there was no answer."""
    state: str = "waiting"
    """`waiting`, `delivered`, `given up`, `undeliverable`, `lost`."""
    is_forged: bool = False
    """True: its body is changed after it is signed."""
