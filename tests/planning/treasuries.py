"""Random treasuries for the planner of conversions: assets with bands and needs, pairs with spreads, limits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from hypothesis import strategies as st

from treasury.planning.conversion_model import Conversion, Holding, Pair, Terms

D = Decimal
PRICES = {"USDT": D(1), "BRL": D("0.2"), "BTC": D(50000), "ETH": D(2000), "XRP": D("0.5")}


@dataclass(frozen=True)
class Treasury:
    """A record of what a plan is made from."""

    holdings: tuple[Holding, ...]
    pairs: tuple[Pair, ...]
    terms: Terms

    def after(self, conversions: tuple[Conversion, ...]) -> "Treasury":
        """Return the same once every conversion was made and paid its expected fee."""
        change = dict.fromkeys((each.asset for each in self.holdings), D(0))
        for each in conversions:
            change[each.currency] -= each.amount
            change[each.receive_currency] += received(each, self.terms)
        holdings = tuple(
            replace(each, spendable=each.spendable + change[each.asset], expected=each.expected + change[each.asset])
            for each in self.holdings
        )
        return replace(self, holdings=holdings)


def digits_of(asset: str, terms: Terms) -> int:
    """Fractional digits of an asset's amounts."""
    return terms.digits.get(asset, 6 if asset == terms.base_asset else 8)


def received(each: Conversion, terms: Terms) -> Decimal:
    """Return what arrives after the expected fee."""
    step = D(1).scaleb(-digits_of(each.receive_currency, terms))
    fee = (each.expected_receive * terms.fee_bps / 10_000).quantize(step, rounding="ROUND_UP")
    return each.expected_receive - fee


def worth(value: int, asset: str, prices: Mapping[str, Decimal], odd: int) -> Decimal:
    """An amount of an asset worth about so much, with an odd last digit."""
    return (D(value) / prices[asset]).quantize(D("1e-8")) + D(odd).scaleb(-8)


@st.composite
def treasuries(draw: st.DrawFn, *, most_assets: int = 5, most_pairs: int = 7, limits: bool = True) -> Treasury:
    """Values of up to 2,000 in the base asset beside a smallest trade of 10, so that everything is met often."""
    others = draw(
        st.lists(st.sampled_from(sorted(set(PRICES) - {"USDT"})), min_size=1, max_size=most_assets - 1, unique=True)
    )
    assets = ["USDT", *others]
    values = st.one_of(st.integers(0, 60), st.integers(0, 2000))
    odd = st.integers(0, 9)
    holdings = []
    for asset in assets:

        def amount(value: int, asset: str = asset) -> Decimal:
            return worth(value, asset, PRICES, draw(odd) if value else 0)

        minimum, target, maximum = sorted(amount(draw(values)) for _ in range(3))
        need = amount(draw(st.one_of(st.just(0), values)))
        floor = min(minimum, amount(draw(st.one_of(st.just(0), st.just(0), values))))
        spendable = amount(draw(values))
        expected = max(
            spendable + amount(draw(st.sampled_from([0, 0, 0, 50]))) - amount(draw(st.sampled_from([0, 0, 0, 30]))),
            D(0),
        )
        edge = None if asset == "USDT" and draw(st.booleans()) else maximum
        holdings.append(Holding(asset, spendable, expected, need, floor, minimum, target, edge, PRICES[asset]))
    possible = [f"{one}-{two}" for one in assets for two in assets if one != two and two in {"USDT", "BTC"}]
    possible = [each for each in possible if not each.startswith("USDT")]
    symbols = draw(st.lists(st.sampled_from(possible), min_size=1, max_size=most_pairs, unique=True))
    pairs = [_pair(draw, symbol) for symbol in symbols]
    currencies = st.sampled_from(assets)
    capped: dict[str, dict[str, Decimal]] = {"max_spend": {}, "max_spent": {}, "max_turnover": {}, "max_per_pair": {}}
    totals: dict[str, Decimal] = {}
    if limits:
        for name in ("max_spend", "max_spent", "max_turnover"):
            for currency in draw(st.sets(currencies, max_size=1)):
                capped[name][currency] = worth(draw(values), currency, PRICES, 0) + worth(1, currency, PRICES, 0) / 4
        for symbol in draw(st.sets(st.sampled_from(symbols), max_size=1)):
            capped["max_per_pair"][symbol] = D(draw(values)) + D("0.37")
        if draw(st.booleans()):
            totals["max_total"] = D(draw(values)) + D("0.37")
        if draw(st.integers(0, 3)) == 0:
            totals["max_cost"] = D(draw(st.integers(0, 20)))
    terms = Terms(
        "USDT",
        min_trade=D(10),
        fixed_cost=D(draw(st.sampled_from(["0", "0.5", "3"]))),
        fee_bps=D(draw(st.sampled_from([0, 10, 75]))),
        return_to=draw(st.sampled_from(["edge", "target"])),
        **capped,  # type: ignore[arg-type]
        **totals,  # type: ignore[arg-type]
    )
    return Treasury(tuple(holdings), tuple(pairs), terms)


def _pair(draw: st.DrawFn, symbol: str) -> Pair:
    asset, against = symbol.split("-")
    middle = PRICES[asset] / PRICES[against] * (1 + D(draw(st.integers(-3, 3))) / 1000)
    spread = D(draw(st.sampled_from([0, 1, 5, 20, 60]))) / 10_000
    buy, sell = ((middle * (1 + sign * spread)).quantize(D("1e-12")) for sign in (1, -1))
    known = draw(st.sampled_from(["both"] * 8 + ["buy", "sell", "none"]))
    return Pair(
        symbol, asset, against, buy if known in ("both", "buy") else None, sell if known in ("both", "sell") else None
    )
