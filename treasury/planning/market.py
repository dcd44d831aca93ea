"""The market of a rebalancing: a policy and a snapshot as the planner takes them, its rates guarded; pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from treasury.money import FRACTION_DIGITS, ZERO, canonical, exact, format_amount, round_down, round_up, sums_of
from treasury.planning.conversion_model import Holding, Pair, Terms
from treasury.planning.position import Snapshot, position_of
from treasury.planning.trades import Rates, limits_left, value_of
from treasury.policy.limits import ConversionLimits
from treasury.policy.model import Policy, RebalancingTable
from treasury.policy.tables import BPS, Level

GOOD_FOR_MS = 3 * 86_400_000
"""How long a rate counts as the last good one."""


@dataclass(frozen=True)
class Seen:
    """The rates of a pair as they were asked, with what they are compared with. Times are Unix ms."""

    rates: Rates
    at: int | None
    """When the service made them; None where it does not say."""
    last_good: Rates | None = None
    """The last ones that were good, of the past three days."""
    inverse: Rates | None = None
    """Those of the pair the other way round."""
    reference: Decimal | None = None
    """That of the second source."""


def judge_rates(seen: Mapping[str, Seen], terms: RebalancingTable, now_ms: int) -> dict[str, str]:
    """Pair -> why its rates must not be traded at; nothing for a pair whose rates may."""
    found = {symbol: next(_problems(each, terms, now_ms), None) for symbol, each in seen.items()}
    return {symbol: why for symbol, why in found.items() if why is not None}


@exact
def _problems(seen: Seen, terms: RebalancingTable, now_ms: int) -> Iterator[str]:
    rates, spread = seen.rates, terms.max_spread_bps
    if seen.at is not None and now_ms - seen.at > terms.max_rate_age_seconds * 1000:
        age = (now_ms - seen.at) // 1000
        yield f"its rate is {age:,} seconds old, over max_rate_age_seconds, {terms.max_rate_age_seconds:,}"
    if _off(rates.buy, rates.sell, spread):
        yield (
            f"it is bought at {canonical(rates.buy)} and sold at {canonical(rates.sell)}, further apart than "
            f"max_spread_bps, {spread}"
        )
    for side, rate in (("bought", rates.buy), ("sold", rates.sell)):
        if seen.last_good is not None:
            last = seen.last_good.buy if side == "bought" else seen.last_good.sell
            if _off(rate, last, terms.max_rate_move_bps):
                yield (
                    f"it is {side} at {canonical(rate)}, and was at {canonical(last)} when it was last good: further "
                    f"than max_rate_move_bps, {terms.max_rate_move_bps}"
                )
        if seen.reference is not None and _off(rate, seen.reference, terms.max_reference_move_bps):
            yield (
                f"it is {side} at {canonical(rate)}, and the reference rate is {canonical(seen.reference)}: further "
                f"than max_reference_move_bps, {terms.max_reference_move_bps}"
            )
    if seen.inverse is not None and any(
        abs(rate * inverse - 1) * BPS > spread
        for rate, inverse in ((rates.buy, seen.inverse.sell), (rates.sell, seen.inverse.buy))
    ):
        yield f"the pair the other way round has another rate, off by more than max_spread_bps, {spread}"
    if terms.reference_rates is not None and seen.reference is None:
        yield "the reference rates do not name it"


def _off(rate: Decimal, other: Decimal, most_bps: int) -> bool:
    return abs(rate - other) * BPS > most_bps * other


BASE_DIGITS = 6
"""Fractional digits of what is spent of the base asset (public fact 7.1, USDT)."""
DIGITS = 8
"""Fractional digits of what is spent of another asset."""


def pairs_of(policy: Policy, needed: Iterable[str]) -> list[str]:
    """The pairs that a rebalancing may use: each asset's own, those of the policy, and one for each needed code.

    `needed`: assets with obligations. Only pairs that `[conversions]` allows.
    """
    terms, allowed = policy.trading, None if policy.conversions is None else policy.conversions.pairs
    own = [terms.symbol(asset) for asset in policy.traded]
    more = [f"{asset}-{terms.base_asset}" for asset in sorted(set(needed) - {*policy.assets, terms.base_asset})]
    found = dict.fromkeys([*own, *terms.pairs, *more])
    return sorted(symbol for symbol in found if allowed is None or symbol in allowed)


def assets_of(policy: Policy, needed: Iterable[str] = ()) -> list[str]:
    """The assets whose balances a rebalancing needs: those of the policy, of its pairs, and those with obligations."""
    terms = policy.trading
    through = {part for symbol in terms.pairs for part in symbol.split("-")}
    return sorted({*policy.assets, terms.base_asset, *through, *needed})


@exact
def worth_of(policy: Policy, snapshot: Snapshot, spent: Iterable[tuple[str, str, Decimal]]) -> dict[str, Decimal]:
    """Pair -> what its trades were worth in the base asset, at the rates of now. `spent`: pair, currency, amount."""
    prices = _prices(policy.trading.base_asset, snapshot.rates, snapshot.rates)
    return sums_of((symbol, value_of(amount, prices.get(currency, ZERO))) for symbol, currency, amount in spent)


class Market:
    """A policy and a snapshot together: prices, bands and pairs as the planner takes them."""

    def __init__(self, policy: Policy, snapshot: Snapshot) -> None:
        self.policy, self.snapshot = policy, snapshot
        self.trading = policy.trading
        self.base = self.trading.base_asset
        self.limits = policy.conversions or ConversionLimits()
        needed = {each.asset for each in snapshot.obligations}
        self.assets = assets_of(policy, needed)
        self.symbols = pairs_of(policy, needed)
        self.blocked = {each.symbol for each in snapshot.in_flight if each.is_conversion and not each.is_known}
        self.positions = {asset: position_of(snapshot, asset) for asset in self.assets if asset in snapshot.available}
        self.rates = {symbol: each for symbol, each in snapshot.rates.items() if symbol not in snapshot.missing}
        self.prices = _prices(self.base, self.symbols, self.rates)
        self.whole = self._whole()

    def _whole(self) -> Decimal | None:
        """Everything held of the policy's assets, in the base asset; None where a price or balance is missing."""
        held = {*self.policy.assets, self.base}
        if not all(asset in self.positions and asset in self.prices for asset in held):
            return None
        return sum((self.positions[asset].expected * self.prices[asset] for asset in held), ZERO)

    def is_own_pair(self, symbol: str) -> bool:
        """Tell whether a pair is one asset's own, with the base asset."""
        asset = symbol.partition("-")[0]
        return symbol == self.trading.symbols.get(asset, f"{asset}-{self.base}")

    def level(self, asset: str, name: str) -> Decimal | None:
        """The floor, reserve, minimum, target or maximum of an asset, in it; None where it cannot be known."""
        band = self.policy.assets.get(asset)
        if band is None:
            return ZERO
        level = {
            "floor": band.floor or Level(ZERO),
            "reserve": band.floor or band.minimum,
            "minimum": band.minimum,
            "target": band.minimum if asset == self.base else band.target,
            "maximum": band.maximum,
        }[name]
        price = self.prices.get(asset)
        whole = None if self.whole is None or not price else round_down(self.whole / price, DIGITS)
        found = level.amount(whole, self.snapshot.daily.get(asset, ZERO))
        return None if found is None else round_down(found, FRACTION_DIGITS)

    def has_upper_edge(self, asset: str) -> bool:
        """Tell whether more than its band's maximum is sold: not of the base asset, nor of what the policy does not
        name."""
        return asset != self.base and asset in self.policy.assets

    def why_not(self, asset: str) -> str | None:
        """Why an asset stays as it is, whatever its balance; None where nothing stands against trading it."""
        if asset not in self.snapshot.available:
            return self.snapshot.missing.get(asset, "its balance is missing")
        if asset == self.base:
            return None
        if asset not in self.prices:
            own = [symbol for symbol in self.symbols if asset in symbol.split("-")]
            said = [f"{symbol}: {self.snapshot.missing[symbol]}" for symbol in own if symbol in self.snapshot.missing]
            return "; ".join(said) or "no pair that may be traded leads to it"
        if any(self.level(asset, name) is None for name in ("floor", "minimum", "target", "maximum")):
            return "its band is a share of everything held, and a balance or rate of that is missing"
        return None

    def holding(self, asset: str, *, is_certain: bool = False) -> Holding | None:
        """An asset as the planner takes it; None for one that stays as it is. `is_certain`: with what certainly stays
        of it, and what conversions on their way are to bring."""
        if self.why_not(asset) is not None:
            return None
        position = self.positions[asset]
        expected = min(position.expected, position.certain + position.incoming) if is_certain else position.expected
        floor, minimum, target = (self.level(asset, name) or ZERO for name in ("floor", "minimum", "target"))
        maximum = self.level(asset, "maximum") if self.has_upper_edge(asset) else None
        reserve = (self.level(asset, "reserve") or ZERO) + self.snapshot.doubtful.get(asset, ZERO)
        need = self._with_slippage(position.need, expected)
        left = max(expected - need, ZERO)
        return Holding(
            asset=asset,
            spendable=position.spendable,
            expected=expected,
            need=need,
            floor=self._with_slippage(floor, left),
            minimum=min(self._with_slippage(minimum, left), max(target, minimum)),
            target=target,
            maximum=maximum,
            price=self.prices[asset],
            reserve=reserve,
            brought=self.snapshot.brought_by_purpose(asset),
            coming=self.snapshot.coming_by_purpose(asset, position.incoming),
        )

    def _with_slippage(self, level: Decimal, held: Decimal) -> Decimal:
        """A level to buy up to, so much higher that it is reached at the worst rate that a quote may have.

        Else a purchase up to an edge would end just below it, and be followed by another one.
        """
        short = level - held
        slippage = self.trading.slippage_bps
        return level if short <= 0 else level + round_up(short * slippage / (BPS - slippage), DIGITS)

    def pairs(self) -> list[Pair]:
        """The pairs as the planner takes them; a side that must not be traded now has no price."""
        found = []
        for symbol in self.symbols:
            asset, _, against = symbol.partition("-")
            rates = None if symbol in self.blocked else self.rates.get(symbol)
            buy, sell = (None, None) if rates is None else (rates.buy, rates.sell)
            if self.why_too_dear(symbol) is not None:
                buy = sell = None
            found.append(Pair(symbol, asset, against, buy, sell))
        return found

    def why_too_dear(self, symbol: str) -> str | None:
        """Why a pair is not traded for what it costs, spread and fee; None where the policy's limit allows it."""
        most, rates = self.limits.max_cost_bps, self.rates.get(symbol)
        if most is None or rates is None:
            return None
        middle = (rates.buy + rates.sell) / 2
        cost = (rates.buy - middle) * BPS / middle + self.snapshot.fee_bps
        if cost <= most:
            return None
        shown = format_amount(round_up(cost, 2))
        return f"{symbol} costs {shown} bps against the middle of its rates, over max_cost_bps, {most}"

    def terms(self, spendable: Mapping[str, Decimal]) -> Terms:
        """The policy's rules of trades, less what this day's trades have used up."""
        limits, done = self.limits, self.snapshot
        left = limits_left(limits, moved=done.moved, spent=done.spent, traded=done.traded, cost=done.cost)
        share = limits.max_share_percent
        most = {} if share is None else {asset: amount * share / 100 for asset, amount in spendable.items()}
        for currency, amount in left.max_spend.items():
            most[currency] = min(amount, most.get(currency, amount))
        return Terms(
            base_asset=self.base,
            min_trade=self.trading.min_trade,
            fixed_cost=self.trading.fixed_cost,
            fee_bps=done.fee_bps,
            return_to=self.trading.returns_to,
            digits={asset: BASE_DIGITS if asset == self.base else DIGITS for asset in self.assets},
            **{**vars(left), "max_spend": most},
        )


def _prices(base: str, symbols: Iterable[str], rates: Mapping[str, Rates]) -> dict[str, Decimal]:
    """Return what one of each asset is worth in the base asset, by the middle of its rates, through others if need
    be."""
    found = {base: Decimal(1)}
    known = [symbol for symbol in symbols if symbol in rates]
    for _ in known:
        for symbol in known:
            asset, _, against = symbol.partition("-")
            middle = (rates[symbol].buy + rates[symbol].sell) / 2
            if against in found and asset not in found:
                found[asset] = found[against] * middle
            elif asset in found and against not in found:
                found[against] = found[asset] / middle
    return found
