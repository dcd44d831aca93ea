"""Plan a rebalancing: from a policy and a snapshot to trades, and for each asset why; pure and deterministic."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from typing import Any

from treasury.money import EXACT, ZERO, canonical, family_of, round_down
from treasury.planning.conversion_model import TOO_SMALL, Conversion, ConversionPlan, Holding, Purpose, Shortfall
from treasury.planning.conversions import plan_conversions
from treasury.planning.market import DIGITS, Market, worth_of
from treasury.planning.position import Position, Snapshot
from treasury.planning.trades import NO_MORE, Side, SkippedTrade, Trade, TradePlan, bounded_trade
from treasury.policy.model import Policy
from treasury.policy.tables import BPS

SERVED = {"obligation": "what has to be paid", "floor": "its floor", "band": "its band"}
"""Purpose of a trade -> in words."""
UNKNOWN_OUTCOME = "an earlier conversion of this pair has an unknown outcome"


@dataclass(frozen=True)
class AssetLine:
    """One asset of a rebalancing: before, on its way, to be paid, wanted, traded, after; and why. Amounts in it."""

    asset: str
    position: Position | None
    """None where its balance could not be had."""
    floor: Decimal
    minimum: Decimal
    target: Decimal
    maximum: Decimal | None
    change: Decimal
    """Amounts that the trades of this round and of later ones bring or take, after the expected fee."""
    why: str

    @property
    def after(self) -> Decimal | None:
        """Return what is expected after them, its obligations not yet paid."""
        if self.position is None:
            return None
        with localcontext(EXACT):
            return self.position.expected + self.change

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it, amounts as text."""
        found = self.position
        amounts = {
            "before": None if found is None else found.available,
            "incoming": None if found is None else found.incoming,
            "outgoing": None if found is None else found.outgoing,
            "need": None if found is None else found.need,
            "floor": self.floor,
            "minimum": self.minimum,
            "target": self.target,
            "maximum": self.maximum,
            "trade": self.change,
            "after": self.after,
        }
        said = {name: None if value is None else canonical(value) for name, value in amounts.items()}
        obligations = () if found is None else found.obligations
        named = [{"what": each.what, "amount": canonical(each.amount)} for each in obligations]
        return {"asset": self.asset, **said, "obligations": named, "why": self.why}


