"""The treasury policy, one model of the whole file: what is traded, paid and tolerated, and within which bounds."""

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, Self, get_args
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field, ValidationError, model_validator

from treasury.errors import InputError
from treasury.planning.limits import ConversionLimits, Limits, PayoutLimits, WithdrawalLimits
from treasury.planning.tables import Bps, Holding, PolicyTable, PositiveAmount, TimeZone
from treasury.planning.tolerances import Tolerances
from treasury.provider.fields import Symbol


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


class Rebalancing(PolicyTable):
    """The `[rebalancing]` table: how trades are made."""

    min_trade: PositiveAmount
    """Trades worth less, in the base asset, are not made."""
    slippage_bps: Bps = 50
    """How much worse than the planned rate a quote may be."""
    fee_bps: Bps = 100
    """How much of what is received may go to the fee."""


class Trading(Rebalancing):
    """How trades are made, the base asset and the trading pairs included."""

    base_asset: str
    symbols: dict[str, str]

    def symbol(self, asset: str) -> str:
        """The trading pair of an asset."""
        return self.symbols[asset]


class Changes(PolicyTable):
    """The `[changes]` table: who may change the policy in force, and how many others must agree."""

    approvals: Annotated[int, Field(strict=True, ge=0, le=5)] = 0
    """People besides whoever adopts another policy."""
    people: tuple[str, ...] | None = None
    """Who may adopt and approve; anybody when it is left out."""

    def allows(self, person: str) -> bool:
        """Whether this person may change the policy."""
        return self.people is None or person.strip().casefold() in (each.strip().casefold() for each in self.people)


class Policy(PolicyTable):
    """A policy file. Each table is there for those who use it: a file for payouts alone has no `[rebalancing]`."""

    time_zone: TimeZone = "UTC"
    """Whose calendar days count."""
    base_asset: str | None = Field(default=None, min_length=1)
    """What surpluses are sold for and deficits are bought with. In `assets` only its minimum counts."""
    assets: dict[str, AssetBand] = Field(default_factory=dict)
    rebalancing: Rebalancing | None = None
    payouts: PayoutLimits | None = None
    withdrawals: WithdrawalLimits | None = None
    conversions: ConversionLimits | None = None
    changes: Changes = Changes()
    no_limits: str | None = Field(default=None, min_length=1)
    """Why nothing that moves money is limited, in words: without it a policy that limits nothing is not adopted."""
    reconciliation: Tolerances = Tolerances()

    @model_validator(mode="after")
    def _tradable(self) -> Self:
        base = self.assets.get(self.base_asset or "")
        if base is not None and base.symbol is not None:
            raise ValueError(f"assets.{self.base_asset}.symbol: the base asset is not traded against itself")
        if self.rebalancing is not None and not set(self.assets) - {self.base_asset}:
            raise ValueError("assets: names no asset to trade besides the base asset")
        if self.base_asset is None and (self.assets or self.rebalancing is not None):
            raise ValueError("base_asset: is required")
        return self

    def symbol(self, asset: str) -> str:
        """The trading pair of an asset."""
        return self.assets[asset].symbol or f"{asset}-{self.base_asset}"

    @property
    def reserve(self) -> Decimal:
        """What stays of the base asset, in it: its minimum, or nothing when the policy does not name it."""
        base = self.assets.get(self.base_asset or "")
        return Decimal(0) if base is None else base.minimum

    @property
    def traded(self) -> list[str]:
        """The assets that are traded, sorted."""
        return sorted(set(self.assets) - {self.base_asset})

    @property
    def trading(self) -> "Trading":
        """What trades are made by. Raises `InputError` for a policy that says nothing about rebalancing."""
        if self.base_asset is None or self.rebalancing is None:
            raise InputError("the policy has no [rebalancing] table, so nothing is traded")
        symbols = {asset: self.symbol(asset) for asset in self.traded}
        return Trading(base_asset=self.base_asset, symbols=symbols, **dict(self.rebalancing))

    @property
    def version(self) -> str:
        """SHA-256 of everything that it says."""
        return self.fingerprint(*type(self).model_fields)

    @property
    def limits_money(self) -> bool:
        """Whether it limits anything that moves money."""
        return any(table is not None for table in (self.payouts, self.withdrawals, self.conversions))

    def table(self, name: str) -> Limits:
        """The limits of one kind of operation: payouts, withdrawals or conversions; none where it says nothing."""
        found = {"payouts": self.payouts, "withdrawals": self.withdrawals, "conversions": self.conversions}[name]
        return Limits() if found is None else found

    def day_of(self, ms: int) -> str:
        """The business date of a moment, Unix milliseconds, ISO 8601."""
        return self.business_date(datetime.fromtimestamp(ms / 1000, UTC)).isoformat()

    def fingerprint(self, *tables: str) -> str:
        """SHA-256 of what these members and the time zone say; comments, order and `1` for `1.00` do not change it."""
        said = self.model_dump(mode="json", include={"time_zone", *tables})
        return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def business_date(self, now: datetime) -> date:
        """The calendar day in the policy's time zone. Raises `ValueError` for a time without a zone."""
        if now.tzinfo is None:
            raise ValueError("a business date needs a time with its zone")
        return now.astimezone(ZoneInfo(self.time_zone)).date()

    def day_start_ms(self, now: datetime) -> int:
        """When the present day began in the policy's time zone, Unix milliseconds."""
        return int(datetime.combine(self.business_date(now), time(), ZoneInfo(self.time_zone)).timestamp() * 1000)


