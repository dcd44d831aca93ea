"""Open ends of a plan of conversions, in words a treasurer reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from treasury.money import ZERO, canonical
from treasury.planning.conversion_model import TIERS, TOO_SMALL, Pair, Purpose, Shortfall
from treasury.planning.trade_book import TradeBook
from treasury.planning.trade_limits import OverLimit

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
