"""Entries of a statement: the service's own list of transactions, a third side beside ledger and answers."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any, Self

from treasury.money import ZERO, format_amount, is_same_currency
from treasury.provider.status import OrderStatus
from treasury.reconciliation.numbers import INCOMING, PAYIN, Name, Numbers, names_of


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
