"""Open ends of a plan of conversions, in words a treasurer reads, and what one more unit of a need would cost."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from treasury.money import canonical, round_up
from treasury.planning.conversion_model import NO_MORE, TIERS, TOO_SMALL, Pair, Purpose, Shortfall
from treasury.planning.exact_amounts import Sized, changes
from treasury.planning.positions import COST_DIGITS, ZERO, Arc, TradeBook


def shortfalls(book: TradeBook, pairs: Sequence[Pair], trades: Sequence[Sized]) -> Sequence[Shortfall]:
    """Return what stays open after the trades, by purpose and asset; each part of what an asset lacks is listed
    once."""
    return _Open(book, pairs, trades).listed()


class _Open:
    def __init__(self, book: TradeBook, pairs: Sequence[Pair], trades: Sequence[Sized]) -> None:
        self.book = book
        self.pairs = sorted(pairs, key=lambda each: each.symbol)
        self.trades = trades
        self.changed = changes(book, trades)
        self.worth = sum((book.worth(each.arc, each.amount) for each in trades), ZERO)
        self.cost = sum((book.cost(each.arc, each.amount) for each in trades), ZERO)

    def listed(self) -> Sequence[Shortfall]:
        found = []
        for asset, position in self.book.positions.items():
            change, counted = self.changed[asset], ZERO
            for purpose in Purpose:
                missing = position.missing(purpose, change)
                part = missing - counted
                counted = max(counted, missing)
                least = self.book.unit(asset) if purpose is Purpose.BAND else ZERO
                if part > least or (part > 0 and least == 0):
                    found.append(Shortfall(asset, purpose, part, self._why_not_bought(asset, missing, purpose)))
            above = position.above(change) if position.is_high else ZERO
            if above >= self.book.unit(asset):
                found.append(Shortfall(asset, Purpose.BAND, above, self._why_not_sold(asset, above)))
        return sorted(found, key=lambda each: (TIERS.index(each.purpose), each.asset))

    def _why_not_bought(self, asset: str, missing: Decimal, purpose: Purpose) -> str:
        ways = self.book.into(asset)
        if not ways:
            return self._unreached(asset, is_bought=True)
        if self._is_small(asset, missing) and purpose is Purpose.BAND:
            return self._too_small()
        reached = self._limits([way for way in ways if self._could_pay(way, purpose)])
        if reached:
            return reached
        lost = self._without_rate(asset, is_bought=True)
        words = "no other asset has anything that may be spent for it"
        return f"{words}; the rate of {lost} could not be had" if lost else words

    def _why_not_sold(self, asset: str, above: Decimal) -> str:
        ways = self.book.out_of(asset)
        position = self.book.positions[asset]
        if position.is_base:
            return "above its maximum, and no other asset lacks anything that it could buy"
        if not ways:
            return self._unreached(asset, is_bought=False)
        if self._is_small(asset, above):
            return self._too_small()
        base = self.book.terms.base_asset
        reached = self._limits(ways)
        if reached:
            return reached
        full = self.book.positions.get(base)
        if (
            full is not None
            and full.high is not None
            and self._is_small(base, full.high - full.in_hand - self.changed[base])
        ):
            return f"{base} is at its maximum, and no other asset lacks anything"
        return f"no way leads to {base} or to what is lacking"

    def _unreached(self, asset: str, *, is_bought: bool) -> str:
        lost = self._without_rate(asset, is_bought=is_bought)
        if lost:
            return f"the rate of {lost} could not be had"
        return f"no pair of the policy leads {'to' if is_bought else 'from'} {asset}"

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

    def _could_pay(self, way: Arc, purpose: Purpose) -> bool:
        """Tell whether the spent asset still has one smallest trade for it."""
        position = self.book.positions[way.spends]
        left = position.in_hand + self.changed[way.spends] - position.kept[purpose]
        return left * self.book.price(way.spends) >= self.book.terms.min_trade

    def _limits(self, ways: Sequence[Arc]) -> str | None:
        """The limit that keeps the first of these ways from carrying one more smallest trade."""
        reasons = [reason for reason in map(self._limit, ways) if reason]
        return reasons[0] if reasons else None

    def _limit(self, way: Arc) -> str | None:
        book, terms = self.book, self.book.terms
        base = terms.base_asset
        there = next((each.amount for each in self.trades if each.arc == way), ZERO)
        if way.spends in terms.max_spend:
            limit = terms.max_spend[way.spends]
            if book.worth(way, limit) < terms.min_trade or (there and self._is_small(way.spends, limit - there)):
                return f"max_per_trade (or max_share_percent), {canonical(limit)} {way.spends}, {NO_MORE}"
        if (moved := self._limit_of_currency(way)) is not None:
            return moved
        if way.symbol in terms.max_per_pair:
            limit = terms.max_per_pair[way.symbol]
            worth = sum((book.worth(e.arc, e.amount) for e in self.trades if e.arc.symbol == way.symbol), ZERO)
            if limit - worth < terms.min_trade:
                return f"max_per_pair of {way.symbol}, of which {canonical(limit)} {base} are left today, {NO_MORE}"
        if terms.max_total is not None and terms.max_total - self.worth < terms.min_trade:
            return f"max_value_per_day, of which {canonical(terms.max_total)} {base} are left, {NO_MORE}"
        if terms.max_cost is not None:
            smallest = book.cost(way, book.spend_for_worth(way, terms.min_trade))
            if terms.max_cost - self.cost < smallest:
                return f"max_cost_per_day, of which {canonical(terms.max_cost)} {base} are left, {NO_MORE}"
        return None

    def _limit_of_currency(self, way: Arc) -> str | None:
        """The limit on what may be spent, or moved, of a currency that keeps this way from one more smallest trade."""
        terms = self.book.terms
        if way.spends in terms.max_spent:
            limit = terms.max_spent[way.spends]
            spent = sum((each.amount for each in self.trades if each.arc.spends == way.spends), ZERO)
            if self._is_small(way.spends, limit - spent):
                return f"max_per_day, of which {canonical(limit)} {way.spends} are left today, {NO_MORE}"
        for currency in (way.spends, way.receives):
            if currency in terms.max_turnover:
                limit = terms.max_turnover[currency]
                if self._is_small(currency, limit - self._turnover(currency)):
                    return f"max_turnover, of which {canonical(limit)} {currency} are left today, {NO_MORE}"
        return None

    def _turnover(self, currency: str) -> Decimal:
        spent = sum((each.amount for each in self.trades if each.arc.spends == currency), ZERO)
        got = (self.book.expected(each.arc, each.amount) for each in self.trades if each.arc.receives == currency)
        return spent + sum(got, ZERO)


def next_units(book: TradeBook, trades: Sequence[Sized]) -> Mapping[str, Decimal | None]:
    """By asset with a need: what one more unit would cost in the base asset.

    Nothing while the asset has a unit to spare; else spread and fee along the cheapest way from an asset that has the
    value to spare. None where there is no such way. Limits and fixed costs are not counted.
    """
    changed = changes(book, trades)
    spare = {
        asset: (min(position.in_hand, position.holding.expected) + changed[asset] - position.kept[Purpose.OBLIGATION])
        * book.price(asset)
        for asset, position in book.positions.items()
    }
    found: dict[str, Decimal | None] = {}
    for asset, position in book.positions.items():
        if position.holding.need > 0:
            found[asset] = ZERO if spare[asset] >= book.price(asset) else _cheapest(book, asset, spare)
    return found


def _cheapest(book: TradeBook, asset: str, spare: Mapping[str, Decimal]) -> Decimal | None:
    """The least value lost on a way that ends with one unit of the asset."""
    needed = {asset: book.price(asset)}
    lost = {asset: ZERO}
    for _ in book.positions:
        for arc in book.arcs:
            if arc.receives not in needed:
                continue
            net = arc.gain * (1 - book.fee)
            if net <= 0:
                continue
            spent = needed[arc.receives] / book.price(arc.receives) / net
            cost = lost[arc.receives] + spent * book.unit_cost(arc)
            if arc.spends not in lost or cost < lost[arc.spends]:
                needed[arc.spends], lost[arc.spends] = spent * book.price(arc.spends), cost
    costs = [lost[each] for each in lost if each != asset and spare[each] >= needed[each]]
    return round_up(min(costs), COST_DIGITS) if costs else None
