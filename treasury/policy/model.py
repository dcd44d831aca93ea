"""The treasury policy, one model of the whole file: what is traded, paid and tolerated, and within which bounds."""

import calendar
import difflib
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, Self, get_args
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from treasury.errors import InputError
from treasury.model_errors import rule_of
from treasury.policy.business_days import BusinessDays
from treasury.policy.limits import ConversionLimits, Limits, PaymentLimits, PayoutLimits, WithdrawalLimits
from treasury.policy.people import APPROVAL_HOURS, Maker, People, Person, Right, same_person
from treasury.policy.tables import Bps, Change, Holding, PolicyTable, PositiveAmount, Quantity, TimeZone
from treasury.policy.tolerances import Tolerances
from treasury.provider.fields import Symbol, asset_code, quoted_pair
from treasury.texts import as_it_looks


class AssetBand(PolicyTable):
    """How much of an asset to hold: brought back once what is left after its obligations leaves [`minimum`, `maximum`].

    Each is an amount of it ("0.40"), a share of everything held ("12.5%"), or days of what it pays out ("3 days").
    """

    target: Quantity
    minimum: Quantity = Field(default_factory=lambda data: data["target"])
    maximum: Quantity = Field(default_factory=lambda data: data["target"])
    floor: Quantity | None = None
    """The amount that is never spent, not even for the obligations of another asset, and is held before any band is;
    when absent the minimum is not spent either."""
    symbol: Symbol | None = None
    """The trading pair, this asset first; `<asset>-<base asset>` when absent."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        steps = [self.minimum, self.target, self.maximum]
        if any(
            lower.counts == upper.counts and lower.quantity > upper.quantity
            for lower, upper in itertools.combinations(steps, 2)
        ):
            raise ValueError("minimum, target and maximum must not fall: minimum <= target <= maximum")
        return self


class RebalancingTable(PolicyTable):
    """The `[rebalancing]` table: how trades are made, and what they are judged by."""

    min_trade: PositiveAmount
    """Trades worth less, in the base asset, are not made."""
    slippage_bps: Bps = 50
    """How much worse than the planned rate a quote may be."""
    fee_bps: Bps = 100
    """How much of what is received may go to the fee."""
    fixed_cost: Holding = Decimal(0)
    """The cost of a trade whatever its size, in the base asset."""
    return_to: Literal["edge", "target"] | None = None
    """How far a balance outside its band is brought back. Left out: to the nearest edge, and to the target where a
    trade has a `fixed_cost`, for then fewer and larger trades cost less."""
    pairs: tuple[Symbol, ...] = ()
    """Pairs that may be traded besides each asset's own, such as ETH-BTC."""
    max_rounds: Annotated[int, Field(strict=True, ge=1, le=10)] = 4
    """How many rounds one start makes: what sales bring is spent in the next one."""
    horizon_days: Annotated[int, Field(strict=True, ge=0, le=31)] = 1
    """Obligations of today and so many days more count."""
    history_quantile: Annotated[Holding, Field(gt=0, lt=1)] | None = None
    """A part of the past's days that paid no more than is kept for a day like this, such as "0.9"."""
    history_days: Annotated[int, Field(strict=True, ge=7, le=731)] = 90
    """How far back payouts count, for that and for bands in days."""
    max_balance_age_minutes: Annotated[int, Field(strict=True, ge=1, le=60 * 24 * 7)] = 24 * 60
    """Older balances of a file are not believed."""
    max_rate_age_seconds: Annotated[int, Field(strict=True, ge=1, le=86_400)] = 600
    """A rate that the service made longer ago stops its pair."""
    max_rate_move_bps: Change = 2_500
    """A rate that moved further since the last good one, of the past three days, stops its pair."""
    max_spread_bps: Change = 1_000
    """A purchase price that is further above the sale price stops the pair."""
    check_inverse_rates: bool = True
    """True when the pair the other way round is asked, too, where the service has it: a rate that is off it by more
    than `max_spread_bps` stops."""
    reference_rates: str | None = Field(default=None, min_length=1)
    """A second source: the path or URL of a CSV with the columns symbol and rate."""
    max_reference_move_bps: Change = 300
    """A rate that is further off the second source, or that it does not name, stops its pair."""

    @property
    def returns_to(self) -> Literal["edge", "target"]:
        """How far a balance outside its band is brought back."""
        return self.return_to or ("target" if self.fixed_cost else "edge")


