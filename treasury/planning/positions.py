"""Each asset against its need, floor and band, and the yield of a trade of a pair; exact, pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from treasury.errors import InputError
from treasury.money import round_down, round_up
from treasury.planning.conversion_model import Holding, Pair, Purpose, Terms
from treasury.planning.tables import BPS
from treasury.planning.trades import Side

ZERO = Decimal(0)
COST_DIGITS = 8
"""Fractional digits of a stated cost, rounded up."""


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

    @property
    def need(self) -> Decimal:
        """The level of the obligations."""
        return self.holding.need

    @cached_property
    def floor(self) -> Decimal:
        """The level that nothing is ever spent below."""
        return self.holding.need + self.holding.floor

    @cached_property
    def low(self) -> Decimal:
        """The band's lower edge."""
        return self.holding.need + self.holding.minimum

    @cached_property
    def target(self) -> Decimal:
        """The level of the target."""
        return self.holding.need + self.holding.target

    @cached_property
    def high(self) -> Decimal | None:
        """The band's upper edge; None without one."""
        return None if self.holding.maximum is None else self.holding.need + self.holding.maximum

    @cached_property
    def is_low(self) -> bool:
        """Tell whether what is expected is below the band."""
        return self.holding.expected < self.low

    @cached_property
    def is_high(self) -> bool:
        """Tell whether what is in hand is above the band."""
        return self.high is not None and self.in_hand > self.high

    @cached_property
    def low_aim(self) -> Decimal:
        """Return what a purchase for the band brings it up to."""
        return self.target if self.to_target and self.is_low else self.low

    @cached_property
    def high_aim(self) -> Decimal | None:
        """Return what a sale for the band brings it down to; None without an upper edge."""
        return self.target if self.to_target and self.is_high else self.high

    @cached_property
    def aim(self) -> Decimal:
        """The highest level that purchases bring it up to, whatever they are for."""
        return max(self.floor, self.low_aim)

    @cached_property
    def has_gap(self) -> bool:
        """Tell whether anything is to be bought of it."""
        return self.holding.expected < self.floor or self.is_low

    @property
    def is_sink(self) -> bool:
        """Tell whether surpluses of other assets are sold for it."""
        return self.is_base and not self.is_high

    @cached_property
    def wanted(self) -> Mapping[Purpose, Decimal]:
        """The levels that money for each purpose may bring it up to."""
        return {Purpose.OBLIGATION: self.need, Purpose.FLOOR: self.floor, Purpose.BAND: self.aim}

    @cached_property
    def kept(self) -> Mapping[Purpose, Decimal]:
        """The levels that it may be spent down to for each purpose."""
        low = max(self.floor, self.low)
        band = low if self.is_base else max(low, self.target)
        least = max(self.floor, self.holding.need + self.holding.reserve)
        return {Purpose.OBLIGATION: least, Purpose.FLOOR: low, Purpose.BAND: band}

    def may_spend(self, purpose: Purpose) -> Decimal:
        """How much of it may be spent for a purpose."""
        return max(self.in_hand - self.kept[purpose], ZERO)

    def missing(self, purpose: Purpose, change: Decimal = ZERO) -> Decimal:
        """How much is missing up to the level of a purpose once trades changed it; what is more urgent included."""
        level = {**self.wanted, Purpose.BAND: self.low_aim}[purpose]
        return max(level - self.holding.expected - change, ZERO)

    def above(self, change: Decimal = ZERO) -> Decimal:
        """How much is above where the band wants it once trades changed it."""
        return ZERO if self.high_aim is None else max(self.in_hand + change - self.high_aim, ZERO)


@dataclass(frozen=True)
class Arc:
    """One side of a pair: a way from the currency that is spent to the one that is received."""

    symbol: str
    side: Side
    spends: str
    receives: str
    rate: Decimal
    spread: Decimal
    """What one `asset` of the pair costs more than mid, or brings less, in `against`; never negative."""

    @property
    def against(self) -> str:
        """Return what the pair is priced in."""
        return self.spends if self.side is Side.BUY else self.receives

    @property
    def gain(self) -> Decimal:
        """Return what one unit spent brings before the fee, received currency; a division, so not exact for
        purchases."""
        return 1 / self.rate if self.side is Side.BUY else self.rate


