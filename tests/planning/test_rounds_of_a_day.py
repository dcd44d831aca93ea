"""Rounds of a day, one after the other as the product makes them: planned, traded, settled, and planned afresh.

Each test lets the balances of one round be what the next is planned from, until nothing more is traded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.proofs import tries
from treasury.money import round_down
from treasury.planning.conversion_model import Purpose
from treasury.planning.fills import MadeRound, unspent_proceeds
from treasury.planning.position import InFlight, Obligation, Snapshot
from treasury.planning.round_planner import Rebalancing, plan_rebalancing
from treasury.planning.trades import Rates, Trade, Traded, TradePlan, check_trades
from treasury.policy.model import Policy

D = Decimal
RATES = {
    "ETH-USDT": Rates(D(2002), D(1998)),
    "BTC-USDT": Rates(D(50050), D(49950)),
    "BRL-USDT": Rates(D("0.2002"), D("0.1998")),
    "ETH-BTC": Rates(D("0.04002"), D("0.03998")),
}
MOST_ROUNDS = 12


@dataclass
class Day:
    """A day's balances, and what its rounds have done so far."""

    policy: Policy
    available: dict[str, Decimal]
    obligations: tuple[Obligation, ...] = ()
    rates: Mapping[str, Rates] = field(default_factory=lambda: RATES)
    rounds: list[MadeRound] = field(default_factory=list)
    decided: list[Rebalancing] = field(default_factory=list)
    low: dict[str, Decimal] = field(default_factory=dict)
    """By asset: the least that it had at any moment."""
    done: Traded = field(default_factory=lambda: Traded({}, (), {}, D(0)))
    spent: dict[str, Decimal] = field(default_factory=dict)

    def snapshot(self) -> Snapshot:
        """Return what the next round is planned from."""
        return Snapshot(
            1,
            available=dict(self.available),
            rates=self.rates,
            obligations=self.obligations,
            brought=unspent_proceeds(self.rounds).brought,
            moved=self.done.moved,
            traded=self.done.value,
            cost=self.done.cost,
            spent=self.spent,
        )

    def next_round(self) -> Rebalancing:
        """Plan a round, judge it as it is recorded, and let its trades settle at their rates."""
        found = plan_rebalancing(self.policy, self.snapshot())
        assert check_trades(found.plan, self.policy.conversions, self.done) is None
        with localcontext(prec=60):
            for trade in found.plan.trades:
                self._settle(trade)
        brought = {trade.row_ref: _arrives(trade) for trade in found.plan.trades}
        self.rounds.append(MadeRound(found.plan, brought, list(brought)))
        self.decided.append(found)
        return found

    def _settle(self, trade: Trade) -> None:
        self.available[trade.currency] -= trade.amount
        now = self.available[trade.currency]
        self.low[trade.currency] = min(self.low.get(trade.currency, now), now)
        self.available[trade.receive_currency] += _arrives(trade)
        self.spent[trade.currency] = self.spent.get(trade.currency, D(0)) + trade.amount
        moved, value = dict(self.done.moved), dict(self.done.value)
        for currency, amount in ((trade.currency, trade.amount), (trade.receive_currency, _arrives(trade))):
            moved[currency] = moved.get(currency, D(0)) + amount
        value[trade.symbol] = value.get(trade.symbol, D(0)) + trade.value
        self.done = Traded(moved, (), value, self.done.cost + trade.cost)

    def to_the_end(self) -> "Day":
        """Make rounds until nothing more is traded."""
        for _ in range(MOST_ROUNDS):
            if not self.next_round().plan.trades:
                return self
        pytest.fail("trades without end")


def _arrives(trade: Trade) -> Decimal:
    return round_down(trade.expected_receive * D("0.999"), 8)


def policy(limits: Mapping[str, Any] | None = None, **assets: Mapping[str, str]) -> Policy:
    tables = {"base_asset": "USDT", "assets": assets, "rebalancing": {"min_trade": "10"}}
    return Policy.model_validate({**tables, **({"conversions": limits} if limits else {})})


