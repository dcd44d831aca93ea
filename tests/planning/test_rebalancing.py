"""Rebalancing: the trades of a policy and a snapshot, with the bounds that quotes are held to, and why per asset."""

import json
from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treasury.errors import InputError
from treasury.planning.position import InFlight, Obligation, Snapshot, not_explained, position_of
from treasury.planning.round_planner import Rebalancing, plan_rebalancing
from treasury.planning.trades import Rates, Side, Trade, TradePlan
from treasury.policy.model import Policy

D = Decimal
NOW = 1_790_000_000_000


def policy(assets: Mapping[str, Mapping[str, Any]], **settings: Any) -> Policy:
    conversions = {"conversions": settings.pop("conversions")} if "conversions" in settings else {}
    terms = {"min_trade": "10", "return_to": "target", **settings}
    return Policy.model_validate({"base_asset": "USDT", "assets": assets, "rebalancing": terms, **conversions})


POLICY = policy({"USDT": {"target": 1000, "minimum": 500}, "ETH": {"target": 2, "minimum": 1, "maximum": 3}})
RATES = {"ETH-USDT": Rates(buy=D(2010), sell=D(2000))}


def decide(
    available: Mapping[str, str],
    rules: Policy = POLICY,
    rates: Mapping[str, Rates] | None = None,
    **more: Any,
) -> Rebalancing:
    snapshot = Snapshot(
        NOW,
        available={asset: D(amount) for asset, amount in available.items()},
        rates=RATES if rates is None else rates,
        fee_bps=D(0),
        **more,
    )
    return plan_rebalancing(rules, snapshot)


def plan(eth: str, usdt: str, rules: Policy = POLICY) -> TradePlan:
    return decide({"ETH": eth, "USDT": usdt}, rules).plan


def why(decided: Rebalancing, asset: str) -> str:
    return next(line.why for line in decided.lines if line.asset == asset)


@pytest.mark.parametrize("eth", ["1", "2", "2.7", "3"])
def test_inside_its_band_nothing_is_traded_and_the_line_says_so(eth: str) -> None:
    decided = decide({"ETH": eth, "USDT": "500"})
    assert (decided.plan.trades, decided.plan.skipped) == ((), ())
    assert why(decided, "ETH") == f"nothing to do, because {eth} is inside its band, 1 to 3"


def test_a_surplus_is_sold_down_to_the_target() -> None:
    [trade] = plan("3.5", "500").trades
    assert trade == Trade(
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
        cost=D("7.5"),
        value=D("3007.5"),
    )


def test_a_deficit_is_bought_up_to_the_target() -> None:
    [trade] = plan("0.5", "9000").trades
    assert (trade.side, trade.amount, trade.expected_receive) == (Side.BUY, D(3015), D("1.5"))
    assert (trade.min_receive, trade.max_fee, trade.max_rate) == (D("1.4925"), D("0.015"), D("2020.05"))


@pytest.mark.parametrize(("fixed_cost", "sold"), [("0", "0.5"), ("2", "1.5")])
def test_a_proportional_cost_returns_to_the_edge_and_a_fixed_one_to_the_target(fixed_cost: str, sold: str) -> None:
    rules = policy(
        {"USDT": {"target": 500}, "ETH": {"target": 2, "minimum": 1, "maximum": 3}},
        return_to=None,
        fixed_cost=fixed_cost,
    )
    assert [trade.amount for trade in plan("3.5", "500", rules).trades] == [D(sold)]


def test_a_purchase_stops_at_what_is_above_the_minimum_and_says_so() -> None:
    planned = plan("0.5", "1500")
    [trade] = planned.trades
    assert D("999.99") < trade.amount <= 1000
    [skipped] = planned.skipped
    assert (skipped.asset, skipped.side, skipped.is_wanted) == ("ETH", Side.BUY, True)
    assert "no other asset has anything that may be spent for it" in skipped.reason


