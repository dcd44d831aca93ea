"""Entries of a statement: the service's own list of transactions, a third side beside ledger and answers; pure.

A service may count the orders of each operation by themselves, so an order's number counts with its operation.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any, Self

from treasury.money import ZERO, format_amount, is_same_currency
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.status import OrderStatus

PAYIN = "pay"
INCOMING = ("charge", PAYIN)
"""Order types of money that comes in: deposits and pay-ins (public fact 2.2). No order of ours stands behind them."""

Name = str | tuple[str, str]
"""A reference, or a number and the operation whose orders are counted with it."""

_NAMED: Mapping[str, tuple[str, ...]] = {
    "extract": ("withdraw",),
    "proxy_pay": ("submit_scan_to_pay",),
    "payout": ("payout", "create_fiat_payout"),
    "exchange": ("create_fiat_payout", "conversion_execute"),  # no type of conversions is documented
    **dict.fromkeys(INCOMING, ("pay",)),
}
"""Order type -> the operations that it names (public fact 2.2)."""

_EVERY = tuple(name for name, operation in CATALOGUE.items() if operation.asked_with is not None)


def operations_of(order_type: str | None) -> tuple[str, ...]:
    """Return the operations that an order of this type may be of; every one where the type names none."""
    return _NAMED.get((order_type or "").casefold(), _EVERY)


def numbers_of(number: str | None, order_type: str | None) -> tuple[Name, ...]:
    """Return a number with each operation that its order may be of."""
    return tuple((number, each) for each in operations_of(order_type)) if number else ()


def names_of(order_no: str | None, request_id: str | None, order_type: str | None) -> tuple[Name, ...]:
    """Return the names by which the ledger may know what is shown so. In the place of a request id a bank may have the
    number of any order."""
    references = tuple(text for text in (order_no, request_id) if text)
    return (*references, *numbers_of(order_no, order_type), *numbers_of(request_id, None))


class Numbers:
    """Tells what is shown under one number apart by its operations: a number goes on to be that of what it was first
    seen with, and of anything that may be the same."""

    def __init__(self) -> None:
        self._first: dict[str, Collection[str]] = {}

    def name_of(self, number: str, order_type: str | None) -> str:
        """Return the number, with an operation where it is that of something else already."""
        some = operations_of(order_type)
        first = self._first.setdefault(number, some)
        both = tuple(each for each in first if each in some)
        if not both:
            return f"{number} {some[0]}"
        self._first[number] = both
        return number


@dataclass(frozen=True)
class StatementEntry:
    """One transaction of the service's statement, `amount` in `currency`.

    `file`: SHA-256 of the file; `given_by`, `given_at`: who gave it to a report, and when, Unix ms; `time_zone`: that
    of the policy that was in force then, None where none was. `first_day`, `last_day`: of the lines of its currency and
    type in that file; None where they have no dates.
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
    first_day: date | None = None
    last_day: date | None = None
    file: str = ""
    given_by: str = ""
    given_at: int = 0
    time_zone: str | None = None

    @property
    def names(self) -> tuple[Name, ...]:
        """Return the names by which the ledger may know it."""
        return names_of(self.order_no, self.request_id, self.order_type)

    def is_among(self, known: Container[Name]) -> bool:
        """Tell whether one of its names is known."""
        return any(name in known for name in self.names)

    @property
    def is_incoming(self) -> bool:
        """Tell whether money came in by it."""
        return (self.order_type or "").casefold() in INCOMING

    @property
    def moved(self) -> Decimal:
        """Return by how much its balance moved: what comes in less its fee, or minus what goes out, its fee inside
        (document, transaction record: what arrives is after the fee)."""
        fee = self.fee if is_same_currency(self.fee_currency, self.currency) else None
        return self.amount - (fee or ZERO) if self.is_incoming else -self.amount

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
        for name, read in _READ_AS.items():
            made[name] = None if made.get(name) is None else read(made[name])
        return cls(**made)

    def is_like(self, other: "StatementEntry") -> bool:
        """Tell whether both say the same, on whichever lines of whichever files."""
        return replace(self, **{name: getattr(other, name) for name in ("line", *OF_ITS_FILE)}).content == other.content


def told_apart(lines: Iterable[StatementEntry]) -> Iterator[tuple[str, StatementEntry]]:
    """Yield lines, the oldest first, each with the name of its transaction."""
    numbers = Numbers()
    return ((numbers.name_of(line.order_no, line.order_type), line) for line in lines)


def last_lines(lines: Iterable[StatementEntry]) -> list[StatementEntry]:
    """Return the last line of each transaction."""
    return list(dict(told_apart(lines)).values())


OF_ITS_FILE = ("first_day", "last_day")
"""Facts of an entry that the other lines of its file say."""

_READ_AS: Mapping[str, Callable[[Any], Any]] = {
    "amount": Decimal,
    "fee": Decimal,
    "status": OrderStatus,
    **dict.fromkeys(("booked_on", *OF_ITS_FILE), date.fromisoformat),
}

GIVEN = ("file", "given_by", "given_at")
"""Facts of an entry that do not stand on its line."""


@dataclass(frozen=True)
class Statement:
    """A file of the service's transactions; `file`: SHA-256 of its bytes."""

    file: str
    entries: Sequence[StatementEntry]

    def with_days(self) -> Iterator[StatementEntry]:
        """Return the entries, each with the days that the file has lines like it of."""
        days: dict[tuple[str, str | None], list[date]] = {}
        for entry in self.entries:
            if entry.booked_on is not None:
                days.setdefault((entry.currency, entry.order_type), []).append(entry.booked_on)
        for entry in self.entries:
            of_its_kind = days.get((entry.currency, entry.order_type))
            yield replace(entry, first_day=min(of_its_kind), last_day=max(of_its_kind)) if of_its_kind else entry
