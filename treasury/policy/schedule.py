"""The `[reconciliation.by_age]` table of a policy: how often an order is asked about that has long been final."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from treasury.policy.tables import PolicyTable

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
