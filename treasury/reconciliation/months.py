"""Pure: a month of the balance accounts, and the entries that an accountant books."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from zoneinfo import ZoneInfo

from treasury.errors import InputError
from treasury.money import ZERO, canonical, exact
from treasury.reconciliation.balances import BalanceAccount, Night


class EntryKind(StrEnum):
    """The kind of an entry: the column of the month that it is added up in."""

    RECEIVED = "received"
    """Conversions brought it, or a statement shows it."""
    PAID = "paid"
    """It arrived, less the fee taken from it; or a statement shows that somebody else paid it."""
    FEE = "fees"
    RETURNED = "returned"
    """It came back after it had arrived."""
    ADJUSTED = "adjustments"
    """A person accepted a movement that nothing explains."""


@dataclass(frozen=True)
class Booking:
    """An entry of a balance account: `amount` in `currency`, negative where it leaves; `at`: Unix ms.

    `id` is the same in every report. `reference`: the request id, the statement's order number, or the break.
    """

    id: str
    at: int
    currency: str
    kind: EntryKind
    amount: Decimal
    reference: str
    run_key: str | None = None
    row_ref: str | None = None
    order_no: str | None = None
    moved_after: int | None = None
    """When the order that it is of left, or, at the earliest, what a pay-in brought came, Unix ms."""


@dataclass(frozen=True)
class MonthLine:
    """A month of one account, outgoing sums negative: the opening and all sums are the closing."""

    currency: str
    opening: Decimal
    sums: Mapping[EntryKind, Decimal]
    shown: Decimal | None
    """The balance at the service, in the last report of everything of the month."""
    moved_since: Decimal = ZERO
    """The sum of the entries of the month whose orders left, or whose pay-ins came, after that report."""

    @property
    @exact
    def closing(self) -> Decimal:
        """Return the balance by the entries."""
        return sum(self.sums.values(), self.opening)

    def as_values(self) -> dict[str, str | Decimal | None]:
        """Return it field by field. `difference`: the shown balance less the closing; what moved after the balance was
        read is no part of it. It is in flight, or not explained."""
        difference = None if self.shown is None else self.shown - (self.closing - self.moved_since)
        return {
            "currency": self.currency,
            "opening": self.opening,
            **{kind.value: self.sums.get(kind, ZERO) for kind in EntryKind},
            "closing": self.closing,
            "shown": self.shown,
            "difference": difference,
        }

    def as_text(self) -> dict[str, str | None]:
        """Return it as exact text."""
        values = self.as_values()
        return {name: canonical(value) if isinstance(value, Decimal) else value for name, value in values.items()}


def span_of(month: str, zone_at: Callable[[int], str]) -> tuple[int, int]:
    """Return the first moment of a month, and of the one after it, Unix ms.

    `zone_at`: the time zone whose days counted at a moment, Unix ms: a month that is over ends as it did. Raises
    `InputError` for what is no month.
    """
    wrong = InputError(f"--month is a year and a month, for example 2026-11 (got {month!r})")
    try:
        first = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
        after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    except ValueError:
        raise wrong from None
    if month != f"{first:%Y-%m}":  # `2026-1` would be another folder
        raise wrong
    zones = (ZoneInfo(zone_at(int(each.timestamp() * 1000))) for each in (first, after))
    starts = [each.replace(tzinfo=zone) for each, zone in zip((first, after), zones, strict=True)]
    return int(starts[0].timestamp() * 1000), int(starts[1].timestamp() * 1000)


@exact
def draw_month(
    accounts: Sequence[BalanceAccount],
    bookings: Iterable[Booking],
    shown: Mapping[str, Night],
    span: tuple[int, int],
) -> tuple[list[MonthLine], list[Booking]]:
    """Draw the month of each account that was open in it; return the lines, and the entries of the month by time.

    `shown`: currency -> the balance that the last report of everything of the month read. An account that is opened in
    the month begins with its opening.
    """
    first, after = span
    opening = {
        each.currency: each.opening for each in accounts if each.opening is not None and (each.opened_at or 0) < after
    }
    sums: dict[str, dict[EntryKind, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    since: dict[str, Decimal] = defaultdict(Decimal)
    of_month = []
    for each in sorted(bookings, key=lambda each: (each.at, each.id)):
        if each.currency in opening and each.at < first:
            opening[each.currency] += each.amount
        elif each.currency in opening and each.at < after:
            sums[each.currency][each.kind] += each.amount
            of_month.append(each)
            if each.currency in shown and (each.moved_after or 0) > shown[each.currency].as_of:
                since[each.currency] += each.amount
    balances = {currency: night.balance for currency, night in shown.items()}
    lines = [
        MonthLine(currency, opening[currency], dict(sums[currency]), balances.get(currency), since[currency])
        for currency in sorted(opening)
    ]
    return lines, of_month
