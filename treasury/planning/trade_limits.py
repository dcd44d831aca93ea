"""The limits of a day's trades: what is left of them, and the first one that trades are over; pure.

Planning clips its trades with `first_over`, and recording judges them with it: no start refuses its own plan.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple, Protocol

from treasury.money import FRACTION_DIGITS, ZERO, canonical, exact, round_down
from treasury.policy.limits import ConversionLimits

NO_MORE = "allows no more"
"""How the reason of a shortfall ends that a limit keeps open."""


class LimitedTrade(Protocol):
    """A trade as limits see it: what it moves, what it is worth and what it costs, the last two in the base asset."""

    @property
    def symbol(self) -> str: ...
    @property
    def currency(self) -> str: ...
    @property
    def amount(self) -> Decimal: ...
    @property
    def receive_currency(self) -> str: ...
    @property
    def expected_receive(self) -> Decimal: ...
    @property
    def value(self) -> Decimal: ...
    @property
    def cost(self) -> Decimal: ...


@dataclass(frozen=True, kw_only=True)
class LimitsLeft:
    """The rest of each limit, after what was traded before on the same day. What is left out is not limited."""

    max_spend: Mapping[str, Decimal] = field(default_factory=dict)
    """By currency spent: the most that one trade may spend."""
    max_turnover: Mapping[str, Decimal] = field(default_factory=dict)
    """By currency: the most that all trades together may spend and receive of it."""
    max_spent: Mapping[str, Decimal] = field(default_factory=dict)
    """By currency: the most that all trades together may spend of it."""
    max_per_pair: Mapping[str, Decimal] = field(default_factory=dict)
    """By symbol: the most that trades of the pair may be worth, in the base asset."""
    max_total: Decimal | None = None
    """The most that all trades together may be worth, in the base asset."""
    max_cost: Decimal | None = None
    """The most that all trades together may cost against mid, in the base asset."""


class OverLimit(NamedTuple):
    """A limit that trades are over."""

    limit: str
    """Its field of `LimitsLeft`."""
    of: str
    """The currency or the pair that it limits; the base asset's limits name nothing."""
    total: Decimal
    """The sum of the trades."""
    left: Decimal
    """The part of the limit that is left."""
    trade: LimitedTrade | None = None
    """The trade, where the limit is one for each."""

    def reason(self, base_asset: str) -> str:
        """Say that the limit allows no more, as the reason of a shortfall."""
        left = canonical(self.left)
        named = {
            "max_spend": f"max_per_trade (or max_share_percent), {left} {self.of}",
            "max_spent": f"max_per_day, of which {left} {self.of} are left today",
            "max_turnover": f"max_turnover, of which {left} {self.of} are left today",
            "max_per_pair": f"max_per_pair of {self.of}, of which {left} {base_asset} are left today",
            "max_total": f"max_value_per_day, of which {left} {base_asset} are left",
            "max_cost": f"max_cost_per_day, of which {left} {base_asset} are left",
        }
        return f"{named[self.limit]}, {NO_MORE}"


def value_of(amount: Decimal, price: Decimal) -> Decimal:
    """Return what a trade counts for that spends this amount: it at the middle of the rates, in the base asset."""
    return round_down(amount * price, FRACTION_DIGITS)


@exact
def first_over(trades: Iterable[LimitedTrade], left: LimitsLeft) -> OverLimit | None:
    """Return the first limit that trades are over; None where they are inside all of them.

    A limit that was used up before, or overdrawn, stands against nothing that these trades do not touch.
    """
    return next(_over(tuple(trades), left), None)


def _over(trades: tuple[LimitedTrade, ...], left: LimitsLeft) -> Iterator[OverLimit]:
    spent: defaultdict[str, Decimal] = defaultdict(Decimal)
    moved: defaultdict[str, Decimal] = defaultdict(Decimal)
    worth: defaultdict[str, Decimal] = defaultdict(Decimal)
    for each in trades:
        most = left.max_spend.get(each.currency)
        if most is not None and each.amount > most:
            yield OverLimit("max_spend", each.currency, each.amount, most, each)
        spent[each.currency] += each.amount
        moved[each.currency] += each.amount
        moved[each.receive_currency] += each.expected_receive
        worth[each.symbol] += each.value
    by_name = {
        "max_spent": (spent, left.max_spent),
        "max_turnover": (moved, left.max_turnover),
        "max_per_pair": (worth, left.max_per_pair),
    }
    for name, (used, limits) in by_name.items():
        for of, most in sorted(limits.items()):
            if used[of] > max(most, ZERO):
                yield OverLimit(name, of, used[of], most)
    totals = {"max_total": (sum(worth.values(), ZERO), left.max_total)}
    totals["max_cost"] = (sum((each.cost for each in trades), ZERO), left.max_cost)
    for name, (total, most) in totals.items():
        if most is not None and total > max(most, ZERO):
            yield OverLimit(name, "", total, most)


@exact
def limits_left(
    limits: ConversionLimits,
    *,
    moved: Mapping[str, Decimal],
    spent: Mapping[str, Decimal] | None,
    traded: Mapping[str, Decimal],
    cost: Decimal,
) -> LimitsLeft:
    """Return what the trades of a day left of a policy's limits, never less than nothing.

    `spent`: by currency, what counts towards `max_per_day`; None where that is judged with the payments of the day.
    """
    total, dear = limits.max_value_per_day, limits.max_cost_per_day
    return LimitsLeft(
        max_spend=limits.max_per_trade,
        max_turnover=_rest(limits.max_turnover, moved),
        max_spent={} if spent is None else _rest(limits.max_per_day, spent),
        max_per_pair=_rest(limits.max_per_pair, traded),
        max_total=None if total is None else max(total - sum(traded.values(), ZERO), ZERO),
        max_cost=None if dear is None else max(dear - cost, ZERO),
    )


def _rest(limits: Mapping[str, Decimal], used: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {name: max(most - used.get(name, ZERO), ZERO) for name, most in limits.items()}
