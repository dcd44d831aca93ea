"""Plan conversions: obligations first, then floors, then bands, each at the least cost; exact, pure."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from graphlib import CycleError, TopologicalSorter

from treasury.money import exact
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
from treasury.planning.exact_amounts import Sized, size_trades
from treasury.planning.open_gaps import next_units, shortfalls
from treasury.planning.optimizer import Proposed, propose
from treasury.planning.plain_conversions import propose_plainly
from treasury.planning.positions import ZERO, TradeBook
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


@exact
def plan_conversions(holdings: Sequence[Holding], pairs: Sequence[Pair], terms: Terms) -> ConversionPlan:
    """The conversions that leave least open: obligations before floors before bands, then cost, then their number.

    The same holdings and pairs in another order give the same plan. What stays open is listed with its reason.
    Raises `InputError` for an asset or a pair that is given twice, and for a price or rate that is not positive.
    """
    book = TradeBook.of(holdings, pairs, terms)
    proposed = propose(book, _purposes(book))
    plan = None if proposed is None else _sized(book, holdings, pairs, proposed)
    if proposed is not None and plan is not None and len(plan.conversions) == len(proposed):
        return plan
    plain = _sized(book, holdings, pairs, propose_plainly(book))  # rounding left a trade out: is another way better?
    best = plain if plan is None or _is_better(_left_open(book, plain), _left_open(book, plan)) else plan
    return _continued(book, holdings, pairs, best)


def _continued(
    book: TradeBook, holdings: Sequence[Holding], pairs: Sequence[Pair], plan: ConversionPlan
) -> ConversionPlan:
    """The plan with what another one would trade after it, while less stays open by that."""
    for _ in range(MAX_CONTINUED):
        after = TradeBook.of(_after(book, holdings, plan), pairs, book.terms)
        more = propose(after, _purposes(after)) or ()
        both = _merged(book, plan, more)
        if not more or not _leads_onward(both):
            return plan
        wider = _sized(book, holdings, pairs, both)
        if not _is_better(_left_open(book, wider), _left_open(book, plan)):
            return plan
        plan = wider
    return plan


def _merged(book: TradeBook, plan: ConversionPlan, more: Sequence[Proposed]) -> list[Proposed]:
    """The trades of a plan and more of them, each way once."""
    ways = {(arc.symbol, arc.spends): arc for arc in book.arcs}
    found = {
        name: Proposed(ways[name], each.amount, each.purpose)
        for each in plan.conversions
        if (name := (each.symbol, each.currency))
    }
    for each in more:
        name = (each.arc.symbol, each.arc.spends)
        found[name] = replace(found[name], amount=found[name].amount + each.amount) if name in found else each
    return list(found.values())


def _leads_onward(trades: Sequence[Proposed]) -> bool:
    """Tell whether no money comes back to where it left."""
    paid_by: dict[str, set[str]] = {}
    for each in trades:
        paid_by.setdefault(each.arc.receives, set()).add(each.arc.spends)
    with suppress(CycleError):
        TopologicalSorter(paid_by).prepare()
        return True
    return False


MAX_CONTINUED = 3
"""So often a plan that rounding cut short is continued."""


def _after(book: TradeBook, holdings: Sequence[Holding], plan: ConversionPlan) -> list[Holding]:
    """The holdings once the plan's conversions were made and took the fee that is expected."""
    change = dict.fromkeys((each.asset for each in holdings), ZERO)
    for each in plan.conversions:
        change[each.currency] -= each.amount
        change[each.receive_currency] += each.expected_receive * (1 - book.fee)
    return [
        replace(each, spendable=each.spendable + change[each.asset], expected=each.expected + change[each.asset])
        for each in holdings
    ]


def _sized(
    book: TradeBook, holdings: Sequence[Holding], pairs: Sequence[Pair], proposed: Sequence[Proposed]
) -> ConversionPlan:
    """The proposal in exact amounts, without what would break a rule."""
    trades = list(size_trades(book, proposed))
    plan = _plan(book, pairs, trades)
    while trades and check_conversions(plan, holdings, pairs, book.terms):
        trades = list(size_trades(book, _without_least(book, trades)))
        plan = _plan(book, pairs, trades)
    return plan


def _left_open(book: TradeBook, plan: ConversionPlan) -> Sequence[Decimal]:
    """Return what a plan leaves open by purpose, the most urgent first, and what it costs; in the base asset."""
    open_ends = dict.fromkeys(TIERS, ZERO)
    for each in plan.shortfalls:
        open_ends[each.purpose] += each.amount * book.price(each.asset)
    return [*open_ends.values(), plan.cost]


def _is_better(other: Sequence[Decimal], mine: Sequence[Decimal]) -> bool:
    """Tell whether another plan leaves less open, or costs less, by more than rounding makes of it."""
    differs = (theirs - ours for theirs, ours in zip(other, mine, strict=True) if abs(theirs - ours) > ROUNDING)
    return next(differs, ZERO) < 0


ROUNDING = Decimal("0.01")
"""Base asset: what rounding a few trades to their digits may come to."""


def _purposes(book: TradeBook) -> Sequence[Purpose]:
    """The purposes for which anything is wanted, the band whenever anything is."""
    positions = book.positions.values()
    found = [p for p in (Purpose.OBLIGATION, Purpose.FLOOR) if any(each.missing(p) > 0 for each in positions)]
    out_of_band = any(each.is_low or each.is_high for each in positions)
    return [*found, Purpose.BAND] if found or out_of_band else []


def _without_least(book: TradeBook, trades: Sequence[Sized]) -> Sequence[Proposed]:
    """The trades without the least urgent and smallest one."""
    least = max(trades, key=lambda each: (TIERS.index(each.purpose), -book.worth(each.arc, each.amount)))
    return [Proposed(each.arc, each.amount, each.purpose) for each in trades if each is not least]


def _plan(book: TradeBook, pairs: Sequence[Pair], trades: Sequence[Sized]) -> ConversionPlan:
    conversions = sorted(
        (_conversion(book, each) for each in trades),
        key=lambda each: (each.round, each.side is Side.BUY, each.symbol),
    )
    cost = sum((each.cost for each in conversions), ZERO)
    return ConversionPlan(tuple(conversions), tuple(shortfalls(book, pairs, trades)), cost, next_units(book, trades))


def _conversion(book: TradeBook, trade: Sized) -> Conversion:
    arc = trade.arc
    return Conversion(
        symbol=arc.symbol,
        side=arc.side,
        currency=arc.spends,
        amount=trade.amount,
        receive_currency=arc.receives,
        expected_receive=book.expected(arc, trade.amount),
        rate=arc.rate,
        purpose=trade.purpose,
        round=trade.round,
        cost=book.cost(arc, trade.amount),
    )
