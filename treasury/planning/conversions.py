"""Plan conversions: obligations first, then floors, then bands; each in a few steps that can be redone on paper.

For each purpose, and each asset that lacks something for it, the base asset first and the others by name:

1. What may pay is lined up: first the base asset and what is above its band, then what others may spend for the
   purpose; among each of these the cheapest route, after spread, fee and fixed cost, comes first.
2. One after the other buys what is still missing, as far as its money and the limits go.

At last what is above its band is sold for the base asset. Exact and pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from graphlib import CycleError, TopologicalSorter

from treasury.money import exact, round_down, round_up
from treasury.planning.conversion_gaps import Reached, shortfalls
from treasury.planning.conversion_model import (
    TIERS,
    Conversion,
    ConversionPlan,
    Holding,
    Pair,
    Purpose,
    Shortfall,
    Terms,
)
from treasury.planning.conversion_rules import check_conversions
from treasury.planning.trade_book import COST_DIGITS, ZERO, Leg, Route, TradeBook
from treasury.planning.trade_limits import OverLimit, first_over
from treasury.planning.trades import Side

__all__ = [
    "Conversion",
    "ConversionPlan",
    "Holding",
    "Pair",
    "Purpose",
    "Shortfall",
    "Side",
    "Terms",
    "check_conversions",
    "plan_conversions",
]

LOOKS = 2
"""So often the routes to an asset are gone through: money that was too little for a trade of its own may add to one."""


@exact
def plan_conversions(holdings: Sequence[Holding], pairs: Sequence[Pair], terms: Terms) -> ConversionPlan:
    """The conversions that meet obligations, then floors, then bands, as far as money and limits go.

    The same holdings and pairs in another order give the same plan. What stays open is listed with its reason.
    Raises `InputError` for an asset or a pair that is given twice, and for a price or rate that is not positive.
    """
    book = TradeBook.of(holdings, pairs, terms)
    draft = _Draft(book)
    for purpose in TIERS:
        for asset in book.levels:
            draft.buy(asset, purpose)
    for asset in book.levels:
        draft.sell_surplus(asset)
    conversions = sorted(draft.conversions(), key=lambda each: (each.round, each.side is Side.BUY, each.symbol))
    cost = sum((each.cost for each in conversions), ZERO)
    left_open = shortfalls(book, pairs, draft.changes(), draft.drawn_for, draft.reached)
    units = {asset: draft.next_unit(asset) for asset, each in book.levels.items() if each.holding.need > 0}
    return ConversionPlan(tuple(conversions), tuple(left_open), cost, units)


class _Draft:
    """The trades so far: how much each leg spends, for which purpose, and out of whose money."""

    def __init__(self, book: TradeBook) -> None:
        self.book = book
        self.amounts: dict[Leg, Decimal] = {}
        self.purposes: dict[Leg, list[Purpose]] = defaultdict(list)
        self.drawn: dict[tuple[str, Purpose], Decimal] = defaultdict(Decimal)
        """By asset and purpose: what was taken of its own money."""
        self.reached: Reached = {}
        """By asset and purpose: the limit that stood against a trade for it; of a surplus that is sold, no purpose."""

    def buy(self, asset: str, purpose: Purpose) -> None:
        """Bring an asset up to its level of a purpose, as far as money and limits go."""
        levels = self.book.levels[asset]
        if not levels.is_base and self.drawn_for(asset):
            return  # what was spent for more urgent needs is not bought back with the same plan
        for _ in range(LOOKS):
            for route, is_surplus in self._payers(asset, purpose):
                missing = levels.missing(purpose, self.change(asset))
                if missing > 0:
                    self._trade(route, self._funds(route[0].spends, purpose, is_surplus=is_surplus), purpose, missing)

    def sell_surplus(self, asset: str) -> None:
        """Sell what is above an asset's band for the base asset, as far as that has room and limits go."""
        base = self.book.levels.get(self.book.terms.base_asset)
        if base is None or base.is_high or not self.book.levels[asset].is_high:
            return
        routes = [each for each in self.book.routes[base.holding.asset] if each[0].spends == asset]
        for route in sorted(routes, key=lambda each: self._price_of(each, self.book.levels[asset].above(ZERO))):
            self._trade(route, self._funds(asset, Purpose.BAND, is_surplus=True), Purpose.BAND)

    def drawn_for(self, asset: str) -> Decimal:
        """Return how much of an asset's own money was taken for others."""
        return sum((self.drawn[asset, purpose] for purpose in TIERS), ZERO)

    def change(self, asset: str) -> Decimal:
        """Return what the trades so far change an asset by, after fees."""
        spent = (amount for leg, amount in self.amounts.items() if leg.spends == asset)
        brought = (self.book.net(leg, amount) for leg, amount in self.amounts.items() if leg.receives == asset)
        return sum(brought, ZERO) - sum(spent, ZERO)

    def changes(self) -> dict[str, Decimal]:
        """Return what the trades so far change each asset by, after fees."""
        return {asset: self.change(asset) for asset in self.book.levels}

    def _payers(self, asset: str, purpose: Purpose) -> Sequence[tuple[Route, bool]]:
        """The routes to an asset in the order in which they pay, each with whether a surplus does.

        The base asset and surpluses pay first. A surplus would be sold for the base asset anyway: what that costs does
        not count against it, so it takes a direct pair where that is cheaper than the way over the base asset.
        """
        book, wanted = self.book, self.book.levels[asset].missing(purpose, self.change(asset))
        value, base = wanted * book.price(asset), book.terms.base_asset
        if value <= 0:
            return ()
        found: list[tuple[tuple[bool, Decimal, int, list[str]], Route, bool]] = []
        for route in book.routes[asset]:
            source = route[0].spends
            price, length, names = self._price_of(route, value)
            if self._funds(source, purpose, is_surplus=True) > 0:
                sales = [each for each in book.routes.get(base, ()) if each[0].spends == source]
                saved = min((self._price_of(each, value)[0] for each in sales), default=ZERO)
                found.append(((False, price - saved, length, names), route, True))
            if self._funds(source, purpose, is_surplus=False) > 0:
                found.append(((source != base, price, length, names), route, False))
        return [(route, is_surplus) for _, route, is_surplus in sorted(found, key=lambda each: (each[0], each[2]))]

    def _price_of(self, route: Route, value: Decimal) -> tuple[Decimal, int, list[str]]:
        """The cost of a route by value, with a fixed cost for each new trade; then its length, and its pairs."""
        fixed = self.book.terms.fixed_cost * sum(leg not in self.amounts for leg in route)
        losses = sum((self.book.losses[leg] for leg in route), ZERO)
        return losses + (fixed / value if value else ZERO), len(route), [leg.symbol for leg in route]

    def _funds(self, asset: str, purpose: Purpose, *, is_surplus: bool) -> Decimal:
        """How much of an asset's own money may be spent for a purpose, or of what is above its band."""
        levels, book = self.book.levels[asset], self.book
        level = levels.kept[purpose]
        if is_surplus:
            if levels.is_base or not levels.is_high or levels.high_aim is None:
                return ZERO
            level = max(level if purpose is Purpose.OBLIGATION else ZERO, levels.high_aim + levels.holding.brought)
        used = min(self.drawn[asset, Purpose.OBLIGATION], levels.holding.brought)
        used = ZERO if purpose is Purpose.OBLIGATION and not is_surplus else used
        there = levels.in_hand - self.drawn_for(asset) + used - level
        return round_down(max(there, ZERO), book.digits(asset))

    def _trade(self, route: Route, funds: Decimal, purpose: Purpose, net: Decimal | None = None) -> None:
        """Add the trades of a route: as much as brings `net`, or all its funds, and limits allow.

        Nothing is added where a trade would be smaller than the smallest one.
        """
        book = self.book
        if not self._leads_onward(route):
            return
        wanted = [funds] * len(route) if net is None else self._spends_for(route, net, purpose)
        unit, name = book.unit(route[0].spends), (route[0].spends if net is None else route[-1].receives)
        most = int(min(wanted[0], funds) / unit)
        stop = self._stop(route, wanted, most * unit, is_sale=net is None)
        if stop is not None:
            fits, over = 0, most
            while over - fits > 1:
                middle = (fits + over) // 2
                found = self._stop(route, wanted, middle * unit, is_sale=net is None)
                fits, over, stop = (middle, over, stop) if found is None else (fits, middle, found)
            if isinstance(stop, OverLimit):
                self.reached.setdefault((name, None if net is None else purpose), stop)
            brought = self._gained(route[-1], self._flow(route, wanted, fits * unit, is_sale=net is None)[-1])
            wanted = self._spends_for(route, brought, Purpose.OBLIGATION)  # the least that brings as much
            most = min(fits, int(wanted[0] / unit))
        amounts = self._flow(route, wanted, most * unit, is_sale=net is None and stop is None)
        if any(self._is_too_small(leg, amount) for leg, amount in zip(route, amounts, strict=True)):
            return
        self.drawn[route[0].spends, purpose] += amounts[0]
        for leg, amount in zip(route, amounts, strict=True):
            self.amounts[leg] = self.amounts.get(leg, ZERO) + amount
            self.purposes[leg].append(purpose)

    def _is_too_small(self, leg: Leg, more: Decimal) -> bool:
        amount = self.amounts.get(leg, ZERO) + more
        worth = self.book.value(leg, amount)
        return more <= 0 or worth < self.book.terms.min_trade or self._gained(leg, more) <= 0

    def _gained(self, leg: Leg, more: Decimal) -> Decimal:
        """Return what spending so much more on a leg brings, after the fee."""
        before = self.amounts.get(leg, ZERO)
        return self.book.net(leg, before + more) - self.book.net(leg, before)

    def _spends_for(self, route: Route, net: Decimal, purpose: Purpose) -> list[Decimal]:
        """Return what each trade of a route spends so that the last brings `net`; at least the smallest trade.

        For a band the last is not raised to the smallest trade where that leads past the target.
        """
        wanted: list[Decimal] = []
        for leg in reversed(route):
            before = self.amounts.get(leg, ZERO)
            spent = self.book.spend_for(leg, self.book.net(leg, before) + net) - before
            smallest = self.book.smallest(leg) - before
            if spent < smallest and (wanted or self._may_exceed(leg, smallest, purpose)):
                spent = smallest
            wanted.insert(0, spent)
            net = spent
        return wanted

    def _may_exceed(self, leg: Leg, spent: Decimal, purpose: Purpose) -> bool:
        """Tell whether a purchase may be made as large as the smallest trade, past its level."""
        holding = self.book.levels[leg.receives].holding
        after = holding.expected + self.change(leg.receives) + self._gained(leg, spent)
        return purpose is not Purpose.BAND or after <= holding.need + holding.target

    def _flow(self, route: Route, wanted: Sequence[Decimal], first: Decimal, *, is_sale: bool) -> list[Decimal]:
        """Return what each trade spends where the first spends so much: what the one before brings, at most `wanted`."""
        amounts: list[Decimal] = []
        for leg, most in zip(route, wanted, strict=True):
            amounts.append(first if is_sale else min(first, most))
            first = self._gained(leg, amounts[-1])
        return amounts

    def _stop(self, route: Route, wanted: Sequence[Decimal], first: Decimal, *, is_sale: bool) -> OverLimit | str | None:
        """The limit that the trades are over with those of a route, or the asset that has no room for what they bring;
        None where nothing stands against them."""
        amounts = self._flow(route, wanted, first, is_sale=is_sale)
        asset = route[-1].receives
        high = self.book.levels[asset].high_aim
        if is_sale and high is not None:
            room = high - self.book.levels[asset].in_hand - self.change(asset)
            if self._gained(route[-1], amounts[-1]) > max(room, ZERO):
                return asset
        trades = dict(self.amounts)
        for leg, amount in zip(route, amounts, strict=True):
            trades[leg] = trades.get(leg, ZERO) + amount
        said = (self.book.conversion(leg, amount, Purpose.BAND, 1) for leg, amount in trades.items())
        return first_over(said, self.book.terms)

    def _leads_onward(self, route: Iterable[Leg]) -> bool:
        """Tell whether no money would come back to where it left."""
        try:
            self._assets(route)
        except CycleError:
            return False
        return True

    def _assets(self, more: Iterable[Leg] = ()) -> Sequence[str]:
        """The assets in the order in which money passes them. Raises `CycleError` where it comes back."""
        paid_by: dict[str, set[str]] = defaultdict(set)
        for leg in (*self.amounts, *more):
            paid_by[leg.receives].add(leg.spends)
        return list(TopologicalSorter(paid_by).static_order())

    def conversions(self) -> Sequence[Conversion]:
        """The trades, each in its round.

        What is spent of an asset is paid from what is there in the order of purposes, then pairs. A trade that does not
        fit waits as a whole for all that comes in, and so does what follows it.
        """
        rounds: dict[Leg, int] = {}
        for asset in self._assets():
            incoming = [rounds[leg] for leg in self.amounts if leg.receives == asset]
            levels, claimed = self.book.levels[asset], ZERO
            spent = [leg for leg in self.amounts if leg.spends == asset]
            for leg in sorted(spent, key=lambda leg: (TIERS.index(self.purposes[leg][0]), leg.symbol)):
                claimed += self.amounts[leg]
                is_paid_now = not incoming or claimed <= levels.in_hand - levels.kept[self.purposes[leg][-1]]
                rounds[leg] = 1 if is_paid_now else 1 + max(incoming)
        return [
            self.book.conversion(leg, amount, self.purposes[leg][0], rounds[leg])
            for leg, amount in self.amounts.items()
        ]

    def next_unit(self, asset: str) -> Decimal | None:
        """Return what one more unit of an asset's need would cost in the base asset; None where it cannot be had.

        Nothing while the asset has a unit to spare. Limits and fixed costs are not counted.
        """
        levels, book = self.book.levels[asset], self.book
        if levels.in_hand + self.change(asset) - levels.kept[Purpose.OBLIGATION] >= 1:
            return ZERO
        costs = []
        for route in book.routes[asset]:
            lost, needed = ZERO, book.price(asset)
            for leg in reversed(route):
                needed /= 1 - min(book.losses[leg], Decimal("0.99"))
                lost += needed * book.losses[leg]
            source = route[0].spends
            if self._funds(source, Purpose.OBLIGATION, is_surplus=False) * book.price(source) >= needed:
                costs.append(lost)
        return round_up(min(costs), COST_DIGITS) if costs else None
