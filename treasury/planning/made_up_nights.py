"""Nights that never were, for trying policies before there are records; the same seed makes the same nights."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from treasury.planning.backtest import NightRates, PlayedNight

SATURDAY = 5
MONTH_MIDDLE = 15


@dataclass(frozen=True)
class MadeUpAsset:
    """An asset of a made-up merchant. Values are in the base asset, on a common day."""

    price: float
    """Value of one on the first night."""
    balance: float
    """Value held on the first night."""
    suppliers: float = 0.0
    """Median value paid on a weekday."""
    payroll: float = 0.0
    """Median value paid on the 15th and at the month's end; on the weekday before when that is a weekend."""
    deposits: float = 0.0
    """Median value that comes in each day."""
    drift: float = 0.0
    """How much its price grows on an average night, as a share."""
    step: float = 0.02
    """Standard deviation of the logarithm of a night's change of price."""
    half_spread: float = 0.002
    """How much more than mid it costs and less it brings, as a share."""


ASSETS: Mapping[str, MadeUpAsset] = {
    "USDT": MadeUpAsset(1.0, 60_000, suppliers=1_500, deposits=9_000),
    "BTC": MadeUpAsset(60_000.0, 40_000, deposits=4_000, drift=0.0003, step=0.03, half_spread=0.001),
    "ETH": MadeUpAsset(2_500.0, 25_000, deposits=2_500, drift=0.0002, step=0.035, half_spread=0.001),
    "BRL": MadeUpAsset(0.18, 15_000, suppliers=2_500, payroll=30_000, drift=-0.0002, step=0.006),
    "MXN": MadeUpAsset(0.055, 10_000, suppliers=1_200, payroll=18_000, step=0.006),
    "PHP": MadeUpAsset(0.017, 5_000, suppliers=600, payroll=9_000, step=0.004, half_spread=0.004),
}
"""A merchant who is paid in coins and pays people in three countries. The first is the base asset."""


def made_up_nights(
    seed: int, first: date, count: int, assets: Mapping[str, MadeUpAsset] = ASSETS
) -> tuple[PlayedNight, ...]:
    """So many nights from `first` on. Every asset is traded against the first of them.

    `balances` are those of somebody who never converts and leaves unpaid what is not there.
    """
    chance = random.Random(seed)  # noqa: S311  # made-up numbers, no secrets
    base = next(iter(assets))
    prices = {asset: each.price for asset, each in assets.items()}
    balances = {asset: _amount(each.balance / each.price, asset, base) for asset, each in assets.items()}
    nights = []
    for number in range(count):
        day = first + timedelta(days=number)
        rates, payouts, deposits = {}, {}, {}
        for asset, each in assets.items():
            if asset != base:
                if number:
                    prices[asset] *= chance.lognormvariate(each.drift - each.step**2 / 2, each.step)
                rates[f"{asset}-{base}"] = NightRates(
                    _rate(prices[asset] * (1 + each.half_spread)), _rate(prices[asset] * (1 - each.half_spread))
                )
            paid = _drawn(chance, each.suppliers, 0.5) if day.weekday() < SATURDAY else 0.0
            paid += _drawn(chance, each.payroll, 0.08) if is_payday(day) else 0.0
            received = _drawn(chance, each.deposits, 0.6)
            payouts[asset] = _amount(paid / prices[asset], asset, base)
            deposits[asset] = _amount(received / prices[asset], asset, base)
        paid_out = {asset: amount for asset, amount in payouts.items() if amount}
        received_in = {asset: amount for asset, amount in deposits.items() if amount}
        nights.append(PlayedNight(day, dict(balances), rates, paid_out, received_in))
        for asset in assets:
            balances[asset] = max(balances[asset] + deposits[asset] - payouts[asset], Decimal(0))
    return tuple(nights)


def is_payday(day: date) -> bool:
    """Tell whether salaries are paid: on the 15th and the last day of the month, or the weekday before them."""
    if day.weekday() >= SATURDAY:
        return False
    days = [day] if day.weekday() < SATURDAY - 1 else [day + timedelta(days=ahead) for ahead in range(3)]
    return any(each.day == MONTH_MIDDLE or (each + timedelta(days=1)).day == 1 for each in days)


def _drawn(chance: random.Random, median: float, spread: float) -> float:
    """A value around a median; always drawn, so that one asset's numbers do not move another's."""
    return median * chance.lognormvariate(0.0, spread)


def _amount(amount: float, asset: str, base: str) -> Decimal:
    return Decimal(f"{amount:.2f}" if asset == base or amount >= 1_000 else f"{amount:.8f}")


def _rate(price: float) -> Decimal:
    return Decimal(f"{price:.10f}")