RENAMED: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("smallest_trade",): ("rebalancing", "min_trade"),
    ("slippage_bps",): ("rebalancing", "slippage_bps"),
    ("fee_bps",): ("rebalancing", "fee_bps"),
    ("payouts", "most_per_payout"): ("payouts", "max_per_payout"),
    ("payouts", "most_per_run"): ("payouts", "max_per_run"),
    ("payouts", "most_per_day"): ("payouts", "max_per_day"),
    ("payouts", "least_rates"): ("payouts", "min_rates"),
    ("payouts", "stop_after_alike"): ("payouts", "stop_after_failures"),
}
"""Settings of older files -> what they are called now. They are read, with a warning, until version 1.0."""


def parse_policy(
    content: Mapping[str, Any],
    source: str,
    *,
    line_of: Callable[[Sequence[str]], int | None] = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
) -> Policy:
    """The policy of the tables of a TOML file. Raises `InputError` that names each place that is wrong.

    `source` is what errors call the file, `line_of` finds the line of a setting; `warn` is called for each older name.
    """
    current = _renamed(content, source, line_of, warn)
    wrong = [f"{'.'.join(path)}: is required" for path in _missing(current)]
    try:
        policy = Policy.model_validate(current)
    except ValidationError as error:
        # A band whose target is wrong has no default bounds, which is no mistake of its own.
        details = [detail for detail in error.errors() if detail["type"] != "default_factory_not_called"]
        wrong += [_explain(detail, line_of) for detail in details]
    if wrong:
        raise InputError(f"{source}: " + "; ".join(dict.fromkeys(wrong)))
    return policy


def _missing(content: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """What a rebalancing needs that these tables lack; nothing where they say nothing about one."""
    if not {"base_asset", "assets", "rebalancing"} & content.keys():
        return []
    missing: list[tuple[str, ...]] = [(name,) for name in ("time_zone", "base_asset", "assets") if name not in content]
    return missing if "rebalancing" in content else [*missing, ("rebalancing", "min_trade")]


def _renamed(
    content: Mapping[str, Any],
    source: str,
    line_of: Callable[[Sequence[str]], int | None],
    warn: Callable[[str], None],
) -> dict[str, Any]:
    """The tables with every older name replaced."""
    current = {name: dict(value) if isinstance(value, Mapping) else value for name, value in content.items()}
    for old, new in RENAMED.items():
        table = current if len(old) == 1 else current.get(old[0])
        if not isinstance(table, dict) or old[-1] not in table:
            continue
        holder = current.setdefault(new[0], {})
        shown = f"[{new[0]}] {new[1]}"
        if not isinstance(holder, dict) or new[1] in holder:
            raise InputError(f"{source}: {_place(old, line_of)} and {shown} are the same setting: keep the second")
        holder[new[1]] = table.pop(old[-1])
        warn(f"{source}: {_place(old, line_of)} is an older name; write it as {shown}")
    return current


def _place(path: Sequence[str], line_of: Callable[[Sequence[str]], int | None]) -> str:
    line = line_of(path)
    return ".".join(path) if line is None else f"line {line}: {'.'.join(path)}"


def _explain(detail: Any, line_of: Callable[[Sequence[str]], int | None]) -> str:
    path = [str(part) for part in detail["loc"]]
    if not path:
        return str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path[-1], _names_at(path[:-1]), n=1, cutoff=0.5)
        rule = "is not a setting of the policy" + (f"; did you mean {near[0]}?" if near else "")
    else:
        rule = "is required" if detail["type"] == "missing" else detail["msg"].removeprefix("Value error, ")
    return f"{_place(path, line_of)}: {rule}"


def _names_at(path: Sequence[str]) -> list[str]:
    """The settings that a table of a policy has; nothing where any name may stand."""
    model: type[BaseModel] | None = Policy
    for part in path:
        if model is None or part not in model.model_fields:
            return list(AssetBand.model_fields) if path[0] == "assets" and len(path) == 2 else []
        annotation = model.model_fields[part].annotation
        models = [kind for kind in (annotation, *get_args(annotation)) if _is_model(kind)]
        model = models[0] if models else None
    return [] if model is None else list(model.model_fields)


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