FLOOR = {"floor": "40000", "minimum": "40000", "target": "40000"}
ETH = {"floor": "1", "minimum": "10", "target": "20", "maximum": "40"}


def test_under_its_floor_the_base_asset_is_not_spent_in_any_round_of_the_day() -> None:
    """A limit keeps the base asset from its floor, so it is left alone: what others lack is not taken from it."""
    rules = policy(
        {"max_per_trade": {"ETH": "1"}},
        USDT=FLOOR,
        ETH=ETH,
        BTC={"floor": "0.2", "minimum": "0.2", "target": "0.2", "maximum": "1"},
    )
    day = Day(rules, {"USDT": D(30_000), "ETH": D(60), "BTC": D("0.152")}).to_the_end()
    assert day.low.get("USDT", D(30_000)) >= 30_000


def test_the_base_asset_keeps_its_floor_where_first_it_and_then_another_asset_is_left_alone() -> None:
    """A limit stands against its own floor; planned again without that, one stands against what BRL wants, too."""
    rules = policy(
        {"max_per_pair": {"BTC-USDT": "0"}},
        USDT={"floor": "177", "minimum": "177", "target": "177"},
        BTC={"minimum": "0", "target": "0", "maximum": "0"},
        ETH={"minimum": "0", "target": "0", "maximum": "0"},
        BRL={"minimum": "105", "target": "105", "maximum": "105"},
    )
    available = {"USDT": D(166), "ETH": D(0), "BTC": D("0.00352"), "BRL": D(0)}
    day = Day(replace_pairs(rules), available, (Obligation("BRL", D(820), "run"),)).to_the_end()
    assert day.low.get("USDT", D(166)) >= 166


@pytest.mark.parametrize("floor", [FLOOR, {"minimum": "40000", "target": "40000"}])
def test_proceeds_of_a_sale_for_a_payment_pay_for_it_before_a_floor_or_a_reserve(floor: dict[str, str]) -> None:
    owed = (Obligation("BRL", D(24_000), "run payroll"),)
    day = Day(policy(USDT=floor, ETH=ETH), {"USDT": D(30_000), "ETH": D("3.5"), "BRL": D(0)}, owed)
    first = day.next_round()
    assert [trade.name.rpartition(" ")[0] for trade in first.plan.trades] == ["SELL ETH-USDT"]
    sold = sum(trade.amount for trade in first.plan.trades)
    second = day.next_round()
    assert [trade.name.rpartition(" ")[0] for trade in second.plan.trades] == ["BUY BRL-USDT"]
    day.to_the_end()
    eth = [t.amount for each in day.decided for t in each.plan.trades if t.currency == "ETH" and t.purpose != "band"]
    assert sum(eth) == sold  # once is enough
    assert day.available["BRL"] >= 24_000
    assert day.low["USDT"] >= 30_000  # its own money stays


def test_what_a_sale_brought_for_a_payment_waits_for_it_while_its_pair_cannot_be_traded() -> None:
    owed = (Obligation("BRL", D(24_000), "run payroll"),)
    rules = policy(USDT=FLOOR, ETH=ETH, BTC={"floor": "0.2", "minimum": "0.2", "target": "0.2"})
    day = Day(rules, {"USDT": D(40_000), "ETH": D("3.5"), "BTC": D("0.2"), "BRL": D(0)}, owed)
    day.next_round()
    day.rates = {symbol: rates for symbol, rates in RATES.items() if symbol != "BRL-USDT"}
    day.available["BTC"] = D("0.1")
    assert day.next_round().plan.trades == ()
    day.rates = RATES
    assert {trade.symbol for trade in day.next_round().plan.trades} == {"BRL-USDT"}
    assert day.available["BRL"] >= 24_000


