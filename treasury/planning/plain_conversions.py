"""The plain proposal: each asset by itself over its direct pairs, the cheapest first; if no program is solved."""

from collections.abc import Sequence
from decimal import Decimal

from treasury.planning.conversion_model import Purpose
from treasury.planning.optimizer import Proposed
from treasury.planning.positions import ZERO, Arc, TradeBook


def propose_plainly(book: TradeBook) -> Sequence[Proposed]:
    """Sales of what is above its band for the base asset, then purchases, the most urgent purpose first."""
    plain = _Plain(book)
    for asset, position in book.positions.items():
        if position.is_high and not position.is_base:
            plain.sell(asset, position.above())
    for purpose in Purpose:
        for asset, position in book.positions.items():
            if position.has_gap:
                plain.buy(asset, purpose)
    return plain.proposed


class _Plain:
    def __init__(self, book: TradeBook) -> None:
        self.book = book
        self.proposed: list[Proposed] = []
        self.bought: dict[str, Decimal] = {}
        self.spent: dict[str, Decimal] = {}

    def sell(self, asset: str, amount: Decimal) -> None:
        """Sell for the base asset where there is a pair."""
        base = self.book.terms.base_asset
        for arc in self.book.out_of(asset):
            if arc.receives == base and self.book.worth(arc, amount) >= self.book.terms.min_trade:
                self._add(arc, amount, Purpose.BAND)
                return

    def buy(self, asset: str, purpose: Purpose) -> None:
        """Buy what is lacking with what may be spent for it."""
        book, position = self.book, self.book.positions[asset]
        ways = sorted(book.into(asset), key=lambda arc: (book.unit_cost(arc) / book.price(arc.spends), arc.symbol))
        for arc in ways:
            lacking = position.wanted[purpose] - position.holding.expected - self.bought.get(asset, ZERO)
            if (
                lacking <= 0
                or any({each.arc.spends, each.arc.receives} == {arc.spends, arc.receives} for each in self.proposed)
                or self._leads_back(arc)
            ):
                continue
            there = book.positions[arc.spends].may_spend(purpose) - self.spent.get(arc.spends, ZERO)
            wanted = max(book.spend_for_net(arc, lacking), book.spend_for_worth(arc, book.terms.min_trade))
            amount = min(wanted, max(there, ZERO))
            if arc.spends in book.terms.max_spend:
                amount = min(amount, book.terms.max_spend[arc.spends])
            if amount > 0 and book.worth(arc, amount) >= book.terms.min_trade:
                self._add(arc, amount, purpose)

    def _add(self, arc: Arc, amount: Decimal, purpose: Purpose) -> None:
        self.proposed.append(Proposed(arc, amount, purpose))
        self.spent[arc.spends] = self.spent.get(arc.spends, ZERO) + amount
        self.bought[arc.receives] = self.bought.get(arc.receives, ZERO) + self.book.after_fee(arc, amount)

    def _leads_back(self, arc: Arc) -> bool:
        """Tell whether money that this way carries could come back to where it left."""
        reached = {arc.receives}
        for _ in self.proposed:
            reached |= {each.arc.receives for each in self.proposed if each.arc.spends in reached}
        return arc.spends in reached
