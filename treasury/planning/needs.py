"""Payments that are due soon: what is scheduled, and what days like these paid in the past; pure."""

import calendar
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal

from treasury.money import ZERO, canonical, exact, sums_of
from treasury.planning.position import Obligation
from treasury.policy.model import Policy, Scheduled

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
