"""Conversions: no plan of them breaks a rule, loses value beyond its cost, or does worse than another way."""

import random
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal, localcontext

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.planning import oracle
from tests.planning.conversion_rules import check_conversions
from tests.planning.treasuries import Treasury, digits_of, received, treasuries
from tests.proofs import tries
from treasury.planning.conversion_model import ConversionPlan, Holding, Pair, Purpose, Terms
from treasury.planning.conversions import plan_conversions
from treasury.planning.trades import Side

D = Decimal
FEW = 60
PLANS = tries("PLANS", FEW, 2_000)
"""Random treasuries of each property."""
ALWAYS_THE_SAME = PLANS == FEW
"""`make test` tries the same ones each time, so that a rare one is met by whoever looks for it."""
many = settings(max_examples=PLANS, deadline=None, derandomize=ALWAYS_THE_SAME, suppress_health_check=list(HealthCheck))


def planned(treasury: Treasury) -> ConversionPlan:
    return plan_conversions(treasury.holdings, treasury.pairs, treasury.terms)


def broken(treasury: Treasury, plan: ConversionPlan) -> list[str]:
    """Return what the plan breaks, worked out from the treasury alone."""
    terms, found = treasury.terms, []
    prices = {each.asset: each.price for each in treasury.holdings}
    pairs = {each.symbol: each for each in treasury.pairs}
    spendable = {each.asset: min(each.spendable, each.expected) for each in treasury.holdings}
    start = dict(spendable)
    moved: defaultdict[str, Decimal] = defaultdict(Decimal)
    paid: defaultdict[str, Decimal] = defaultdict(Decimal)
    total = D(0)
    seen: set[tuple[str, int, Purpose | None]] = set()
    for number in range(1, 10):
        now = [each for each in plan.conversions if each.round == number]
        for each in now:
            spendable[each.currency] -= each.amount
        for holding in treasury.holdings:
            spent = any(each.currency == holding.asset for each in now)
            if spent and spendable[holding.asset] < min(holding.need + holding.floor, start[holding.asset]):
                found.append(f"{holding.asset} below its floor in round {number}")
        for each in now:
            spendable[each.receive_currency] += received(each, terms)
    for each in plan.conversions:
        pair = pairs[each.symbol]
        price = pair.buy if each.side is Side.BUY else pair.sell
        assert price is not None
        brought = each.amount / price if each.side is Side.BUY else each.amount * price
        step = D(1).scaleb(-digits_of(each.receive_currency, terms))
        if not 0 <= brought - each.expected_receive < step:
            found.append(f"{each.symbol} brings something else")
        if (each.symbol, each.round, each.purpose if each.round > 1 else None) in seen:
            found.append(f"{each.symbol} twice in round {each.round}")
        seen.add((each.symbol, each.round, each.purpose if each.round > 1 else None))
        if each.amount != each.amount.quantize(D(1).scaleb(-digits_of(each.currency, terms))):
            found.append(f"{each.symbol} spends more digits than {each.currency} has")
        value = each.amount * prices[each.currency]
        if value < terms.min_trade:
            found.append(f"{each.symbol} is too small")
        if value > terms.max_per_pair.get(each.symbol, value):
            found.append(f"{each.symbol} over max_per_pair")
        if each.amount > terms.max_spend.get(each.currency, each.amount):
            found.append(f"{each.symbol} over max_spend")
        paid[each.currency] += each.amount
        moved[each.currency] += each.amount
        moved[each.receive_currency] += each.expected_receive
        total += value
    found += [f"{c} over max_spent" for c, most in terms.max_spent.items() if paid[c] > most]
    found += [f"{c} over max_turnover" for c, most in terms.max_turnover.items() if moved[c] > most]
    if terms.max_total is not None and total > terms.max_total:
        found.append("over max_total")
    if terms.max_cost is not None and plan.cost > terms.max_cost:
        found.append("over max_cost")
    urgent = any(each.expected < each.need for each in treasury.holdings)
    below = urgent or any(each.expected < each.need + each.floor for each in treasury.holdings)
    for holding in treasury.holdings:
        left = spendable[holding.asset]
        if left >= start[holding.asset]:
            continue
        if not urgent and left < holding.need + holding.minimum:
            found.append(f"{holding.asset} below its minimum though no obligation is open")
        if not below and holding.asset != "USDT" and left < holding.need + holding.target:
            found.append(f"{holding.asset} below its target for a band")
    return found