@dataclass(frozen=True)
class TradeBook:
    """Positions and ways between them in a fixed order, and what trades bring, are worth and cost."""

    terms: Terms
    positions: Mapping[str, AssetLevels]
    arcs: tuple[Arc, ...]

    @staticmethod
    def of(holdings: Iterable[Holding], pairs: Iterable[Pair], terms: Terms) -> "TradeBook":
        """The book of a plan. Raises `InputError` for what is named twice, and for a price that is not positive."""
        positions: dict[str, AssetLevels] = {}
        for holding in sorted(holdings, key=lambda each: each.asset):
            if holding.asset in positions:
                raise InputError(f"the holding of {holding.asset} is given twice")
            if holding.price <= 0:
                raise InputError(f"the price of {holding.asset} must be greater than zero")
            is_base = holding.asset == terms.base_asset
            positions[holding.asset] = AssetLevels(holding, is_base, terms.return_to == "target")
        arcs: list[Arc] = []
        names: set[str] = set()
        for pair in sorted(pairs, key=lambda each: each.symbol):
            if pair.symbol in names:
                raise InputError(f"the pair {pair.symbol} is given twice")
            names.add(pair.symbol)
            if pair.asset in positions and pair.against in positions:
                arcs += _sides(pair)
        return TradeBook(terms, positions, tuple(arcs))

    @cached_property
    def fee(self) -> Decimal:
        """The expected fee as a share of what is received."""
        return self.terms.fee_bps / BPS

    def price(self, asset: str) -> Decimal:
        """Value of one in the base asset."""
        return Decimal(1) if asset == self.terms.base_asset else self.positions[asset].holding.price

    def digits(self, asset: str) -> int:
        """Fractional digits that an amount of it may have."""
        return self.terms.digits.get(asset, 6 if asset == self.terms.base_asset else 8)

    def unit(self, asset: str) -> Decimal:
        """The smallest amount of it."""
        return Decimal(1).scaleb(-self.digits(asset))

    def expected(self, arc: Arc, amount: Decimal) -> Decimal:
        """Return what spending an amount brings before the fee, rounded down."""
        received = amount / arc.rate if arc.side is Side.BUY else amount * arc.rate
        return round_down(received, self.digits(arc.receives))

    def after_fee(self, arc: Arc, amount: Decimal) -> Decimal:
        """Return what spending an amount brings once the expected fee, rounded up, is taken."""
        gross = self.expected(arc, amount)
        return gross - round_up(gross * self.fee, self.digits(arc.receives))

    def spend_for(self, arc: Arc, gross: Decimal) -> Decimal:
        """The least to spend for this much before the fee."""
        spent = gross * arc.rate if arc.side is Side.BUY else gross / arc.rate
        amount = round_up(max(spent, ZERO), self.digits(arc.spends))
        while self.expected(arc, amount) < gross:
            amount += self.unit(arc.spends)
        return amount

    def spend_for_net(self, arc: Arc, net: Decimal) -> Decimal:
        """The least to spend for this much after the fee."""
        if net <= 0:
            return ZERO
        digits = self.digits(arc.receives)
        gross = round_up(net / (1 - self.fee), digits)
        while gross - round_up(gross * self.fee, digits) < net:
            gross += self.unit(arc.receives)
        return self.spend_for(arc, gross)

    def worth(self, arc: Arc, amount: Decimal) -> Decimal:
        """Return what a trade is worth in the base asset: its base side where it has one, else what is spent at its
        price."""
        if arc.receives == self.terms.base_asset:
            return self.expected(arc, amount)
        return amount * self.price(arc.spends)

    def spend_for_worth(self, arc: Arc, worth: Decimal) -> Decimal:
        """The least to spend for a trade of this worth."""
        if arc.receives == self.terms.base_asset:
            return self.spend_for(arc, round_up(worth, self.digits(arc.receives)))
        return round_up(worth / self.price(arc.spends), self.digits(arc.spends))

    def cost(self, arc: Arc, amount: Decimal) -> Decimal:
        """Spread, fee and fixed cost of a trade in the base asset, rounded up."""
        gross = self.expected(arc, amount)
        traded = gross if arc.side is Side.BUY else amount
        fee = round_up(gross * self.fee, self.digits(arc.receives))
        paid = traded * arc.spread * self.price(arc.against) + fee * self.price(arc.receives)
        return round_up(paid + self.terms.fixed_cost, COST_DIGITS)

    def unit_cost(self, arc: Arc) -> Decimal:
        """Spread and fee in the base asset for one unit spent."""
        traded = arc.gain if arc.side is Side.BUY else Decimal(1)
        return traded * arc.spread * self.price(arc.against) + arc.gain * self.fee * self.price(arc.receives)

    def into(self, asset: str) -> Sequence[Arc]:
        """The ways to an asset."""
        return [arc for arc in self.arcs if arc.receives == asset]

    def out_of(self, asset: str) -> Sequence[Arc]:
        """The ways from an asset."""
        return [arc for arc in self.arcs if arc.spends == asset]


def _sides(pair: Pair) -> list[Arc]:
    known = [price for price in (pair.buy, pair.sell) if price is not None]
    if any(price <= 0 for price in known):
        raise InputError(f"the rates of {pair.symbol} must be greater than zero")
    if not known:
        return []
    middle = sum(known, ZERO) / len(known)
    arcs = []
    if pair.buy is not None:
        spread = max(pair.buy - middle, ZERO)
        arcs.append(Arc(pair.symbol, Side.BUY, pair.against, pair.asset, pair.buy, spread))
    if pair.sell is not None:
        spread = max(middle - pair.sell, ZERO)
        arcs.append(Arc(pair.symbol, Side.SELL, pair.asset, pair.against, pair.sell, spread))
    return arcs
