"""Which conversions to make and about how much: a mixed-integer program over what each asset lacks and may spend.

It works in floats and only proposes: what is made is decided in exact decimals from its proposal. Every amount in it is
a value in the base asset, in units of the largest level, so that its tolerances mean the same for every asset.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from treasury.planning.conversion_model import TIERS, Purpose
from treasury.planning.positions import ZERO, Arc, AssetLevels, TradeBook
from treasury.planning.program import INFINITY, TOLERANCE, Program

EXACT_WAYS = 40
"""Ways (sides of pairs) up to which the least cost is proved; with more it may be missed by `GAP`, a share of it."""
GAP = 0.01
MAX_CIRCLES = 50
"""Circles that are cut before the plain planner's proposal is used."""
LARGEST = 1e4
"""What the largest value is scaled to: tolerances of 1e-9 are then 1e-13 of it."""
SMALL = 1e-7
"""A share of the largest value that counts as nothing."""


LOST_AT_MOST = 2.0
"""So much is spent, at the most, for one that arrives: rates and fees of several trades never take half."""


@dataclass(frozen=True)
class Proposed:
    """One trade of a proposal: about how much is spent, and the most urgent purpose it serves."""

    arc: Arc
    amount: Decimal
    purpose: Purpose


def propose(book: TradeBook, purposes: Sequence[Purpose]) -> Sequence[Proposed] | None:
    """The trades that leave least open, purpose by purpose, at the least cost; None when they are not found soon."""
    return _Model(book, purposes).solved() if purposes else ()


