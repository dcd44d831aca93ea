"""How much of an asset a policy wants: an amount of it, a share of everything held, or days of its payouts; pure."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from treasury.money import canonical, exact, parse_amount


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
