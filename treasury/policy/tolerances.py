"""The `[reconciliation]` table of a policy: tolerances, due times, severities, how often old orders are asked."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from treasury.money import format_amount
from treasury.policy.tables import BPS, ByCurrency, PolicyTable
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.operation import Effect

Days = Annotated[int, Field(strict=True, ge=1, le=3_660)]

DAY_MS = 24 * 3_600_000
WEEK, MONTH = 7, 30


class ByAge(PolicyTable):
    """Days since an order became final, up to which it is asked about every night, week and month; later, never."""

    nightly_days: Days = 35
    """Every night."""
    weekly_days: Days = 120
    """Once in 7 days."""
    monthly_days: Days = 396
    """Once in 30 days."""

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if not self.nightly_days <= self.weekly_days <= self.monthly_days:
            raise ValueError("nightly_days, weekly_days and monthly_days: each must be at least the one before")
        return self

    def is_due(self, number: int, final_at: int, last: int | None, now: int) -> bool:
        """Tell whether an order is asked about now.

        `number`: its number in the ledger, which spreads orders over the nights; `final_at`: when it became final;
        `last`: when the last report of everything was made; None for none, and then about every order. What was due on
        a night that did not run is due now. All times Unix ms.
        """
        if last is None:
            return True
        days = range(last // DAY_MS + 1, now // DAY_MS + 1)
        age = (days.start * DAY_MS - final_at) // DAY_MS if days else 0
        if age <= self.nightly_days:
            return True
        every = WEEK if age <= self.weekly_days else MONTH
        return age <= self.monthly_days and any((day + number) % every == 0 for day in days[-every:])

    def as_settings(self) -> dict[str, str]:
        """Return the table as people read it: name -> value."""
        return {f"by_age.{name}": str(value) for name, value in vars(self).items()}

    def __str__(self) -> str:
        """Say it in words."""
        return (
            f"final for more than {self.nightly_days} days: once in {WEEK} days; for more than {self.weekly_days}: "
            f"once in {MONTH}; for more than {self.monthly_days}: only with --all"
        )


Hours = Annotated[int, Field(strict=True, ge=1, le=24 * 366)]

Tolerance = Annotated[int, Field(strict=True, ge=0, le=BPS)]


MOVING_MONEY = tuple(name for name, operation in CATALOGUE.items() if operation.effect is Effect.MOVES_MONEY)


def _move_money(due: dict[str, Hours]) -> dict[str, Hours]:
    for name in due:
        if name not in MOVING_MONEY:
            raise ValueError(f"{name} is not an operation that moves money: {', '.join(MOVING_MONEY)}")
    return due


class Tolerances(PolicyTable):
    """The tolerances of a reconciliation. Principal has no tolerance: it compares exactly, else it is proposed."""

    fee_tolerance_bps: Tolerance = 5
    """How far a fee may be off the quoted one, in basis points of the amount it is taken from."""
    rate_tolerance_bps: Tolerance = 5
    """How far a rate may be off the quoted one, in basis points of that."""
    due_hours: Annotated[dict[str, Hours], AfterValidator(_move_money)] = Field(default_factory=dict)
    """Operation -> hours after which one that is not final is late; others as the catalogue says."""
    high_amounts: ByCurrency = Field(default_factory=dict)
    """Currency -> amount from which a break is of high severity at once."""
    kyc_unused_days: Annotated[int, Field(strict=True, ge=1, le=366)] = 7
    """Days after which a card user who has handed in no identity data is named."""
    invoice_days: Annotated[int, Field(strict=True, ge=1, le=366)] = 1
    """Days for which an invoice may be paid: a checkout ends after one, unless the account's settings say otherwise."""
    likely_bps: Tolerance = 100
    """How far a deposit may be off an unpaid invoice, in basis points of that, to be proposed as its payment."""
    likely_days: Annotated[int, Field(strict=True, ge=0, le=366)] = 7
    """Days after an invoice was made within which a deposit is proposed as its payment."""
    by_age: ByAge | None = None
    """How often orders are asked about that have long been final; left out: every night."""

    @property
    def all_due_hours(self) -> Mapping[str, int]:
        """Every operation that moves money -> hours after which one that is not final is late."""
        return {name: self.due_hours.get(name, CATALOGUE[name].due_hours) for name in MOVING_MONEY}

    def as_settings(self) -> dict[str, str]:
        """The table as people read it: name -> value."""
        rows = {"fee_tolerance_bps": str(self.fee_tolerance_bps), "rate_tolerance_bps": str(self.rate_tolerance_bps)}
        rows |= {f"due_hours.{name}": str(hours) for name, hours in sorted(self.all_due_hours.items())}
        rows["kyc_unused_days"] = str(self.kyc_unused_days)
        rows |= {name: str(getattr(self, name)) for name in ("invoice_days", "likely_bps", "likely_days")}
        high = sorted(self.high_amounts.items())
        rows |= {f"high_amounts.{currency}": format_amount(amount) for currency, amount in high}
        return rows | ({} if self.by_age is None else self.by_age.as_settings())
