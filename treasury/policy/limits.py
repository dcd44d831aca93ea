"""Pure: the limits of a policy, table by table, and how many approvals their totals ask for."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from treasury.money import family_of, format_amount
from treasury.policy.tables import ByCurrency, Holding, PolicyTable, PositiveAmount
from treasury.provider.fields import Symbol

DUPLICATE_DAYS = 25
"""How far back a settled payment that looks the same counts, unless the policy says otherwise."""


class Limits(PolicyTable):
    """The limits that every table has. What is left out is not limited. Amounts are debits, by currency."""

    max_per_day: ByCurrency = Field(default_factory=dict)
    """Payouts, withdrawals, scan-to-pay and conversions of one day in the policy's time zone together."""
    one_approval_above: ByCurrency = Field(default_factory=dict)
    """Totals of a run above this need the approval of one person besides the maker."""
    two_approvals_above: ByCurrency = Field(default_factory=dict)

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
    duplicate_days: Annotated[int, Field(strict=True, ge=0, le=366)] = DUPLICATE_DAYS
    """How far back a settled payment with the same payee, currency and amount counts as a duplicate."""
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
    """Addresses that may be withdrawn to; `ADDRESS:TAG` with this tag, `ADDRESS` without a tag or memo."""
    cooling_hours: Annotated[int, Field(strict=True, ge=0, le=24 * 30)] = 0
    """How long the first withdrawal to an address waits after it was recorded."""


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
    """Countries that may be paid: of a row, and those that its IBAN and its BIC name."""
    cooling_days: Annotated[int, Field(strict=True, ge=0, le=366)] = 0
    """A payment to another account of a name that was paid before is held for so long."""
    min_rates: dict[str, Holding] = Field(default_factory=dict)
    """`USDT-EUR`: the lowest rate that a quote may have; of an asset of each network that is not named itself."""
    estimate_margin_percent: Annotated[Decimal, Field(ge=0, le=100)] = Decimal(2)
    """So much above its estimate a payment may debit that fixes what is received."""


def least_rate(min_rates: Mapping[str, Decimal], pair: str) -> Decimal | None:
    """Return the lowest rate that a quote of a pair may have: its own, else that of its asset, whatever the network."""
    pays, _, receives = pair.rpartition("-")
    return min_rates.get(pair, min_rates.get(f"{family_of(pays)}-{receives}"))


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
