"""The position: what is held of each asset, what is on its way, and what has to be paid, today or soon; pure.

Whether the service takes an order's amount from what is available when it accepts it or when it is final is not
documented (public fact 5.10 names `freezeBalance` alone). So each asset has two sides: what may certainly be spent,
from which surpluses and funds are counted, and what is expected, from which shortfalls are.
"""

import calendar
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from treasury.money import ZERO, canonical, exact, sums_of
from treasury.planning.conversion_model import TIERS, Purpose
from treasury.planning.trades import Rates
from treasury.policy.model import Policy, Scheduled

ByPurpose = Mapping[Purpose, Mapping[str, Decimal]]


@dataclass(frozen=True)
class InFlight:
    """An order that left, may have left or will leave, and is not final: what it spends, and what it is to bring."""

    request_id: str
    run_key: str
    row_ref: str
    currency: str
    amount: Decimal
    is_known: bool
    """True when the service said that it has it, or it was not sent; else nobody knows."""
    is_conversion: bool
    symbol: str | None = None
    """The pair of a conversion."""
    receive_currency: str | None = None
    receive_amount: Decimal | None = None
    is_sent: bool = True
    """True where it left, or may have; else it is a conversion that is recorded, which its run sends, or cancels."""
    debited: bool | None = None
    """True where its amount was taken already, as the account's `debited_when` says; None where nobody knows."""


@dataclass(frozen=True)
class Obligation:
    """An amount that is to be paid out of an asset by the end of the horizon, and why."""

    asset: str
    amount: Decimal
    what: str
    run_key: str | None = None
    """The run that recorded it, if one did."""