@many
@given(treasuries())
def test_no_plan_breaks_a_floor_a_limit_or_a_guard(treasury: Treasury) -> None:
    with localcontext(prec=120):
        plan = planned(treasury)
        assert broken(treasury, plan) == []
        assert check_conversions(plan, treasury.holdings, treasury.pairs, treasury.terms) == []


@many
@given(treasuries(), st.randoms(use_true_random=False))
def test_the_order_of_what_is_given_does_not_matter(treasury: Treasury, chance: random.Random) -> None:
    holdings, pairs = list(treasury.holdings), list(treasury.pairs)
    chance.shuffle(holdings)
    chance.shuffle(pairs)
    assert plan_conversions(holdings, pairs, treasury.terms) == planned(treasury)


NEAR = D("0.01")
"""The difference that rounding a few trades to their digits may make to values of thousands."""


@many
@given(treasuries(limits=False))
def test_planning_again_after_the_fills_gives_no_trades(treasury: Treasury) -> None:
    """The base asset starts inside its band: once back at its target, it may be spent and take in more. Nothing is left
    open that is less than what rounding a few trades comes to, a hundredth of the base asset (a unit of BTC is worth a
    twentieth of that): the next plan closes such a gap. A plan trades each pair in one direction, and does not buy back
    what it spent for an obligation: what it leaves open for that the next one may close, and fill the base asset's band
    by a smallest trade. A base asset that fell below its band is filled to its target: that is open only then."""
    base = next(each for each in treasury.holdings if each.asset == "USDT")
    assume(base.expected >= base.need + base.minimum)
    assume(base.maximum is None or min(base.spendable, base.expected) <= base.need + base.maximum)
    plan = planned(treasury)
    after = treasury.after(plan.conversions)
    again = planned(after)
    if again.conversions:
        is_low = any(h.asset == "USDT" and h.expected - h.need < h.minimum for h in after.holdings)
        nothing = replace(again, conversions=())
        before = sum(open_values(after, nothing) if is_low else open_values(treasury, plan))
        assert before - sum(open_values(after, again)) > NEAR, again.conversions


@many
@given(treasuries())
def test_what_is_lost_is_the_stated_cost(treasury: Treasury) -> None:
    """At each pair's mid the received is worth the spent, less spread and fee; what is stated adds the fixed cost."""
    with localcontext(prec=120):
        pairs = {each.symbol: each for each in treasury.pairs}
        prices = {each.asset: each.price for each in treasury.holdings}
        for each in planned(treasury).conversions:
            pair = pairs[each.symbol]
            known = [price for price in (pair.buy, pair.sell) if price is not None]
            middle = sum(known, D(0)) / len(known)
            arrived = received(each, treasury.terms)
            against = prices[pair.against]
            if each.side is Side.SELL:
                lost = each.amount * middle * against - arrived * against
                step = D(1).scaleb(-digits_of(pair.against, treasury.terms)) * against
            else:
                lost = each.amount * against - arrived * middle * against
                step = D(1).scaleb(-digits_of(pair.asset, treasury.terms)) * prices[pair.asset]
            # The fee's own rate differs from mid where cross rates do: by no more than a percent of the fee.
            slack = 3 * step + D("1e-7") + each.cost * D("0.01")
            assert abs(lost + treasury.terms.fixed_cost - each.cost) <= slack


