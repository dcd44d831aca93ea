"""The exact amounts of proposed conversions, and the rounds in which they can be paid; decimals, pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from treasury.money import round_down
from treasury.planning.conversion_model import TIERS, Purpose
from treasury.planning.optimizer import Proposed
from treasury.planning.positions import ZERO, Arc, TradeBook

SWEEPS = ((False, False), (False, False), (True, False), (False, False), (True, True), (True, True), (True, True))
"""Along the way money flows or against it, and whether nothing may be spent that is not there."""
NEAR = Decimal("1e-6")
"""How much of itself a proposed amount may differ from the exact one that it means."""
NEAR_TOTAL = Decimal("1e-11")
"""The same, of everything there is."""


@dataclass(frozen=True)
class Sized:
    """A trade with its exact amount and its round."""

    arc: Arc
    amount: Decimal
    purpose: Purpose
    round: int


def size_trades(book: TradeBook, proposed: Sequence[Proposed]) -> Sequence[Sized]:
    """The proposal with exact amounts; a trade that no rule leaves enough of is left out, and the rest sized again."""
    left = [each for each in proposed if each.amount > 0]
    while left:
        sizing = _Sizing(book, left)
        sizing.sweep()
        too_small = sizing.too_small()
        if not too_small:
            return sizing.in_rounds()
        left = [each for each in left if each.arc not in too_small]
    return ()


class _Sizing:
    """Amounts of one set of trades, moved to the exact levels and limits that the proposal came close to."""

    def __init__(self, book: TradeBook, proposed: Sequence[Proposed]) -> None:
        self.book = book
        self.proposed = {each.arc: each for each in proposed}
        self.amounts = {each.arc: each.amount for each in proposed}
        total = sum((each.in_hand * book.price(asset) for asset, each in book.positions.items()), ZERO)
        # Rounding one asset moves what is traded for it: as far as the units of the most valuable one, a few times.
        unit = max(
            book.unit(asset) * book.price(asset) for each in self.amounts for asset in (each.spends, each.receives)
        )
        self.slack = {asset: (total * NEAR_TOTAL + 8 * unit) / book.price(asset) for asset in book.positions}
        for arc, amount in self.amounts.items():  # limits that trades share leave room for the smallest one, in full
            smallest = book.spend_for_worth(arc, book.terms.min_trade)
            if amount < smallest <= amount + self._near(arc):
                self.amounts[arc] = smallest
        self.order = self._order()
        levels = {asset: self._levels_left(asset) for asset in book.positions}
        self.kept = {asset: kept for asset, (kept, _) in levels.items()}
        self.least = {asset: least for asset, (_, least) in levels.items()}

    def sweep(self) -> None:
        """Move every amount, against the way money flows and along it; at last within what is there.

        The last sweep comes again, so that what one trade has to give up another can still bring, or give way.
        """
        for along, final in SWEEPS:
            for arc in self.order if along else reversed(self.order):
                self.amounts[arc] = self._moved(arc, final=final)

    def too_small(self) -> set[Arc]:
        """The first trade, along the way money flows, that is not worth the smallest trade any more."""
        least = self.book.terms.min_trade
        for arc, amount in self.amounts.items():
            if amount <= 0 or self.book.after_fee(arc, amount) <= 0 or self.book.worth(arc, amount) < least:
                return {arc}
        return set()

    def in_rounds(self) -> Sequence[Sized]:
        """The trades with their rounds: what cannot be paid from what is there waits for all that comes in."""
        purposes = self._purposes({})
        rounds: dict[Arc, int] = {}
        for asset in self._assets():
            incoming = [rounds[arc] for arc in self.order if arc.receives == asset]
            position, paid = self.book.positions[asset], ZERO
            outgoing = [arc for arc in self.order if arc.spends == asset]
            for arc in sorted(outgoing, key=lambda arc: (TIERS.index(purposes[arc]), arc.symbol)):
                now = not incoming or paid + self.amounts[arc] <= position.may_spend(purposes[arc])
                if now:
                    paid += self.amounts[arc]
                rounds[arc] = 1 if now else 1 + max(incoming)
        purposes = self._purposes(rounds)
        return [Sized(arc, self.amounts[arc], purposes[arc], rounds[arc]) for arc in self.order]

    def _purposes(self, rounds: Mapping[Arc, int]) -> Mapping[Arc, Purpose]:
        """Return what each trade is for: the most urgent level that it helps to reach, itself or by what its proceeds
        pay."""
        found: dict[Arc, Purpose] = {}
        for asset in reversed(self._assets()):
            position = self.book.positions[asset]
            level = position.holding.expected
            paid = [found[arc] for arc in self.order if arc.spends == asset and rounds.get(arc, 2) > 1]
            passes_on = bool(rounds) or not (position.has_gap or position.is_sink)
            for arc in sorted(
                (a for a in self.order if a.receives == asset), key=lambda a: (rounds.get(a, 1), a.symbol)
            ):
                own = next((each for each in TIERS if level < position.wanted[each]), Purpose.BAND)
                level += self.book.after_fee(arc, self.amounts[arc])
                found[arc] = min([own, *(paid if passes_on else [])], key=TIERS.index)
        return found

    def _assets(self) -> Sequence[str]:
        """The assets in the order in which money passes them."""
        left = sorted({asset for arc in self.amounts for asset in (arc.spends, arc.receives)})
        ways = set(self.amounts)
        found: list[str] = []
        while left:
            first = next(asset for asset in left if not any(arc.receives == asset for arc in ways))
            found.append(first)
            left.remove(first)
            ways = {arc for arc in ways if arc.spends != first}
        return found

    def _order(self) -> Sequence[Arc]:
        place = {asset: number for number, asset in enumerate(self._assets())}
        return sorted(self.amounts, key=lambda arc: (place[arc.spends], place[arc.receives], arc.symbol))

    def _change(self, asset: str, without: Arc) -> Decimal:
        """Return what all trades but one change an asset by."""
        change = ZERO
        for arc, amount in self.amounts.items():
            if arc == without:
                continue
            if arc.spends == asset:
                change -= amount
            elif arc.receives == asset:
                change += self.book.after_fee(arc, amount)
        return change

    def _levels_left(self, asset: str) -> tuple[Decimal, Decimal]:
        """The highest of the levels that the proposal leaves an asset at; and of those that it may not go below."""
        position = self.book.positions[asset]
        change = ZERO
        for arc, amount in self.amounts.items():
            if arc.spends == asset:
                change -= amount
            elif arc.receives == asset:
                change += self.book.after_fee(arc, amount)
        left = position.in_hand + change
        bounds = [min(position.floor, position.in_hand), *position.kept.values()]
        if position.in_hand < position.kept[Purpose.BAND]:
            bounds.append(position.in_hand)
        levels = [*bounds, *position.wanted.values(), position.low, position.target, position.in_hand]
        levels += [each for each in (position.high, position.high_aim) if each is not None]
        # Gaps are counted from what is expected, spending from what is in hand: a level is met by either.
        coming = position.holding.expected - position.in_hand
        levels += [level - coming for level in (*position.wanted.values(), position.low)]
        near = self.slack[asset] + NEAR * sum((a for arc, a in self.amounts.items() if arc.spends == asset), ZERO)

        def highest(found: Sequence[Decimal]) -> Decimal:
            return max((level for level in found if bounds[0] <= level <= left + near), default=bounds[0])

        return highest(levels), highest(bounds)

    def _moved(self, arc: Arc, *, final: bool) -> Decimal:
        """The exact amount that is meant: closes a gap, sells a surplus, meets a limit, or passes on what came."""
        book, amount = self.book, self.amounts[arc]
        meant = self.proposed[arc].amount
        near = self._near(arc)
        limit, funded = self._limit(arc), self._funded(arc, self.kept)
        shared = any(arc.spends in (each.spends, each.receives) for each in self.amounts if each != arc)
        most = limit if shared and not final else min(limit, self._funded(arc, self.least) + self._given_way(arc))
        if final and abs(funded - meant) <= near and not self._serves_a_gap(arc):
            most = min(most, funded)  # what closes no gap opens none either, by a unit of rounding
        smallest = book.spend_for_worth(arc, book.terms.min_trade)
        levels, passed_on = self._levels(arc), self._passed_on(arc)
        if self._serves_a_gap(arc) and not book.positions[arc.receives].has_gap:
            # A surplus that is sold is not less than what is missing further on.
            levels = [max(each, passed_on) for each in levels if abs(each - meant) <= near] or [passed_on]
        found = [*levels, smallest, passed_on, funded, limit]
        exact = next((each for each in found if abs(each - meant) <= near), None)
        if exact is None:
            exact = round_down(amount, book.digits(arc.spends))
        if exact < smallest <= meant + near:
            exact = smallest
        return max(min(exact, most), ZERO)

    def _serves_a_gap(self, arc: Arc) -> bool:
        """Tell whether what a trade brings is missing somewhere, there or where it is passed on to."""
        if self.book.positions[arc.receives].has_gap:
            return True
        return any(self._serves_a_gap(each) for each in self.amounts if each.spends == arc.receives)

    def _given_way(self, arc: Arc) -> Decimal:
        """Return what others that spend the same leave to a trade that closes a gap: as much as rounding takes."""
        others = any(each.spends == arc.spends and self._gives_way(each) for each in self.amounts if each != arc)
        return self._near(arc) if others and self._serves_a_gap(arc) else ZERO

    def _gives_way(self, arc: Arc) -> bool:
        """Tell whether a part of what a trade brings closes no gap."""
        passed_on = (each for each in self.amounts if each.spends == arc.receives)
        return not self._serves_a_gap(arc) or any(self._gives_way(each) for each in passed_on)

    def _near(self, arc: Arc) -> Decimal:
        """How far an amount may be from the exact one that it means."""
        return self.slack[arc.spends] + NEAR * self.proposed[arc].amount

    def _levels(self, arc: Arc) -> Sequence[Decimal]:
        """Amounts that bring the receiving asset up to one of its levels, or the spent one down to its aim."""
        book, found = self.book, []
        receiving, spending = book.positions[arc.receives], book.positions[arc.spends]
        if receiving.has_gap:
            level = receiving.holding.expected + self._change(arc.receives, arc)
            found += [
                book.spend_for_net(arc, each - level) for each in sorted({*receiving.wanted.values(), receiving.low})
            ]
        if spending.is_high and spending.high_aim is not None:
            surplus = spending.in_hand + self._change(arc.spends, arc) - spending.high_aim
            sold = round_down(max(surplus, ZERO), book.digits(arc.spends))
            alone = not any(each.spends == arc.spends for each in self.amounts if each != arc)
            passes = any(each.spends == arc.receives for each in self.amounts)
            found.insert(0 if alone and passes else len(found), sold)
        return [each for each in found if each > 0]

    def _funded(self, arc: Arc, levels: Mapping[str, Decimal]) -> Decimal:
        """The most that the spent asset has for it above a level."""
        there = self.book.positions[arc.spends].in_hand + self._change(arc.spends, arc) - levels[arc.spends]
        return round_down(max(there, ZERO), self.book.digits(arc.spends))

    def _passed_on(self, arc: Arc) -> Decimal:
        """Return what brings in as much of the received asset as is spent of it beyond what it has; of one that is
        above its band rather a unit less, which its surplus has."""
        position = self.book.positions[arc.receives]
        lacks = self.kept[arc.receives] - position.in_hand - self._change(arc.receives, arc)
        return self._spend_within(arc, lacks) if position.is_high else self.book.spend_for_net(arc, lacks)

    def _limit(self, arc: Arc) -> Decimal:
        """The most that the limits, and what the receiving asset has room for, leave for it."""
        book, terms = self.book, self.book.terms
        bounds = [self._room(arc)]
        if arc.spends in terms.max_spend:
            bounds.append(terms.max_spend[arc.spends])
        if arc.spends in terms.max_turnover:
            bounds.append(terms.max_turnover[arc.spends] - self._moved_by_others(arc, arc.spends))
        if arc.receives in terms.max_turnover:
            left = terms.max_turnover[arc.receives] - self._moved_by_others(arc, arc.receives)
            bounds.append(self._spend_below(arc, left))
        others = [(each, amount) for each, amount in self.amounts.items() if each != arc]
        if arc.spends in terms.max_spent:
            spent = sum((amount for each, amount in others if each.spends == arc.spends), ZERO)
            bounds.append(terms.max_spent[arc.spends] - spent)
        worth = [terms.max_per_pair[arc.symbol]] if arc.symbol in terms.max_per_pair else []
        if terms.max_total is not None:
            worth.append(terms.max_total - sum((book.worth(*each) for each in others), ZERO))
        for left in worth:
            based = arc.receives == terms.base_asset
            bounds.append(self._spend_below(arc, left) if based else left / book.price(arc.spends))
        most = round_down(max(min(bounds), ZERO), book.digits(arc.spends))
        return most if terms.max_cost is None else self._affordable(arc, most, others, terms.max_cost)

    def _spend_below(self, arc: Arc, gross: Decimal) -> Decimal:
        """About the most to spend that brings no more than this before the fee."""
        brought = round_down(max(gross, ZERO), self.book.digits(arc.receives))
        exact = self.book.spend_for(arc, brought)
        return exact if self.book.expected(arc, exact) <= brought else brought / arc.gain

    def _affordable(self, arc: Arc, most: Decimal, others: Sequence[tuple[Arc, Decimal]], max_cost: Decimal) -> Decimal:
        book = self.book
        left = max_cost - sum((book.cost(*each) for each in others), ZERO)
        rate = book.unit_cost(arc)
        if book.cost(arc, most) <= left:
            return most
        if rate <= 0:
            return ZERO
        amount = round_down(max((left - book.terms.fixed_cost) / rate, ZERO), book.digits(arc.spends))
        amount = min(amount, most)
        for _ in range(100):
            if amount <= 0 or book.cost(arc, amount) <= left:
                break
            over = (book.cost(arc, amount) - left) / rate
            amount -= max(round_down(over, book.digits(arc.spends)), book.unit(arc.spends))
        return amount if amount > 0 and book.cost(arc, amount) <= left else ZERO

    def _room(self, arc: Arc) -> Decimal:
        """Return what the receiving asset may be brought: its highest level, or one smallest trade for something
        urgent."""
        book, position = self.book, self.book.positions[arc.receives]
        change = self._change(arc.receives, arc)
        if position.is_sink and position.high is None:
            return 2 * self.proposed[arc].amount  # no limit
        if position.is_sink and position.high is not None:
            top = self._spend_within(arc, position.high - position.in_hand - change)
            top += book.unit(arc.spends) if top and self._serves_a_gap(arc) else ZERO  # a need comes before a maximum
        elif position.has_gap:
            top = book.spend_for_net(arc, position.aim - position.holding.expected - change)
            passes = any(each.spends == arc.receives for each in self.amounts)
            top += self._near(arc) if passes else ZERO
        else:
            top = book.spend_for_net(arc, -change)
            top += self._near(arc) if top else ZERO  # what is sold of it next moves after this
        smallest = book.spend_for_worth(arc, book.terms.min_trade)
        if not position.has_gap or top >= smallest:
            return top
        after = position.holding.expected + change + book.after_fee(arc, smallest)
        urgent = position.holding.expected < position.floor
        return smallest if urgent or after <= position.target else top

    def _spend_within(self, arc: Arc, net: Decimal) -> Decimal:
        """The most to spend that brings no more than this after the fee."""
        top = self.book.spend_for_net(arc, net)
        while top > 0 and self.book.after_fee(arc, top) > net:
            top -= self.book.unit(arc.spends)
        return top

    def _moved_by_others(self, arc: Arc, currency: str) -> Decimal:
        moved = ZERO
        for each, amount in self.amounts.items():
            if each != arc and each.spends == currency:
                moved += amount
            elif each != arc and each.receives == currency:
                moved += self.book.expected(each, amount)
        return moved


def changes(book: TradeBook, trades: Sequence[Sized]) -> Mapping[str, Decimal]:
    """Return what trades change each asset by, after fees."""
    changed = dict.fromkeys(book.positions, ZERO)
    for each in trades:
        changed[each.arc.spends] -= each.amount
        changed[each.arc.receives] += book.after_fee(each.arc, each.amount)
    return changed