class _Model:
    """The program of one book. `flow` has the value spent by purpose and way, `used` whether a way is used."""

    def __init__(self, book: TradeBook, purposes: Sequence[Purpose]) -> None:
        self.book = book
        self.purposes = tuple(purposes)
        self.program = Program()
        self.arcs = book.arcs
        self.scale = LARGEST / float(
            max(
                book.terms.min_trade,
                *(
                    max(each.in_hand, each.aim, abs(each.holding.expected)) * book.price(asset)
                    for asset, each in book.positions.items()
                ),
            )
        )
        self.fee = float(book.fee)
        self.gross = [float(arc.gain * book.price(arc.receives) / book.price(arc.spends)) for arc in self.arcs]
        """Value received for a unit of value spent, before the fee."""
        self.worth = [
            gross if arc.receives == book.terms.base_asset else 1.0
            for arc, gross in zip(self.arcs, self.gross, strict=True)
        ]
        self.min_trade = float(book.terms.min_trade) * self.scale
        self.most = self._most()
        self.flow = {
            (purpose, number): self.program.column() for purpose in self.purposes for number in range(len(self.arcs))
        }
        self.used = [self.program.choice() for _ in self.arcs]
        self.drawn: dict[tuple[Purpose, str], int] = {}
        self.put: dict[tuple[Purpose, str], int] = {}
        self.open: dict[Purpose, dict[int, float]] = {purpose: {} for purpose in TIERS}
        self.traded: dict[int, tuple[float, Sequence[int]]] = {}
        """By column of what stays open: the value that is open before any trade, and the ways that could change it."""
        self._trades()
        for asset, position in book.positions.items():
            self._asset(asset, position)
        self._spared()
        self._totals()

    def value(self, asset: str, amount: Decimal) -> float:
        """An amount of an asset as a scaled value."""
        return float(amount * self.book.price(asset)) * self.scale

    def lacking(self, asset: str, amount: Decimal) -> float:
        """Return what is missing as a scaled value; never so little that a tolerance would hide it."""
        return max(self.value(asset, amount), self.min_trade / 1000) if amount > 0 else 0.0

    def solved(self) -> Sequence[Proposed] | None:
        """The trades of the best solution."""
        if not self.arcs:
            return ()
        objectives = [self.open[purpose] for purpose in self.purposes if self.open[purpose]]
        at_once = self._nothing_urgent(objectives)
        for objective in objectives:
            chosen = at_once or self._acyclic(objective)
            if chosen is None:
                return None
            self._keep(objective, sum(weight * chosen[column] for column, weight in objective.items()))
        cheapest = self._acyclic(self._cost(tie=SMALL), gap=0.0 if len(self.arcs) <= EXACT_WAYS else GAP)
        if cheapest is None:
            return None
        return self._proposed(self._polished(cheapest))

    def _nothing_urgent(self, objectives: Sequence[Mapping[int, float]]) -> Sequence[float] | None:
        """The best solution of all purposes at once, if it leaves nothing open of any but the last: it is then the best
        in their order too. None otherwise."""
        weighed: dict[int, float] = {}
        for number, objective in enumerate(reversed(objectives)):
            weighed |= {column: 100.0**number * weight for column, weight in objective.items()}
        chosen = self._acyclic(weighed) if weighed else None
        if chosen is None:
            return None
        urgent = sum(chosen[column] for objective in objectives[:-1] for column in objective)
        return chosen if urgent <= TOLERANCE else None

    def _keep(self, objective: Mapping[int, float], best: float) -> None:
        """Leave no more open of an objective than is left open at best."""
        self.program.at_most(objective, best + TOLERANCE * max(1.0, abs(best)))
        self._needed(objective, best)

    def _needed(self, objective: Mapping[int, float], best: float) -> None:
        """A gap or surplus that is larger than all that stays open at best is traded: at least one way is used."""
        for column in objective:
            amount, ways = self.traded.get(column, (0.0, ()))
            if amount > best + SMALL * LARGEST:
                self.program.at_least({self.used[number]: 1.0 for number in ways}, 1.0)

    def _polished(self, chosen: Sequence[float]) -> Sequence[float]:
        """Solve the chosen trades exactly: without choices no flow leaks through a tolerance; then the least volume."""
        program = self.program
        program.fix(chosen)
        objective = dict.fromkeys(self.flow.values(), 1.0)
        return program.solve(objective) or chosen

    def _acyclic(self, objective: Mapping[int, float], gap: float = 0.0) -> Sequence[float] | None:
        """The best solution in which no money comes back to where it left: circles are cut as they turn up."""
        for _ in range(MAX_CIRCLES):
            chosen = self.program.solve(objective, gap)
            circle = None if chosen is None else self._circle(chosen)
            if circle is None:
                return chosen
            self.program.at_most({self.used[number]: 1.0 for number in circle}, len(circle) - 1.0)
        return None

    def _circle(self, chosen: Sequence[float]) -> Sequence[int] | None:
        """Numbers of used ways that lead around in a circle; None when there are none."""
        ways: dict[str, list[int]] = defaultdict(list)
        for number, arc in enumerate(self.arcs):
            if chosen[self.used[number]] > 0.5:
                ways[arc.spends].append(number)
        done: set[str] = set()

        def walk(asset: str, path: list[int]) -> Sequence[int] | None:
            for number in ways[asset]:
                onto = self.arcs[number].receives
                seen = [self.arcs[each].spends for each in (*path, number)]
                if onto in seen:
                    return [*path, number][seen.index(onto) :]
                if onto not in done:
                    found = walk(onto, [*path, number])
                    if found is not None:
                        return found
            done.add(asset)
            return None

        for asset in sorted(ways):
            if asset not in done:
                found = walk(asset, [])
                if found is not None:
                    return found
        return None

    def _proposed(self, chosen: Sequence[float]) -> Sequence[Proposed]:
        found = []
        for number, arc in enumerate(self.arcs):
            flows = {purpose: chosen[self.flow[purpose, number]] for purpose in self.purposes}
            total = sum(flows.values())
            if chosen[self.used[number]] < 0.5 or total < self.min_trade * 1e-6:
                continue
            purpose = next((each for each in self.purposes if flows[each] > SMALL * total), self.purposes[-1])
            amount = Decimal(repr(total / self.scale)) / self.book.price(arc.spends)
            found.append(Proposed(arc, amount, purpose))
        return found

    def _most(self) -> list[float]:
        """The most value that each way could carry, so that choices are tight."""
        terms, funds, wanted = self.book.terms, 0.0, 0.0
        for asset, position in self.book.positions.items():
            funds += self.value(asset, position.may_spend(self.purposes[0]))
            wanted += self.value(asset, max(position.aim - position.holding.expected, ZERO) + position.above())
            wanted += self.min_trade
        # Money that passes several ways may grow a little where cross rates differ.
        least = min([1.0, *(gross * (1 - self.fee) for gross in self.gross)])
        best = max([1.0, *(gross * (1 - self.fee) for gross in self.gross)])
        steps = len(self.book.positions) - 1
        funds = min(funds * min(best**steps, 1e3), wanted * min(max(least, 1e-3) ** -steps, 1e3))
        most = []
        for arc, gross, worth in zip(self.arcs, self.gross, self.worth, strict=True):
            bounds = [funds]
            for limits in (terms.max_spend, terms.max_spent, terms.max_turnover):
                if arc.spends in limits:
                    bounds.append(self.value(arc.spends, limits[arc.spends]))
            if arc.receives in terms.max_turnover:
                bounds.append(self.value(arc.receives, terms.max_turnover[arc.receives]) / gross)
            for limit in (terms.max_per_pair.get(arc.symbol), terms.max_total):
                if limit is not None:
                    bounds.append(float(limit) * self.scale / worth)
            most.append(min(bounds))
        return most

    def _spent(self, number: int, weight: float = 1.0) -> dict[int, float]:
        return {self.flow[purpose, number]: weight for purpose in self.purposes}

    def _trades(self) -> None:
        """Each way is used for at least the smallest trade or not at all, and never against another one."""
        program = self.program
        for number, most in enumerate(self.most):
            if most * self.worth[number] < self.min_trade:
                program.at_most({self.used[number]: 1.0}, 0.0)
            program.at_most({**self._spent(number), self.used[number]: -most}, 0.0)
            program.at_least({**self._spent(number, self.worth[number]), self.used[number]: -self.min_trade}, 0.0)
        between: dict[tuple[str, str], list[int]] = defaultdict(list)
        for number, arc in enumerate(self.arcs):
            between[arc.spends, arc.receives].append(number)
        for (spends, receives), there in between.items():
            if spends < receives:
                for one in there:
                    for other in between.get((receives, spends), ()):
                        program.at_most({self.used[one]: 1.0, self.used[other]: 1.0}, 1.0)

    def _asset(self, asset: str, position: AssetLevels) -> None:
        """Return what may be drawn of an asset, what may be put in, and what stays open of it."""
        program = self.program
        out = [number for number, arc in enumerate(self.arcs) if arc.spends == asset]
        into = [number for number, arc in enumerate(self.arcs) if arc.receives == asset]
        for purpose in self.purposes:
            self.drawn[purpose, asset] = program.column()
            self.put[purpose, asset] = program.column()
            balance = {self.flow[purpose, number]: 1.0 for number in out}
            balance |= {self.flow[purpose, number]: -self.gross[number] * (1 - self.fee) for number in into}
            program.equal({**balance, self.drawn[purpose, asset]: -1.0, self.put[purpose, asset]: 1.0}, 0.0)
        for number, purpose in enumerate(self.purposes):
            spent = {self.drawn[each, asset]: 1.0 for each in self.purposes[number:]}
            program.at_most(spent, self.value(asset, position.may_spend(purpose)))
        self._room(asset, position, into)
        self._left_open(asset, position, out, into)

    def _room(self, asset: str, position: AssetLevels, into: Sequence[int]) -> None:
        """How much may be put in for each purpose: up to what it lacks, or one smallest trade where that is less."""
        program, expected = self.program, position.holding.expected
        changed = {self.put[each, asset]: 1.0 for each in self.purposes}
        changed |= {self.drawn[each, asset]: -1.0 for each in self.purposes}
        if not position.has_gap:
            for purpose in self.purposes:
                if not (position.is_sink and purpose is Purpose.BAND):
                    program.at_most({self.put[purpose, asset]: 1.0}, 0.0)
        extra = self._extra(asset, position, into) if position.has_gap else None
        if position.is_sink and position.high is not None:
            kept = changed if extra is None else {**changed, extra: -1.0}
            program.at_most(kept, self.value(asset, position.high - position.in_hand))
        if not position.has_gap:
            return
        for number, purpose in enumerate(self.purposes):
            if position.is_sink and purpose is Purpose.BAND:
                continue
            room = self.lacking(asset, position.wanted[purpose] - expected)
            puts = {self.put[each, asset]: 1.0 for each in self.purposes[: number + 1]}
            allowed = extra if room > 0 and extra is not None else None
            program.at_most(puts if allowed is None else {**puts, allowed: -1.0}, room)

    def _extra(self, asset: str, position: AssetLevels, into: Sequence[int]) -> int | None:
        """Return what one trade of the smallest size brings above what is lacking; None where that is not allowed."""
        program, expected = self.program, position.holding.expected
        urgent = expected < position.floor
        lacking = [self.lacking(asset, level - expected) for level in position.wanted.values() if level > expected]
        brought = {n: self.min_trade / self.worth[n] * self.gross[n] * (1 - self.fee) for n in into}
        if not into or min(lacking) >= max(brought.values()):
            return None
        most = INFINITY if urgent else self.value(asset, max(position.target - position.aim, ZERO))
        extra = program.column(most)
        parts = {extra: 1.0}
        for number in into:
            at_least = program.choice()
            part = program.column(brought[number])
            parts[part] = -1.0
            program.at_most({part: 1.0, at_least: -brought[number]}, 0.0)
            program.at_most({at_least: 1.0, self.used[number]: -1.0}, 0.0)
            above = max(self.most[number] * self.worth[number] - self.min_trade, 0.0)
            program.at_most({**self._spent(number, self.worth[number]), at_least: above}, self.min_trade + above)
            for other in into:
                if other != number:
                    program.at_most({at_least: 1.0, self.used[other]: 1.0}, 1.0)
        program.at_most(parts, 0.0)
        return extra

    def _left_open(self, asset: str, position: AssetLevels, out: Sequence[int], into: Sequence[int]) -> None:
        """The columns of what stays open, by purpose: below a level, or above the band."""
        program = self.program
        changed = {self.put[each, asset]: 1.0 for each in self.purposes}
        changed |= {self.drawn[each, asset]: -1.0 for each in self.purposes}
        levels = {Purpose.OBLIGATION: position.need, Purpose.FLOOR: position.floor, Purpose.BAND: position.low_aim}
        for purpose in self.purposes:
            missing = levels[purpose] - position.holding.expected
            lacks = self.lacking(asset, missing) if missing > 0 else self.value(asset, missing)
            if lacks <= 0 and (purpose is not Purpose.BAND or lacks + self._may_lose(asset, position) <= 0):
                continue
            column = program.column()
            self.open[purpose][column] = 1.0
            self.traded[column] = lacks, into
            program.at_least({**changed, column: 1.0}, lacks)
        if position.is_high and position.high_aim is not None and Purpose.BAND in self.purposes:
            column = program.column()
            self.open[Purpose.BAND][column] = 1.0
            above = self.value(asset, position.in_hand - position.high_aim)
            self.traded[column] = above, out
            program.at_most({**changed, column: -1.0}, -above)

    def _may_lose(self, asset: str, position: AssetLevels) -> float:
        """How much of it more urgent purposes may spend."""
        return self.value(asset, position.may_spend(self.purposes[0]))

    def _spared(self) -> None:
        """Return what is not above its band is spent for the band only where others lack something for it.

        Else a surplus that is too small to be sold by itself would be sold together with money that is bought for it.
        """
        row = {self.drawn[Purpose.BAND, asset]: 1.0 for asset, each in self.book.positions.items() if not each.is_high}
        for number, arc in enumerate(self.arcs):
            net = self.gross[number] * (1 - self.fee) if self.book.positions[arc.receives].has_gap else 0.0
            out = 1.0 if self.book.positions[arc.spends].has_gap else 0.0
            if net or out:
                row[self.flow[Purpose.BAND, number]] = LOST_AT_MOST * (out - net)
        self.program.at_most(row, 0.0)

    def _totals(self) -> None:
        """The limits over several trades."""
        terms, program = self.book.terms, self.program
        for currency, limit in terms.max_turnover.items():
            moved: dict[int, float] = {}
            for number, arc in enumerate(self.arcs):
                if currency == arc.spends:
                    moved |= self._spent(number)
                elif currency == arc.receives:
                    moved |= self._spent(number, self.gross[number])
            if moved:
                program.at_most(moved, self.value(currency, limit))
        for currency, limit in terms.max_spent.items():
            spent: dict[int, float] = {}
            for number, arc in enumerate(self.arcs):
                if currency == arc.spends:
                    spent |= self._spent(number)
            if spent:
                program.at_most(spent, self.value(currency, limit))
        if terms.max_total is not None:
            worth: dict[int, float] = {}
            for number in range(len(self.arcs)):
                worth |= self._spent(number, self.worth[number])
            program.at_most(worth, float(terms.max_total) * self.scale)
        if terms.max_cost is not None:
            program.at_most(self._cost(), float(terms.max_cost) * self.scale)

    def _cost(self, tie: float = 0.0) -> dict[int, float]:
        """Spread and fee by value spent, and the fixed cost of each trade; `tie` more, so that fewer are preferred."""
        cost: dict[int, float] = {}
        for number, arc in enumerate(self.arcs):
            rate = float(self.book.unit_cost(arc) / self.book.price(arc.spends))
            cost |= self._spent(number, rate)
            cost[self.used[number]] = float(self.book.terms.fixed_cost) * self.scale + tie
        return cost
