"""Pure: the payout limits of a policy, and the check of a plan against them."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from treasury.errors import RowProblem
from treasury.money import format_amount
from treasury.planning.rows import PayoutRow
from treasury.planning.tables import ByCurrency, Holding, PolicyTable
from treasury.provider.service_rules import ServiceRules


class PayoutLimits(PolicyTable):
    """The `[payouts]` table: what may be paid. What is left out is not limited. Amounts are debits."""

    max_per_payout: ByCurrency = Field(default_factory=dict)
    """Also the highest pay amount that a quote may ask."""
    max_per_run: ByCurrency = Field(default_factory=dict)
    max_per_day: ByCurrency = Field(default_factory=dict)
    """All runs of one day in the policy's time zone together."""
    countries: tuple[str, ...] | None = None
    """Countries that may be paid."""
    currencies: tuple[str, ...] | None = None
    """Currencies that may be debited."""
    min_rates: dict[str, Holding] = Field(default_factory=dict)
    """`USDT-EUR`: the lowest rate that a quote may have."""
    one_approval_above: ByCurrency = Field(default_factory=dict)
    """Run totals above this need the approval of one person besides the maker."""
    two_approvals_above: ByCurrency = Field(default_factory=dict)
    duplicate_days: Annotated[int, Field(strict=True, ge=0, le=366)] = 25
    """How far back a payment with the same payee, currency and amount counts as a duplicate."""
    stop_after_failures: Annotated[int, Field(strict=True, ge=1)] = 50
    """So many sends in a row that fail in the same way stop the run."""
    stop_above_percent: Annotated[int, Field(strict=True, ge=1, le=100)] | None = None
    """A share of failed sends above this stops the run, once twenty were sent."""


def judge_rows(rows: Iterable[PayoutRow], limits: PayoutLimits) -> list[RowProblem]:
    """Problems of rows with the limits. Messages show no amount that is not in the sheet."""
    return [
        RowProblem(row.line, row.row_ref, column, rule, value)
        for row in rows
        for column, rule, value in _judge_row(row, limits)
    ]


def judge_service(rows: Iterable[PayoutRow], service: ServiceRules) -> list[RowProblem]:
    """Problems of rows with what this account's service accepts."""
    found = ((row, service.quote_problem(row.fields)) for row in rows)
    return [
        RowProblem(row.line, row.row_ref, problem.field, problem.rule, problem.value)
        for row, problem in found
        if problem is not None
    ]


def _judge_row(row: PayoutRow, limits: PayoutLimits) -> list[tuple[str, str, str | None]]:
    problems: list[tuple[str, str, str | None]] = []
    maximum = limits.max_per_payout.get(row.currency)
    if maximum is not None and row.amount is not None and row.amount > maximum:
        rule = f"is over the policy's limit of {format_amount(maximum)} {row.currency} per payout"
        problems.append((row.amount_column, rule, format_amount(row.amount)))
    if limits.currencies is not None and row.currency not in limits.currencies:
        problems.append((row.currency_column, "is not a currency that the policy allows", row.currency))
    if limits.countries is not None and row.country not in limits.countries:
        problems.append((row.country_column, "is not a country that the policy allows", row.country))
    return problems


def check_run_total(debits: Mapping[str, Decimal], limits: PayoutLimits) -> str | None:
    """Why the sums of a run are over its limits; None when they are not."""
    for currency, total in debits.items():
        maximum = limits.max_per_run.get(currency)
        if maximum is not None and total > maximum:
            return (
                f"the run debits {format_amount(total)} {currency}, over the limit of {format_amount(maximum)} per run"
            )
    return None


def approvals_needed(debits: Mapping[str, Decimal], limits: PayoutLimits) -> int:
    """How many people besides its maker have to approve a run with these sums."""

    def above(thresholds: ByCurrency) -> bool:
        return any(total > thresholds[currency] for currency, total in debits.items() if currency in thresholds)

    if above(limits.two_approvals_above):
        return 2
    return 1 if above(limits.one_approval_above) else 0