@dataclass(frozen=True)
class Rebalancing:
    """The decision: the trades, and a line for each asset."""

    plan: TradePlan
    lines: tuple[AssetLine, ...]
    notes: tuple[str, ...]
    next_unit: Mapping[str, Decimal | None]
    """Asset with obligations -> what one more unit of them would cost, in the base asset; None: cannot be had."""

    value: Decimal = ZERO
    """The worth of the trades, later ones included, in the base asset."""
    over_limits: Mapping[str, str] = field(default_factory=dict)
    """Asset -> the limit that what its floor or band wants is over: it is left alone, for a person to look at."""

    @property
    def cost(self) -> Decimal:
        """Return what the trades cost against the middle of the rates, later ones included, in the base asset."""
        with localcontext(EXACT):
            return sum((each.cost for each in (*self.plan.trades, *self.plan.later)), ZERO)

    @property
    def cost_bps(self) -> Decimal:
        """The cost in basis points of what is traded."""
        return (self.cost * BPS / self.value).quantize(Decimal("0.01")) if self.value else ZERO

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it, amounts as text."""
        units = {name: None if cost is None else canonical(cost) for name, cost in sorted(self.next_unit.items())}
        return {
            "plan": self.plan.as_dict(),
            "assets": [line.as_dict() for line in self.lines],
            "cost": canonical(self.cost),
            "cost_bps": canonical(self.cost_bps),
            "one_more_unit_costs": units,
            "over_limits": dict(sorted(self.over_limits.items())),
            "notes": list(self.notes),
        }


def plan_rebalancing(policy: Policy, snapshot: Snapshot) -> Rebalancing:
    """The trades that meet the obligations, then the floors, then the bands, all assets at once.

    An asset whose balance, pair or rate cannot be had is not traded, and its line says why; the others go on. Raises
    `InputError` for a policy that says nothing about rebalancing.
    """
    with localcontext(EXACT):
        market = Market(policy, snapshot)
        wanted = _holdings(market)
        terms = market.terms({each.asset: each.spendable for each in wanted})
        over: dict[str, str] = {}
        while True:
            holdings = [_without_band(each) if each.asset in over else each for each in wanted]
            planned = plan_conversions(holdings, market.pairs(), terms)
            found = {each.asset: each.reason for each in planned.shortfalls if _is_over(each)}
            if not found.keys() - over.keys():
                return _Decided(market, holdings, planned, over).rebalancing()
            over = {**found, **over}


def plan_obligations(policy: Policy, snapshot: Snapshot, unreserved: Collection[str] = ()) -> Rebalancing:
    """The trades that meet the obligations alone: bands want nothing, and floors and minimums are not spent.

    `unreserved`: assets that are spent down to their own obligations, in every round alike; what orders on their way
    may still spend of them counts as spent.
    """
    with localcontext(EXACT):
        market = Market(policy, snapshot)
        kept = {"floor": ZERO, "minimum": ZERO, "target": ZERO, "maximum": None}
        holdings = [replace(each, **kept) for each in _holdings(market, unreserved)]  # type: ignore[arg-type]
        holdings = [replace(each, reserve=ZERO) if each.asset in unreserved else each for each in holdings]
        terms = market.terms({each.asset: each.spendable for each in holdings})
        return _Decided(market, holdings, plan_conversions(holdings, market.pairs(), terms), {}).rebalancing()


def _holdings(market: Market, certain: Collection[str] = ()) -> list[Holding]:
    """The assets as the planner takes them; some with what certainly stays of them."""
    known = [asset for asset in market.assets if asset in market.snapshot.available]
    found = (market.holding(asset, is_certain=asset in certain) for asset in known)
    return [each for each in found if each is not None]


def _is_over(shortfall: Shortfall) -> bool:
    """Tell whether a limit stands against what an asset's floor or band wants. Obligations are met as far as limits
    go."""
    return shortfall.purpose is not Purpose.OBLIGATION and shortfall.reason.endswith(NO_MORE)


def _without_band(holding: Holding) -> Holding:
    """The asset left alone but for its obligations: a target that is mistyped must not be bought up to every limit."""
    kept = max(holding.floor, holding.minimum, holding.target)
    return replace(holding, floor=ZERO, minimum=ZERO, target=ZERO, maximum=None, reserve=kept)


class _Decided:
    """The planner's answer, as trades with bounds and a line for each asset."""

    def __init__(
        self, market: Market, holdings: list[Holding], planned: ConversionPlan, over: Mapping[str, str]
    ) -> None:
        self._market, self._planned, self._over = market, planned, over
        self._holdings = {each.asset: each for each in holdings}
        trades = [self._trade(each) for each in planned.conversions]
        self._now = tuple(trade for trade, each in zip(trades, planned.conversions, strict=True) if each.round == 1)
        self._later = tuple(trade for trade, each in zip(trades, planned.conversions, strict=True) if each.round > 1)

    def _trade(self, found: Conversion) -> Trade:
        terms = self._market.trading
        trade = Trade(
            asset=found.symbol.partition("-")[0],
            side=found.side,
            symbol=found.symbol,
            currency=found.currency,
            amount=found.amount,
            receive_currency=found.receive_currency,
            expected_receive=found.expected_receive,
            min_receive=ZERO,
            max_fee=ZERO,
            rate=found.rate,
            min_rate=None,
            max_rate=None,
            purpose=found.purpose.value,
            cost=found.cost,
            value=found.value,
            is_own_pair=self._market.is_own_pair(found.symbol),
        )
        return bounded_trade(trade, terms.slippage_bps, terms.fee_bps)

    def rebalancing(self) -> Rebalancing:
        policy = self._market.policy
        version = policy.fingerprint("base_asset", "assets", "rebalancing")
        plan = TradePlan(version, self._now, tuple(self._skipped()), self._later)
        lines = tuple(self._line(asset) for asset in self._market.assets)
        notes = (*self._market.snapshot.notes, *self._codes_that_nothing_fills())
        spent = [(trade.symbol, trade.currency, trade.amount) for trade in self._trades]
        value = sum(worth_of(policy, self._market.snapshot, spent).values(), ZERO)
        return Rebalancing(plan, lines, notes, self._planned.next_unit, value, self._over)

    def _skipped(self) -> Iterator[SkippedTrade]:
        for each in self._planned.shortfalls:
            reason = self._reason(each.asset, each.reason)
            is_wanted = not reason.startswith(TOO_SMALL)
            yield SkippedTrade(each.asset, self._side(each.asset), each.asset, each.amount, reason, is_wanted)
        for asset, limit in sorted(self._over.items()):
            yield SkippedTrade(asset, self._side(asset), asset, ZERO, f"not traded for its band: {limit}")
        for asset in self._market.assets:
            why = self._market.why_not(asset)
            if why is not None and self._is_wanted(asset):
                yield SkippedTrade(asset, self._side(asset), asset, ZERO, why)
            if (doubtful := self._doubtful(asset)) is not None:
                yield SkippedTrade(asset, Side.BUY, asset, *doubtful)

    def _doubtful(self, asset: str) -> tuple[Decimal, str] | None:
        """Return what an asset needs, of which nobody knows whether it is on its way, and why; None where nothing
        is."""
        market = self._market
        flying = [
            each
            for each in market.snapshot.in_flight
            if each.is_conversion and not each.is_known and each.receive_currency == asset and each.receive_amount
        ]
        amount = sum((each.receive_amount or ZERO for each in flying), ZERO)
        if not amount or asset not in self._holdings:
            return None
        position, holding = market.positions[asset], self._holdings[asset]
        if position.expected - amount + self._change(asset) >= position.need + holding.minimum:
            return None
        if any(each.asset == asset for each in self._planned.shortfalls):
            return None  # which names it
        symbols = [each.symbol for each in flying if each.symbol]
        return amount, f"it may be on its way, for {UNKNOWN_OUTCOME}: {self._named_unknown(symbols)}"

    def _named_unknown(self, symbols: Collection[str]) -> str:
        """The conversions of these pairs whose outcome is unknown, and what a person does about them."""
        flying = [each for each in self._market.snapshot.in_flight if each.symbol in symbols and not each.is_known]
        named = ", ".join(f"{each.row_ref} of {each.run_key} ({each.request_id})" for each in flying)
        return f"{named}; treasury resolve says what became of it"

    def _reason(self, asset: str, reason: str) -> str:
        market = self._market
        own = [symbol for symbol in market.symbols if asset in symbol.split("-")]
        if blocked := [symbol for symbol in own if symbol in market.blocked]:
            return f"{UNKNOWN_OUTCOME}: {self._named_unknown(blocked)}"
        stopped = [
            f"{symbol}: {market.snapshot.missing[symbol]}" for symbol in own if symbol in market.snapshot.missing
        ]
        stopped += [dear for symbol in own if (dear := market.why_too_dear(symbol)) is not None]
        return "; ".join(stopped) or reason

    def _is_wanted(self, asset: str) -> bool:
        return asset in self._market.policy.assets or any(
            each.asset == asset for each in self._market.snapshot.obligations
        )

    def _side(self, asset: str) -> Side:
        return Side.SELL if self._is_above(asset) else Side.BUY

    def _is_above(self, asset: str) -> bool:
        market = self._market
        position = market.positions.get(asset)
        maximum = market.level(asset, "maximum") if market.has_upper_edge(asset) else None
        return position is not None and maximum is not None and position.spendable - position.need > maximum

    def _line(self, asset: str) -> AssetLine:
        market = self._market
        floor, minimum, target = (market.level(asset, name) or ZERO for name in ("floor", "minimum", "target"))
        maximum = market.level(asset, "maximum") if market.has_upper_edge(asset) else None
        position, change = market.positions.get(asset), self._change(asset)
        return AssetLine(asset, position, floor, minimum, target, maximum, change, self._why(asset, change))

    def _change(self, asset: str) -> Decimal:
        fee = 1 - self._market.snapshot.fee_bps / BPS
        gained = (trade.expected_receive * fee for trade in self._trades if trade.receive_currency == asset)
        spent = (trade.amount for trade in self._trades if trade.currency == asset)
        return round_down(sum(gained, ZERO), DIGITS) - sum(spent, ZERO)

    @property
    def _trades(self) -> tuple[Trade, ...]:
        return (*self._now, *self._later)

    def _why(self, asset: str, change: Decimal) -> str:
        stays = self._market.why_not(asset)
        if stays is not None:
            return f"stays as it is: {stays}"
        if asset in self._over:
            return f"is outside its band, and not traded for it: {self._over[asset]}"
        short = [each for each in self._planned.shortfalls if each.asset == asset]
        open_ends = [(each.amount, self._reason(asset, each.reason)) for each in short]
        if (doubtful := self._doubtful(asset)) is not None:
            open_ends.append(doubtful)
        missing = "; ".join(f"{canonical(amount)} not traded: {reason}" for amount, reason in open_ends)
        if change or any(asset in (trade.currency, trade.receive_currency) for trade in self._trades):
            said = self._traded(asset, change)
            return f"{said}; {missing}" if missing else said
        return missing or f"nothing to do, because {self._at_rest(asset)}"

    def _traded(self, asset: str, change: Decimal) -> str:
        """Return what is done with an asset that is traded, and what for."""
        if asset == self._market.base:
            return "takes what the sales bring" if change > 0 else "pays for what is bought"
        if change > 0:
            served = {trade.purpose for trade in self._trades if trade.receive_currency == asset}
            named = ", ".join(said for purpose, said in SERVED.items() if purpose in served)
            return f"{canonical(change)} is bought for {named}"
        if self._is_above(asset):
            holding = self._holdings[asset]
            left = canonical(holding.spendable - holding.need)
            return f"{left} is above its maximum of {canonical(holding.maximum or ZERO)}: {canonical(-change)} is sold"
        return f"{canonical(-change)} is spent for what others need"

    def _at_rest(self, asset: str) -> str:
        position, holding = self._market.positions[asset], self._holdings[asset]
        left = canonical(position.expected - position.need)
        if asset not in self._market.policy.assets:
            return f"{left} is left after its obligations" if position.need else "the policy wants nothing of it"
        flying = f", {canonical(position.incoming)} on its way counted" if position.incoming else ""
        paid = f" after obligations of {canonical(position.need)}" if position.need else ""
        if holding.minimum != (self._market.level(asset, "minimum") or ZERO):
            return f"{left}{flying}{paid} is more than what has to be paid needs; its band is for the rebalancing"
        if holding.maximum is None:
            return f"{left}{flying}{paid} is not below its minimum of {canonical(holding.minimum)}"
        band = f"{canonical(holding.minimum)} to {canonical(holding.maximum)}"
        if position.outgoing and position.expected - position.need > holding.maximum:
            return f"of {left} {canonical(position.outgoing)} may be on its way out{paid}, and the rest is in {band}"
        return f"{left}{flying}{paid} is inside its band, {band}"

    def _codes_that_nothing_fills(self) -> Iterator[str]:
        """Codes of an asset that have payments and that no band and no pair can buy."""
        market = self._market
        for asset in sorted(
            {each.asset for each in market.snapshot.obligations} - {*market.policy.assets, market.base}
        ):
            if market.why_not(asset) is None:
                continue
            others = [each for each in market.assets if family_of(each) == family_of(asset) and each != asset]
            same = f" ({', '.join(others)} is the same asset under another code)" if others else ""
            yield f"{asset} has payments, and no conversion can buy it{same}: {market.why_not(asset)}"
