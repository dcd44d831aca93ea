"""Rebalancing: plans never overspend, reach their targets when funded, and carry bounds that quotes are held to."""

import json
from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treasury.errors import InputError
from treasury.planning.policy import Policy
from treasury.planning.rebalancing import Rates, Side, Trade, TradePlan, plan_trades

D = Decimal


def policy(assets: Mapping[str, Mapping[str, Any]], **settings: Any) -> Policy:
    terms = {"min_trade": "10", **settings}
    return Policy.model_validate({"base_asset": "USDT", "assets": assets, "rebalancing": terms})


POLICY = policy({"USDT": {"target": 1000, "minimum": 500}, "ETH": {"target": 2, "minimum": 1, "maximum": 3}})
RATES = {"ETH-USDT": Rates(buy=D(2010), sell=D(2000))}


def plan(eth: str, usdt: str, rules: Policy = POLICY) -> TradePlan:
    return plan_trades(rules, {"ETH": D(eth), "USDT": D(usdt)}, RATES)


@pytest.mark.parametrize("eth", ["1", "2", "2.7", "3"])
def test_inside_its_band_nothing_is_traded_and_no_rate_is_needed(eth: str) -> None:
    planned = plan_trades(POLICY, {"ETH": D(eth), "USDT": D(0)}, {})
    assert (planned.trades, planned.skipped) == ((), ())


def test_a_surplus_is_sold_down_to_the_target() -> None:
    assert plan("3.5", "0").trades == (
        Trade(
            asset="ETH",
            side=Side.SELL,
            symbol="ETH-USDT",
            currency="ETH",
            amount=D("1.5"),
            receive_currency="USDT",
            expected_receive=D(3000),
            min_receive=D(2985),
            max_fee=D(30),
            rate=D(2000),
            min_rate=D(1990),
            max_rate=None,
        ),
    )


def test_a_deficit_is_bought_up_to_the_target() -> None:
    assert plan("0.5", "9000").trades == (
        Trade(
            asset="ETH",
            side=Side.BUY,
            symbol="ETH-USDT",
            currency="USDT",
            amount=D(3015),
            receive_currency="ETH",
            expected_receive=D("1.5"),
            min_receive=D("1.4925"),
            max_fee=D("0.015"),
            rate=D(2010),
            min_rate=None,
            max_rate=D("2020.05"),
        ),
    )


def test_a_purchase_stops_at_what_is_above_the_minimum_and_says_so() -> None:
    planned = plan("0.5", "1500")
    assert [trade.amount for trade in planned.trades] == [D(1000)]
    [skipped] = planned.skipped
    assert (skipped.asset, skipped.side, skipped.currency, skipped.amount) == ("ETH", Side.BUY, "USDT", D(2015))
    assert skipped.reason == "only 1000 USDT of the 3015 needed is above its minimum"


@pytest.mark.parametrize("usdt", ["0", "499", "500", "505"])
def test_without_funds_a_purchase_is_skipped_whole(usdt: str) -> None:
    planned = plan("0.5", usdt)
    assert planned.trades == ()
    assert [skipped.amount for skipped in planned.skipped] == [D(3015)]


def test_what_a_sale_will_bring_does_not_fund_a_purchase() -> None:
    rules = policy({"BTC": {"target": 1}, "ETH": {"target": 2}})
    rates = RATES | {"BTC-USDT": Rates(D(60000), D(60000))}
    planned = plan_trades(rules, {"BTC": D(2), "ETH": D(1), "USDT": D(0)}, rates)
    assert [(trade.side, trade.asset) for trade in planned.trades] == [(Side.SELL, "BTC")]
    assert [(skipped.side, skipped.asset) for skipped in planned.skipped] == [(Side.BUY, "ETH")]


def test_sales_come_first_and_purchases_share_the_funds_in_order_of_asset() -> None:
    rules = policy({name: {"target": 10} for name in ("ETH", "BTC", "DOGE", "LTC")})
    rates = {f"{name}-USDT": Rates(D(100), D(100)) for name in rules.assets}
    balances = {"ETH": D(5), "BTC": D(4), "DOGE": D(20), "LTC": D(11), "USDT": D(900)}
    planned = plan_trades(rules, balances, rates)
    assert [(trade.side.value, trade.asset, trade.amount) for trade in planned.trades] == [
        ("SELL", "DOGE", D(10)),
        ("SELL", "LTC", D(1)),
        ("BUY", "BTC", D(600)),
        ("BUY", "ETH", D(300)),
    ]


