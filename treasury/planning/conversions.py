"""Plan conversions: obligations first, then floors, then bands; each in a few steps that can be redone on paper.

For each purpose, and each asset that lacks something for it, the base asset first and the others by name:

1. What may pay is lined up: first what earlier sales brought for the purpose, then the base asset and what is above
   its band, then sales on their way for the purpose, then what others may spend for it; among each of these
   the cheapest route, after spread, fee and fixed cost, comes first.
2. One after the other buys what is still missing, as far as its money and the limits go.

At last what is above its band is sold for the base asset. Exact and pure.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from typing import Literal, NamedTuple

from treasury.money import ZERO, canonical, exact, round_down, round_up
from treasury.planning.conversion_model import (
    COST_DIGITS,
    TIERS,
    TOO_SMALL,
    Conversion,
    ConversionPlan,
    Holding,
    Leg,
    Pair,
    Purpose,
    Route,
    Shortfall,
    Terms,
    TradeBook,
)
from treasury.planning.trades import OverLimit, Side, first_over

Reached = dict[tuple[str, Purpose | None], OverLimit]
"""By asset and purpose: the limit that stood against a trade for it; without a purpose: against the sale of it."""


def shortfalls(
    book: TradeBook,
    pairs: Sequence[Pair],
    changes: Mapping[str, Decimal],
    drawn: Callable[[str], Decimal],
    reached: Reached,
) -> Sequence[Shortfall]:
    """Return what stays open once trades changed the assets, by purpose and asset; each part of it is listed once.

    `drawn`: how much of an asset's own money the trades spend for others.
    """
    gaps = _Gaps(book, sorted(pairs, key=lambda each: each.symbol), drawn, reached)
    found = []
    for asset, levels in book.levels.items():
        counted = ZERO
        for purpose in TIERS:
            missing = levels.missing(purpose, changes[asset])
            part = missing - counted
            counted = max(counted, missing)
            if part > (book.unit(asset) if purpose is Purpose.BAND else ZERO):
                found.append(Shortfall(asset, purpose, part, gaps.why_not_bought(asset, missing, purpose)))
        if (above := levels.above(changes[asset])) >= book.unit(asset):
            found.append(Shortfall(asset, Purpose.BAND, above, gaps.why_not_sold(asset, above, changes)))
    return sorted(found, key=lambda each: (TIERS.index(each.purpose), each.asset))


@dataclass(frozen=True)
class _Gaps:
    book: TradeBook
    pairs: Sequence[Pair]
    drawn: Callable[[str], Decimal]
    reached: Reached

    def why_not_bought(self, asset: str, missing: Decimal, purpose: Purpose) -> str:
        terms, lost = self.book.terms, self._without_rate(asset, is_bought=True)
        if not self.book.routes[asset]:
            return f"the rate of {lost} could not be had" if lost else f"no pair of the policy leads to {asset}"
        if purpose is Purpose.BAND and self._is_small(asset, missing):
            return self._too_small()
        if (over := self.reached.get((asset, purpose))) is not None:
            return over.reason(terms.base_asset)
        if asset != terms.base_asset and self.drawn(asset):
            return "it is spent for what comes before its band"
        words = "no other asset has anything that may be spent for it"
        return f"{words}; the rate of {lost} could not be had" if lost else words

    def why_not_sold(self, asset: str, above: Decimal, changes: Mapping[str, Decimal]) -> str:
        base = self.book.terms.base_asset
        if asset == base:
            return "above its maximum, and no other asset lacks anything that it could buy"
        if not any(leg.spends == asset for leg in self.book.legs):
            lost = self._without_rate(asset, is_bought=False)
            return f"the rate of {lost} could not be had" if lost else f"no pair of the policy leads from {asset}"
        if self._is_small(asset, above):
            return self._too_small()
        if (over := self.reached.get((asset, None))) is not None:
            return over.reason(base)
        full = self.book.levels.get(base)
        high = None if full is None else full.high_aim
        if full is not None and high is not None and self._is_small(base, high - full.in_hand - changes[base]):
            return f"{base} is at its maximum, and no other asset lacks anything"
        return f"no way leads to {base} or to what is lacking"

    def _without_rate(self, asset: str, *, is_bought: bool) -> str | None:
        """The first pair whose price for this is None."""
        for pair in self.pairs:
            if asset == pair.asset and (pair.buy if is_bought else pair.sell) is None:
                return pair.symbol
            if asset == pair.against and (pair.sell if is_bought else pair.buy) is None:
                return pair.symbol
        return None

    def _is_small(self, asset: str, amount: Decimal) -> bool:
        return amount * self.book.price(asset) < self.book.terms.min_trade

    def _too_small(self) -> str:
        terms = self.book.terms
        return f"{TOO_SMALL}, {canonical(terms.min_trade)} {terms.base_asset}"


INFINITE = Decimal("Infinity")
LOOKS = 2
"""So often the routes to an asset are gone through: money that was too little for a trade of its own may add to one."""


class _Money(Enum):
    """The money of an asset that pays."""

    PROCEEDS = "what sales brought for this purpose of others"
    SURPLUS = "what is above its band"
    COMING = "what sales on their way are to bring for this purpose of others"
    OWN = "what else may be spent of it"


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
    draft.gather()
    conversions = draft.conversions()
    cost = sum((each.cost for each in conversions), ZERO)
    left_open = shortfalls(book, pairs, draft.changes(), draft.drawn_for, draft.reached)
    units = {asset: draft.next_unit(asset) for asset, each in book.levels.items() if each.holding.need > 0}
    return ConversionPlan(tuple(conversions), tuple(left_open), cost, units)


class _Step(NamedTuple):
    """A trade of the draft: a leg in a round; in the first round for all purposes together, later for one of them."""

    leg: Leg
    number: int
    purpose: Purpose | None


def _steps(route: Route, purpose: Purpose, money: _Money) -> list[_Step]:
    """The trades of a route: the first is made at once where its money is there, each other one a round later."""
    first = 2 if money is _Money.COMING else 1
    return [_Step(leg, number, None if number == 1 else purpose) for number, leg in enumerate(route, start=first)]


class _Draft:
    """The trades so far: how much each spends, what for, and out of whose money."""

    def __init__(self, book: TradeBook) -> None:
        self.book = book
        self.amounts: dict[_Step, Decimal] = {}
        self.purposes: dict[_Step, set[Purpose]] = {}
        self.drawn: dict[tuple[str, Purpose], Decimal] = defaultdict(Decimal)
        """By asset and purpose: what was taken of the money that is there."""
        self.awaited: dict[tuple[str, Purpose], Decimal] = defaultdict(Decimal)
        """By asset and purpose: what was taken of money on its way."""
        self.reached: Reached = {}
        """By asset and purpose: the limit that stood against a trade for it; of a surplus that is sold, no purpose."""

    def buy(self, asset: str, purpose: Purpose) -> None:
        """Bring an asset up to its level of a purpose, as far as money and limits go."""
        levels = self.book.levels[asset]
        if not levels.is_base and self.drawn_for(asset) > sum(levels.holding.brought.values(), ZERO):
            return  # what was spent for more urgent needs is not bought back with the same plan
        for _ in range(LOOKS):
            for route, money in self._payers(asset, purpose):
                missing = levels.missing(purpose, self.change(asset))
                if missing <= 0:
                    return
                self._trade(route, money, purpose, missing)

    def sell_surplus(self, asset: str) -> None:
        """Sell what is above an asset's band for the base asset, as far as that has room and limits go."""
        base = self.book.levels.get(self.book.terms.base_asset)
        if base is None or base.is_high or not self.book.levels[asset].is_high:
            return
        routes = [each for each in self.book.routes[base.holding.asset] if each[0].spends == asset]
        for route in sorted(routes, key=lambda each: self._price_of(each, self.book.levels[asset].above(ZERO))):
            above = None if base.high_aim is None else base.high_aim - base.in_hand - self.change(base.holding.asset)
            room = None if above is None else max(above, ZERO)
            self._trade(route, _Money.SURPLUS, Purpose.BAND, room=room)

    def drawn_for(self, asset: str) -> Decimal:
        """Return how much of an asset's own money was taken for others."""
        return sum((self.drawn[asset, purpose] for purpose in TIERS), ZERO)

    def change(self, asset: str) -> Decimal:
        """Return what the trades so far change an asset by, after fees."""
        spent = (amount for step, amount in self.amounts.items() if step.leg.spends == asset)
        brought = (
            self.book.net(step.leg, amount) for step, amount in self.amounts.items() if step.leg.receives == asset
        )
        return sum(brought, ZERO) - sum(spent, ZERO)

    def changes(self) -> dict[str, Decimal]:
        """Return what the trades so far change each asset by, after fees."""
        return {asset: self.change(asset) for asset in self.book.levels}

    def _payers(self, asset: str, purpose: Purpose) -> Sequence[tuple[Route, _Money]]:
        """The routes to an asset in the order in which they pay, each with whose money it takes.

        A surplus would be sold for the base asset anyway: what that costs does not count against it, so it takes a
        direct pair where that is cheaper than the way over the base asset. The base asset buys no other one that can
        pay itself before that has paid: what is bought cannot be sold for the base asset with the same plan.
        """
        book, base = self.book, self.book.terms.base_asset
        value = book.levels[asset].missing(purpose, self.change(asset)) * book.price(asset)
        if value <= 0:
            return ()
        paying = {
            source: [(rank, money) for rank, money in enumerate(_Money) if self._funds(source, purpose, money) > 0]
            for source in book.levels
        }
        found = []
        for route in book.routes[asset]:
            source = route[0].spends
            for rank, money in paying[source]:
                price, length, names = self._price_of(route, value)
                if money is _Money.SURPLUS:
                    price -= self._price_of_sale(source, value)
                can_pay = any(paying[leg.receives] for leg in route[:-1])
                turn = 1 if source == base and money is _Money.OWN and not can_pay else rank
                found.append(((turn, price, length, rank, names), route, money))
        return [(route, money) for _, route, money in sorted(found, key=lambda each: each[0])]

    def _price_of_sale(self, asset: str, value: Decimal) -> Decimal:
        """The cost of the cheapest sale of an asset for the base asset, by value; nothing where there is no way."""
        sales = (each for each in self.book.routes.get(self.book.terms.base_asset, ()) if each[0].spends == asset)
        return min((self._price_of(each, value)[0] for each in sales), default=ZERO)

    def _price_of(self, route: Route, value: Decimal) -> tuple[Decimal, int, list[str]]:
        """The cost of a route by value, with a fixed cost for each new trade; then its length, and its pairs."""
        traded = {step.leg for step in self.amounts}
        fixed = self.book.terms.fixed_cost * sum(leg not in traded for leg in route)
        losses = sum((self.book.losses[leg] for leg in route), ZERO)
        return losses + (fixed / value if value else ZERO), len(route), [leg.symbol for leg in route]

    def _funds(self, asset: str, purpose: Purpose, money: _Money) -> Decimal:
        """How much of an asset's money may be spent for a purpose."""
        levels = self.book.levels[asset]
        if money is _Money.COMING:
            coming = levels.holding.coming.get(purpose, ZERO) - self.awaited[asset, purpose]
            return round_down(max(coming, ZERO), self.book.digits(asset))
        brought = levels.holding.brought
        proceeds = {each: max(brought.get(each, ZERO) - self.drawn[asset, each], ZERO) for each in TIERS}
        drawn = self.drawn_for(asset)
        there = levels.in_hand - drawn - levels.kept[purpose]
        for urgent in TIERS[: TIERS.index(purpose)]:  # the level keeps all that sales brought for it
            there += brought.get(urgent, ZERO) - proceeds[urgent]
        if money is _Money.PROCEEDS:
            there = min(there, proceeds[purpose])
        elif money is _Money.SURPLUS:
            high = levels.high_aim if levels.is_high and not levels.is_base else None
            above = ZERO if high is None else levels.in_hand - drawn - sum(proceeds.values(), ZERO) - high
            there = min(there, above)
        return round_down(max(there, ZERO), self.book.digits(asset))

    def _trade(
        self, route: Route, money: _Money, purpose: Purpose, net: Decimal | None = None, room: Decimal | None = None
    ) -> None:
        """Add the trades of a route: as much as brings `net`, or all that money, and as limits and `room` allow.

        Nothing is added where a trade would be smaller than the smallest one.
        """
        if not self._leads_onward(route):
            return
        source = route[0].spends
        steps, unit = _steps(route, purpose, money), self.book.unit(source)
        wanted = [INFINITE for _ in steps] if net is None else self._spends_for(steps, net, purpose)
        most = int(min(wanted[0], self._funds(source, purpose, money)) / unit)
        stop = self._stop(steps, wanted, most * unit, room)
        if stop is not None:
            fits, over = 0, most
            while over - fits > 1:
                middle = (fits + over) // 2
                found = self._stop(steps, wanted, middle * unit, room)
                fits, over, stop = (middle, over, stop) if found is None else (fits, middle, found)
            if isinstance(stop, OverLimit):
                for_what = (source, None) if net is None else (route[-1].receives, purpose)
                self.reached.setdefault(for_what, stop)
            brought = self._gained(steps[-1], self._flow(steps, wanted, fits * unit)[-1])
            wanted = self._spends_for(steps, brought, purpose)  # the least that brings as much
            most = min(fits, int(wanted[0] / unit))
        amounts = self._flow(steps, wanted, most * unit)
        if any(self._is_too_small(step, amount) for step, amount in zip(steps, amounts, strict=True)):
            return
        if money is _Money.COMING:
            self.awaited[source, purpose] += amounts[0]
        else:
            self.drawn[source, purpose] += amounts[0]
        for step, amount in zip(steps, amounts, strict=True):
            self.amounts[step] = self.amounts.get(step, ZERO) + amount
            self.purposes.setdefault(step, set()).add(purpose)

    def _is_too_small(self, step: _Step, more: Decimal) -> bool:
        worth = self.book.value(step.leg, self.amounts.get(step, ZERO) + more)
        return more <= 0 or worth < self.book.terms.min_trade or self._gained(step, more) <= 0

    def _gained(self, step: _Step, more: Decimal) -> Decimal:
        """Return what spending so much more on a trade brings, after the fee."""
        before = self.amounts.get(step, ZERO)
        return self.book.net(step.leg, before + more) - self.book.net(step.leg, before)

    def _spends_for(self, steps: Sequence[_Step], net: Decimal, purpose: Purpose) -> list[Decimal]:
        """Return what each trade spends so that the last brings `net`; at least the smallest trade.

        For a band the last is not raised to the smallest trade where that leads past the target.
        """
        wanted: list[Decimal] = []
        for step in reversed(steps):
            before = self.amounts.get(step, ZERO)
            spent = self.book.spend_for(step.leg, self.book.net(step.leg, before) + net) - before
            smallest = self.book.smallest(step.leg) - before
            if spent < smallest and (wanted or self._may_exceed(step, smallest, purpose)):
                spent = smallest
            wanted.insert(0, spent)
            net = spent
        return wanted

    def _may_exceed(self, step: _Step, spent: Decimal, purpose: Purpose) -> bool:
        """Tell whether a purchase may be made as large as the smallest trade, past its level."""
        asset = step.leg.receives
        holding = self.book.levels[asset].holding
        after = holding.expected + self.change(asset) + self._gained(step, spent)
        return purpose is not Purpose.BAND or after <= holding.need + holding.target

    def _flow(self, steps: Sequence[_Step], wanted: Sequence[Decimal], first: Decimal) -> list[Decimal]:
        """Return what each trade spends: the first so much, the others what the one before brings, at most `wanted`."""
        amounts: list[Decimal] = []
        for step, most in zip(steps, wanted, strict=True):
            amounts.append(min(first, most))
            first = self._gained(step, amounts[-1])
        return amounts

    def _stop(
        self, steps: Sequence[_Step], wanted: Sequence[Decimal], first: Decimal, room: Decimal | None
    ) -> OverLimit | Literal["room"] | None:
        """Return what stands against these trades beside the others: a limit, or that they bring more than `room`."""
        amounts = self._flow(steps, wanted, first)
        if room is not None and self._gained(steps[-1], amounts[-1]) > room:
            return "room"
        trades: defaultdict[_Step, Decimal] = defaultdict(Decimal, self.amounts)
        for step, amount in zip(steps, amounts, strict=True):
            trades[step] += amount
        whole: defaultdict[Leg, Decimal] = defaultdict(Decimal)  # trades of one pair may become one
        for step, amount in trades.items():
            whole[step.leg] += amount
        parts = ((step.leg, amount) for step, amount in trades.items())
        for said in (whole.items(), parts):
            over = first_over((self.book.conversion(*each, Purpose.BAND, 1) for each in said), self.book.terms)
            if over is not None:
                return over
        return None

    def _leads_onward(self, route: Route) -> bool:
        """Tell whether no money would come back to where it left."""
        paid_by: dict[str, set[str]] = defaultdict(set)
        for leg in (*(step.leg for step in self.amounts), *route):
            paid_by[leg.receives].add(leg.spends)
        try:
            TopologicalSorter(paid_by).prepare()
        except CycleError:
            return False
        return True

    def gather(self) -> None:
        """Let a purchase that waits for proceeds wait as a whole, but never for what is less urgent.

        What it brings is rounded once then, so what stays open is read afterwards.
        """
        found = dict(self.amounts)
        for step in sorted(self.amounts, key=lambda each: each.number):
            fed = any(each.leg.receives == step.leg.spends and each.number == step.number - 1 for each in self.amounts)
            for other in list(found) if fed else []:
                is_same = other.leg == step.leg and self.purposes[other] == {step.purpose}
                if is_same and other.number < step.number and not self._feeds(other):
                    found[step] += found.pop(other)
        self.amounts = found

    def conversions(self) -> Sequence[Conversion]:
        """The trades by round, sales first, then by pair."""
        return sorted(
            self._said(self.amounts),
            key=lambda each: (each.round, each.side is Side.BUY, each.symbol, TIERS.index(each.purpose)),
        )

    def _feeds(self, step: _Step) -> bool:
        """Tell whether a trade of the next round spends what this one brings."""
        return any(each.leg.spends == step.leg.receives and each.number == step.number + 1 for each in self.amounts)

    def _said(self, amounts: Mapping[_Step, Decimal]) -> Sequence[Conversion]:
        """The trades of these amounts, each for the most urgent of its purposes."""
        return [
            self.book.conversion(step.leg, amount, min(self.purposes[step], key=TIERS.index), step.number)
            for step, amount in amounts.items()
        ]

    def next_unit(self, asset: str) -> Decimal | None:
        """Return what one more unit of an asset's need would cost in the base asset; None where it cannot be had.

        Nothing while the asset has a unit to spare. Limits and fixed costs are not counted.
        """
        levels, book = self.book.levels[asset], self.book
        if levels.in_hand + self.change(asset) - max(levels.kept[Purpose.OBLIGATION], levels.holding.need) >= 1:
            return ZERO
        costs = []
        for route in book.routes[asset]:
            lost, needed = ZERO, book.price(asset)
            for leg in reversed(route):
                needed /= 1 - min(book.losses[leg], Decimal("0.99"))
                lost += needed * book.losses[leg]
            source = route[0].spends
            if self._funds(source, Purpose.OBLIGATION, _Money.OWN) * book.price(source) >= needed:
                costs.append(lost)
        return round_up(min(costs), COST_DIGITS) if costs else None
