"""Pure: one operation that moves money by itself, judged by a policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from treasury.money import format_amount
from treasury.planning.limits import ConversionLimits, Limits, PayoutLimits, WithdrawalLimits
from treasury.planning.policy import Policy
from treasury.provider.operation import Operation


@dataclass(frozen=True)
class Judged:
    """What a policy says of one operation."""

    problems: tuple[str, ...] = ()
    """Why it may not be sent; nothing when it may."""
    debits: Mapping[str, Decimal] = field(default_factory=dict)
    """What it debits at most, by currency."""
    ceiling: Decimal | None = None
    """The most that it may debit, where its amount is not known beforehand."""
    cooling_hours: int = 0
    """How long it waits when its payee is new."""


def judge_operation(operation: Operation[Any], policy: Policy | None) -> Judged:
    """Judge an operation that moves money by the table of the policy that is about its kind."""
    currency, amount = debit_of(operation)
    if policy is None:
        return Judged()
    limits = policy.table(operation.limited_by)
    most = _most(limits, currency)
    if amount is None and (currency is None or most is None):
        unknown = limits.limited() if currency is None else limits.limited() & {currency}
        if unknown or (currency is None and _names_what_is_allowed(limits)):
            where = "treasury rebalance" if operation.limited_by == "conversions" else "treasury pay"
            rule = (
                "what it debits is not known beforehand, and the policy limits "
                f"{', '.join(sorted(unknown)) or 'it'}: use {where}, or set max_per_payout of its currency"
            )
            return Judged((rule,))
        return Judged()
    assert currency is not None
    debit = amount if amount is not None else most
    assert debit is not None
    problems = _problems(operation, limits, currency, debit, most)
    cooling = limits.cooling_hours if isinstance(limits, WithdrawalLimits) else 0
    return Judged(problems, {currency: debit}, None if amount is not None else debit, cooling)


def debit_of(operation: Operation[Any]) -> tuple[str | None, Decimal | None]:
    """The currency and amount that an operation debits; None for what it does not say."""
    currency = getattr(operation, "currency", None)
    if currency is not None:
        return str(currency), getattr(operation, "amount", None)
    return operation.debits, None


def _most(limits: Limits, currency: str | None) -> Decimal | None:
    by_currency = getattr(limits, "max_per_trade" if isinstance(limits, ConversionLimits) else "max_per_payout", {})
    return by_currency.get(currency) if currency is not None else None


LIMITS_OF_ALL = (
    *("pairs", "currencies", "countries", "addresses"),
    *("max_value_per_day", "max_share_percent", "max_cost_per_day", "max_cost_bps"),
)
"""Settings that limit every currency: what is not known beforehand cannot be judged by them."""


def _names_what_is_allowed(limits: Limits) -> bool:
    return any(getattr(limits, name, None) is not None for name in LIMITS_OF_ALL)


def _problems(
    operation: Operation[Any], limits: Limits, currency: str, debit: Decimal, most: Decimal | None
) -> tuple[str, ...]:
    problems = []
    if most is not None and debit > most:
        problems.append(
            f"{format_amount(debit)} {currency} is over the policy's limit of {format_amount(most)} for one"
        )
    allowed = getattr(limits, "currencies", None)
    if allowed is not None and currency not in allowed:
        problems.append(f"{currency} is not a currency that the policy allows")
    country = getattr(operation, "country", None)
    if isinstance(limits, PayoutLimits) and country is not None and limits.countries is not None:
        problems += [] if country in limits.countries else [f"{country} is not a country that the policy allows"]
    address = getattr(operation, "address", None)
    if isinstance(limits, WithdrawalLimits) and limits.addresses is not None and address not in limits.addresses:
        problems.append("its address is not among the addresses that the policy allows")
    return tuple(problems)
