"""The best that conversions can do, found the long way: every set of trades, each solved exactly in fractions.

Nothing of the planner is used, only what it is given. Amounts are not rounded, so a plan differs by its rounding.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tests.planning.treasuries import Treasury

Score = tuple[Fraction, ...]
"""The open part of obligations, floors and bands, and the cost; all in the base asset."""
Row = dict[int, Fraction]
ONE = Fraction(1)


@dataclass(frozen=True)
class Way:
    """One side of a pair, per unit of value spent: value received, what it counts for as worth, and its cost."""

    symbol: str
    start: str
    end: str
    gross: Fraction
    net: Fraction
    worth: Fraction
    cost: Fraction


def best(treasury: Treasury) -> Score:
    """The least of what stays open, purpose by purpose, and the least cost at that."""
    return min(
        score
        for ways in trade_sets(ways_of(treasury))
        for smallest in itertools.chain.from_iterable(
            itertools.combinations(range(len(ways)), count) for count in range(len(ways) + 1)
        )
        if (score := solved(treasury, ways, frozenset(smallest))) is not None
    )


def ways_of(treasury: Treasury) -> Sequence[Way]:
    """Both sides of every pair that have a price."""
    terms = treasury.terms
    price = {each.asset: Fraction(each.price) for each in treasury.holdings}
    fee = Fraction(terms.fee_bps) / 10_000
    ways = []
    for pair in treasury.pairs:
        known = [Fraction(each) for each in (pair.buy, pair.sell) if each is not None]
        middle = sum(known, Fraction(0)) / max(len(known), 1)
        for start, end, rate in ((pair.against, pair.asset, pair.buy), (pair.asset, pair.against, pair.sell)):
            if rate is None:
                continue
            gain = 1 / Fraction(rate) if start == pair.against else Fraction(rate)
            off = abs(Fraction(rate) - middle) * (gain if start == pair.against else 1) * price[pair.against]
            gross = gain * price[end] / price[start]
            ways.append(Way(pair.symbol, start, end, gross, gross * (1 - fee), ONE, off / price[start] + gross * fee))
    return ways


def trade_sets(ways: Sequence[Way]) -> Iterator[Sequence[Way]]:
    """Every choice of one side or none of each pair in which no money comes back to where it left."""
    symbols = sorted({each.symbol for each in ways})
    for chosen in itertools.product(*([None, *(w for w in ways if w.symbol == symbol)] for symbol in symbols)):
        kept = [each for each in chosen if each is not None]
        if not _goes_round(kept):
            yield kept


def _goes_round(ways: Sequence[Way]) -> bool:
    left = list(ways)
    while left:
        ends = [one for one in left if not any(other.start == one.end for other in left)]
        if not ends:
            return True
        left = [one for one in left if one not in ends]
    return False


def solved(treasury: Treasury, ways: Sequence[Way], smallest: frozenset[int]) -> Score | None:
    """The score of the best amounts for these trades; those numbered in `smallest` have exactly the smallest size, and
    may bring more than is lacking. None where the limits forbid the set."""
    terms = treasury.terms
    tiers = range(3)
    price = {each.asset: Fraction(each.price) for each in treasury.holdings}
    least = Fraction(terms.min_trade)
    number = itertools.count()
    flow = {(tier, way): next(number) for tier in tiers for way in range(len(ways))}
    rows: list[tuple[Row, Fraction]] = []
    goals: list[Row] = [{}, {}, {}, {}]
    fixed_cost = len(ways) * Fraction(terms.fixed_cost)
    for index, way in enumerate(ways):
        size = {flow[tier, index]: way.worth for tier in tiers}
        rows.append((_negative(size), -least))
        if index in smallest:
            rows.append((size, least))
        if way.start in terms.max_spend:
            rows.append(({flow[t, index]: ONE for t in tiers}, Fraction(terms.max_spend[way.start]) * price[way.start]))
        if way.symbol in terms.max_per_pair:
            rows.append((size, Fraction(terms.max_per_pair[way.symbol])))
        goals[3] |= {flow[tier, index]: way.cost for tier in tiers}
    total = {flow[tier, index]: way.worth for index, way in enumerate(ways) for tier in tiers}
    if terms.max_total is not None:
        rows.append((total, Fraction(terms.max_total)))
    if terms.max_cost is not None:
        rows.append((dict(goals[3]), Fraction(terms.max_cost) - fixed_cost))
    for currency, limit in terms.max_turnover.items():
        moved = {flow[t, i]: ONE for i, way in enumerate(ways) for t in tiers if way.start == currency}
        moved |= {flow[t, i]: way.gross for i, way in enumerate(ways) for t in tiers if way.end == currency}
        rows.append((moved, Fraction(limit) * price[currency]))
    for currency, limit in terms.max_spent.items():
        spent = {flow[t, i]: ONE for i, way in enumerate(ways) for t in tiers if way.start == currency}
        rows.append((spent, Fraction(limit) * price[currency]))
    always: list[Fraction] = [Fraction(0)] * 3
    spared: Row = {}
    for each in treasury.holdings:
        value = price[each.asset]
        hand = Fraction(min(each.spendable, each.expected))
        expected, need, floor = Fraction(each.expected), Fraction(each.need), Fraction(each.floor)
        low, target = Fraction(each.minimum), Fraction(each.target)
        is_base = each.asset == terms.base_asset
        back = terms.return_to == "target"
        is_low = expected - need < low
        is_high = each.maximum is not None and hand - need > Fraction(each.maximum)
        aim = target if back and is_low else low
        top = max(floor, aim)
        lacks = is_low or expected < need + floor
        change: Row = {}
        drawn, put = [next(number) for _ in tiers], [next(number) for _ in tiers]
        for tier in tiers:
            out = {flow[tier, i]: ONE for i, way in enumerate(ways) if way.start == each.asset}
            into = {flow[tier, i]: way.net for i, way in enumerate(ways) if way.end == each.asset}
            change |= _negative(out) | into
            rows.append((out | _negative(into) | {drawn[tier]: -ONE}, Fraction(0)))
            rows.append((_negative(out) | into | {put[tier]: -ONE}, Fraction(0)))
        deepest = [floor, max(floor, low), max(floor, low) if is_base else max(floor, low, target)]
        for tier in tiers:
            there = max(hand - need - deepest[tier], Fraction(0)) * value
            rows.append(({drawn[t]: ONE for t in tiers if t >= tier}, there))
        sink = is_base and not is_high
        extra = Fraction(0)
        entering = [i for i, way in enumerate(ways) if way.end == each.asset]
        if lacks and len(entering) == 1 and entering[0] in smallest:
            brought = least / ways[entering[0]].worth * ways[entering[0]].net
            urgent = expected < need + floor
            extra = brought if urgent else min(brought, max(target - top, Fraction(0)) * value)
        for tier, level in enumerate((need, need + floor, need + top)):
            if sink and tier == 2:
                continue
            room = max(level - expected, Fraction(0)) * value if lacks else Fraction(0)
            rows.append(({put[t]: ONE for t in tiers if t <= tier}, room + (extra if room else 0)))
        if sink and each.maximum is not None:
            rows.append((dict(change), (Fraction(each.maximum) + need - hand) * value + extra))
        for tier, level in enumerate((need, need + floor, need + aim)):
            column = next(number)
            goals[tier][column] = ONE
            rows.append((_negative(change) | {column: -ONE}, (expected - level) * value))
        if is_high:
            column = next(number)
            goals[2][column] = ONE
            edge = target if back else Fraction(each.maximum or 0)
            rows.append((change | {column: -ONE}, -(hand - need - edge) * value))
        if not is_high:
            spared[drawn[2]] = ONE
        if lacks:
            for i, way in enumerate(ways):
                gained = (way.net if way.end == each.asset else 0) - (1 if way.start == each.asset else 0)
                spared[flow[2, i]] = spared.get(flow[2, i], Fraction(0)) - 2 * gained
    rows.append((spared, Fraction(0)))  # what is not above its band is spent for it only where others lack something
    found = least_in_order(rows, goals, next(number))
    return None if found is None else (*(a + b for a, b in zip(found, always, strict=False)), found[3] + fixed_cost)


def _negative(row: Mapping[int, Fraction]) -> Row:
    return {column: -weight for column, weight in row.items()}


def least_in_order(rows: Sequence[tuple[Row, Fraction]], goals: Sequence[Row], columns: int) -> Score | None:
    """The least of each goal in turn over columns >= 0 with every row <= its bound; None where there are none.

    The simplex method in fractions, the reduced costs of all goals compared as tuples; Bland's rule.
    """
    broken = [index for index, (_, bound) in enumerate(rows) if bound < 0]
    width = columns + len(rows) + len(broken)
    table: list[dict[int, Fraction]] = []
    bounds: list[Fraction] = []
    basis: list[int] = []
    for index, (row, bound) in enumerate(rows):
        sign = -1 if bound < 0 else 1
        line = {column: sign * weight for column, weight in row.items() if weight}
        line[columns + index] = Fraction(sign)
        if bound < 0:
            line[columns + len(rows) + broken.index(index)] = ONE
            basis.append(columns + len(rows) + broken.index(index))
        else:
            basis.append(columns + index)
        table.append(line)
        bounds.append(sign * bound)
    artificial = {columns + len(rows) + place: ONE for place in range(len(broken))}
    prices: list[Row] = [dict(goal) for goal in (artificial, *goals)]
    values = [Fraction(0) for _ in prices]
    for index, column in enumerate(basis):
        _clear(prices, values, column, table[index], bounds[index])
    while True:
        entering = next((c for c in range(width - len(broken)) if _is_better(prices, c)), None)
        if entering is None:
            break
        ratios = [
            (bounds[i] / line[entering], basis[i], i) for i, line in enumerate(table) if line.get(entering, 0) > 0
        ]
        assert ratios, "the program has no end"
        _, _, leaving = min(ratios)
        pivot = table[leaving][entering]
        table[leaving] = {column: weight / pivot for column, weight in table[leaving].items()}
        bounds[leaving] /= pivot
        for index, line in enumerate(table):
            if index != leaving and entering in line:
                factor = line[entering]
                _subtract(line, table[leaving], factor)
                bounds[index] -= factor * bounds[leaving]
        basis[leaving] = entering
        _clear(prices, values, entering, table[leaving], bounds[leaving])
    return None if values[0] else tuple(-each for each in values[1:])


def _is_better(prices: Sequence[Row], column: int) -> bool:
    for price in prices:
        weight = price.get(column, 0)
        if weight:
            return weight < 0
    return False


def _clear(prices: Sequence[Row], values: list[Fraction], column: int, line: Row, bound: Fraction) -> None:
    """Take a column of the basis out of every goal."""
    for index, price in enumerate(prices):
        factor = price.get(column)
        if factor:
            _subtract(price, line, factor)
            values[index] -= factor * bound


def _subtract(line: Row, other: Row, factor: Fraction) -> None:
    for column, weight in other.items():
        left = line.get(column, Fraction(0)) - factor * weight
        if left:
            line[column] = left
        else:
            line.pop(column, None)
