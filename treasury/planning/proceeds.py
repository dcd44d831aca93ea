"""The proceeds of a day's sales that were made for obligations, and are still to be spent for them; pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from treasury.money import exact
from treasury.planning.position import ZERO
from treasury.planning.trades import Trade, TradePlan


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
    """The proceeds of sales for the obligations of other assets, by asset, as far as no later trade spent them."""

    brought: Mapping[str, Decimal]
    """Of sales that are settled."""
    coming: Mapping[str, Decimal]
    """Of sales on their way."""


@exact
def unspent_proceeds(rounds: Iterable[MadeRound]) -> Proceeds:
    """Return what sales for the obligations of others brought, or are to bring, and no later round spent for any.

    `rounds`: of one day, the oldest first. It is no more than what their plans wanted to pay from it.
    """
    left: defaultdict[str, Decimal] = defaultdict(Decimal)
    coming: defaultdict[str, Decimal] = defaultdict(Decimal)
    for each in rounds:
        settled: defaultdict[str, Decimal] = defaultdict(Decimal)
        flying: defaultdict[str, Decimal] = defaultdict(Decimal)
        for trade in _for_obligations(each.plan.trades):
            if trade.row_ref in each.spent:
                left[trade.currency] = max(left[trade.currency] - trade.amount, ZERO)
            if trade.row_ref in each.brought:
                settled[trade.receive_currency] += each.brought[trade.row_ref]
            elif trade.row_ref in each.spent:
                flying[trade.receive_currency] += trade.expected_receive
        paid: defaultdict[str, Decimal] = defaultdict(Decimal)
        for trade in _for_obligations(each.plan.later):
            paid[trade.currency] += trade.amount
        for asset, most in paid.items():
            left[asset] += min(settled[asset], most)
            coming[asset] += min(flying[asset], max(most - settled[asset], ZERO))
    return Proceeds(_known(left), _known(coming))


def _known(amounts: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {asset: amount for asset, amount in sorted(amounts.items()) if amount > 0}


def _for_obligations(trades: Iterable[Trade]) -> Iterable[Trade]:
    return (each for each in trades if each.purpose == "obligation")