@pytest.mark.parametrize("usdt", ["0", "499", "500", "505"])
def test_without_funds_a_purchase_is_skipped_whole(usdt: str) -> None:
    planned = plan("0.5", usdt)
    assert planned.trades == ()
    assert "ETH" in {skipped.asset for skipped in planned.skipped}


def test_what_a_sale_brings_pays_for_a_purchase_of_the_next_round() -> None:
    rules = policy({"BTC": {"target": 1}, "ETH": {"target": 2}})
    rates = RATES | {"BTC-USDT": Rates(D(60000), D(60000))}
    planned = decide({"BTC": "2", "ETH": "1", "USDT": "0"}, rules, rates).plan
    assert [(trade.side, trade.asset) for trade in planned.trades] == [(Side.SELL, "BTC")]
    assert [(trade.side, trade.asset) for trade in planned.later] == [(Side.BUY, "ETH")]
    assert planned.skipped == ()


@pytest.mark.parametrize(("eth", "side"), [("2.004", Side.SELL), ("1.996", Side.BUY)])
def test_what_is_too_small_to_trade_is_named_and_not_wanted(eth: str, side: Side) -> None:
    planned = plan(eth, "9000", policy({"ETH": {"target": 2}}))
    assert planned.trades == ()
    [skipped] = planned.skipped
    assert (skipped.side, skipped.amount, skipped.is_wanted) == (side, D("0.004"), False)
    assert skipped.reason == "worth less than the smallest trade, 10 USDT"


def test_what_is_missing_is_named_and_the_others_are_traded() -> None:
    rules = policy({"USDT": {"target": 500}, "ETH": {"target": 2}, "BTC": {"target": 1}})
    decided = decide({"ETH": "1", "USDT": "9000"}, rules, missing={"BTC": "its balance could not be had: refused"})
    assert [trade.asset for trade in decided.plan.trades] == ["ETH"]
    [skipped] = decided.plan.skipped
    assert (skipped.asset, skipped.reason) == ("BTC", "its balance could not be had: refused")
    stopped = decide({"ETH": "1", "USDT": "9000", "BTC": "0"}, rules, missing={"BTC-USDT": "its rate moved too far"})
    assert [(each.asset, each.reason) for each in stopped.plan.skipped] == [("BTC", "BTC-USDT: its rate moved too far")]


@pytest.mark.parametrize(("eth", "side"), [("5", Side.SELL), ("3", Side.BUY), ("1", Side.BUY)])
def test_what_is_above_its_band_and_has_no_rate_was_to_be_sold(eth: str, side: Side) -> None:
    decided = decide({"ETH": eth, "USDT": "9000"}, rates={}, missing={"ETH-USDT": "the answer shows no rate"})
    [skipped] = decided.plan.skipped
    assert (skipped.asset, skipped.side, skipped.reason) == ("ETH", side, "ETH-USDT: the answer shows no rate")


def test_without_the_balance_of_the_base_asset_nothing_is_bought_and_it_is_named() -> None:
    decided = decide({"ETH": "1"}, missing={"USDT": "its balance could not be had: refused"})
    assert decided.plan.trades == ()
    assert why(decided, "USDT") == "stays as it is: its balance could not be had: refused"
    assert "USDT" in {each.asset for each in decided.plan.skipped}
    sold = decide({"ETH": "5"}, missing={"USDT": "its balance could not be had: refused"})
    assert [line.asset for line in sold.lines] == ["ETH", "USDT"]


@pytest.mark.parametrize("usdt", ["-5", "0"])
def test_a_balance_below_zero_pays_for_nothing(usdt: str) -> None:
    assert all(trade.side is Side.SELL for trade in decide({"ETH": "1.5", "USDT": usdt}).plan.trades)


def test_a_policy_without_a_rebalancing_is_refused() -> None:
    with pytest.raises(InputError, match="no \\[rebalancing\\] table"):
        plan_rebalancing(Policy(), Snapshot(NOW))