class Trading(RebalancingTable):
    """How trades are made, the base asset and the trading pairs included."""

    base_asset: str
    symbols: dict[str, str]

    def symbol(self, asset: str) -> str:
        """The trading pair of an asset."""
        return self.symbols[asset]


class Scheduled(PolicyTable):
    """A `[[scheduled]]` table: what is paid regularly, and is to be held by then."""

    name: str = Field(min_length=1)
    currency: str = Field(min_length=1)
    amount: PositiveAmount
    day_of_month: Annotated[int, Field(strict=True, ge=1, le=31)] | None = None
    """The last day of a month that is shorter."""
    weekday: Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"] | None = None

    @model_validator(mode="after")
    def _once(self) -> Self:
        if (self.day_of_month is None) == (self.weekday is None):
            raise ValueError("name either day_of_month or weekday")
        return self

    def is_due_on(self, day: date) -> bool:
        """Tell whether this is its day of the month, or of the week."""
        if self.weekday is not None:
            return f"{day:%A}".lower() == self.weekday
        last = calendar.monthrange(day.year, day.month)[1]
        return day.day == min(self.day_of_month or 0, last)


class Changes(PolicyTable):
    """The `[changes]` table: who may change the policy in force, and how many others must agree."""

    approvals: Annotated[int, Field(strict=True, ge=0, le=5)] = 0
    """People besides whoever adopts another policy."""
    people: tuple[str, ...] | None = None
    """Who may adopt and approve where names are typed; anybody when it is left out. With people that have keys, their
    `may` says it."""

    def allows(self, person: str) -> bool:
        """Tell whether this person may change the policy, by a typed name."""
        return self.people is None or any(same_person(person, each) for each in self.people)


_UNLIMITED: Mapping[str, PaymentLimits] = {"payouts": PayoutLimits(), "withdrawals": WithdrawalLimits()}