def open_values(treasury: Treasury, plan: ConversionPlan) -> tuple[Decimal, Decimal, Decimal]:
    """Return what the plan leaves open by purpose, in the base asset, from balances alone."""
    obligation = floor = band = D(0)
    after = {each.asset: each for each in treasury.after(plan.conversions).holdings}
    to_target = treasury.terms.return_to == "target"
    for each in treasury.holdings:
        left, in_hand = after[each.asset].expected, min(each.spendable, each.expected)
        obligation += each.price * max(each.need - left, D(0))
        floor += each.price * max(each.need + each.floor - left, D(0))
        aim = each.target if to_target and each.expected - each.need < each.minimum else each.minimum
        band += each.price * max(each.need + aim - left, D(0))
        if each.maximum is not None and in_hand - each.need > each.maximum:
            aim = each.target if to_target else each.maximum
            band += each.price * max(in_hand + left - each.expected - each.need - aim, D(0))
    return obligation, floor, band


def test_a_purchase_that_waits_as_a_whole_is_rounded_once() -> None:
    none = D(0)
    levels = (D(2555), D(65), D(65), D(85), D(190))  # need, floor, minimum, target, maximum
    holdings = (
        Holding("USDT", D(98), D(98), none, none, none, none, D("1.00000009"), D(1)),
        Holding("BRL", none, none, *levels, D("0.2")),
        Holding("ETH", D("0.0275"), D("0.0275"), none, none, none, none, none, D(2000)),
    )
    pairs = (
        Pair("BRL-USDT", "BRL", "USDT", D("0.1996"), D("0.1996")),
        Pair("ETH-USDT", "ETH", "USDT", D(2000), D(2000)),
    )
    plan = plan_conversions(holdings, pairs, Terms(base_asset="USDT", min_trade=D(10), return_to="edge"))
    [bought] = [each for each in plan.conversions if each.receive_currency == "BRL"]
    open_ones = {each.purpose: each.amount for each in plan.shortfalls if each.asset == "BRL"}
    assert open_ones[Purpose.OBLIGATION] == D(2555) - bought.expected_receive


@many
@given(treasuries())
def test_every_part_that_stays_open_is_listed_with_its_reason(treasury: Treasury) -> None:
    plan = planned(treasury)
    price = {each.asset: each.price for each in treasury.holdings}
    listed: defaultdict[Purpose, Decimal] = defaultdict(Decimal)
    for each in plan.shortfalls:
        assert each.reason
        assert each.amount > 0
        listed[each.purpose] += each.amount * price[each.asset]
    obligation, floor, _ = open_values(treasury, plan)
    assert listed[Purpose.OBLIGATION] == obligation
    assert listed[Purpose.OBLIGATION] + listed[Purpose.FLOOR] == floor


@given(treasuries(most_assets=4, most_pairs=4, limits=False))
@settings(many, max_examples=max(PLANS // 8, 1))
@pytest.mark.costly("every plan against an exhaustive oracle")
def test_a_plan_leaves_open_at_most_a_smallest_trade_for_each_other_asset_more_than_the_best_way(
    treasury: Treasury,
) -> None:
    """The rule takes one asset after the other, the oracle all at once: it finds what leaves the least rest.

    A purchase is raised to the smallest trade, so each asset that is bought first may take that much from the last; and
    it may take what alone could have paid for the last, where something else could have paid for it. For floors the
    oracle also spends an asset that obligations brought below its minimum, which the rule keeps.
    """
    plan = planned(treasury)
    lacking = sum(each.need + each.floor > each.expected for each in treasury.holdings)
    more = treasury.terms.min_trade * max(lacking - 1, 1)
    lacks = {each.asset for each in plan.shortfalls if each.purpose is not Purpose.BAND}
    payers: defaultdict[str, set[str]] = defaultdict(set)
    for pair in treasury.pairs:
        payers[pair.asset].add(pair.against)
        payers[pair.against].add(pair.asset)
    for each in plan.conversions:
        if each.receive_currency not in lacks and len(payers[each.receive_currency]) > 1:
            more += each.value if any(payers[asset] == {each.currency} for asset in lacks) else 0
    is_low = any(each.expected - each.need < each.minimum for each in treasury.after(plan.conversions).holdings)
    compared = list(zip(open_values(treasury, plan)[:2], oracle.best(treasury)[:2], strict=True))
    for mine, least in compared[:1] if is_low else compared:
        assert mine <= Decimal(least.numerator) / least.denominator + more
