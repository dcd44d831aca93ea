"""Pure: the balance proof. Does what became final explain how the service's balances changed since the last report?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from treasury.money import canonical, exact

ZERO = Decimal(0)


class Judgement(StrEnum):
    """The judgement on one balance."""

    EXPLAINED = "explained"
    INFLOW = "inflow"
    """More came in than the orders explain: deposits, pay-ins of others, a pooled balance. A warning."""
    OUTFLOW = "outflow"
    """More left than the orders explain. A break."""
    FIRST = "first"
    """No balance to compare with yet."""
    MOVING = "moving"
    """It changed while the orders were asked, so it is not judged."""
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class BalanceSeen:
    """A balance in its currency, before and after a sweep; None where it could not be read."""

    currency: str
    before: Decimal | None
    after: Decimal | None
    opening: Decimal | None
    """At the last report that read it."""
    note: str | None = None
    """Why it could not be read."""
    refused: bool = False
    """Whether the service does not show it at all: then asking again would not help, and nothing is incomplete."""


@dataclass(frozen=True)
class Flows:
    """What the orders say happened in one currency since the last report, amounts in it, zero or more (but `arrived`
    and `received`, which corrections may turn)."""

    arrived: Decimal = ZERO
    """Paid out for good."""
    received: Decimal = ZERO
    """What conversions brought."""
    fees: Decimal = ZERO
    """Of what arrived or is in flight: taken from the balance, or from what arrives; the interface does not say."""
    opening_in_flight: Decimal = ZERO
    closing_in_flight: Decimal = ZERO
    """May be debited already, or only at the end: the interface does not say."""
    receiving: Decimal = ZERO
    """What conversions on their way may have brought already."""
    unpriced: Decimal = ZERO
    """Debits that were not known when they were sent (scan-to-pay), by what the service shows of them."""

    def __add__(self, other: "Flows") -> "Flows":
        return Flows(**{name: value + getattr(other, name) for name, value in vars(self).items()})


@dataclass(frozen=True)
class BalanceLine:
    """The proof of one balance. The orders explain a change from `explained_low` to `explained_high`."""

    currency: str
    opening: Decimal | None
    closing: Decimal | None
    change: Decimal | None
    explained_low: Decimal | None
    explained_high: Decimal | None
    unexplained: Decimal | None
    judgement: Judgement
    note: str | None = None

    def as_text(self) -> dict[str, str | None]:
        """As exact text."""
        said = {name: value for name, value in vars(self).items() if name not in ("judgement", "note")}
        shown = {name: canonical(value) if isinstance(value, Decimal) else value for name, value in said.items()}
        return {**shown, "judgement": self.judgement.value, "note": self.note or ""}


@exact
def prove_balance(seen: BalanceSeen, flows: Flows) -> BalanceLine:
    """Compare one balance's change with what the orders explain of it."""
    low = -flows.arrived + flows.received - flows.fees - flows.closing_in_flight - flows.unpriced
    high = -flows.arrived + flows.received + flows.opening_in_flight + flows.receiving
    if seen.after is None:
        return BalanceLine(seen.currency, seen.opening, None, None, None, None, None, Judgement.UNREADABLE, seen.note)
    if seen.opening is None:
        return BalanceLine(seen.currency, None, seen.after, None, None, None, None, Judgement.FIRST)
    change = seen.after - seen.opening
    if seen.before != seen.after:
        return BalanceLine(seen.currency, seen.opening, seen.after, change, low, high, None, Judgement.MOVING)
    if change > high:
        judgement, unexplained = Judgement.INFLOW, change - high
    elif change < low:
        judgement, unexplained = Judgement.OUTFLOW, change - low
    else:
        judgement, unexplained = Judgement.EXPLAINED, ZERO
    return BalanceLine(seen.currency, seen.opening, seen.after, change, low, high, unexplained, judgement)


@exact
def pool(seen: Sequence[BalanceSeen], flows: Mapping[str, Flows]) -> dict[str, Flows]:
    """The flows that each balance has to explain.

    Codes of one asset on several chains may show one pooled balance (public fact 5.10 leaves it open). Where they
    show the same amounts they are one balance, and all their flows together explain it.
    """
    pools: dict[tuple[str, Decimal | None, Decimal | None], list[str]] = {}
    for each in seen:
        pools.setdefault((each.currency.partition("_")[0], each.opening, each.after), []).append(each.currency)
    return {
        currency: sum((flows.get(member, Flows()) for member in members), Flows())
        for members in pools.values()
        for currency in members
    }