@dataclass(frozen=True)
class Snapshot:
    """Everything that a rebalancing is planned from, at one moment."""

    at: int
    """Unix ms."""
    source: str = "the service"
    """Who says the balances."""
    run_key: str = ""
    """The round that it was taken for: the next one when nothing of it was read yet."""
    available: Mapping[str, Decimal] = field(default_factory=dict)
    held: Mapping[str, Decimal] = field(default_factory=dict)
    """Asset -> what the service holds back for orders on their way; not there where it does not say."""
    rates: Mapping[str, Rates] = field(default_factory=dict)
    in_flight: tuple[InFlight, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    doubtful: Mapping[str, Decimal] = field(default_factory=dict)
    """Asset -> what payments debit that may have been paid: it is kept, and nothing is bought for them."""
    brought: ByPurpose = field(default_factory=dict)
    """Purpose -> asset -> what sales brought for that purpose of other assets, or conversions for this very payment
    run, and nothing spent yet: it is for these, and no floor or minimum keeps it."""
    coming: ByPurpose = field(default_factory=dict)
    """Purpose -> asset -> what sales on their way are to bring for that purpose of other assets."""
    daily: Mapping[str, Decimal] = field(default_factory=dict)
    """Asset -> what was paid out of it on a day, on the average."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Asset or pair -> why its balance or rate cannot be used."""
    notes: tuple[str, ...] = ()
    """Remarks that a treasurer should read."""
    fee_bps: Decimal = Decimal(10)
    """The fee that a conversion is expected to take of what it brings: what recent ones took (public fact 7.4)."""
    moved: Mapping[str, Decimal] = field(default_factory=dict)
    """Currency -> what conversions of this day spent and received of it."""
    spent: Mapping[str, Decimal] = field(default_factory=dict)
    """Currency -> what counts already, of all operations, towards its limit of the day; of those that have one."""
    traded: Mapping[str, Decimal] = field(default_factory=dict)
    """Pair -> what this day's trades of it were worth, in the base asset."""
    cost: Decimal = ZERO
    """The cost of this day's trades against the middle of the rates, in the base asset."""

    def brought_by_purpose(self, asset: str) -> dict[Purpose, Decimal]:
        """Purpose -> what sales brought of an asset for that purpose of others, and nothing spent yet."""
        return {purpose: sums[asset] for purpose, sums in self.brought.items() if asset in sums}

    def coming_by_purpose(self, asset: str, most: Decimal) -> dict[Purpose, Decimal]:
        """Purpose -> what sales on their way are to bring of an asset for that purpose of others; `most` in all."""
        found = {}
        for purpose in TIERS:
            found[purpose] = min(self.coming.get(purpose, {}).get(asset, ZERO), most)
            most -= found[purpose]
        return found

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it, amounts as text."""
        found: dict[str, Any] = _as_text(asdict(self))
        return found

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> "Snapshot":
        """The snapshot that `as_dict` wrote. Raises `ValueError` when it did not."""
        return _reader().validate_python(dict(content))


def limited_to(snapshot: Snapshot, symbols: Collection[str]) -> Snapshot:
    """The snapshot as if these pairs alone could be traded."""
    others = {symbol: "a plan that people saw trades other pairs" for symbol in snapshot.rates if symbol not in symbols}
    return replace(snapshot, missing={**others, **snapshot.missing})


@cache
def _reader() -> TypeAdapter[Snapshot]:
    return TypeAdapter(Snapshot)


def _as_text(value: Any) -> Any:
    if isinstance(value, Decimal):
        return canonical(value)
    if isinstance(value, dict):
        return {str(name): _as_text(each) for name, each in value.items()}
    return [_as_text(each) for each in value] if isinstance(value, tuple | list) else value


@dataclass(frozen=True)
class Position:
    """One asset: what is available, on its way and to be paid, in it."""

    asset: str
    available: Decimal
    incoming: Decimal
    """Amounts that conversions on their way are to bring."""
    outgoing: Decimal
    """Amounts that orders on their way spend, and the service does not show as held back."""
    uncertain: Decimal
    """Of it: payments of which nobody knows whether the service has them."""
    obligations: tuple[Obligation, ...]

    @property
    def expected(self) -> Decimal:
        """Return what it will be once everything on its way has arrived; shortfalls are counted from it."""
        return self.available + self.incoming - self.uncertain

    @property
    def spendable(self) -> Decimal:
        """Return what may certainly be spent; surpluses are counted from it."""
        return max(self.certain, ZERO)

    @property
    def certain(self) -> Decimal:
        """Return what certainly stays once all that is on its way out has left, also below zero; funds are counted
        from it."""
        return self.available - self.outgoing

    @property
    def need(self) -> Decimal:
        """Return what its obligations come to."""
        return sum((each.amount for each in self.obligations), ZERO)


@exact
def position_of(snapshot: Snapshot, asset: str) -> Position:
    """The position of one asset, whose balance is known."""
    flying = [each for each in snapshot.in_flight if each.currency == asset and each.is_sent]
    unsent = sum((each.amount for each in snapshot.in_flight if each.currency == asset and not each.is_sent), ZERO)
    held = snapshot.held.get(asset)
    known, taken = _sum(flying, of_known=True, conversions=None), _taken(flying, held)
    incoming = sum((each.receive_amount or ZERO for each in snapshot.in_flight if each.receive_currency == asset), ZERO)
    return Position(
        asset,
        snapshot.available[asset],
        incoming,
        unsent + max(known - max(taken, held or ZERO), ZERO) + _sum(flying, of_known=False, conversions=None),
        _sum(flying, of_known=False, conversions=False),
        tuple(each for each in snapshot.obligations if each.asset == asset),
    )


def _taken(orders: Iterable[InFlight], held: Decimal | None) -> Decimal:
    """Return what known orders took already; where nobody knows, and the service does not say what it holds back, a
    payment counts as debited when it was accepted, a conversion as not yet."""
    known = [each for each in orders if each.is_known]
    counts = [held is None and not each.is_conversion if each.debited is None else each.debited for each in known]
    return sum((each.amount for each, is_taken in zip(known, counts, strict=True) if is_taken), ZERO)


def not_explained(snapshot: Snapshot) -> list[InFlight]:
    """Payments of which nobody knows whether they were debited; they may be final, and the ledger does not know it.

    Unknown ones, and those of an asset of which the service holds back less than its payments on their way come to.
    """
    found = []
    for asset in sorted(snapshot.available):
        paid = [each for each in snapshot.in_flight if each.currency == asset and not each.is_conversion]
        held = snapshot.held.get(asset)
        known = _sum(paid, of_known=True, conversions=False)
        is_all_held = held is None or known <= max(held, _taken(paid, held))
        found += [each for each in paid if not (each.is_known and (is_all_held or each.debited))]
    return found


def _sum(orders: Iterable[InFlight], *, of_known: bool, conversions: bool | None) -> Decimal:
    return sum(
        (
            each.amount
            for each in orders
            if each.is_known is of_known and (conversions is None or each.is_conversion is conversions)
        ),
        ZERO,
    )


MONTH_END_DAYS = 3
"""So many last days of a month are compared with each other, whatever their weekday."""


def days_ahead(policy: Policy, today: date) -> list[date]:
    """The days whose obligations count: today and those of the policy's horizon."""
    return [today + timedelta(days=number) for number in range(policy.trading.horizon_days + 1)]


def scheduled(policy: Policy, today: date, begun: Collection[str]) -> Iterator[Obligation]:
    """Yield what the policy's schedule pays by the end of the horizon; what is due on no business day is paid before.

    `begun`: the run keys of the past days. A run whose key is a payment's name, or begins with it and a dash, takes the
    place of one date of it, the first.
    """
    days = policy.business_days
    for each in policy.scheduled:
        on = [day for day in days_ahead(policy, today) if any(map(each.is_due_on, days.days_due_on(day)))]
        left = on[sum(f"{run_key}-".startswith(f"{each.name}-") for run_key in begun) :]
        if left:
            yield Obligation(each.currency, each.amount * len(left), f"scheduled: {each.name}, {_said(left)}")


def _said(days: Sequence[date]) -> str:
    return ", ".join(day.isoformat() for day in days)


def begins_anew_after(each: Scheduled) -> timedelta:
    """How far back a run counts as this payment of now."""
    return timedelta(days=3 if each.weekday else 15)


Days = Mapping[date, Decimal]
"""Day -> what was paid out on it."""


def average(paid: Days, today: date, days: int) -> Decimal:
    """Return what was paid on a day, on the average of so many days before today; in the asset."""
    since = today - timedelta(days=days)
    return sum((amount for day, amount in paid.items() if since <= day < today), ZERO) / days


@exact
def expected_by_history(
    policy: Policy, today: date, paid: Mapping[str, Days], known: Iterable[Obligation]
) -> Iterator[Obligation]:
    """Yield what the past says beyond what is known: a quantile of the days like those of the horizon, less what is
    known.

    A day is like another when both are among the last days of their months, or else when their weekday is the same.
    """
    quantile = policy.trading.history_quantile
    if quantile is None:
        return
    sums = sums_of((each.asset, each.amount) for each in known)
    past = [today - timedelta(days=number) for number in range(1, policy.trading.history_days + 1)]
    for asset, by_day in sorted(paid.items()):
        first = min(by_day, default=today)
        found = [
            _quantile(by_day, [each for each in past if each >= first and _like(each, day)], quantile)
            for day in days_ahead(policy, today)
        ]
        more = sum(found, ZERO) - sums.get(asset, ZERO) - by_day.get(today, ZERO)
        if more > 0:
            named = sorted({_kind(day) for day in days_ahead(policy, today)})
            yield Obligation(
                asset, more, f"{canonical(quantile)} quantile of past {', '.join(named)}, beyond the above"
            )


def _quantile(paid: Days, days: Sequence[date], quantile: Decimal) -> Decimal:
    if not days:
        return ZERO
    amounts = sorted(paid.get(day, ZERO) for day in days)
    return amounts[max(math.ceil(quantile * len(amounts)) - 1, 0)]


def _kind(day: date) -> str:
    is_month_end = day.day > calendar.monthrange(day.year, day.month)[1] - MONTH_END_DAYS
    return "month-ends" if is_month_end else f"{day:%A}s"


def _like(day: date, other: date) -> bool:
    return _kind(day) == _kind(other)
