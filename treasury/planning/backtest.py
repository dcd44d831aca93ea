"""Replay stored nights under several policies: what each would have left short, held idle, traded and paid; pure.

A night is what one evening's records say: balances, rates, payouts and deposits. A replay starts from the first
night's balances; from then on its own move: deposits in, the policy's conversions at that night's rates, payouts out.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

from treasury.errors import InputError
from treasury.money import canonical, exact, format_amount, parse_amount, round_down, round_up
from treasury.planning.conversion_model import Conversion
from treasury.planning.tables import BPS
from treasury.planning.trades import Side, Trade

ZERO = Decimal(0)
PRICE_DIGITS = 18
RECEIVE_DIGITS = 8
"""Fractional digits of what a fill brings, rounded down, and of its fee, rounded up."""
VALUE_DIGITS = 6
"""Fractional digits of values in the base asset."""

Amounts = Mapping[str, Decimal]


@dataclass(frozen=True)
class NightRates:
    """Both prices of a pair that night, each one of its first asset in its second; None: not to be had."""

    buy: Decimal | None
    sell: Decimal | None

    @property
    def middle(self) -> Decimal | None:
        """Mid of both; of one, that one."""
        known = [price for price in (self.buy, self.sell) if price is not None]
        return sum(known, ZERO) / len(known) if known else None


@dataclass(frozen=True)
class PlayedNight:
    """The facts of one night. Amounts are in their asset."""

    day: date
    balances: Amounts
    rates: Mapping[str, NightRates]
    """By symbol, for example `ETH-USDT`."""
    payouts: Amounts
    deposits: Amounts

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> "PlayedNight":
        """The night of a file's content. Raises `InputError` that names the member that is wrong."""
        try:
            day = date.fromisoformat(str(content["date"]))
            amounts = {
                name: {str(asset): _positive(amount) for asset, amount in dict(content.get(name) or {}).items()}
                for name in ("balances", "payouts", "deposits")
            }
            rates = {
                str(symbol): NightRates(*(_price(sides.get(side)) for side in ("buy", "sell")))
                for symbol, sides in dict(content.get("rates") or {}).items()
            }
        except KeyError as error:
            raise InputError(f"a night has no {error.args[0]}") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"night {content.get('date')}: {error}") from None
        wrong = [symbol for symbol in rates if len(symbol.split("-")) != 2]
        if wrong:
            raise InputError(f"night {day}: {wrong[0]} is no pair like ETH-USDT")
        return PlayedNight(day, amounts["balances"], rates, amounts["payouts"], amounts["deposits"])

    def as_dict(self) -> dict[str, Any]:
        """The night as JSON can hold it, amounts as text."""

        def written(amounts: Amounts) -> dict[str, str]:
            return {asset: format_amount(amount) for asset, amount in amounts.items()}

        def price(amount: Decimal | None) -> str | None:
            return None if amount is None else format_amount(amount)

        return {
            "date": self.day.isoformat(),
            "balances": written(self.balances),
            "rates": {
                symbol: {"buy": price(each.buy), "sell": price(each.sell)} for symbol, each in self.rates.items()
            },
            "payouts": written(self.payouts),
            "deposits": written(self.deposits),
        }

    def prices(self, base_asset: str) -> Amounts:
        """Value of one of each asset in the base asset at mid, over the fewest pairs."""
        found = {base_asset: Decimal(1)}
        middles = {tuple(symbol.split("-")): each.middle for symbol, each in sorted(self.rates.items())}
        for _ in middles:
            known = dict(found)
            for (asset, against), middle in middles.items():
                if middle is None:
                    continue
                if against in known and asset not in found:
                    found[asset] = round_down(middle * known[against], PRICE_DIGITS)
                elif asset in known and against not in found:
                    found[against] = round_down(known[asset] / middle, PRICE_DIGITS)
        return found


def _positive(amount: object) -> Decimal:
    read = parse_amount(amount)
    if read < 0:
        raise ValueError("an amount is not negative")
    return read


def _price(amount: object) -> Decimal | None:
    if amount is None:
        return None
    read = parse_amount(amount)
    if read <= 0:
        raise ValueError("a rate is greater than zero")
    return read


Plan = Callable[[Amounts, Amounts, Mapping[str, NightRates]], Sequence[Conversion | Trade]]
"""Balances, needs and rates of a night -> the conversions that a policy makes, in order."""


@dataclass(frozen=True)
class DayResult:
    """One night of a replay. Values are in the base asset."""

    day: date
    short: Amounts
    """By asset: payouts that were not covered. They are not tried again the next day."""
    short_value: Decimal
    idle: Decimal
    """What is held once everything is paid."""
    trades: int
    turnover: Decimal
    """What was spent."""
    cost: Decimal
    """What it lost against mid: spread and fee."""


