"""The treasury policy: a TOML file that says what is traded and within which bounds."""

import hashlib
import json
import tomllib
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from treasury.errors import InputError
from treasury.interface.fields import Symbol
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


def check_time_zone(name: str) -> str:
    """An IANA time zone name. Raises `ValueError`."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # KeyError: ZoneInfoNotFoundError
        raise ValueError("must be an IANA time zone, for example Asia/Singapore") from None
    return name


Holding = Annotated[
    Decimal,
    BeforeValidator(parse_amount),
    AfterValidator(_not_negative),
    PlainSerializer(canonical, return_type=str),
]
"""An amount of an asset to hold, zero or more; text (or a whole number) in the file, never a float."""

Bps = Annotated[int, Field(strict=True, ge=0, le=1_000)]
"""Basis points, at most a tenth of the whole."""


class PolicyTable(BaseModel):
    """A table of a policy: unknown settings are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class AssetBand(PolicyTable):
    """How much of an asset to hold: traded back to `target` once the balance leaves [`minimum`, `maximum`]."""

    target: Holding
    minimum: Holding = Field(default_factory=lambda data: data["target"])
    maximum: Holding = Field(default_factory=lambda data: data["target"])
    symbol: Symbol | None = None
    """The trading pair, this asset first; `<asset>-<base asset>` when absent."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.minimum <= self.target <= self.maximum:
            raise ValueError("minimum, target and maximum must not fall: minimum <= target <= maximum")
        return self


class TreasuryPolicy(PolicyTable):
    """What the rebalancing may do."""

    time_zone: Annotated[str, AfterValidator(check_time_zone)]
    """Whose calendar days the business date counts in."""
    base_asset: str = Field(min_length=1)
    """What surpluses are sold for and deficits are bought with. In `assets` only its minimum counts."""
    assets: dict[str, AssetBand]
    smallest_trade: Annotated[Holding, AfterValidator(_positive)]
    """Trades worth less, in the base asset, are not made."""
    slippage_bps: Bps = 50
    """How much worse than the planned rate a quote may be."""
    fee_bps: Bps = 100
    """How much of what is received may go to the fee."""

    @model_validator(mode="after")
    def _tradable(self) -> Self:
        base = self.assets.get(self.base_asset)
        if base is not None and base.symbol is not None:
            raise ValueError(f"assets.{self.base_asset}.symbol: the base asset is not traded against itself")
        if not set(self.assets) - {self.base_asset}:
            raise ValueError("assets: names no asset to trade besides the base asset")
        return self

    def symbol(self, asset: str) -> str:
        """The trading pair of an asset."""
        return self.assets[asset].symbol or f"{asset}-{self.base_asset}"

    @property
    def reserve(self) -> Decimal:
        """What stays of the base asset, in it: its minimum, or nothing when the policy does not name it."""
        base = self.assets.get(self.base_asset)
        return Decimal(0) if base is None else base.minimum

    @property
    def version(self) -> str:
        """SHA-256 of what the policy says; comments, order and `1` for `1.00` do not change it."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()

    def business_date(self, now: datetime) -> date:
        """The calendar day in the policy's time zone. Raises `ValueError` for a time without a zone."""
        if now.tzinfo is None:
            raise ValueError("a business date needs a time with its zone")
        return now.astimezone(ZoneInfo(self.time_zone)).date()


PAYOUTS = "payouts"
"""The table of a policy file that limits payouts (`planning.limits`)."""

RECONCILIATION = "reconciliation"
"""The table of a policy file that says what a reconciliation tolerates (`reconciliation.rules`); everything else is
about rebalancing."""


def read_policy(path: Path) -> TreasuryPolicy:
    """Read the rebalancing policy. Raises `InputError` that names the file and each place in it that is wrong."""
    content = read_toml(path)
    return parse_policy(
        {name: value for name, value in content.items() if name not in (PAYOUTS, RECONCILIATION)}, str(path)
    )


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a policy file. Raises `InputError`."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: the policy cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: the policy is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: the policy is not valid TOML: {error}") from None


def parse_policy(content: dict[str, Any], source: str) -> TreasuryPolicy:
    """A policy of the tables of a TOML file; `source` is what errors call it. Raises `InputError`."""
    return parse_table(TreasuryPolicy, content, source)


Table = TypeVar("Table", bound=BaseModel)


def parse_table(kind: type[Table], content: dict[str, Any], source: str) -> Table:
    """Tables of a policy as their model. Raises `InputError` that names each place that is wrong."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        # A band whose target is wrong has no default bounds, which is no mistake of its own.
        wrong = [detail for detail in error.errors() if detail["type"] != "default_factory_not_called"]
        raise InputError(f"{source}: " + "; ".join(_explain(detail) for detail in wrong)) from None


def _explain(detail: Any) -> str:
    place = ".".join(str(part) for part in detail["loc"])
    rules = {"missing": "is required", "extra_forbidden": "is not a setting of the policy"}
    rule = rules.get(detail["type"], detail["msg"].removeprefix("Value error, "))
    return f"{place}: {rule}" if place else rule
