"""Plan trades that bring assets back to their targets; pure."""

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal, localcontext
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from treasury.errors import InputError
from treasury.money import EXACT, FRACTION_DIGITS, canonical, format_amount, round_down, round_up
from treasury.orders.decisions import OLDER_NAMES
from treasury.planning.policy import AssetBand, Policy, Trading
from treasury.planning.tables import BPS

BASE_DIGITS = 6
"""Fractional digits of what is spent of the base asset (public fact 7.1, USDT)."""
RECEIVE_DIGITS = 8
"""Fractional digits of a received amount in a bound: coarser than the service's ten, so its rounding never matters."""


class Side(StrEnum):
    """Whether an asset is bought for the base asset or sold for it."""

    SELL = "SELL"
    BUY = "BUY"


@dataclass(frozen=True)
class Rates:
    """Prices of one asset in the base asset: what buying it costs, what selling it brings."""

    buy: Decimal
    sell: Decimal

    def of(self, side: Side) -> Decimal:
        """The price for a trade of this side."""
        return self.buy if side is Side.BUY else self.sell


@dataclass(frozen=True)
class Trade:
    """One conversion and its bounds. What is received is meant before the fee, in `receive_currency`."""

    asset: str
    side: Side
    symbol: str
    currency: str
    """What is spent: the asset when selling, the base asset when buying."""
    amount: Decimal
    """How much is spent, in `currency`."""
    receive_currency: str
    expected_receive: Decimal
    min_receive: Decimal
    max_fee: Decimal
    rate: Decimal
    """Price of the asset in the base asset when the plan was made."""
    min_rate: Decimal | None
    """The lowest price that a sale may have."""
    max_rate: Decimal | None
    """The highest price that a purchase may have."""


@dataclass(frozen=True)
class SkippedTrade:
    """A trade (or the part of one) that is wanted and not made, and why. `amount` is in `currency`."""

    asset: str
    side: Side
    currency: str
    amount: Decimal
    reason: str


