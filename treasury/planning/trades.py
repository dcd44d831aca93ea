"""Trades of a rebalancing: what is converted, within which bounds of the day, what is wanted and not possible; pure.

Planning clips its trades with `first_over`, and recording judges them with it: no start refuses its own plan.
"""

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal, localcontext
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from pydantic import TypeAdapter

from treasury.money import EXACT, FRACTION_DIGITS, ZERO, canonical, exact, format_amount, round_down, round_up
from treasury.policy.judge import Leaving, judge
from treasury.policy.limits import ConversionLimits
from treasury.policy.tables import BPS

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


RECEIVE_DIGITS = 8
"""Fractional digits of a received amount in a bound: coarser than the service's ten, so its rounding never matters."""


class Side(StrEnum):
    """The side of a trade: its pair's first asset is bought or sold."""

    SELL = "SELL"
    BUY = "BUY"


@dataclass(frozen=True)
class Rates:
    """Prices of the first asset of a pair in the second: what buying it costs, what selling it brings."""

    buy: Decimal
    sell: Decimal

    @staticmethod
    def from_text(content: Mapping[str, str]) -> "Rates":
        """From amounts as text."""
        return Rates(Decimal(content["buy"]), Decimal(content["sell"]))

    def of(self, side: Side) -> Decimal:
        """The price for a trade of this side."""
        return self.buy if side is Side.BUY else self.sell


@dataclass(frozen=True)
class Trade:
    """One conversion and its bounds. What is received is meant before the fee, in `receive_currency`."""

    asset: str
    """The first asset of the pair."""
    side: Side
    symbol: str
    currency: str
    """The asset that is spent: the first of the pair when selling, the second when buying."""
    amount: Decimal
    """How much is spent, in `currency`."""
    receive_currency: str
    expected_receive: Decimal
    min_receive: Decimal
    max_fee: Decimal
    rate: Decimal
    """Price of the first asset in the second when the plan was made."""
    min_rate: Decimal | None
    """The lowest price that a sale may have."""
    max_rate: Decimal | None
    """The highest price that a purchase may have."""
    purpose: str = "band"
    """Its purpose: `obligation`, `floor` or `band`."""
    cost: Decimal = Decimal(0)
    """Its cost against the middle of both rates, fee included, in the base asset."""
    value: Decimal = Decimal(0)
    """The amount that is spent, in the base asset, when the plan was made."""
    is_own_pair: bool = True
    """True for its asset's own pair, with the base asset; one plan may trade an asset in several."""

    def as_text(self) -> dict[str, str]:
        """Everything that it says, as text."""
        return {name: str(value) for name, value in _plain(self).items()}

    @property
    def row_ref(self) -> str:
        """Its name in its run: side and asset, or the pair where that is between two others than the base asset."""
        return f"{self.side.value.lower()}-{self.asset if self.is_own_pair else self.symbol}"

    @property
    def name(self) -> str:
        """For display: side, pair and amount."""
        return f"{self.side.value} {self.symbol} {format_amount(self.amount)}"


@dataclass(frozen=True)
class SkippedTrade:
    """A trade (or the part of one) that is wanted and not made, and why. `amount` is in `currency`."""

    asset: str
    side: Side
    currency: str
    amount: Decimal
    reason: str
    is_wanted: bool = True
    """True when something is left undone by it; not where the trade would be too small to be worth its cost."""


