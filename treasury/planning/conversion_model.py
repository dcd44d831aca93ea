"""The input and output of a plan of conversions, and its assets with their levels and pairs with their costs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Literal

from treasury.errors import InputError
from treasury.money import ZERO, round_down, round_up
from treasury.planning.trades import LimitsLeft, Side, value_of
from treasury.policy.tables import BPS


class Purpose(StrEnum):
    """The purpose of a conversion, or of what a shortfall leaves open; the first comes first."""

    OBLIGATION = "obligation"
    """Payouts and withdrawals of today and the horizon."""
    FLOOR = "floor"
    """The amount that an asset is never spent below."""
    BAND = "band"
    """The minimum and the maximum around the target."""


TOO_SMALL = "worth less than the smallest trade"
"""How the reason of a shortfall begins that no trade is worth being made for."""

TIERS = tuple(Purpose)
"""The purposes, the most urgent first."""


@dataclass(frozen=True)
class Pair:
    """A trading pair and its two prices, each one `asset` in `against`."""

    symbol: str
    """For example `ETH-USDT`: first the asset, then what it is traded against."""
    asset: str
    against: str
    buy: Decimal | None
    """The price of one; None when it could not be had, or is never bought there."""
    sell: Decimal | None
    """The proceeds of one; None when it could not be had, or is never sold there."""


@dataclass(frozen=True)
class Holding:
    """One asset: what there is, what is needed, and its band. Amounts are in the asset."""

    asset: str
    spendable: Decimal
    """Available and certainly not promised to an order on its way: the most that may be spent of it now."""
    expected: Decimal
    """The amount counted against shortfalls: available, plus conversions on their way, less unknown debits."""
    need: Decimal
    """Obligations of today and the horizon."""
    floor: Decimal
    """Never spent below need + floor; a shortfall below that comes second."""
    minimum: Decimal
    """The band is around what is left after the need. Of the base asset, the minimum is its reserve."""
    target: Decimal
    maximum: Decimal | None
    """None: no upper edge."""
    price: Decimal
    """Value of one in the base asset, for weighing and costs."""
    reserve: Decimal = Decimal(0)
    """Not spent below need + reserve, whatever for; being below it is no shortfall."""
    brought: Mapping[Purpose, Decimal] = field(default_factory=dict)
    """Of what is there: what sales brought for others, by purpose. It is spent for that purpose or a more urgent one,
    also where the asset is below its own levels; the asset's own money is not."""
    coming: Mapping[Purpose, Decimal] = field(default_factory=dict)
    """Of what is expected and not there: what sales on their way are to bring for others, by purpose."""


@dataclass(frozen=True)
class Terms(LimitsLeft):
    """How conversions are made and what limits them."""

    base_asset: str
    min_trade: Decimal
    """In the base asset; smaller trades are not made."""
    fixed_cost: Decimal = Decimal(0)
    """The cost of one trade besides its fee, in the base asset; only weighed, never charged."""
    fee_bps: Decimal = Decimal(0)
    """Expected fee of a trade, of what is received."""
    return_to: Literal["edge", "target"] = "target"
    """The amount that an asset outside its band is brought back to."""
    digits: Mapping[str, int] = field(default_factory=dict)
    """Fractional digits that an amount of an asset may have; without an entry 8, of the base asset 6."""


@dataclass(frozen=True)
class Conversion:
    """One trade. What is received is meant before the fee, in `receive_currency`."""

    symbol: str
    side: Side
    currency: str
    """The asset that is spent."""
    amount: Decimal
    receive_currency: str
    expected_receive: Decimal
    """Before the fee, rounded down."""
    rate: Decimal
    """Price of the pair's asset when the plan was made."""
    purpose: Purpose
    round: int
    """1: paid from what is spendable now; each later one from the settled proceeds of earlier rounds."""
    cost: Decimal
    """Spread, fee and fixed cost against mid, in the base asset. Mid is that of both prices; of one, that one."""
    value: Decimal
    """The amount spent, at its price, in the base asset: limits and the smallest trade count it."""


@dataclass(frozen=True)
class Shortfall:
    """The part of one asset and one purpose that stays open, and why."""

    asset: str
    purpose: Purpose
    amount: Decimal
    """In the asset: what is lacking, or what is above the band and stays."""
    reason: str


@dataclass(frozen=True)
class ConversionPlan:
    """Conversions in the order they are made (by round, sales first, by asset), and what stays open."""

    conversions: tuple[Conversion, ...]
    shortfalls: tuple[Shortfall, ...]
    cost: Decimal
    """The cost of all conversions against mid, in the base asset."""
    next_unit: Mapping[str, Decimal | None]
    """By asset with a need: what one more unit of need would cost in the base asset; None: it cannot be had."""


COST_DIGITS = 8
"""Fractional digits of a stated cost, rounded up."""
MOST_LEGS = 3
"""So many trades a route from one asset to another may take: one over the base asset takes two."""