def test_what_was_spent_for_the_payment_is_not_spent_twice() -> None:
    owed = (Obligation("BRL", D(24_000), "run payroll"),)
    day = Day(policy(USDT=FLOOR, ETH=ETH), {"USDT": D(30_000), "ETH": D("3.5"), "BRL": D(0)}, owed).to_the_end()
    assert sum(unspent_proceeds(day.rounds).brought.get(Purpose.OBLIGATION, {}).values()) < 60
    day.obligations = (Obligation("BRL", D(60_000), "another one"),)
    day.available["ETH"] = D(1)
    day.to_the_end()
    assert day.low["USDT"] >= 30_000 - 60


def test_what_a_sale_on_its_way_is_to_bring_for_a_payment_is_not_sold_for_again() -> None:
    owed = (Obligation("BRL", D(24_000), "run payroll"),)
    day = Day(policy(USDT=FLOOR, ETH=ETH), {"USDT": D(30_000), "ETH": D(9), "BRL": D(0)}, owed)
    [sale] = plan_rebalancing(day.policy, day.snapshot()).plan.trades
    later = plan_rebalancing(day.policy, day.snapshot()).plan.later
    proceeds = unspent_proceeds([MadeRound(TradePlan("1", (sale,), (), later), {}, [sale.row_ref])])
    assert proceeds.brought == {}
    day.available["ETH"] -= sale.amount
    flying = InFlight(
        *("tf-1", "rebalance-2026-11-25", sale.row_ref, "ETH", D(0), True, True),
        symbol="ETH-USDT",
        receive_currency="USDT",
        receive_amount=sale.expected_receive,
    )
    again = plan_rebalancing(day.policy, replace(day.snapshot(), in_flight=(flying,), coming=proceeds.coming))
    assert [trade.symbol for trade in again.plan.later] == ["BRL-USDT"]
    assert [trade for trade in again.plan.trades if trade.purpose == "obligation"] == []


@pytest.mark.parametrize("level", ["minimum", "floor"])
def test_what_is_bought_on_the_way_to_another_asset_goes_on_to_it(level: str) -> None:
    """ETH has a wide band: what is bought of it for BTC would stay there, and be bought again in each round."""
    bands = {"USDT": {"target": "0"}, "ETH": {"target": "0", "maximum": "0.0455"}}
    bands["BTC"] = {level: "0.00002", "minimum": "0.00002", "target": "0.0002", "maximum": "0.0002"}
    rules = replace_pairs(policy({"max_per_pair": {"BTC-USDT": "0"}}, **bands))
    day = Day(rules, {"USDT": D(111), "ETH": D(0), "BTC": D(0)}).to_the_end()
    made = [trade.name.rpartition(" ")[0] for found in day.decided for trade in found.plan.trades]
    assert made == ["BUY ETH-USDT", "SELL ETH-BTC"]


def test_what_is_bought_on_the_way_to_a_payment_goes_on_to_it_though_another_payment_lacks_as_much() -> None:
    """BTC is bought by ETH alone, and ETH is owed, too; what the day may cost is spent on what was begun."""
    none = {"minimum": "0", "target": "0", "maximum": "0"}
    limits = {"max_cost_per_day": "55", "max_per_pair": {"BTC-USDT": "0"}}
    rules = replace_pairs(policy(limits, USDT={"target": "0"}, ETH=none, BTC=none, BRL=none))
    owed = (Obligation("ETH", D("8.509"), "run"), Obligation("BTC", D("0.25124"), "run"))
    day = Day(rules, {"USDT": D(0), "ETH": D("0.134"), "BTC": D(0), "BRL": D(92_690)}, owed).to_the_end()
    made = [trade.name.rpartition(" ")[0] for found in day.decided for trade in found.plan.trades]
    assert made == ["SELL BRL-USDT", "BUY ETH-USDT", "SELL ETH-BTC"]


