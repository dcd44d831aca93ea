"""Pure: one operation that moves money by itself, judged by a policy."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from treasury.addresses import listed_as
from treasury.money import exact
from treasury.orders.quoting import QUOTED
from treasury.orders.rows import COMMANDS, countries_named
from treasury.policy.judge import Breach, Leaving, judge, limits_any
from treasury.policy.limits import ConversionLimits, Limits
from treasury.policy.model import Policy
from treasury.provider.operation import Operation

NOTHING: Mapping[str, Decimal] = {}


@dataclass(frozen=True)
class Judged:
    """The policy's judgement of one operation."""

    problems: tuple[str, ...] = ()
    """Why it may not be sent; nothing when it may."""
    debits: Mapping[str, Decimal] = field(default_factory=dict)
    """The most that it debits, by currency."""
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
    countries: Collection[str] = ()
    """The countries that a fiat payout names as that of its beneficiary's account."""
    fee: Decimal | None = None
    fee_currency: str | None = None
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
        if unknown or (currency is None and limits_any(limits)):
            limited = ", ".join(sorted(unknown)) or "it"
            return Judged(
                (f"what it debits is not known beforehand, and the policy limits {limited}: {_way_out(operation)}",)
            )
    if currency is None:
        return Judged()
    debit = amount if amount is not None else bound
    leaving = _leaving(operation, currency, debit, quoted, moved_today)
    problems = tuple(_over(breach, currency) for breach in judge(limits, leaving))
    return Judged(problems, {} if debit is None else {currency: debit}, None if amount is not None else debit)


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


def debit_of(operation: Operation[Any]) -> tuple[str | None, Decimal | None]:
    """The currency and amount that an operation debits; None for what it does not say."""
    currency = getattr(operation, "currency", None)
    if currency is not None:
        return str(currency), getattr(operation, "amount", None)
    return operation.debits, None


def _most(limits: Limits, currency: str | None) -> Decimal | None:
    by_currency = getattr(limits, "max_per_trade" if isinstance(limits, ConversionLimits) else "max_per_payout", {})
    return by_currency.get(currency) if currency is not None else None


@exact
def _leaving(
    operation: Operation[Any],
    currency: str,
    debit: Decimal | None,
    quoted: Quoted | None,
    moved_today: Mapping[str, Decimal],
) -> Leaving:
    """Return what limits judge of an operation, which is a run of one."""
    address = listed_as(str(getattr(operation, "address", None)), getattr(operation, "tag", None))
    country, account = (getattr(operation, name, None) for name in ("country", "account_no"))
    countries = countries_named(country, "country", str(account))
    about = Leaving(currency=currency, debit=debit, of_run=debit, countries=countries)
    if quoted is None:
        return about._replace(address=address)
    moves = ((quoted.currency, quoted.amount), (quoted.receive_currency, quoted.receive_amount))
    return about._replace(
        countries=quoted.countries,
        symbol=str(quoted.symbol),
        pair=f"{quoted.currency}-{quoted.receive_currency}",
        rate=quoted.rate,
        moved={
            name: None if amount is None else amount + moved_today.get(name, Decimal(0))
            for name, amount in moves
            if name is not None
        },
        has_plan=False,
    )


_OVER = {
    **dict.fromkeys(
        ("max_per_payout", "max_per_trade"), "{said} {currency} is over the policy's limit of {most} for one"
    ),
    "max_per_run": "{said} {currency} is over the limit of {most} per run",
    "currencies": "{said} is not a currency that the policy allows",
    "countries": "{said} is not a country that the policy allows",
    "addresses": "its address (with a tag: ADDRESS:TAG) is not among the addresses that the policy allows",
    "min_rates": "the rate of its quote is {said}, and min_rates asks for {most} at least",
    "pairs": "{said} is not a pair that the policy allows",
    "max_turnover": "with it more {said} is moved today than max_turnover, {most}",
}
"""Limit -> why a single operation that is over it may not be sent."""


def _over(breach: Breach, currency: str) -> str:
    otherwise = "{limit} cannot be judged for a conversion by itself: use treasury rebalance"
    return _OVER.get(breach.limit, otherwise).format(**breach._asdict(), currency=currency)
