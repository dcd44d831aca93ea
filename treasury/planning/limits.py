"""Pure: the payout limits of a policy, and the check of a plan against them."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from treasury.addresses import canonical_address
from treasury.errors import RowProblem
from treasury.money import format_amount
from treasury.planning.rows import PayoutRow, Route
from treasury.planning.tables import ByCurrency, Holding, PolicyTable, PositiveAmount
from treasury.provider.fields import Symbol
from treasury.provider.service_rules import ServiceRules

DUPLICATE_DAYS = 25
"""How far back a settled payment that looks the same counts, unless the policy says otherwise."""


class Limits(PolicyTable):
    """The limits that every table has. What is left out is not limited. Amounts are debits, by currency."""

    max_per_day: ByCurrency = Field(default_factory=dict)
    """Payouts, withdrawals, scan-to-pay and conversions of one day in the policy's time zone together."""
    one_approval_above: ByCurrency = Field(default_factory=dict)
    """Totals of a run above this need the approval of one person besides the maker."""
    two_approvals_above: ByCurrency = Field(default_factory=dict)
    duplicate_days: Annotated[int, Field(strict=True, ge=0, le=366)] = DUPLICATE_DAYS
    """How far back a settled payment with the same payee, currency and amount counts as a duplicate."""

    @property
    def asks_second_person(self) -> bool:
        """Tell whether something is held until somebody who did not make its run releases it by key."""
        return False

    def limited(self) -> set[str]:
        """The currencies that any amount of this table limits."""
        return {currency for _, value in self if isinstance(value, dict) for currency in value}


class PaymentLimits(Limits):
    """The limits of payments out, which are paid by sheets or by single calls."""

    max_per_payout: ByCurrency = Field(default_factory=dict)
    """The most that one payment may debit; also the highest pay amount that a quote may ask."""
    max_per_run: ByCurrency = Field(default_factory=dict)
    """The most that a run of a sheet may debit."""
    currencies: tuple[str, ...] | None = None
    """Currencies that may be debited."""
    new_payee_above: ByCurrency = Field(default_factory=dict)
    """The first payment to an account is held when it debits more than this."""
    stop_after_failures: Annotated[int, Field(strict=True, ge=1)] = 50
    """So many sends in a row that fail in the same way stop the run."""
    stop_above_percent: Annotated[int, Field(strict=True, ge=1, le=100)] | None = None
    """A share of failed sends above this stops the run, once twenty were sent."""
    change_above_percent: Annotated[Decimal, Field(gt=0, le=1000)] = Decimal(20)
    """A payee's amount that differs by more from the last run that paid the same people is said."""
    when_changed: Literal["show", "hold", "second_person"] = "show"
    """`hold`: a payment whose amount or name differs so from the last run is held, too; `second_person`: until somebody
    who did not make its run releases it by key."""
    send_when_funding_is_unknown: bool = False
    """True: a run is sent although the service does not say a balance that it needs."""

    @property
    def asks_second_person(self) -> bool:
        return self.when_changed == "second_person"


class WithdrawalLimits(PaymentLimits):
    """The `[withdrawals]` table: crypto withdrawals."""

    addresses: tuple[str, ...] | None = None
    """Addresses that may be withdrawn to."""
    cooling_hours: Annotated[int, Field(strict=True, ge=0, le=24 * 30)] = 0
    """How long the first withdrawal to an address waits after it was recorded."""

    def allows(self, address: str) -> bool:
        """Tell whether an address may be withdrawn to, however its letter case is written where that says nothing."""
        return self.addresses is None or canonical_address(address) in map(canonical_address, self.addresses)


class ConversionLimits(Limits):
    """The `[conversions]` table: conversions, of the rebalancing and of single calls. Amounts are what is spent."""

    max_per_trade: ByCurrency = Field(default_factory=dict)
    """The most that one trade may spend."""
    max_turnover: ByCurrency = Field(default_factory=dict)
    """The most that the rebalancing's trades of one day may move of a currency, spent and received together."""
    max_per_pair: dict[Symbol, Holding] = Field(default_factory=dict)
    """Pair -> the most that its trades of one day may be worth, in the base asset."""
    max_value_per_day: PositiveAmount | None = None
    """The most that all trades of one day may be worth, in the base asset."""
    max_share_percent: Annotated[int, Field(strict=True, ge=1, le=100)] | None = None
    """The most that one trade may spend of what is available of its currency."""
    max_cost_per_day: PositiveAmount | None = None
    """The most that the trades of one day may cost against the middle of the rates, in the base asset."""
    max_cost_bps: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = None
    """The most that a trade may cost against the middle of its rates, fee included, in basis points."""
    pairs: tuple[Symbol, ...] | None = None
    """Trading pairs that may be traded."""


class PayoutLimits(PaymentLimits):
    """The `[payouts]` table: payouts and scan-to-pay."""

    countries: tuple[str, ...] | None = None
    """Countries that may be paid."""
    cooling_days: Annotated[int, Field(strict=True, ge=0, le=366)] = 0
    """A payment to another account of a name that was paid before is held for so long."""
    min_rates: dict[str, Holding] = Field(default_factory=dict)
    """`USDT-EUR`: the lowest rate that a quote may have."""
    estimate_margin_percent: Annotated[Decimal, Field(ge=0, le=100)] = Decimal(2)
    """So much above its estimate a payment may debit that fixes what is received."""


