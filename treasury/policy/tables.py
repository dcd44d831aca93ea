"""Parts of the tables of a policy: amounts, basis points, time zones; unknown settings are an error."""

from decimal import Decimal
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from treasury.money import canonical, parse_amount

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
