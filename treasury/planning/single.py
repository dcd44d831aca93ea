"""Pure: one operation that moves money by itself, judged by a policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from treasury.money import exact, format_amount
from treasury.orders.quoting import QUOTED
from treasury.planning.limits import ConversionLimits, Limits, PayoutLimits, WithdrawalLimits
from treasury.planning.policy import Policy
from treasury.planning.rows import COMMANDS
from treasury.provider.operation import Operation

NOTHING: Mapping[str, Decimal] = {}


@dataclass(frozen=True)
class Judged:
    """The policy's judgement of one operation."""

    problems: tuple[str, ...] = ()
    """Why it may not be sent; nothing when it may."""
    debits: Mapping[str, Decimal] = field(default_factory=dict)
    """What it debits at most, by currency."""
    ceiling: Decimal | None = None
    """The most that it may debit, where its amount is not known beforehand."""


@dataclass(frozen=True)
class Quoted:
    """A quote that was asked for here, and that an operation confirms."""

    currency: str
    amount: Decimal
    """The debit."""
    receive_currency: str | None = None
    receive_amount: Decimal | None = None
    symbol: str | None = None
    """The pair of a conversion."""
    country: str | None = None
    """The country of the beneficiary of a fiat payout."""
    rate: Decimal | None = None
    payee: Mapping[str, str | None] = field(default_factory=dict)
    """Whom it pays: keyed hashes, as an order keeps them."""
    asked_as: str | None = None
    """Our reference of the quote: the `xid` of a conversion's."""


def judge_operation(
    operation: Operation[Any],
    policy: Policy | None,
    quoted: Quoted | None = None,
    moved_today: Mapping[str, Decimal] = NOTHING,
    at_most: Decimal | None = None,
) -> Judged:
    """Judge an operation that moves money by the table of the policy that is about its kind.

    `quoted`: what it confirms, where that is known; `moved_today`: what conversions of the day moved, by currency;
    `at_most`: the most that it debits by the service's terms, of one whose debit nothing that is sent bounds.
    """
    currency, amount = debit_of(operation) if quoted is None else (quoted.currency, quoted.amount)
    if policy is None:
        return Judged()
    limits = policy.table(operation.limited_by)
    most = _most(limits, currency)
    bound = most if operation.receives is None else at_most
    if amount is None and (currency is None or bound is None):
        unknown = limits.limited() if currency is None else limits.limited() & {currency}
        if unknown or (currency is None and _names_what_is_allowed(limits)):
            limited = ", ".join(sorted(unknown)) or "it"
            return Judged(
                (f"what it debits is not known beforehand, and the policy limits {limited}: {_way_out(operation)}",)
            )
        return Judged() if currency is None else Judged(_not_allowed(operation, limits, currency, quoted))
    assert currency is not None
    debit = amount if amount is not None else bound
    assert debit is not None
    problems = _over(limits, currency, debit, most) + _not_allowed(operation, limits, currency, quoted)
    if isinstance(limits, ConversionLimits) and quoted is not None:
        problems += _conversion_problems(limits, quoted, moved_today)
    return Judged(problems, {currency: debit}, None if amount is not None else debit)


def _way_out(operation: Operation[Any]) -> str:
    """How an operation whose debit is not known can be sent all the same."""
    if operation.receives is not None:
        return "send it again once the service says what it costs"
    command = "rebalance" if operation.limited_by == "conversions" else COMMANDS.get(operation.operation_name(), "pay")
    flow = f"treasury {command}"
    if not operation.confirms_quote:
        return f"use {flow}, or set max_per_payout of its currency"
    asked_by = QUOTED[operation.operation_name()].asked_by.operation_name()
    return f"ask for its quote with treasury call {asked_by} on this ledger and confirm that one, or use {flow}"


@exact
def _conversion_problems(
    limits: ConversionLimits, quoted: Quoted, moved_today: Mapping[str, Decimal]
) -> tuple[str, ...]:
    problems = [
        f"{name} cannot be judged for a conversion by itself: use treasury rebalance"
        for name in ("max_value_per_day", "max_share_percent", "max_cost_per_day", "max_cost_bps", "max_per_pair")
        if getattr(limits, name)
    ]
    if limits.pairs is not None and quoted.symbol not in limits.pairs:
        problems.append(f"{quoted.symbol} is not a pair that the policy allows")
    for currency, amount in ((quoted.currency, quoted.amount), (quoted.receive_currency, quoted.receive_amount)):
        most = None if currency is None else limits.max_turnover.get(currency)
        if most is not None and (amount is None or amount + moved_today.get(str(currency), Decimal(0)) > most):
            problems.append(f"with it more {currency} is moved today than max_turnover, {format_amount(most)}")
    return tuple(problems)


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


def _over(limits: Limits, currency: str, debit: Decimal, most: Decimal | None) -> tuple[str, ...]:
    """The amounts of the policy that a debit is over."""
    problems = []
    if most is not None and debit > most:
        problems.append(
            f"{format_amount(debit)} {currency} is over the policy's limit of {format_amount(most)} for one"
        )
    of_run = getattr(limits, "max_per_run", {}).get(currency)  # it is a run of one
    if of_run is not None and debit > of_run:
        problems.append(f"{format_amount(debit)} {currency} is over the limit of {format_amount(of_run)} per run")
    return tuple(problems)


def _not_allowed(operation: Operation[Any], limits: Limits, currency: str, quoted: Quoted | None) -> tuple[str, ...]:
    """The lists of the policy that an operation is not on."""
    problems = []
    allowed = getattr(limits, "currencies", None)
    if allowed is not None and currency not in allowed:
        problems.append(f"{currency} is not a currency that the policy allows")
    country = getattr(operation, "country", None) if quoted is None else quoted.country
    if isinstance(limits, PayoutLimits) and country is not None and limits.countries is not None:
        problems += [] if country in limits.countries else [f"{country} is not a country that the policy allows"]
    address = getattr(operation, "address", None)
    if isinstance(limits, WithdrawalLimits) and not limits.allows(str(address)):
        problems.append("its address is not among the addresses that the policy allows")
    return tuple(problems)
