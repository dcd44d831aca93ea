"""The conversions of a payout run's gap: enough, not more than is needed, out of what others can spare."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treasury.money import ZERO, exact
from treasury.planning.funding_planner import bounded, gap_of, is_within, plan_funding, why_unfunded
from treasury.planning.funding_trades import FundingTrade, bounds_of, debits_of
from treasury.planning.position import InFlight, Obligation, Snapshot
from treasury.planning.round_planner import Rebalancing
from treasury.planning.trades import Rates, Side, Trade, bounded_trade
from treasury.policy.model import Policy

D = Decimal
POLICY = Policy.model_validate(
    {
        "base_asset": "USDT",
        "assets": {
            "USDT": {"target": 1000, "minimum": 500},
            "ETH": {"target": 2, "minimum": 1, "maximum": 3},
            "BTC": {"target": "0.4", "minimum": "0.3", "maximum": "0.5"},
        },
        "rebalancing": {"min_trade": "25", "slippage_bps": 50},
    }
)
RATES = {
    "ETH-USDT": Rates(buy=D(2010), sell=D(2000)),
    "BTC-USDT": Rates(buy=D(60100), sell=D(60000)),
    "USDT_TRC20-USDT": Rates(buy=D("1.001"), sell=D("0.999")),
}
MINIMUM = {"USDT": D(500), "ETH": D(1), "BTC": D("0.3"), "USDT_TRC20": D(0)}


def holding(**available: Decimal | int | str) -> Snapshot:
    return Snapshot(1, available={asset: D(amount) for asset, amount in available.items()}, rates=RATES)


def trades_of(found: Rebalancing) -> tuple[Trade, ...]:
    return (*found.plan.trades, *found.plan.later)


AMOUNTS = st.decimals(0, 5000, places=2)


@settings(max_examples=150, deadline=None)
@given(AMOUNTS, st.decimals(0, 5, places=4), st.decimals(0, 1, places=5), AMOUNTS, AMOUNTS, st.booleans())
@exact
def test_it_is_enough_and_takes_nothing_that_others_need(
    usdt: Decimal, eth: Decimal, btc: Decimal, trc: Decimal, need: Decimal, pays_in_base: bool
) -> None:
    asset = "USDT" if pays_in_base else "USDT_TRC20"
    snapshot, needs = holding(USDT=usdt, ETH=eth, BTC=btc, USDT_TRC20=trc), {asset: need}
    found = plan_funding(POLICY, snapshot, needs, "run")
    trades = trades_of(found)
    gap = gap_of(snapshot, needs)
    assert plan_funding(POLICY, snapshot, needs, "run") == found
    if not gap:
        assert (trades, why_unfunded(found, needs)) == ((), None)
    if gap and why_unfunded(found, needs) is None:
        after = dict(snapshot.available)
        for trade in trades:
            after[trade.currency] -= trade.amount
            after[trade.receive_currency] += trade.expected_receive * (1 - snapshot.fee_bps / 10_000)
        assert after[asset] >= need
        most = gap[asset] * D("1.02") + 26  # slippage and fee of two steps, and one smallest trade
        assert after[asset] - snapshot.available[asset] <= most
        for other in {*MINIMUM} - {asset}:
            assert after[other] >= min(snapshot.available[other], MINIMUM[other])
    agreed = bounded(trades, 50, D(25))
    assert is_within(trades, agreed, {})
    assert tuple(FundingTrade.from_dict(each.as_dict()) for each in agreed) == agreed


def test_it_is_enough_beside_payments_on_their_way_that_are_more_than_is_there() -> None:
    sent = InFlight("tf-1", "other", "a", "USDT_TRC20", D(1000), is_known=True, is_conversion=False)
    snapshot = replace(
        holding(USDT=5000, ETH=2, BTC="0.4", USDT_TRC20=600), in_flight=(sent,), held={"USDT_TRC20": ZERO}
    )
    needs = {"USDT_TRC20": D(550)}
    assert gap_of(snapshot, needs) == {"USDT_TRC20": D(950)}
    [trade] = trades_of(plan_funding(POLICY, snapshot, needs, "run"))
    bought = trade.expected_receive * (1 - snapshot.fee_bps / 10_000) * D("0.995")  # at the worst rate
    after = {**snapshot.available, "USDT_TRC20": D(600) + bought}
    assert gap_of(replace(snapshot, available=after), needs) == {}


def test_what_other_payments_need_of_other_assets_is_not_spent() -> None:
    snapshot = holding(USDT=600, ETH="2", BTC="0.3", USDT_TRC20=0)
    assert why_unfunded(plan_funding(POLICY, snapshot, {"USDT": D(2000)}, "run"), {"USDT": D(2000)}) is None
    promised = replace(snapshot, obligations=(Obligation("ETH", D("0.9"), "run rent"),))
    why = why_unfunded(plan_funding(POLICY, promised, {"USDT": D(2000)}, "run"), {"USDT": D(2000)})
    assert why is not None
    assert " USDT cannot be had: " in why


def test_other_payments_of_the_same_currency_are_not_funded() -> None:
    snapshot = replace(
        holding(USDT=600, ETH="5", BTC="0.4", USDT_TRC20=500),
        obligations=(Obligation("USDT_TRC20", D(4000), "run rent, waits for approvals"),),
    )
    assert trades_of(plan_funding(POLICY, snapshot, {"USDT_TRC20": D(400)}, "run")) == ()


def sale(amount: str, rate: str = "2000") -> Trade:
    trade = Trade(
        "ETH",
        Side.SELL,
        "ETH-USDT",
        "ETH",
        D(amount),
        "USDT",
        D(amount) * D(rate),
        D(0),
        D(0),
        D(rate),
        None,
        None,
        value=D(amount) * D(rate),
    )
    return bounded_trade(trade, 50, 100)


@pytest.mark.parametrize(
    ("trades", "spent", "is_inside"),
    [
        ([sale("1")], {}, True),
        ([sale("1.01")], {}, True),
        ([sale("1.02")], {}, False),
        ([sale("0.5"), sale("0.6")], {}, False),
        ([sale("0.5")], {("ETH-USDT", "ETH"): D("0.5")}, True),
        ([sale("0.6")], {("ETH-USDT", "ETH"): D("0.5")}, False),
        ([sale("1", "1989")], {}, False),
        ([sale("1", "1991")], {}, True),
        ([replace(sale("1"), symbol="ETH-BTC")], {}, False),
        ([replace(sale("1"), side=Side.BUY)], {}, False),
        ([], {}, True),
    ],
)
def test_later_conversions_are_judged_by_what_was_agreed_to(
    trades: list[Trade], spent: dict[tuple[str, str], Decimal], is_inside: bool
) -> None:
    agreed = bounded([sale("1")], 50, D(25))
    assert debits_of(agreed) == {"ETH": D("1.01752513")}
    assert is_within(trades, agreed, spent) is is_inside


def test_the_hash_covers_bounds_and_not_the_rate_of_the_moment() -> None:
    [agreed] = bounded([sale("1")], 50, D(25))
    moved = replace(agreed, amount=D("0.99"), rate=D(2010), expected_receive=D(1990))
    assert bounds_of([moved]) == bounds_of([agreed])
    assert bounds_of([replace(agreed, at_most=D(2))]) != bounds_of([agreed])
    assert bounds_of([replace(agreed, worst_rate=D(1))]) != bounds_of([agreed])