def flying(**said: Any) -> InFlight:
    facts = {"request_id": "tf-1", "run_key": "rebalance-2026-11-22", "row_ref": "buy-ETH", "is_conversion": True}
    return InFlight(**{**facts, "is_known": True, "symbol": "ETH-USDT", **said})


def test_a_purchase_on_its_way_is_part_of_the_position() -> None:
    order = flying(currency="USDT", amount=D(4000), receive_currency="ETH", receive_amount=D("1.9"))
    decided = decide({"ETH": "0.1", "USDT": "9000"}, in_flight=(order,))
    assert decided.plan.trades == ()
    assert why(decided, "ETH") == "nothing to do, because 2, 1.9 on its way counted is inside its band, 1 to 3"


@pytest.mark.parametrize(("held", "spendable"), [(None, "5000"), (D(0), "5000"), (D(4000), "9000"), (D(1000), "6000")])
def test_what_the_service_holds_back_is_not_counted_twice(held: Decimal | None, spendable: str) -> None:
    order = flying(currency="USDT", amount=D(4000), receive_currency="ETH", receive_amount=D("1.9"))
    decided = decide({"ETH": "2", "USDT": "9000"}, in_flight=(order,), held={} if held is None else {"USDT": held})
    [line] = [line for line in decided.lines if line.asset == "USDT"]
    assert line.position is not None
    assert line.position.spendable == D(spendable)


@pytest.mark.parametrize(
    ("debited", "held", "spendable"),
    [
        *((None, None, "9000"), (True, None, "9000"), (False, None, "5000")),
        *((None, D(0), "5000"), (True, D(0), "9000"), (False, D(0), "5000"), (False, D(4000), "9000")),
    ],
)
def test_a_payment_on_its_way_counts_as_spent_unless_it_is_known_to_be(
    debited: bool | None, held: Decimal | None, spendable: str
) -> None:
    order = flying(currency="USDT", amount=D(4000), is_conversion=False, symbol=None, debited=debited)
    decided = decide({"ETH": "2", "USDT": "9000"}, in_flight=(order,), held={} if held is None else {"USDT": held})
    [line] = [line for line in decided.lines if line.asset == "USDT"]
    assert line.position is not None
    assert line.position.spendable == D(spendable)


def test_what_is_held_back_for_a_payment_that_was_debited_covers_no_other() -> None:
    orders = (
        flying(currency="USDT", amount=D(4000), is_conversion=False, symbol=None, debited=True),
        flying(currency="USDT", amount=D(3000), is_conversion=False, symbol=None, request_id="tf-2"),
    )
    snapshot = Snapshot(NOW, available={"USDT": D(9000)}, in_flight=orders, held={"USDT": D(4000)})
    assert position_of(snapshot, "USDT").spendable == D(6000)
    assert [each.request_id for each in not_explained(snapshot)] == ["tf-2"]


def test_an_unknown_conversion_stops_its_pair_and_no_other() -> None:
    rules = policy({"USDT": {"target": 500}, "ETH": {"target": 2}, "BTC": {"target": 1}})
    order = flying(currency="USDT", amount=D(10), receive_currency="ETH", receive_amount=D("0.005"), is_known=False)
    rates = RATES | {"BTC-USDT": Rates(D(100), D(100))}
    decided = decide({"ETH": "0", "USDT": "9000", "BTC": "0"}, rules, rates, in_flight=(order,))
    assert [trade.asset for trade in decided.plan.trades] == ["BTC"]
    [skipped] = decided.plan.skipped
    assert skipped.reason.startswith("an earlier conversion of this pair has an unknown outcome: ")
    assert order.request_id in skipped.reason


