"""Parts of the tables of a policy: amounts, levels, basis points, time zones; unknown settings are an error."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator

from treasury.money import canonical, exact, parse_amount

BPS = 10_000
"""Basis points in the whole."""


def _not_negative(amount: Decimal) -> Decimal:
    if amount < 0:
        raise ValueError("must be zero or more")
    return amount


def _positive(amount: Decimal) -> Decimal:
    if amount <= 0:
        raise ValueError("must be greater than zero")
    return amount


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # KeyError: ZoneInfoNotFoundError
        raise ValueError("must be an IANA time zone, for example Asia/Singapore") from None
    return name


TimeZone = Annotated[str, AfterValidator(_time_zone)]
"""An IANA time zone name."""

Holding = Annotated[
    Decimal,
    BeforeValidator(parse_amount),
    AfterValidator(_not_negative),
    PlainSerializer(canonical, return_type=str),
]
"""An amount of an asset, zero or more; text (or a whole number) in the file, never a float."""

PositiveAmount = Annotated[Holding, AfterValidator(_positive)]

ByCurrency = dict[str, Holding]
"""Currency -> amount in it."""

Bps = Annotated[int, Field(strict=True, ge=0, le=1_000)]
"""Basis points, at most a tenth of the whole."""

Change = Annotated[int, Field(strict=True, ge=1, le=10_000)]
"""Basis points by which a rate may differ, at most the whole."""


class PolicyTable(BaseModel):
    """A table of a policy: unknown settings are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True)


@dataclass(frozen=True)
class Level:
    """A quantity and what it counts: `amount` of the asset, `share` of the whole in percent, or `days` of payouts."""

    quantity: Decimal
    counts: str = "amount"

    def __str__(self) -> str:
        return {"amount": "{}", "share": "{}%", "days": "{} days"}[self.counts].format(canonical(self.quantity))

    @exact
    def amount(self, whole: Decimal | None, daily: Decimal) -> Decimal | None:
        """In the asset. `whole`: everything held, at its price; `daily`: what it pays on a day, on the average.

        None where the whole is not known and a share of it is wanted.
        """
        if self.counts == "amount":
            return self.quantity
        if self.counts == "days":
            return self.quantity * daily
        return None if whole is None else whole * self.quantity / 100


def _parse(value: object) -> Level:
    if isinstance(value, Level):
        return value
    if not isinstance(value, str):
        return _zero_or_more(Level(parse_amount(value)))
    text = value.strip()
    if text.endswith("%"):
        level = _zero_or_more(Level(parse_amount(text.removesuffix("%")), "share"))
        if level.quantity > 100:
            raise ValueError("a share of the whole is at most 100%")
        return level
    if text.endswith((" days", " day")):
        return _zero_or_more(Level(parse_amount(text.rpartition(" ")[0]), "days"))
    return _zero_or_more(Level(parse_amount(text)))


def _zero_or_more(level: Level) -> Level:
    if level.quantity < 0:
        raise ValueError("must be zero or more")
    return level


Quantity = Annotated[Level, PlainValidator(_parse), PlainSerializer(str, return_type=str)]
"""In a policy: `"0.40"` of the asset, `"12.5%"` of everything held, or `"3 days"` of what it pays out."""