@dataclass(frozen=True)
class TradePlan:
    """The trades in the order they are made: sales first, then purchases, each by asset."""

    policy_version: str
    trades: tuple[Trade, ...]
    skipped: tuple[SkippedTrade, ...]
    later: tuple[Trade, ...] = ()
    """Trades that the proceeds of these are to pay for: planned again in the next round, once they are settled."""

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON can hold it, amounts as text."""
        return {
            "policy_version": self.policy_version,
            "trades": [_plain(trade) for trade in self.trades],
            "skipped": [_plain(skipped) for skipped in self.skipped],
            "later": [_plain(trade) for trade in self.later],
        }

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> "TradePlan":
        """The plan that `as_dict` wrote. Raises `ValueError` when it did not."""
        return _reader().validate_python(content)


@functools.cache
def _reader() -> TypeAdapter[TradePlan]:
    return TypeAdapter(TradePlan)


def _plain(record: Trade | SkippedTrade) -> dict[str, Any]:
    return {name: canonical(value) if isinstance(value, Decimal) else value for name, value in asdict(record).items()}


def bounded_trade(trade: Trade, slippage_bps: int, fee_bps: int) -> Trade:
    """Return a trade with the bounds that its quote is held to."""
    with localcontext(EXACT):
        selling, rate, slippage = trade.side is Side.SELL, trade.rate, Decimal(slippage_bps) / BPS
        return replace(
            trade,
            min_receive=round_down(trade.expected_receive * (1 - slippage), RECEIVE_DIGITS),
            max_fee=round_up(trade.expected_receive * fee_bps / BPS, RECEIVE_DIGITS),
            min_rate=round_up(rate * (1 - slippage), FRACTION_DIGITS) if selling else None,
            max_rate=None if selling else round_down(rate * (1 + slippage), FRACTION_DIGITS),
        )


@dataclass(frozen=True)
class Traded:
    """The amounts that the conversions of a day moved."""

    moved: Mapping[str, Decimal]
    """Currency -> spent and received of it."""
    spent: tuple[tuple[str, str, Decimal], ...]
    """Of conversions that no plan has, such as called ones: pair, what is spent, and how much of it."""
    value: Mapping[str, Decimal]
    """Pair -> what its planned trades were worth, in the base asset."""
    cost: Decimal
    """Their cost by their plans, in the base asset."""


@exact
def check_trades(plan: TradePlan, limits: ConversionLimits | None, before: Traded) -> str | None:
    """Why a plan breaks the `[conversions]` limits of a policy; None when it does not.

    `before`: what was traded earlier on the same day, by other rounds and calls.
    """
    if limits is None:
        return None
    for trade in plan.trades:
        for breach in judge(limits, Leaving(currency=trade.currency, symbol=trade.symbol)):
            return f"{breach.said} is not a pair that the policy allows"
    left = limits_left(limits, moved=before.moved, spent=None, traded=before.value, cost=before.cost)
    over = first_over(plan.trades, left)
    return None if over is None else _said(over, limits, before)


def _said(over: OverLimit, limits: ConversionLimits, before: Traded) -> str:
    """Say which limit of a day trades are over, with what was traded before."""
    if over.limit == "max_spend":
        allowed = format_amount(limits.max_per_trade[over.of])
        named = "" if over.trade is None else f"the trade of {over.trade.symbol} "
        return f"{named}spends {format_amount(over.total)} {over.of}, over max_per_trade, {allowed}"
    if over.limit == "max_turnover":
        today = before.moved.get(over.of, Decimal(0))
        moves = f"its trades move {format_amount(over.total)} {over.of}"
        said = f"{moves}, over max_turnover, {format_amount(limits.max_turnover[over.of])}"
        return f"{said}, of which {format_amount(today)} were moved today" if today else said
    limited: dict[str, tuple[str, Decimal | None, Decimal | None]] = {
        "max_per_pair": (f"max_per_pair of {over.of}", limits.max_per_pair.get(over.of), before.value.get(over.of)),
        "max_total": ("max_value_per_day", limits.max_value_per_day, sum(before.value.values(), Decimal(0))),
        "max_cost": ("max_cost_per_day", limits.max_cost_per_day, before.cost),
    }
    name, most, earlier = limited[over.limit]
    total = canonical(over.total + (earlier or Decimal(0)))
    return f"with what was traded today it comes to {total}, over {name}, {canonical(most or Decimal(0))}"


MOVED_BPS = 500
"""So much more than is wanted now a trade may spend that was planned before: rates move meanwhile."""


@exact
def is_still_wanted(planned: Iterable[Trade], now: Iterable[Trade]) -> bool:
    """Tell whether the trades that are wanted now hold every one that was planned before, but for what rates moved."""
    most: dict[tuple[str, Side, str], Decimal] = {}
    for trade in now:
        way = (trade.symbol, trade.side, trade.currency)
        most[way] = most.get(way, Decimal(0)) + trade.amount * (BPS + MOVED_BPS) / BPS
    return all(trade.amount <= most.get((trade.symbol, trade.side, trade.currency), Decimal(0)) for trade in planned)
