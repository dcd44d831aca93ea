"""Pure: counts and sums over the orders of a report, of which a part at a time is there."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from treasury.money import ZERO, canonical, exact, is_same_currency
from treasury.orders.states import State
from treasury.policy.tables import BPS

_ENDED = {99: State.SETTLED.outcome, 44: State.FAILED.outcome, 88: State.CLOSED.outcome}
_STATES = frozenset(State)


@dataclass
class _Fees:
    orders: int = 0
    amount: Decimal = ZERO
    fees: Decimal = ZERO


@dataclass
class _Rates:
    orders: int = 0
    total: Decimal = ZERO
    lowest: Decimal = Decimal("Infinity")
    highest: Decimal = ZERO


@dataclass
class OrderSums:
    """Counts and sums over compared orders."""

    time_zone: str
    orders: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    """Class -> orders."""
    days: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Day in the time zone, and outcome as people read it -> orders."""
    _fees: dict[str, _Fees] = field(default_factory=lambda: defaultdict(_Fees))
    _rates: dict[str, _Rates] = field(default_factory=lambda: defaultdict(_Rates))

    @exact
    def add(self, orders: pd.DataFrame) -> None:
        """Add compared orders: both sides and `class`."""
        self.orders += len(orders)
        self.classes.update(orders["class"])
        if not orders.empty:
            self.days.update(zip(self._days(orders), _outcomes(orders), strict=True))
        arrived = orders[orders["status"] == 99]
        self._add_fees(arrived[arrived["seen_fee"].notna()])
        self._add_rates(arrived[arrived["currency"].notna() & arrived["receive_currency"].notna()])

    def _days(self, orders: pd.DataFrame) -> "pd.Series[Any]":
        made = pd.to_datetime(pd.to_numeric(orders["created_at"]), unit="ms", utc=True)
        return made.dt.tz_convert(ZoneInfo(self.time_zone)).dt.strftime("%Y-%m-%d").fillna("")

    def _add_fees(self, arrived: pd.DataFrame) -> None:
        """Add fees of what arrived. The amount of an order that nobody knew when it was sent is the one shown, and a
        fee whose currency is not shown is in the quoted one."""
        ours = ("currency", "amount", "receive_currency", "receive_amount")
        columns = ("seen_fee", "seen_fee_currency", "fee_currency", "seen_amount", "seen_currency", *ours)
        for fee, charged, quoted, seen, seen_in, *sides in zip(*(arrived[name] for name in columns), strict=True):
            currency = charged or quoted or sides[0]
            if currency is None:
                continue
            shown = seen if is_same_currency(seen_in, currency) else None
            base = (sides[1] or shown) if sides[0] == currency else sides[3] if sides[2] == currency else None
            sums = self._fees[currency]
            sums.orders += 1
            sums.amount += Decimal(base or 0)
            sums.fees += Decimal(fee)

    def _add_rates(self, arrived: pd.DataFrame) -> None:
        columns = (arrived[name] for name in ("currency", "receive_currency", "seen_rate", "rate"))
        for pays, receives, seen, quoted in zip(*columns, strict=True):
            rate = seen if seen is not None else quoted
            if rate is not None:
                sums, value = self._rates[f"{pays}-{receives}"], Decimal(rate)
                sums.orders += 1
                sums.total += value
                sums.lowest, sums.highest = min(sums.lowest, value), max(sums.highest, value)

    def by_day(self) -> Iterator[dict[str, Any]]:
        """Yield how many orders of each day came to which end."""
        for (day, outcome), count in sorted(self.days.items()):
            yield {"day": day, "outcome": outcome, "orders": count}

    @exact
    def fees(self) -> list[dict[str, Any]]:
        """Return the fees of what arrived, by their currency; `bps`: in basis points of the amounts."""
        return [
            {
                "currency": currency,
                "orders": sums.orders,
                "amount": canonical(sums.amount),
                "fees": canonical(sums.fees),
                "bps": f"{sums.fees / sums.amount * BPS:.2f}" if sums.amount else None,
            }
            for currency, sums in sorted(self._fees.items())
        ]

    @exact
    def rates(self) -> list[dict[str, Any]]:
        """Return the rates of what arrived, as the service shows them, for each pair of currencies."""
        return [
            {
                "pair": pair,
                "orders": sums.orders,
                "lowest": canonical(sums.lowest),
                "average": f"{sums.total / sums.orders:.8g}",
                "highest": canonical(sums.highest),
            }
            for pair, sums in sorted(self._rates.items())
        ]


def _outcomes(orders: pd.DataFrame) -> "pd.Series[Any]":
    """Return what became of each order, as people read it: as the service shows it, else as our side has it."""
    ours = orders["state"].map(lambda state: State(state).outcome if state in _STATES else state)
    theirs = orders["status"].map(_ENDED, na_action="ignore")
    return theirs.where(theirs.notna(), ours)
