"""Pure: plans the conversions that close the gap of a payout run, and judges later ones by what was agreed to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from treasury.money import ZERO, exact, format_amount, round_up, sums_of
from treasury.planning.funding_trades import FundingTrade
from treasury.planning.market import DIGITS
from treasury.planning.position import Obligation, Snapshot, position_of
from treasury.planning.round_planner import Rebalancing, plan_obligations
from treasury.planning.trades import Side, SkippedTrade, Trade
from treasury.policy.model import Policy
from treasury.policy.tables import BPS


@exact
def plan_funding(policy: Policy, snapshot: Snapshot, needs: Mapping[str, Decimal], run_key: str) -> Rebalancing:
    """The conversions that a run needs before it can be paid, and nothing for bands or for other payments.

    `needs`: currency -> what has to be there, payments that were recorded and not sent included. What other payments
    need of other assets is not spent.
    """
    others = tuple(_kept_for_others(snapshot, needs))
    own = tuple(Obligation(asset, amount, f"run {run_key}") for asset, amount in sorted(needs.items()))
    return plan_obligations(policy, replace(snapshot, obligations=(*own, *others)), unreserved=needs)


def _kept_for_others(snapshot: Snapshot, needs: Mapping[str, Decimal]) -> Iterable[Obligation]:
    """Yield what other payments need of other assets, as far as it is there: it is kept, and nothing is bought for
    them."""
    kept = [each for each in snapshot.obligations if each.asset not in needs and each.asset in snapshot.available]
    for asset, amount in sorted(sums_of((each.asset, each.amount) for each in kept).items()):
        position = position_of(snapshot, asset)
        others = min(position.expected, position.spendable) - sum(snapshot.brought_by_purpose(asset).values(), ZERO)
        there = min(amount, others)
        if there > 0:
            yield Obligation(asset, there, "other payments")


@exact
def gap_of(snapshot: Snapshot, needs: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Currency -> what is missing of what has to be there; only what may certainly be spent counts as there."""
    found = {}
    for asset, need in sorted(needs.items()):
        there = position_of(snapshot, asset).certain if asset in snapshot.available else ZERO
        if need > there:
            found[asset] = need - there
    return found


def on_their_way(snapshot: Snapshot, assets: Iterable[str]) -> tuple[str, ...]:
    """Return what orders on their way may still take of assets, in words: it counts in what has to be there."""
    taken = {asset: position_of(snapshot, asset).outgoing for asset in sorted(assets) if asset in snapshot.available}
    return tuple(f"orders on their way: {format_amount(most)} {asset}" for asset, most in taken.items() if most)


@exact
def bounded(trades: Iterable[Trade], slippage_bps: int, min_trade: Decimal) -> tuple[FundingTrade, ...]:
    """Return what people agree to of planned conversions: what they spend at the worst rate of their bounds, and one
    smallest trade more, because a rest that is still missing after them is at least that."""
    found = []
    for trade in trades:
        worst = trade.min_rate if trade.side is Side.SELL else trade.max_rate
        rest = min_trade * trade.amount / trade.value if trade.value else ZERO
        at_most = round_up(trade.amount * BPS / (BPS - slippage_bps) + rest, DIGITS)
        bought = (trade.receive_currency, trade.expected_receive, trade.rate, worst or trade.rate)
        found.append(FundingTrade(trade.symbol, trade.side, trade.currency, trade.amount, at_most, *bought))
    return tuple(found)


@exact
def clipped(trade: Trade, agreed: Iterable[FundingTrade]) -> Trade:
    """A conversion whose quote may not be worse than the rate that people agreed to."""
    bound = next((each.worst_rate for each in agreed if each.allows(trade)), None)
    if bound is None:
        return trade
    if trade.side is Side.SELL:
        return replace(trade, min_rate=max(bound, trade.min_rate or bound))
    return replace(trade, max_rate=min(bound, trade.max_rate or bound))


@exact
def is_within(
    trades: Sequence[Trade], agreed: Sequence[FundingTrade], spent: Mapping[tuple[str, str], Decimal]
) -> bool:
    """Tell whether conversions are inside what people agreed to. `spent`: pair and currency -> what was converted
    before."""
    used = dict(spent)
    for trade in trades:
        allowed = next((each for each in agreed if each.allows(trade)), None)
        name = (trade.symbol, trade.currency)
        used[name] = used.get(name, ZERO) + trade.amount
        if allowed is None or used[name] > allowed.at_most:
            return False
    return True


def shown_gap(gap: Mapping[str, Decimal]) -> str:
    """Return what is missing, in words."""
    return ", ".join(f"{format_amount(amount)} {asset}" for asset, amount in gap.items())


def why_unfunded(found: Rebalancing, needs: Mapping[str, Decimal]) -> str | None:
    """Why the conversions leave a gap; None when they do not."""
    stopped = [each for each in found.plan.skipped if each.asset in needs]
    return "; ".join(f"{_shown_amount(each)} cannot be had: {each.reason}" for each in stopped) or None


def _shown_amount(skipped: SkippedTrade) -> str:
    """Return what was not traded, in words; how much of it is not always known."""
    return f"{format_amount(skipped.amount)} {skipped.asset}" if skipped.amount else skipped.asset