class Policy(PolicyTable):
    """A policy file. Each table is there for those who use it: a file for payouts alone has no `[rebalancing]`."""

    time_zone: TimeZone = "UTC"
    """Whose calendar days count."""
    holidays: tuple[str, ...] = ()
    """Calendars whose weekends and holidays are no business days, of countries or markets."""
    base_asset: str | None = Field(default=None, min_length=1)
    """The asset that surpluses are sold for and deficits are bought with. In `assets` only its minimum counts."""
    assets: dict[str, AssetBand] = Field(default_factory=dict)
    rebalancing: RebalancingTable | None = None
    scheduled: tuple[Scheduled, ...] = ()
    """Regular payments: a rebalancing holds their amounts ready."""
    payouts: PayoutLimits | None = None
    withdrawals: WithdrawalLimits | None = None
    conversions: ConversionLimits | None = None
    changes: Changes = Changes()
    people: dict[str, Person] = Field(default_factory=dict)
    """Who may make, approve and change policy, by their keys; without it typed names count."""
    approval_hours: Annotated[int, Field(strict=True, ge=1, le=24 * 30)] = APPROVAL_HOURS
    """How long an approval counts, at most."""
    no_limits: str | None = Field(default=None, min_length=1)
    """Why nothing that moves money is limited, in words: without it a policy that limits nothing is not adopted."""
    reconciliation: Tolerances = Tolerances()

    @field_validator("holidays")
    @classmethod
    def _known(cls, calendars: tuple[str, ...]) -> tuple[str, ...]:
        BusinessDays(calendars)
        return calendars

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

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        for name in () if self.people else ("payouts", "withdrawals"):
            if self.payments(name).asks_second_person:
                raise ValueError(
                    f'{name}.when_changed: "second_person" needs [people] with keys: anybody can type a name; list '
                    'them, or write "hold"'
                )
        return self

    @model_validator(mode="after")
    def _approvable(self) -> Self:
        """Refuse a list of people that cannot be told apart, or who cannot give the approvals that are asked for."""
        listed = self.listed
        problems = list(listed.problems())
        if listed and self.changes.people is not None:
            problems.append('changes.people: people with keys are listed: give them may = [..., "change_policy"]')
        if listed:
            problems += self._out_of_reach(listed)
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _out_of_reach(self, people: People) -> list[str]:
        """Return what nobody of the list could get approved."""
        makers = [Maker(name, name, is_listed=True) for name in people.with_right(Right.MAKE)]
        found = []
        for table in ("payouts", "withdrawals", "conversions"):
            limits = self.table(table)
            asks_one = limits.one_approval_above or limits.asks_second_person
            asked = 2 if limits.two_approvals_above else 1 if asks_one else 0
            missing = [people.missing(asked, maker) for maker in makers or [Maker("the maker", "")]]
            if all(missing):
                found.append(f"{table}: {missing[0]}")
        changers = [Maker(name, name, is_listed=True) for name in people.with_right(Right.CHANGE_POLICY)]
        missing = [people.missing(self.changes.approvals, maker, Right.CHANGE_POLICY) for maker in changers]
        if not changers:
            found.append("people: nobody who has a key may change_policy, so nobody could ever adopt another policy")
        elif all(missing):
            found.append(f"changes: {missing[0]}")
        return found

    @property
    def why_never_changed(self) -> str | None:
        """Why nobody who is named in it could ever adopt another one; None where somebody could."""
        if self.people or self.changes.people is None:
            return None  # of people with keys the list itself is refused
        names = {as_it_looks(name) for name in self.changes.people} - {""}
        if len(names) > self.changes.approvals:
            return None
        return (
            f"changes: a change takes {self.changes.approvals + 1} of the people that it names, and those are "
            f"{len(names)}, so nobody could ever adopt another policy: name more of them, or ask for fewer approvals"
        )

    @property
    def listed(self) -> People:
        """The people of the list."""
        return People(self.people)

    def symbol(self, asset: str) -> str:
        """The trading pair of an asset."""
        return self.assets[asset].symbol or f"{asset}-{self.base_asset}"

    @property
    def traded(self) -> list[str]:
        """The assets that are traded, sorted."""
        return sorted(set(self.assets) - {self.base_asset})

    @property
    def trading(self) -> "Trading":
        """Return what trades are made by. Raises `InputError` for a policy that says nothing about rebalancing."""
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
        """Tell whether it limits anything that moves money."""
        return any(table is not None for table in (self.payouts, self.withdrawals, self.conversions))

    def table(self, name: str) -> Limits:
        """The limits of one kind of operation: payouts, withdrawals or conversions; none where it says nothing."""
        found = {"payouts": self.payouts, "withdrawals": self.withdrawals, "conversions": self.conversions}[name]
        return Limits() if found is None else found

    def payments(self, name: str) -> PaymentLimits:
        """The limits of payments of a table, `payouts` or `withdrawals`; none where it says nothing."""
        return (self.withdrawals if name == "withdrawals" else self.payouts) or _UNLIMITED[name]

    def day_of(self, ms: int) -> str:
        """The business date of a moment, Unix milliseconds, ISO 8601."""
        return self.business_date(datetime.fromtimestamp(ms / 1000, UTC)).isoformat()

    def days_between(self, since: int, until: int) -> list[str]:
        """Return the dates after that of one moment and before that of another, Unix milliseconds, ISO 8601."""
        first, last = (date.fromisoformat(self.day_of(at)) for at in (since, until))
        return [str(first + timedelta(days=number)) for number in range(1, (last - first).days)]

    @property
    def business_days(self) -> BusinessDays:
        """The business days of its calendars, in its time zone."""
        return BusinessDays(self.holidays, self.time_zone)

    def value_date(self, ms: int) -> str:
        """The business day of a moment, Unix milliseconds, or the next one; ISO 8601."""
        return self.business_days.next_open(date.fromisoformat(self.day_of(ms))).isoformat()

    def fingerprint(self, *tables: str) -> str:
        """SHA-256 of what these members and the time zone say; comments, order and `1` for `1.00` do not change it."""
        said = self.model_dump(mode="json", include={"time_zone", *tables}, exclude_defaults=True)
        return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def business_date(self, now: datetime) -> date:
        """The calendar day in the policy's time zone. Raises `ValueError` for a time without a zone."""
        if now.tzinfo is None:
            raise ValueError("a business date needs a time with its zone")
        return now.astimezone(ZoneInfo(self.time_zone)).date()

    def day_end_ms(self, ms: int) -> int:
        """When the day of a moment ends in the policy's time zone; both Unix milliseconds."""
        return self.end_of_day_ms(self.business_date(datetime.fromtimestamp(ms / 1000, UTC)))

    def end_of_day_ms(self, day: date) -> int:
        """When a day ends in the policy's time zone, Unix milliseconds. Raises `OverflowError` for the last of all."""
        return int(datetime.combine(day + timedelta(days=1), time(), ZoneInfo(self.time_zone)).timestamp() * 1000)

    def day_start_ms(self, now: datetime) -> int:
        """When the present day began in the policy's time zone, Unix milliseconds."""
        return int(datetime.combine(self.business_date(now), time(), ZoneInfo(self.time_zone)).timestamp() * 1000)