@dataclass(frozen=True)
class PolicyResult:
    """How one policy did over all nights."""

    policy: str
    days: tuple[DayResult, ...]

    @property
    def days_short(self) -> int:
        """Days on which a payout was not covered."""
        return sum(1 for each in self.days if each.short)

    @property
    def short(self) -> Amounts:
        """By asset: all that was not covered."""
        total: defaultdict[str, Decimal] = defaultdict(Decimal)
        for each in self.days:
            for asset, amount in each.short.items():
                total[asset] += amount
        return dict(sorted(total.items()))

    @property
    def mean_idle(self) -> Decimal:
        """Return what was held beyond what was paid, on an average day, in the base asset."""
        return round_down(sum((each.idle for each in self.days), ZERO) / max(len(self.days), 1), VALUE_DIGITS)

    @property
    def trades(self) -> int:
        """Conversions that were made."""
        return sum(each.trades for each in self.days)

    @property
    def cost(self) -> Decimal:
        """Return what conversions cost against mid, in the base asset."""
        return sum((each.cost for each in self.days), ZERO)

    @property
    def cost_bps(self) -> Decimal | None:
        """The cost in basis points of what was spent; None when nothing was."""
        turnover = sum((each.turnover for each in self.days), ZERO)
        return round_up(self.cost / turnover * BPS, 2) if turnover else None

    @property
    def worst_day(self) -> DayResult | None:
        """The day with the greatest value short, the first of several; None when nothing was ever short."""
        return max((each for each in self.days if each.short), key=lambda each: each.short_value, default=None)


@exact
def backtest(
    nights: Sequence[PlayedNight],
    policies: Mapping[str, Plan],
    *,
    base_asset: str,
    fee_bps: Decimal = ZERO,
    horizon: int = 1,
) -> tuple[PolicyResult, ...]:
    """Replay the nights under each policy.

    A plan sees as needs the payouts of `horizon` nights, the present one included. Raises `InputError` for no nights,
    for nights that are not in order of their day, for an asset without a price, and for a plan that spends what is not
    there or trades a rate that could not be had.
    """
    if not nights or horizon < 1:
        raise InputError("a backtest needs at least one night, and a horizon of at least one")
    for earlier, later in pairwise(nights):
        if later.day <= earlier.day:
            raise InputError(f"the night of {later.day} does not come after {earlier.day}")
    return tuple(
        PolicyResult(name, tuple(_replayed(name, nights, plan, base_asset, fee_bps, horizon)))
        for name, plan in policies.items()
    )


def _replayed(
    name: str, nights: Sequence[PlayedNight], plan: Plan, base_asset: str, fee_bps: Decimal, horizon: int
) -> Sequence[DayResult]:
    balances: defaultdict[str, Decimal] = defaultdict(Decimal, nights[0].balances)
    days = []
    for number, night in enumerate(nights):
        for asset, amount in night.deposits.items():
            balances[asset] += amount
        needs: defaultdict[str, Decimal] = defaultdict(Decimal)
        for coming in nights[number : number + horizon]:
            for asset, amount in coming.payouts.items():
                needs[asset] += amount
        books = _Books(f"policy {name}, {night.day}", night, balances, base_asset, fee_bps)
        for each in plan(dict(balances), dict(needs), night.rates):
            books.fill(each)
        days.append(books.paid())
    return days


@dataclass
class _Books:
    """The balances of one night while its conversions are filled and its payouts made."""

    place: str
    night: PlayedNight
    balances: defaultdict[str, Decimal]
    base_asset: str
    fee_bps: Decimal
    trades: int = 0
    turnover: Decimal = ZERO
    cost: Decimal = ZERO
    prices: Amounts = field(init=False)

    def __post_init__(self) -> None:
        self.prices = self.night.prices(self.base_asset)

    def fill(self, trade: Conversion | Trade) -> None:
        """One conversion at the night's rates, less the fee."""
        rates = self.night.rates.get(trade.symbol)
        price = None if rates is None else rates.buy if trade.side is Side.BUY else rates.sell
        if rates is None or price is None or rates.middle is None:
            raise InputError(f"{self.place}: {trade.side} {trade.symbol} has no rate")
        if not 0 < trade.amount <= self.balances[trade.currency]:
            there = canonical(self.balances[trade.currency])
            raise InputError(f"{self.place}: spends {canonical(trade.amount)} {trade.currency}, and has {there}")
        buys = trade.side is Side.BUY
        gross = round_down(trade.amount / price if buys else trade.amount * price, RECEIVE_DIGITS)
        net = gross - round_up(gross * self.fee_bps / BPS, RECEIVE_DIGITS)
        self.balances[trade.currency] -= trade.amount
        self.balances[trade.receive_currency] += net
        against = trade.currency if buys else trade.receive_currency
        lost = trade.amount - net * rates.middle if buys else trade.amount * rates.middle - net
        self.trades += 1
        self.turnover += round_up(trade.amount * self._price(trade.currency), VALUE_DIGITS)
        self.cost += round_up(lost * self._price(against), VALUE_DIGITS)

    def paid(self) -> DayResult:
        """The night's payouts, as far as they are covered, and what the day came to."""
        short = {}
        for asset, amount in sorted(self.night.payouts.items()):
            missing = max(amount - self.balances[asset], ZERO)
            self.balances[asset] -= amount - missing
            if missing:
                short[asset] = missing
        return DayResult(
            day=self.night.day,
            short=short,
            short_value=self._value(short),
            idle=self._value(self.balances),
            trades=self.trades,
            turnover=self.turnover,
            cost=self.cost,
        )

    def _value(self, amounts: Amounts) -> Decimal:
        held = ((asset, amount) for asset, amount in amounts.items() if amount)
        return round_down(sum((amount * self._price(asset) for asset, amount in held), ZERO), VALUE_DIGITS)

    def _price(self, asset: str) -> Decimal:
        if asset not in self.prices:
            raise InputError(f"{self.place}: no rate leads from {asset} to {self.base_asset}")
        return self.prices[asset]