@dataclass(frozen=True)
class AssetLevels:
    """The levels of one asset. A level is an amount of the asset, its need included."""

    holding: Holding
    is_base: bool
    to_target: bool

    @cached_property
    def in_hand(self) -> Decimal:
        """Return what spending is counted from: money on its way here is not spent before it is here."""
        return min(self.holding.spendable, self.holding.expected)

    @cached_property
    def is_low(self) -> bool:
        """Tell whether what is expected is below the band."""
        return self.holding.expected < self.holding.need + self.holding.minimum

    @cached_property
    def is_high(self) -> bool:
        """Tell whether what is in hand is above the band."""
        high = self.holding.maximum
        return high is not None and self.in_hand > self.holding.need + high

    @cached_property
    def wanted(self) -> Mapping[Purpose, Decimal]:
        """The level that purchases for each purpose bring it up to, what is more urgent included."""
        each = self.holding
        floor, low = each.need + each.floor, each.need + each.minimum
        band = each.need + each.target if self.to_target and self.is_low else low
        return {Purpose.OBLIGATION: each.need, Purpose.FLOOR: floor, Purpose.BAND: max(floor, band)}

    @cached_property
    def kept(self) -> Mapping[Purpose, Decimal]:
        """The level that it may be spent down to for each purpose of another asset.

        What sales brought for a more urgent one is kept beside its own money. What they brought for a payment in
        another asset goes on to it though one in this asset lacks as much: else it is bought again in each round.
        """
        each = self.holding
        least = each.need + max(each.floor, each.reserve)
        low = max(least, each.need + each.minimum)
        band = low if self.is_base else max(low, each.need + each.target)
        own, urgent, found = self.in_hand - sum(each.brought.values(), ZERO), ZERO, {}
        for purpose, level in zip(TIERS, (least, low, band), strict=True):
            found[purpose] = urgent + max(min(level, own), ZERO if purpose is Purpose.OBLIGATION else each.need)
            urgent += each.brought.get(purpose, ZERO)
        return found

    @cached_property
    def high_aim(self) -> Decimal | None:
        """Return what a sale of its surplus brings it down to; None without an upper edge."""
        if self.holding.maximum is None:
            return None
        edge = self.holding.target if self.to_target and self.is_high else self.holding.maximum
        return self.holding.need + edge

    def missing(self, purpose: Purpose, change: Decimal) -> Decimal:
        """How much is missing up to the level of a purpose once trades changed it."""
        return max(self.wanted[purpose] - self.holding.expected - change, ZERO)

    def above(self, change: Decimal) -> Decimal:
        """How much of a surplus is left once trades changed it."""
        return ZERO if self.high_aim is None or not self.is_high else max(self.in_hand + change - self.high_aim, ZERO)


@dataclass(frozen=True)
class Leg:
    """One side of a pair: a trade from the currency that is spent to the one that is received."""

    symbol: str
    side: Side
    spends: str
    receives: str
    rate: Decimal
    spread: Decimal
    """The cost of one `asset` of the pair above mid, or the loss below it, in `against`; never negative."""


Route = tuple[Leg, ...]
"""Trades one after the other, each of which spends what the one before it received."""