def parse_policy(
    content: Mapping[str, Any], source: str, *, line_of: Callable[[Sequence[str]], int | None] = lambda _: None
) -> Policy:
    """The policy of the tables of a TOML file. Raises `InputError` that names each place that is wrong.

    `source` is what errors call the file, `line_of` finds the line of a setting.
    """
    wrong = [f"{'.'.join(path)}: is required" for path in _missing(content)]
    try:
        policy = Policy.model_validate(content)
    except ValidationError as error:
        # A band whose target is wrong has no default bounds, which is no mistake of its own.
        details = [detail for detail in error.errors() if detail["type"] != "default_factory_not_called"]
        wrong += [_explain(detail, line_of) for detail in details]
    else:
        wrong += _misspelt(policy, line_of)
    if wrong:
        raise InputError(f"{source}: " + "; ".join(dict.fromkeys(wrong)))
    return policy


def _misspelt(policy: Policy, line_of: Callable[[Sequence[str]], int | None]) -> Iterator[str]:
    """Yield the currencies and pairs that no payment and no trade spells so: a limit of theirs would limit nothing."""
    tables = ("payouts", "withdrawals", "conversions", "assets")
    said = policy.model_dump(mode="json", include=set(tables), exclude_defaults=True)
    places: list[tuple[str, ...]] = [("assets", key) for key in said.pop("assets", {})]
    places += [("reconciliation", "high_amounts", key) for key in policy.reconciliation.high_amounts]
    places += [("scheduled", each.name, "currency", each.currency) for each in policy.scheduled]
    places += [("base_asset", policy.base_asset)] if policy.base_asset else []
    limits = [(table, name, value) for table in said for name, value in (said[table] or {}).items()]
    places += [(table, name, key) for table, name, value in limits if isinstance(value, dict) for key in value]
    for place in places:
        try:
            (quoted_pair if "min_rates" in place else asset_code)(place[-1])
        except ValueError as error:
            yield f"{_place(place, line_of)}: {error}"
    traded = {policy.symbol(asset) for asset in policy.traded} | {*getattr(policy.rebalancing, "pairs", ())}
    for pair in policy.conversions.max_per_pair if policy.rebalancing and policy.conversions else ():
        other_way = "-".join(reversed(pair.split("-")))
        if pair not in traded and other_way in traded:  # any other pair limits a conversion by `treasury call`
            yield f"{_place(('conversions', 'max_per_pair', pair), line_of)}: is traded as {other_way}: write that"


def _missing(content: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return what a rebalancing needs that these tables lack; nothing where they say nothing about one."""
    if not {"base_asset", "assets", "rebalancing"} & content.keys():
        return []
    missing: list[tuple[str, ...]] = [(name,) for name in ("time_zone", "base_asset", "assets") if name not in content]
    return missing if "rebalancing" in content else [*missing, ("rebalancing", "min_trade")]


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
        rule = rule_of(detail)
        value = detail.get("input")
        rule += f" (got {value!r})" if isinstance(value, int | float | str) and detail["type"] != "value_error" else ""
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