def test_obligations_come_before_bands_and_their_code_needs_no_band() -> None:
    rates = RATES | {"USDT_TRC20-USDT": Rates(D(1), D(1))}
    owed = (Obligation("USDT_TRC20", D(3000), "run payroll, waits for approvals"),)
    decided = decide({"ETH": "0.5", "USDT": "3600", "USDT_TRC20": "0"}, rates=rates, obligations=owed)
    bought = {trade.asset: trade for trade in decided.plan.trades}
    assert bought["USDT_TRC20"].purpose == "obligation"
    assert bought["USDT_TRC20"].expected_receive >= 3000
    assert bought["ETH"].amount <= 100
    assert decided.next_unit["USDT_TRC20"] is None  # everything above the minimum is used


def test_a_code_that_pays_and_nothing_fills_is_said() -> None:
    owed = (Obligation("USDT_TRC20", D(3000), "run payroll, waits for approvals"),)
    missing = {"USDT_TRC20-USDT": "its rate could not be had: 202211"}
    decided = decide({"ETH": "2", "USDT": "3600", "USDT_TRC20": "0"}, obligations=owed, missing=missing)
    [note] = decided.notes
    assert note.startswith(
        "USDT_TRC20 has payments, and no conversion can buy it (USDT is the same asset under another code)"
    )
    assert [(each.asset, each.is_wanted) for each in decided.plan.skipped] == [("USDT_TRC20", True)]


def test_bands_in_shares_and_days_follow_what_is_held_and_paid() -> None:
    rules = policy(
        {
            "USDT": {"target": 100},
            "ETH": {"minimum": "40%", "target": "50%", "maximum": "60%"},
            "USDT_TRC20": {"minimum": "1 day", "target": "2 days", "maximum": "10 days"},
        }
    )
    rates = {"ETH-USDT": Rates(D(1000), D(1000)), "USDT_TRC20-USDT": Rates(D(1), D(1))}
    available = {"USDT": "9000", "ETH": "1", "USDT_TRC20": "0"}
    decided = decide(available, rules, rates, daily={"USDT_TRC20": D(200)})
    assert {trade.asset: trade.amount for trade in decided.plan.trades} == {"ETH": D(4000), "USDT_TRC20": D(400)}
    stopped = decide({"USDT": "9000", "ETH": "1"}, rules, rates, missing={"USDT_TRC20": "not shown"})
    assert stopped.plan.trades == ()
    assert "a share of everything held" in why(stopped, "ETH")


def test_the_rules_of_a_day_count_what_was_traded_on_it() -> None:
    limits = {"max_per_pair": {"ETH-USDT": "5000"}, "max_share_percent": 50, "max_cost_bps": 100}
    rules = policy({"USDT": {"target": 500}, "ETH": {"target": 2, "maximum": 3}}, conversions=limits)
    [trade] = decide({"ETH": "4", "USDT": "500"}, rules).plan.trades
    assert trade.amount == 2
    for available, traded in (("4.5", D(0)), ("4", D(3000))):
        decided = decide({"ETH": available, "USDT": "500"}, rules, traded={"ETH-USDT": traded})
        assert decided.plan.trades == ()
        assert list(decided.over_limits) == ["ETH"]
        assert "is outside its band, and not traded for it: max_per" in why(decided, "ETH")
    owed = (Obligation("ETH", D(4), "run payroll"),)
    [trade] = decide({"ETH": "1", "USDT": "50000"}, rules, obligations=owed).plan.trades
    assert 4900 < trade.amount <= 5000  # what has to be paid is met as far as the limits go
    wide = {"ETH-USDT": Rates(D(2100), D(2000))}
    decided = decide({"ETH": "10", "USDT": "500"}, rules, wide)
    assert decided.plan.trades == ()


ASSETS = ("BTC", "ETH", "DOGE")


def amounts(digits: int, high: str = "1e9") -> st.SearchStrategy[Decimal]:
    return st.decimals(0, D(high), places=digits, allow_nan=False, allow_infinity=False)