@dataclass(frozen=True)
class TradeBook:
    """Levels of the assets and legs between them in a fixed order, and what trades bring, are worth and cost."""

    terms: Terms
    levels: Mapping[str, AssetLevels]
    """By asset; the base asset is the first, the others follow by name."""
    legs: tuple[Leg, ...]

    @staticmethod
    def of(holdings: Iterable[Holding], pairs: Iterable[Pair], terms: Terms) -> "TradeBook":
        """The book of a plan. Raises `InputError` for what is named twice, and for a price that is not positive."""
        levels: dict[str, AssetLevels] = {}
        for holding in sorted(holdings, key=lambda each: (each.asset != terms.base_asset, each.asset)):
            if holding.asset in levels:
                raise InputError(f"the holding of {holding.asset} is given twice")
            if holding.price <= 0:
                raise InputError(f"the price of {holding.asset} must be greater than zero")
            is_base = holding.asset == terms.base_asset
            levels[holding.asset] = AssetLevels(holding, is_base, terms.return_to == "target")
        legs: list[Leg] = []
        names: set[str] = set()
        for pair in sorted(pairs, key=lambda each: each.symbol):
            if pair.symbol in names:
                raise InputError(f"the pair {pair.symbol} is given twice")
            names.add(pair.symbol)
            if pair.asset in levels and pair.against in levels:
                legs += _sides(pair)
        return TradeBook(terms, levels, tuple(legs))

    @cached_property
    def fee(self) -> Decimal:
        """The expected fee as a share of what is received."""
        return self.terms.fee_bps / BPS

    def price(self, asset: str) -> Decimal:
        """Value of one in the base asset."""
        return Decimal(1) if asset == self.terms.base_asset else self.levels[asset].holding.price

    def digits(self, asset: str) -> int:
        """Fractional digits that an amount of it may have."""
        return self.terms.digits.get(asset, 6 if asset == self.terms.base_asset else 8)

    def unit(self, asset: str) -> Decimal:
        """The smallest amount of it."""
        return Decimal(1).scaleb(-self.digits(asset))

    def gross(self, leg: Leg, amount: Decimal) -> Decimal:
        """Return what spending an amount brings before the fee, rounded down."""
        received = amount / leg.rate if leg.side is Side.BUY else amount * leg.rate
        return round_down(received, self.digits(leg.receives))

    def net(self, leg: Leg, amount: Decimal) -> Decimal:
        """Return what spending an amount brings once the expected fee, rounded up, is taken."""
        gross = self.gross(leg, amount)
        return gross - round_up(gross * self.fee, self.digits(leg.receives))

    def spend_for(self, leg: Leg, net: Decimal) -> Decimal:
        """The least to spend for this much after the fee."""
        if net <= 0:
            return ZERO
        digits, unit = self.digits(leg.receives), self.unit(leg.receives)
        gross = round_up(net / (1 - self.fee), digits)
        while gross - round_up(gross * self.fee, digits) < net:
            gross += unit
        amount = round_up(gross * leg.rate if leg.side is Side.BUY else gross / leg.rate, self.digits(leg.spends))
        while self.gross(leg, amount) < gross:
            amount += self.unit(leg.spends)
        return amount

    def value(self, leg: Leg, amount: Decimal) -> Decimal:
        """Return what a trade counts for, in the base asset."""
        return value_of(amount, self.price(leg.spends))

    def smallest(self, leg: Leg) -> Decimal:
        """The least to spend for a trade that is worth being made."""
        return round_up(self.terms.min_trade / self.price(leg.spends), self.digits(leg.spends))

    def cost(self, leg: Leg, amount: Decimal) -> Decimal:
        """Spread, fee and fixed cost of a trade in the base asset, rounded up."""
        gross = self.gross(leg, amount)
        is_buy = leg.side is Side.BUY
        fee = round_up(gross * self.fee, self.digits(leg.receives)) * self.price(leg.receives)
        spread = (gross if is_buy else amount) * leg.spread * self.price(leg.spends if is_buy else leg.receives)
        return round_up(spread + fee + self.terms.fixed_cost, COST_DIGITS)

    @cached_property
    def losses(self) -> Mapping[Leg, Decimal]:
        """The spread and fee of each leg as a share of what is spent; to compare legs, not to charge them."""
        found = {}
        for leg in self.legs:
            gain, traded = (1 / leg.rate, 1 / leg.rate) if leg.side is Side.BUY else (leg.rate, Decimal(1))
            against = self.price(leg.spends if leg.side is Side.BUY else leg.receives)
            lost = traded * leg.spread * against + gain * self.fee * self.price(leg.receives)
            found[leg] = lost / self.price(leg.spends)
        return found

    def conversion(self, leg: Leg, amount: Decimal, purpose: Purpose, number: int) -> Conversion:
        """A trade of this amount, in this round."""
        return Conversion(
            symbol=leg.symbol,
            side=leg.side,
            currency=leg.spends,
            amount=amount,
            receive_currency=leg.receives,
            expected_receive=self.gross(leg, amount),
            rate=leg.rate,
            purpose=purpose,
            round=number,
            cost=self.cost(leg, amount),
            value=self.value(leg, amount),
        )

    @cached_property
    def routes(self) -> Mapping[str, Sequence[Route]]:
        """By asset: every route that ends there, shorter ones first, none of which passes an asset twice."""
        found: dict[str, list[Route]] = {asset: [] for asset in self.levels}
        for asset, routes in found.items():
            longer: list[Route] = [(leg,) for leg in self.legs if leg.receives == asset]
            while longer:
                routes.extend(longer)
                longer = [
                    (leg, *route)
                    for route in longer
                    if len(route) < MOST_LEGS
                    for leg in self.legs
                    if leg.receives == route[0].spends and leg.spends not in {asset, *(e.spends for e in route)}
                ]
        return found


def _sides(pair: Pair) -> list[Leg]:
    known = [price for price in (pair.buy, pair.sell) if price is not None]
    if any(price <= 0 for price in known):
        raise InputError(f"the rates of {pair.symbol} must be greater than zero")
    middle = sum(known, ZERO) / max(len(known), 1)
    legs = []
    if pair.buy is not None:
        legs.append(Leg(pair.symbol, Side.BUY, pair.against, pair.asset, pair.buy, max(pair.buy - middle, ZERO)))
    if pair.sell is not None:
        legs.append(Leg(pair.symbol, Side.SELL, pair.asset, pair.against, pair.sell, max(middle - pair.sell, ZERO)))
    return legs