@dataclass(frozen=True)
class TradePlan:
    """The trades in the order they are made: sales first, then purchases, each by asset."""

    policy_version: str
    trades: tuple[Trade, ...]
    skipped: tuple[SkippedTrade, ...]

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON can hold it, amounts as text."""
        return {
            "policy_version": self.policy_version,
            "trades": [_plain(trade) for trade in self.trades],
            "skipped": [_plain(skipped) for skipped in self.skipped],
        }

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> "TradePlan":
        """The plan that `as_dict` wrote. Raises `ValueError` when it did not."""
        trades = [
            {OLDER_NAMES.get(name, name): value for name, value in each.items()} for each in content.get("trades", ())
        ]
        return _reader().validate_python({**content, **({"trades": trades} if trades else {})})

    def without(self, symbols: frozenset[str]) -> "TradePlan":
        """The plan without trades of these pairs: the outcome of an earlier one of theirs is not known yet."""
        reason = "an earlier conversion of this pair has an unknown outcome"
        blocked = [trade for trade in self.trades if trade.symbol in symbols]
        skipped = [SkippedTrade(each.asset, each.side, each.currency, each.amount, reason) for each in blocked]
        kept = tuple(trade for trade in self.trades if trade.symbol not in symbols)
        return TradePlan(self.policy_version, kept, (*self.skipped, *skipped))


@functools.cache
def _reader() -> TypeAdapter[TradePlan]:
    return TypeAdapter(TradePlan)


def _plain(record: Trade | SkippedTrade) -> dict[str, Any]:
    return {
        name: format_amount(value) if isinstance(value, Decimal) else value for name, value in asdict(record).items()
    }


def plan_trades(policy: Policy, balances: Mapping[str, Decimal], rates: Mapping[str, Rates]) -> TradePlan:
    """The trades that bring each asset outside its band back to its target.

    `balances` are available amounts by asset, `rates` prices by symbol. Purchases are paid from what the base asset
    has now above its minimum, in order of asset; what sales of the same plan will bring is not counted, for until
    they are settled nobody has it. What that does not cover is skipped and left to the next run.
    Raises `InputError` for a balance or rate that is missing, and for a policy that says nothing about rebalancing.
    """
    terms = policy.trading
    with localcontext(EXACT):
        funds = _balance(balances, terms.base_asset) - policy.reserve
        gaps = {asset: _gap(policy.assets[asset], _balance(balances, asset)) for asset in policy.traded}
        trades, skipped = _sales(terms, gaps, rates)
        purchases, unfunded = _purchases(terms, gaps, rates, max(round_down(funds, BASE_DIGITS), Decimal(0)))
        version = policy.fingerprint("base_asset", "assets", "rebalancing")
        return TradePlan(version, (*trades, *purchases), (*skipped, *unfunded))


def check_trades(plan: TradePlan, policy: Policy) -> str | None:
    """Why a plan breaks the `[conversions]` limits of a policy; None when it does not."""
    limits = policy.conversions
    if limits is None:
        return None
    moved: dict[str, Decimal] = {}
    with localcontext(EXACT):
        for trade in plan.trades:
            if limits.pairs is not None and trade.symbol not in limits.pairs:
                return f"{trade.symbol} is not a pair that the policy allows"
            most = limits.max_per_trade.get(trade.currency)
            if most is not None and trade.amount > most:
                spent = f"{format_amount(trade.amount)} {trade.currency}"
                return f"{trade.side} {trade.asset} spends {spent}, over max_per_trade, {format_amount(most)}"
            for currency, amount in (
                (trade.currency, trade.amount),
                (trade.receive_currency, trade.expected_receive),
            ):
                moved[currency] = moved.get(currency, Decimal(0)) + amount
        for currency, most in limits.max_turnover.items():
            if moved.get(currency, Decimal(0)) > most:
                total = f"{format_amount(moved[currency])} {currency}"
                return f"its trades move {total}, over max_turnover, {format_amount(most)}"
    return None


def _balance(balances: Mapping[str, Decimal], asset: str) -> Decimal:
    if asset not in balances:
        raise InputError(f"the balance of {asset} is missing, and the policy needs it")
    return balances[asset]


def _gap(band: AssetBand, balance: Decimal) -> Decimal:
    """What is above the target (below it: negative) once the balance is outside its band; zero inside."""
    return Decimal(0) if band.minimum <= balance <= band.maximum else balance - band.target


def _sales(
    terms: Trading, gaps: Mapping[str, Decimal], rates: Mapping[str, Rates]
) -> tuple[list[Trade], list[SkippedTrade]]:
    trades, skipped = [], []
    for asset, surplus in gaps.items():
        if surplus <= 0:
            continue
        trade = _trade(terms, asset, Side.SELL, surplus, rates)
        if trade.expected_receive >= terms.min_trade:
            trades.append(trade)
        else:
            skipped.append(SkippedTrade(asset, Side.SELL, asset, surplus, _too_small(terms)))
    return trades, skipped


def _purchases(
    terms: Trading, gaps: Mapping[str, Decimal], rates: Mapping[str, Rates], funds: Decimal
) -> tuple[list[Trade], list[SkippedTrade]]:
    base = terms.base_asset
    trades, skipped = [], []
    for asset, surplus in gaps.items():
        if surplus >= 0:
            continue
        cost = round_down(-surplus * _rate(terms, asset, Side.BUY, rates), BASE_DIGITS)
        spent = min(cost, funds)
        if spent < terms.min_trade:
            spent = Decimal(0)
        else:
            trades.append(_trade(terms, asset, Side.BUY, spent, rates))
        if cost < terms.min_trade:
            skipped.append(SkippedTrade(asset, Side.BUY, base, cost, _too_small(terms)))
        elif spent < cost:
            reason = f"only {canonical(funds)} {base} of the {canonical(cost)} needed is above its minimum"
            skipped.append(SkippedTrade(asset, Side.BUY, base, cost - spent, reason))
        funds -= spent
    return trades, skipped


def _too_small(terms: Trading) -> str:
    return f"worth less than the smallest trade, {canonical(terms.min_trade)} {terms.base_asset}"


def _rate(terms: Trading, asset: str, side: Side, rates: Mapping[str, Rates]) -> Decimal:
    symbol = terms.symbol(asset)
    if symbol not in rates:
        raise InputError(f"the rate of {symbol} is missing, and {asset} is outside its band")
    rate = rates[symbol].of(side)
    if rate <= 0:
        raise InputError(f"the {side} rate of {symbol} must be greater than zero")
    return rate


def _trade(terms: Trading, asset: str, side: Side, amount: Decimal, rates: Mapping[str, Rates]) -> Trade:
    rate = _rate(terms, asset, side, rates)
    selling = side is Side.SELL
    expected = round_down(amount * rate if selling else amount / rate, RECEIVE_DIGITS)
    slippage = Decimal(terms.slippage_bps) / BPS
    return Trade(
        asset=asset,
        side=side,
        symbol=terms.symbol(asset),
        currency=asset if selling else terms.base_asset,
        amount=amount,
        receive_currency=terms.base_asset if selling else asset,
        expected_receive=expected,
        min_receive=round_down(expected * (1 - slippage), RECEIVE_DIGITS),
        max_fee=round_up(expected * terms.fee_bps / BPS, RECEIVE_DIGITS),
        rate=rate,
        min_rate=round_up(rate * (1 - slippage), FRACTION_DIGITS) if selling else None,
        max_rate=None if selling else round_down(rate * (1 + slippage), FRACTION_DIGITS),
    )