Situation = tuple[Policy, Snapshot]


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """A policy and a snapshot of any size that people have."""
    assets: dict[str, dict[str, str]] = {}
    for asset in (*draw(st.lists(st.sampled_from(ASSETS), min_size=1, unique=True)), "USDT"):
        low, middle, high = sorted(draw(st.tuples(amounts(8), amounts(8), amounts(8))))
        assets[asset] = {"minimum": f"{low:f}", "target": f"{middle:f}", "maximum": f"{high:f}"}
    settings = {
        "min_trade": f"{draw(amounts(2, '1e4')) + D('0.01'):f}",
        "slippage_bps": draw(st.integers(0, 1000)),
        "return_to": draw(st.sampled_from(["edge", "target"])),
    }
    positive = amounts(8, "1e5").map(lambda rate: rate + D("1e-4"))
    spreads = st.decimals(0, D("0.05"), places=4)
    rates = {}
    for asset in assets:
        sell = draw(positive)
        rates[f"{asset}-USDT"] = Rates((sell * (1 + draw(spreads))).quantize(D("1e-12")), sell)
    snapshot = Snapshot(
        NOW,
        available={asset: draw(amounts(18)) for asset in assets},
        rates=rates,
        fee_bps=D(draw(st.integers(0, 100))),
        obligations=tuple(
            Obligation(asset, draw(amounts(6)), "run") for asset in draw(st.lists(st.sampled_from(sorted(assets))))
        ),
    )
    return policy(assets, **settings), snapshot


@settings(deadline=None)
@given(situations())
def test_no_trade_spends_what_is_owed_or_under_the_floor(situation: Situation) -> None:
    rules, snapshot = situation
    decided = plan_rebalancing(rules, snapshot)
    with localcontext(prec=120):
        for asset, available in snapshot.available.items():
            spent = sum((trade.amount for trade in decided.plan.trades if trade.currency == asset), D(0))
            owed = sum((each.amount for each in snapshot.obligations if each.asset == asset), D(0))
            floor = rules.assets[asset].minimum.quantity
            assert spent <= max(available - owed - floor, D(0)), asset
        for trade in decided.plan.trades:
            assert 0 <= trade.min_receive <= trade.expected_receive
            assert trade.value >= rules.trading.min_trade


@settings(deadline=None)
@given(situations())
def test_a_plan_survives_json_and_is_made_again_from_its_snapshot(situation: Situation) -> None:
    rules, snapshot = situation
    decided = plan_rebalancing(rules, snapshot)
    text = json.dumps(decided.plan.as_dict())
    assert "E" not in json.dumps([trade["amount"] for trade in decided.plan.as_dict()["trades"]])
    assert TradePlan.from_dict(json.loads(text)) == decided.plan
    again = Snapshot.from_dict(json.loads(json.dumps(snapshot.as_dict())))
    assert plan_rebalancing(rules, again).as_dict() == decided.as_dict()


def test_something_else_is_not_a_plan() -> None:
    with pytest.raises(ValueError, match="trades"):
        TradePlan.from_dict({"policy_version": "1", "skipped": []})


@settings(deadline=None)
@given(st.decimals("0.001", "0.9", places=6), st.decimals("0", "0.005", places=6), st.sampled_from(["edge", "target"]))
def test_a_fill_as_bad_as_its_bounds_allow_is_not_followed_by_another_trade(
    eth: Decimal, worse: Decimal, return_to: str
) -> None:
    rules = policy(
        {"USDT": {"target": 0}, "ETH": {"minimum": 1, "target": 2, "maximum": 3}}, return_to=return_to, slippage_bps=50
    )
    [trade] = decide({"ETH": str(eth), "USDT": "100000"}, rules).plan.trades
    held = eth + trade.expected_receive * (1 - worse)
    again = decide({"ETH": str(held), "USDT": str(100_000 - trade.amount)}, rules)
    assert again.plan.trades == ()
