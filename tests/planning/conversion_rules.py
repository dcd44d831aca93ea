"""The rules that every plan of conversions keeps, each checked exactly; what breaks one is named."""

from collections.abc import Iterable, Sequence

from treasury.money import ZERO, canonical, exact
from treasury.planning.conversion_model import (
    TIERS,
    Conversion,
    ConversionPlan,
    Holding,
    Leg,
    Pair,
    Purpose,
    Terms,
    TradeBook,
)
from treasury.planning.trades import first_over


@exact
def check_conversions(
    plan: ConversionPlan, holdings: Iterable[Holding], pairs: Iterable[Pair], terms: Terms
) -> list[str]:
    """Return what a plan breaks, in words; nothing when it keeps every rule."""
    book = TradeBook.of(holdings, pairs, terms)
    ways = {(leg.symbol, leg.side): leg for leg in book.legs}
    broken: list[str] = []
    trades: list[tuple[Conversion, Leg]] = []
    for each in plan.conversions:
        leg = ways.get((each.symbol, each.side))
        if leg is None:
            broken.append(f"{each.side} {each.symbol} has no rate")
        else:
            broken += _of_one(book, each, leg)
            trades.append((each, leg))
    broken += _of_pairs(trades)
    if (over := first_over([each for each, _ in trades], terms)) is not None:
        broken.append(f"its conversions are over {over.limit} {over.of}".rstrip())
    broken += _of_levels(book, trades)
    if plan.cost != sum((each.cost for each in plan.conversions), ZERO):
        broken.append("the plan's cost is not the sum of its conversions'")
    return broken


def _of_one(book: TradeBook, each: Conversion, leg: Leg) -> Iterable[str]:
    named = f"{each.side} {each.symbol}"
    if (each.currency, each.receive_currency, each.rate) != (leg.spends, leg.receives, leg.rate):
        yield f"{named} is not what the pair says"
        return
    if each.amount <= 0 or each.amount % book.unit(leg.spends):
        yield f"{named}: {canonical(each.amount)} {leg.spends} is no amount of {book.digits(leg.spends)} digits"
    if each.expected_receive != book.gross(leg, each.amount) or each.cost != book.cost(leg, each.amount):
        yield f"{named}: what it brings or costs is not what its rate says"
    if each.value != book.value(leg, each.amount):
        yield f"{named} is worth something else"
    if each.value < book.terms.min_trade:
        yield f"{named} is worth less than min_trade"


def _of_pairs(trades: Sequence[tuple[Conversion, Leg]]) -> Iterable[str]:
    """Each pair in one direction, and once in the first round; no money comes back to where it left."""
    symbols = [each.symbol for each, _ in trades if each.round == 1]
    for symbol in sorted({each for each in symbols if symbols.count(each) > 1}):
        yield f"{symbol} is traded more than once"
    left = [(leg.spends, leg.receives) for _, leg in trades]
    while left:
        ends = [way for way in left if not any(way[1] == spends for spends, _ in left)]
        if not ends:
            yield "money goes round in a circle"
            return
        left = [way for way in left if way not in ends]


def _of_levels(book: TradeBook, trades: Sequence[tuple[Conversion, Leg]]) -> Iterable[str]:
    """Yield what is left of each asset after every round, and at the end; proceeds count from the next round on.

    What passes through an asset may leave it as low as it was: its own money is not spent below its floor.
    """
    most_urgent = min((TIERS.index(each.purpose) for each, _ in trades), default=0)
    left = {asset: levels.in_hand for asset, levels in book.levels.items()}
    for number in sorted({each.round for each, _ in trades}):
        now = [(each, leg) for each, leg in trades if each.round == number]
        for asset, levels in book.levels.items():
            left[asset] += sum(levels.holding.coming.values(), ZERO) if number == 2 else ZERO
        for each, _ in now:
            left[each.currency] -= each.amount
        for asset in sorted({each.currency for each, _ in now}):
            levels = book.levels[asset]
            if left[asset] < min(levels.kept[Purpose.OBLIGATION], levels.in_hand):
                yield f"round {number} spends {asset} below its need and floor"
        for each, leg in now:
            left[each.receive_currency] += book.net(leg, each.amount)
    for asset, levels in book.levels.items():
        is_spent = any(each.currency == asset for each, _ in trades) and left[asset] < levels.in_hand
        if is_spent and left[asset] < levels.kept[TIERS[most_urgent]]:
            yield f"{asset} is spent below what may be spent for {TIERS[most_urgent]}"