@pytest.mark.parametrize(("eth", "side", "amount"), [("2.004", Side.SELL, D("0.004")), ("1.996", Side.BUY, D("8.04"))])
def test_small_trades_are_skipped_with_the_reason(eth: str, side: Side, amount: Decimal) -> None:
    planned = plan(eth, "9000", policy({"ETH": {"target": 2}}))
    assert planned.trades == ()
    [skipped] = planned.skipped
    assert (skipped.side, skipped.amount) == (side, amount)
    assert skipped.reason == "worth less than the smallest trade, 10 USDT"


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="balance of USDT is missing"):
        plan_trades(POLICY, {"ETH": D(2)}, RATES)
    with pytest.raises(InputError, match="balance of ETH is missing"):
        plan_trades(POLICY, {"USDT": D(2)}, RATES)
    with pytest.raises(InputError, match="rate of ETH-USDT is missing"):
        plan_trades(POLICY, {"ETH": D(5), "USDT": D(2)}, {})
    with pytest.raises(InputError, match="SELL rate of ETH-USDT must be greater than zero"):
        plan_trades(POLICY, {"ETH": D(5), "USDT": D(2)}, {"ETH-USDT": Rates(D(0), D(0))})


ASSETS = ("BTC", "ETH", "DOGE")


def amounts(digits: int, high: str = "1e12") -> st.SearchStrategy[Decimal]:
    return st.decimals(0, D(high), places=digits, allow_nan=False, allow_infinity=False)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Policy, dict[str, Decimal], dict[str, Rates]]:
    """A policy, balances and rates of any size that amounts on the wire may have."""
    assets: dict[str, dict[str, str]] = {}
    for asset in (*draw(st.lists(st.sampled_from(ASSETS), min_size=1, unique=True)), "USDT"):
        low, middle, high = sorted(draw(st.tuples(amounts(8), amounts(8), amounts(8))))
        assets[asset] = {"minimum": f"{low:f}", "target": f"{middle:f}", "maximum": f"{high:f}"}
    settings = {
        "min_trade": f"{draw(amounts(2, '1e4')) + D('0.01'):f}",
        "slippage_bps": draw(st.integers(0, 1000)),
    }
    balances = {asset: draw(amounts(18)) for asset in assets}
    positive = amounts(18, "1e6").map(lambda rate: rate + D("1e-9"))
    rates = {f"{asset}-USDT": Rates(draw(positive), draw(positive)) for asset in assets}
    return policy(assets, **settings), balances, rates


@given(situations())
def test_a_plan_never_spends_more_than_is_available(
    situation: tuple[Policy, dict[str, Decimal], dict[str, Rates]],
) -> None:
    rules, balances, rates = situation
    planned = plan_trades(rules, balances, rates)
    with localcontext(prec=120):
        bought = sum((trade.amount for trade in planned.trades if trade.side is Side.BUY), D(0))
        assert bought <= max(balances["USDT"] - rules.reserve, D(0))
        for trade in planned.trades:
            assert 0 < trade.amount <= balances[trade.currency]
            assert 0 <= trade.min_receive <= trade.expected_receive
            worth = trade.amount if trade.side is Side.BUY else trade.amount * trade.rate
            assert worth >= rules.trading.min_trade


@given(situations())
def test_each_asset_outside_its_band_is_traded_once_or_listed(
    situation: tuple[Policy, dict[str, Decimal], dict[str, Rates]],
) -> None:
    rules, balances, rates = situation
    planned = plan_trades(rules, balances, rates)
    traded = [trade.asset for trade in planned.trades]
    outside = {
        asset
        for asset, band in rules.assets.items()
        if asset != "USDT" and not band.minimum <= balances[asset] <= band.maximum
    }
    assert len(traded) == len(set(traded))
    assert outside == set(traded) | {skipped.asset for skipped in planned.skipped}
    assert [trade.side for trade in planned.trades] == sorted((t.side for t in planned.trades), reverse=True)


@given(situations())
def test_a_funded_plan_reaches_its_targets_within_rounding(
    situation: tuple[Policy, dict[str, Decimal], dict[str, Rates]],
) -> None:
    rules, balances, rates = situation
    balances["USDT"] = D("1e24")  # more than any purchase here can cost
    planned = plan_trades(rules, balances, rates)
    with localcontext(prec=120):
        for trade in planned.trades:
            target = rules.assets[trade.asset].target
            if trade.side is Side.SELL:
                assert balances[trade.asset] - trade.amount == target
            else:
                short = target - balances[trade.asset] - trade.amount / trade.rate
                assert 0 <= short < D("0.000001") / trade.rate + D("1e-100")
    assert not [skipped for skipped in planned.skipped if "above its minimum" in skipped.reason]


@given(situations())
def test_a_plan_survives_json(situation: tuple[Policy, dict[str, Decimal], dict[str, Rates]]) -> None:
    planned = plan_trades(*situation)
    text = json.dumps(planned.as_dict())
    assert "E" not in json.dumps([trade["amount"] for trade in planned.as_dict()["trades"]])
    assert TradePlan.from_dict(json.loads(text)) == planned
    assert json.dumps(TradePlan.from_dict(json.loads(text)).as_dict()) == text


def test_something_else_is_not_a_plan() -> None:
    with pytest.raises(ValueError, match="trades"):
        TradePlan.from_dict({"policy_version": "1", "skipped": []})