def judge_rows(rows: Iterable[PayoutRow], limits: PaymentLimits) -> list[RowProblem]:
    """Problems of rows with the limits. Messages show no amount that is not in the sheet."""
    return [
        RowProblem(row.line, row.row_ref, column, rule, value, code="policy_limit")
        for row in rows
        for column, rule, value in _judge_row(row, limits)
    ]


def judge_unbounded(rows: Iterable[PayoutRow], limits: PaymentLimits) -> list[RowProblem]:
    """Problems of rows whose debit nothing bounds: neither they, nor an estimate, nor the policy."""
    said = "cannot be paid: the service does not say what it costs, and nothing that is sent bounds that"
    unpriced = [
        RowProblem(row.line, row.row_ref, "qrcode", said, code="unbounded")
        for row in rows
        if row.route is Route.QR_CODE and row.estimate is None
    ]
    rule = (
        "is needed: this row fixes what is received, and the service did not say a rate, so nothing bounds what it "
        "debits; give the most that it may debit here, or set max_per_payout.{} in the policy"
    )
    return unpriced + [
        RowProblem(row.line, row.row_ref, "max_pay_amount", rule.format(row.currency), code="unbounded")
        for row in rows
        if row.route is not Route.QR_CODE
        and row.amount is None
        and row.ceiling(limits.max_per_payout.get(row.currency)) is None
    ]


def judge_service(rows: Iterable[PayoutRow], service: ServiceRules) -> list[RowProblem]:
    """Problems of rows with what this account's service accepts."""
    found = ((row, service.quote_problem(row.fields)) for row in rows)
    return [
        RowProblem(row.line, row.row_ref, problem.field, problem.rule, problem.value, code="service_rule")
        for row, problem in found
        if problem is not None
    ]


def _judge_row(row: PayoutRow, limits: PaymentLimits) -> list[tuple[str, str, str | None]]:
    problems: list[tuple[str, str, str | None]] = []
    maximum = limits.max_per_payout.get(row.currency)
    if row.amount is None and row.ceiling(maximum) is None and row.currency in limits.limited():
        rule = (
            f"is needed: the policy limits {row.currency}, and what this row debits is not known beforehand; give the "
            f"most that it may debit here, or set max_per_payout.{row.currency} in the policy"
        )
        problems.append(("max_pay_amount", rule, None))
    way = row.way
    if row.route is Route.QR_CODE and row.estimate is not None:  # nothing that is sent holds it to a bound
        for name, most in (("max_pay_amount", row.max_pay_amount), ("max_per_payout", maximum)):
            if most is not None and row.estimate > most:
                rule = f"may cost {format_amount(row.estimate)} {row.currency} by the service's terms and the margin"
                problems.append(("qrcode", f"{rule}: more than {name}, {format_amount(most)}", None))
    if maximum is not None and row.amount is not None and row.amount > maximum:
        rule = f"is over the policy's limit of {format_amount(maximum)} {row.currency} per payout"
        problems.append((str(way.amount), rule, format_amount(row.amount)))
    if limits.currencies is not None and row.currency not in limits.currencies:
        problems.append((way.currency or "qrcode", "is not a currency that the policy allows", row.currency))
    if isinstance(limits, PayoutLimits) and limits.countries is not None and row.country not in limits.countries:
        place = way.country or "qrcode"
        problems.append((place, "is not a country that the policy allows", row.country))
    if isinstance(limits, WithdrawalLimits) and not limits.allows(row.account):
        problems.append(("address", "is not among the addresses that the policy allows", None))
    return problems


def check_run_total(debits: Mapping[str, Decimal], limits: PaymentLimits) -> str | None:
    """Why the sums of a run are over its limits; None when they are not."""
    for currency, total in debits.items():
        maximum = limits.max_per_run.get(currency)
        if maximum is not None and total > maximum:
            return (
                f"the run debits {format_amount(total)} {currency}, over the limit of {format_amount(maximum)} per run"
            )
    return None


def approvals_needed(debits: Mapping[str, Decimal], limits: Limits) -> int:
    """How many people besides its maker have to approve a run with these sums."""
    return max((number for number, _ in _approval_rules(debits, limits)), default=0)


def why_approvals(debits: Mapping[str, Decimal], limits: Limits) -> list[str]:
    """The rules of the policy that ask for approvals of a run with these sums."""
    return [rule for _, rule in _approval_rules(debits, limits)]


def _approval_rules(debits: Mapping[str, Decimal], limits: Limits) -> Iterator[tuple[int, str]]:
    thresholds = {
        "two_approvals_above": (2, limits.two_approvals_above),
        "one_approval_above": (1, limits.one_approval_above),
    }
    for name, (number, above) in thresholds.items():
        for currency, total in debits.items():
            if currency in above and total > above[currency]:
                what = f"{format_amount(total)} {currency} is above {name} ({format_amount(above[currency])})"
                yield number, what
