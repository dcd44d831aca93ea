"""The rules that every plan of conversions keeps, each checked exactly; what breaks one is named."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal

from treasury.money import canonical, exact
from treasury.planning.conversion_model import TIERS, Conversion, ConversionPlan, Holding, Pair, Terms
from treasury.planning.positions import ZERO, Arc, TradeBook


@exact
def check_conversions(
    plan: ConversionPlan, holdings: Iterable[Holding], pairs: Iterable[Pair], terms: Terms
) -> list[str]:
    """Return what a plan breaks, in words; nothing when it keeps every rule."""
    book = TradeBook.of(holdings, pairs, terms)
    ways = {(arc.symbol, arc.side): arc for arc in book.arcs}
    broken: list[str] = []
    trades: list[tuple[Conversion, Arc]] = []
    for each in plan.conversions:
        arc = ways.get((each.symbol, each.side))
        if arc is None:
            broken.append(f"{each.side} {each.symbol} has no rate")
        else:
            broken += _of_one(book, each, arc)
            trades.append((each, arc))
    broken += _of_pairs(trades)
    broken += _of_limits(book, trades)
    broken += _of_levels(book, trades)
    if plan.cost != sum((each.cost for each in plan.conversions), ZERO):
        broken.append("the plan's cost is not the sum of its conversions'")
    return broken


def _of_one(book: TradeBook, each: Conversion, arc: Arc) -> Iterable[str]:
    named, terms = f"{each.side} {each.symbol}", book.terms
    if (each.currency, each.receive_currency, each.rate) != (arc.spends, arc.receives, arc.rate):
        yield f"{named} is not what the pair says"
        return
    if each.amount <= 0 or each.amount % book.unit(arc.spends):
        yield f"{named}: {canonical(each.amount)} {arc.spends} is no amount of {book.digits(arc.spends)} digits"
    if each.expected_receive != book.expected(arc, each.amount) or each.cost != book.cost(arc, each.amount):
        yield f"{named}: what it brings or costs is not what its rate says"
    if book.worth(arc, each.amount) < terms.min_trade:
        yield f"{named} is worth less than min_trade"
    if each.currency in terms.max_spend and each.amount > terms.max_spend[each.currency]:
        yield f"{named} spends more than max_spend"


def _of_pairs(trades: Sequence[tuple[Conversion, Arc]]) -> Iterable[str]:
    """Each pair in one direction and once; no money comes back to where it left."""
    symbols = [each.symbol for each, _ in trades]
    for symbol in sorted({each for each in symbols if symbols.count(each) > 1}):
        yield f"{symbol} is traded more than once"
    left = [(arc.spends, arc.receives) for _, arc in trades]
    while left:
        ends = [way for way in left if not any(way[1] == spends for spends, _ in left)]
        if not ends:
            yield "money goes round in a circle"
            return
        left = [way for way in left if way not in ends]


def _of_limits(book: TradeBook, trades: Sequence[tuple[Conversion, Arc]]) -> Iterable[str]:
    terms = book.terms
    moved: defaultdict[str, Decimal] = defaultdict(Decimal)
    worth: defaultdict[str, Decimal] = defaultdict(Decimal)
    for each, arc in trades:
        moved[each.currency] += each.amount
        moved[each.receive_currency] += each.expected_receive
        worth[each.symbol] += book.worth(arc, each.amount)
    for currency, limit in terms.max_turnover.items():
        if moved[currency] > limit:
            yield f"its conversions move more {currency} than max_turnover"
    for currency, limit in terms.max_spent.items():
        if sum((each.amount for each, _ in trades if each.currency == currency), ZERO) > limit:
            yield f"its conversions spend more {currency} than max_spent"
    for symbol, limit in terms.max_per_pair.items():
        if worth[symbol] > limit:
            yield f"{symbol} is worth more than max_per_pair"
    if terms.max_total is not None and sum(worth.values(), ZERO) > terms.max_total:
        yield "its conversions are worth more than max_total"
    if terms.max_cost is not None and sum((each.cost for each, _ in trades), ZERO) > terms.max_cost:
        yield "its conversions cost more than max_cost"


def _of_levels(book: TradeBook, trades: Sequence[tuple[Conversion, Arc]]) -> Iterable[str]:
    """Yield what is left of each asset after every round, and at the end; proceeds count from the next round on."""
    most_urgent = min((TIERS.index(each.purpose) for each, _ in trades), default=0)
    left = {asset: position.in_hand for asset, position in book.positions.items()}
    for number in sorted({each.round for each, _ in trades}):
        now = [(each, arc) for each, arc in trades if each.round == number]
        for each, _ in now:
            left[each.currency] -= each.amount
        for asset in sorted({each.currency for each, _ in now}):
            position = book.positions[asset]
            if left[asset] < min(position.floor, position.in_hand):  # what only passes through may leave it as low
                yield f"round {number} spends {asset} below its need and floor"
        for each, arc in now:
            left[each.receive_currency] += book.after_fee(arc, each.amount)
    for asset, position in book.positions.items():
        if not any(each.currency == asset for each, _ in trades) or left[asset] >= position.in_hand:
            continue
        if left[asset] < position.kept[TIERS[most_urgent]]:
            yield f"{asset} is spent below what may be spent for {TIERS[most_urgent]}"
    traded = {currency for each, _ in trades for currency in (each.currency, each.receive_currency)}
    rounding = 10 * max((book.unit(asset) * book.price(asset) for asset in traded), default=ZERO)
    for asset, position in book.positions.items():
        high = position.high
        if high is None or left[asset] <= position.in_hand or position.holding.expected < position.floor:
            continue
        if (left[asset] - high) * book.price(asset) > rounding:
            yield f"{asset} is brought above its band"
