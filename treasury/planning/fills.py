"""Trades as achieved against the plan, the proof that balances moved by them, and what is left of proceeds; pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from treasury.money import ZERO, canonical, exact, round_down
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.planning.conversion_model import TIERS, Purpose
from treasury.planning.trades import Side, Trade, TradePlan
from treasury.policy.tables import BPS

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


RATE_DIGITS = 12


@dataclass(frozen=True)
class Fill:
    """One trade after it: rates of the first asset in the second; slippage and fee in basis points."""

    row_ref: str
    symbol: str
    side: Side
    outcome: str
    planned: Decimal
    achieved: Decimal | None
    """The amount of the quote that was confirmed, before its fee; None for a trade that was not made."""
    slippage_bps: Decimal | None
    """How much worse than planned; negative: better."""
    fee: Decimal | None
    fee_currency: str | None
    fee_bps: Decimal | None

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it, amounts as text."""
        return {name: canonical(each) if isinstance(each, Decimal) else each for name, each in vars(self).items()}


@exact
def fill_of(trade: Trade, order: Order) -> Fill:
    """Return what became of a trade."""
    achieved = slippage = fee_bps = None
    made = order.state in (State.SETTLED, State.ACCEPTED) and order.amount and order.receive_amount
    if made:
        spent, received = order.amount or ZERO, order.receive_amount or ZERO
        fee = order.fee or ZERO
        gross_received = received + (fee if order.fee_currency == trade.receive_currency else ZERO)
        net_spent = spent - (fee if order.fee_currency == trade.currency else ZERO)
        achieved, slippage = _rate(trade.side, net_spent, gross_received), None
        worse = trade.rate - achieved if trade.side is Side.SELL else achieved - trade.rate
        slippage = (worse * BPS / trade.rate).quantize(Decimal("0.01"))
        whole = spent if order.fee_currency == trade.currency else gross_received
        fee_bps = (fee * BPS / whole).quantize(Decimal("0.01")) if whole else None
    return Fill(
        *(trade.row_ref, trade.symbol, trade.side, order.state.outcome, trade.rate, achieved, slippage),
        *((order.fee, order.fee_currency, fee_bps) if made else (None, None, None)),
    )


def _rate(side: Side, spent: Decimal, received: Decimal) -> Decimal:
    return round_down(received / spent if side is Side.SELL else spent / received, RATE_DIGITS)


class FillVerdict(StrEnum):
    """The verdict on a balance: did it move as the orders say?"""

    PROVEN = "proven"
    UNPROVEN = "unproven"
    """Other orders moved at the same time, or more came in than they explain: a deposit does that."""
    BREAK = "break"
    """Less is there than the orders explain."""


@dataclass(frozen=True)
class FillProof:
    """One balance before and after a round, in its asset, and what the orders explain of its change."""

    asset: str
    before: Decimal
    after: Decimal
    explained_low: Decimal
    explained_high: Decimal
    others: int
    """Orders besides the round's own that may have moved it."""

    @property
    def change(self) -> Decimal:
        """Return what the balance changed by."""
        return self.after - self.before

    @property
    def verdict(self) -> FillVerdict:
        """Tell whether it moved as the orders say."""
        if self.change < self.explained_low:
            return FillVerdict.BREAK
        is_exact = self.explained_low == self.explained_high == self.change
        return FillVerdict.PROVEN if is_exact and not self.others else FillVerdict.UNPROVEN

    @property
    def why(self) -> str:
        """The verdict in words."""
        if self.verdict is FillVerdict.PROVEN:
            return "it moved by the trades, to the last digit"
        if self.verdict is FillVerdict.BREAK:
            missing = canonical(self.explained_low - self.change)
            return f"{missing} {self.asset} less is there than the trades and all other orders of that time explain"
        if self.change > self.explained_high:
            more = canonical(self.change - self.explained_high)
            return f"{more} {self.asset} more came in than orders explain; a deposit does that"
        if self.others:
            return f"{self.others} other orders moved it at the same time"
        return "a trade is on its way, and may have moved it already"

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it, amounts as text."""
        amounts = {name: canonical(each) for name, each in vars(self).items() if isinstance(each, Decimal)}
        said = {"change": canonical(self.change), "verdict": self.verdict.value, "why": self.why}
        return {"asset": self.asset, **amounts, "others": self.others, **said}


@exact
def prove_fills(
    before: Mapping[str, Decimal], after: Mapping[str, Decimal], own: Iterable[Order], others: Iterable[Order]
) -> list[FillProof]:
    """Tell whether each balance that a round's trades move changed by them.

    `own`: its orders. `others`: orders that were on their way at the first balance, or left or became final since.
    """
    own, others = list(own), list(others)
    moved = [order for order in own if order.state in (State.SETTLED, State.ACCEPTED, State.UNKNOWN, State.SENDING)]
    assets = sorted({asset for order in moved for asset in (order.currency, order.receive_currency) if asset})
    return [
        _proof(asset, before[asset], after[asset], own, others)
        for asset in assets
        if asset in before and asset in after
    ]


def _proof(asset: str, before: Decimal, after: Decimal, own: list[Order], others: list[Order]) -> FillProof:
    low = high = ZERO
    for order in own:
        for step in _steps(order, asset):
            is_certain = order.state is State.SETTLED
            low += step if is_certain else min(step, ZERO)
            high += step if is_certain else max(step, ZERO)
    touching = [order for order in others if any(_steps(order, asset))]
    for order in touching:  # debited, or given back
        size = sum((abs(step) for step in _steps(order, asset)), ZERO)
        low, high = low - size, high + size
    return FillProof(asset, before, after, low, high, len(touching))


def _steps(order: Order, asset: str) -> Iterator[Decimal]:
    if order.state in (State.PREPARED, State.HELD, State.CANCELLED):
        return
    if order.currency == asset:
        yield -(order.amount if order.amount is not None else order.ceiling or ZERO)
    if order.receive_currency == asset and order.receive_amount is not None:
        yield order.receive_amount
