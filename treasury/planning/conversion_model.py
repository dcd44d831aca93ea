"""The input and output of a plan of conversions: holdings, pairs and terms in; conversions out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from treasury.planning.trade_limits import LimitsLeft
from treasury.planning.trades import Side


class Purpose(StrEnum):
    """The purpose of a conversion, or of what a shortfall leaves open; the first comes first."""

    OBLIGATION = "obligation"
    """Payouts and withdrawals of today and the horizon."""
    FLOOR = "floor"
    """The amount that an asset is never spent below."""
    BAND = "band"
    """The minimum and the maximum around the target."""


TOO_SMALL = "worth less than the smallest trade"
"""How the reason of a shortfall begins that no trade is worth being made for."""

TIERS = tuple(Purpose)
"""The purposes, the most urgent first."""


@dataclass(frozen=True)
class Pair:
    """A trading pair and its two prices, each one `asset` in `against`."""

    symbol: str
    """For example `ETH-USDT`: first the asset, then what it is traded against."""
    asset: str
    against: str
    buy: Decimal | None
    """The price of one; None when it could not be had, or is never bought there."""
    sell: Decimal | None
    """The proceeds of one; None when it could not be had, or is never sold there."""


@dataclass(frozen=True)
class Holding:
    """One asset: what there is, what is needed, and its band. Amounts are in the asset."""

    asset: str
    spendable: Decimal
    """Available and certainly not promised to an order on its way: the most that may be spent of it now."""
    expected: Decimal
    """The amount counted against shortfalls: available, plus conversions on their way, less unknown debits."""
    need: Decimal
    """Obligations of today and the horizon."""
    floor: Decimal
    """Never spent below need + floor; a shortfall below that comes second."""
    minimum: Decimal
    """The band is around what is left after the need. Of the base asset, the minimum is its reserve."""
    target: Decimal
    maximum: Decimal | None
    """None: no upper edge."""
    price: Decimal
    """Value of one in the base asset, for weighing and costs."""
    reserve: Decimal = Decimal(0)
    """Not spent below need + reserve, whatever for; being below it is no shortfall."""
    brought: Mapping[Purpose, Decimal] = field(default_factory=dict)
    """Of what is there: what sales brought for others, by purpose. It is spent for that purpose or a more urgent one,
    also where the asset is below its own levels; the asset's own money is not."""
    coming: Mapping[Purpose, Decimal] = field(default_factory=dict)
    """Of what is expected and not there: what sales on their way are to bring for others, by purpose."""


@dataclass(frozen=True)
class Terms(LimitsLeft):
    """How conversions are made and what limits them."""

    base_asset: str
    min_trade: Decimal
    """In the base asset; smaller trades are not made."""
    fixed_cost: Decimal = Decimal(0)
    """The cost of one trade besides its fee, in the base asset; only weighed, never charged."""
    fee_bps: Decimal = Decimal(0)
    """Expected fee of a trade, of what is received."""
    return_to: Literal["edge", "target"] = "target"
    """The amount that an asset outside its band is brought back to."""
    digits: Mapping[str, int] = field(default_factory=dict)
    """Fractional digits that an amount of an asset may have; without an entry 8, of the base asset 6."""


@dataclass(frozen=True)
class Conversion:
    """One trade. What is received is meant before the fee, in `receive_currency`."""

    symbol: str
    side: Side
    currency: str
    """The asset that is spent."""
    amount: Decimal
    receive_currency: str
    expected_receive: Decimal
    """Before the fee, rounded down."""
    rate: Decimal
    """Price of the pair's asset when the plan was made."""
    purpose: Purpose
    round: int
    """1: paid from what is spendable now; each later one from the settled proceeds of earlier rounds."""
    cost: Decimal
    """Spread, fee and fixed cost against mid, in the base asset. Mid is that of both prices; of one, that one."""
    value: Decimal
    """The amount spent, at its price, in the base asset: limits and the smallest trade count it."""


@dataclass(frozen=True)
class Shortfall:
    """The part of one asset and one purpose that stays open, and why."""

    asset: str
    purpose: Purpose
    amount: Decimal
    """In the asset: what is lacking, or what is above the band and stays."""
    reason: str


@dataclass(frozen=True)
class ConversionPlan:
    """Conversions in the order they are made (by round, sales first, by asset), and what stays open."""

    conversions: tuple[Conversion, ...]
    shortfalls: tuple[Shortfall, ...]
    cost: Decimal
    """The cost of all conversions against mid, in the base asset."""
    next_unit: Mapping[str, Decimal | None]
    """By asset with a need: what one more unit of need would cost in the base asset; None: it cannot be had."""
