"""The proceeds of a day's sales that were made for other assets, and are still to be spent for them; pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from treasury.money import ZERO, exact
from treasury.planning.conversion_model import TIERS, Purpose
from treasury.planning.trades import TradePlan

Sums = defaultdict[tuple[str, Purpose], Decimal]
"""By asset and purpose."""


@dataclass(frozen=True)
class MadeRound:
    """A round of a day's rebalancing, and what became of its trades, by their row."""

    plan: TradePlan
    brought: Mapping[str, Decimal]
    """Of each trade that is settled: what it brought, after its fee."""
    spent: Collection[str]
    """Trades that left, or may have, and were not refused."""


@dataclass(frozen=True)
class Proceeds:
    """The proceeds of sales for other assets, by purpose and asset, as far as no later trade spent them."""

    brought: Mapping[Purpose, Mapping[str, Decimal]]
    """Of sales that are settled."""
    coming: Mapping[Purpose, Mapping[str, Decimal]]
    """Of sales on their way."""


@exact
def unspent_proceeds(rounds: Iterable[MadeRound]) -> Proceeds:
    """Return what sales for other assets brought, or are to bring, and no later round spent for any.

    `rounds`: of one day, the oldest first. It is no more than what their plans wanted to pay from it. A trade is named
    by the most urgent of its purposes, so it may have spent, and brought, for less urgent ones, too.
    """
    left, coming = Sums(Decimal), Sums(Decimal)
    for each in rounds:
        settled, flying, owed = Sums(Decimal), Sums(Decimal), Sums(Decimal)
        for trade in each.plan.trades:
            purpose = Purpose(trade.purpose)
            if trade.row_ref in each.spent:
                _take(left, trade.currency, TIERS[TIERS.index(purpose) :], trade.amount)
            if trade.row_ref in each.brought:
                settled[trade.receive_currency, purpose] += each.brought[trade.row_ref]
            elif trade.row_ref in each.spent:
                flying[trade.receive_currency, purpose] += trade.expected_receive
        for trade in each.plan.later:
            owed[trade.currency, Purpose(trade.purpose)] += trade.amount
        for (asset, purpose), most in sorted(owed.items(), key=lambda one: TIERS.index(one[0][1])):
            named = TIERS[: TIERS.index(purpose) + 1]
            there = _take(settled, asset, named, most)
            left[asset, purpose] += there
            coming[asset, purpose] += _take(flying, asset, named, most - there)
    return Proceeds(_known(left), _known(coming))


def _take(sums: Sums, asset: str, purposes: Sequence[Purpose], most: Decimal) -> Decimal:
    """Take at most this much of what these purposes have, the first one first; returns how much there was."""
    taken = ZERO
    for purpose in purposes:
        part = min(sums[asset, purpose], most - taken)
        sums[asset, purpose] -= part
        taken += part
    return taken


def _known(sums: Sums) -> dict[Purpose, dict[str, Decimal]]:
    found: dict[Purpose, dict[str, Decimal]] = {}
    for (asset, purpose), amount in sorted(sums.items()):
        if amount > 0:
            found.setdefault(purpose, {})[asset] = amount
    return found