def test_a_sale_for_the_floor_of_another_asset_pays_for_it_while_the_base_asset_is_low() -> None:
    """ETH is sold once for the floor of BRL, and not in each round until USDT has its minimum."""
    bands = {"USDT": {"minimum": "91", "target": "91"}, "ETH": {"target": "0.05", "maximum": "0.05"}}
    bands["BRL"] = {"floor": "100", "minimum": "100", "target": "100"}
    day = Day(policy(**bands), {"USDT": D(0), "ETH": D("0.08"), "BRL": D(0)}).to_the_end()
    made = [trade.name.rpartition(" ")[0] for found in day.decided for trade in found.plan.trades]
    assert made == ["SELL ETH-USDT", "BUY BRL-USDT"]


AMOUNTS = st.integers(0, 60_000)
TRIES = tries("PLANS", 40, 1_000)


@settings(max_examples=TRIES, deadline=None, derandomize=TRIES == 40)
@given(st.data())
def test_no_day_spends_the_base_asset_below_its_floor_nor_refuses_a_plan_of_its_own(data: st.DataObject) -> None:
    draw = data.draw
    floor, more = draw(AMOUNTS), draw(st.integers(0, 20_000))
    prices = {"ETH": D(2000), "BTC": D(50000), "BRL": D("0.2")}
    assets: dict[str, dict[str, str]] = {
        "USDT": {"floor": str(floor), "minimum": str(floor + more), "target": str(floor + more)}
    }
    available = {"USDT": D(draw(AMOUNTS))}
    owed = []
    for asset, price in prices.items():
        available[asset] = round_down(D(draw(AMOUNTS)) / price, 8)
        if draw(st.booleans()):
            owed.append(Obligation(asset, round_down(D(draw(AMOUNTS)) / price, 8), "run"))
        low, aim, high = sorted(round_down(D(draw(AMOUNTS)) / price, 8) for _ in range(3))
        assets[asset] = {"minimum": f"{low:f}", "target": f"{aim:f}", "maximum": f"{high:f}"}
        if draw(st.booleans()):
            assets[asset]["floor"] = f"{low / 2:f}"
    limits: dict[str, Any] = {}
    if draw(st.booleans()):
        limits["max_value_per_day"] = str(draw(st.integers(1, 60_000)))
    if draw(st.booleans()):
        limits["max_cost_per_day"] = str(draw(st.integers(1, 100)))
    if draw(st.booleans()):
        limits["max_per_pair"] = {draw(st.sampled_from(sorted(RATES))): str(draw(AMOUNTS))}
    if draw(st.booleans()):
        limits["max_per_day"] = {draw(st.sampled_from(["USDT", "ETH"])): str(draw(st.integers(1, 20_000)))}
    if draw(st.booleans()):
        limits["max_turnover"] = {draw(st.sampled_from(["USDT", "ETH", "BTC"])): str(draw(st.integers(1, 20_000)))}
    rules = policy(limits, **assets).model_copy()
    day = Day(replace_pairs(rules), available, tuple(owed))
    started = available["USDT"]
    day.to_the_end()
    spent = {t.currency for each in day.decided for t in each.plan.trades}
    if "USDT" in spent:
        assert day.low["USDT"] >= min(D(floor), started)


def replace_pairs(rules: Policy) -> Policy:
    """Return the policy with the direct pair, too."""
    assert rules.rebalancing is not None
    return rules.model_copy(update={"rebalancing": rules.rebalancing.model_copy(update={"pairs": ("ETH-BTC",)})})


def test_a_round_that_another_overtook_is_still_judged_by_the_limits_of_the_day() -> None:
    rules = policy({"max_value_per_day": "5000"}, USDT={"target": "0"}, ETH=ETH)
    day = Day(rules, {"USDT": D(0), "ETH": D("42")})
    found = plan_rebalancing(rules, day.snapshot())
    assert check_trades(found.plan, rules.conversions, day.done) is None
    later = replace(day.done, value={"BTC-USDT": D(4000)})
    why = check_trades(found.plan, rules.conversions, later)
    assert why is not None
    assert "over max_value_per_day, 5000" in why
