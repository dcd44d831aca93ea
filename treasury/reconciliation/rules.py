"""What the `[reconciliation]` table of a policy says: the only tolerances there are, due times, and severity."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from treasury.interface.catalogue import CATALOGUE
from treasury.interface.operation import Effect
from treasury.money import format_amount
from treasury.planning.policy import (
    BPS,
    RECONCILIATION,
    Holding,
    PolicyTable,
    check_time_zone,
    parse_table,
    read_toml,
)

Hours = Annotated[int, Field(strict=True, ge=1, le=24 * 366)]

Tolerance = Annotated[int, Field(strict=True, ge=0, le=BPS)]


def _move_money(due: dict[str, Hours]) -> dict[str, Hours]:
    for name in due:
        if name not in CATALOGUE or CATALOGUE[name].effect is not Effect.MOVES_MONEY:
            raise ValueError(f"{name} is not an operation that moves money")
    return due


class Tolerances(PolicyTable):
    """The `[reconciliation]` table. Principal has no tolerance: it compares exactly."""

    fee_tolerance_bps: Tolerance = 5
    """How far a fee may be off the quoted one, in basis points of the amount it is taken from."""
    rate_tolerance_bps: Tolerance = 5
    """How far a rate may be off the quoted one, in basis points of that."""
    due_hours: Annotated[dict[str, Hours], AfterValidator(_move_money)] = Field(default_factory=dict)
    """Operation -> hours after which one that is not final is late."""
    high_amounts: dict[str, Holding] = Field(default_factory=dict)
    """Currency -> amount from which a break is of high severity at once."""


DUE_HOURS: Mapping[str, int] = {
    "withdraw": 24,
    "payout": 72,
    "submit_scan_to_pay": 24,
    "create_fiat_payout": 120,
    "conversion_execute": 24,
}
"""When an operation is late unless the policy says otherwise: the document names no due times."""


class Rules(PolicyTable):
    """How a reconciliation judges."""

    time_zone: Annotated[str, AfterValidator(check_time_zone)] = "UTC"
    """Whose calendar days the chart of days counts in."""
    reconciliation: Tolerances = Tolerances()

    @property
    def due_hours(self) -> Mapping[str, int]:
        """Operation -> hours after which one that is not final is late."""
        return {**DUE_HOURS, **self.reconciliation.due_hours}

    def as_settings(self) -> dict[str, str]:
        """As people read it: name -> value."""
        said = self.reconciliation
        rows = {
            "time_zone": self.time_zone,
            "fee_tolerance_bps": str(said.fee_tolerance_bps),
            "rate_tolerance_bps": str(said.rate_tolerance_bps),
        }
        rows |= {f"due_hours.{name}": str(hours) for name, hours in sorted(self.due_hours.items())}
        high = sorted(said.high_amounts.items())
        return rows | {f"high_amounts.{currency}": format_amount(amount) for currency, amount in high}


def read_rules(path: Path | None) -> Rules:
    """The rules of a policy file; the defaults without one, or without its table. Raises `InputError`."""
    if path is None:
        return Rules()
    content = read_toml(path)
    return parse_table(
        Rules, {name: content[name] for name in ("time_zone", RECONCILIATION) if name in content}, str(path)
    )
