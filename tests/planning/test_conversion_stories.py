"""Conversions as a treasurer meets them: one story for each rule."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.planning.conversion_rules import check_conversions
from treasury.errors import InputError
from treasury.money import canonical, round_down
from treasury.planning.conversion_model import ConversionPlan, Holding, Pair, Purpose, Terms
from treasury.planning.conversions import plan_conversions
from treasury.planning.trades import Side

D = Decimal


def holding(asset: str, spendable: str, price: str = "1", **settings: str) -> Holding:
    """A holding with nothing needed, no floor, and a band that is never left."""
    amounts = {"expected": spendable, "need": "0", "floor": "0", "minimum": "0", "target": "0", **settings}
    maximum = amounts.pop("maximum", None)
    brought = {Purpose.OBLIGATION: D(amounts.pop("brought", "0"))}
    levels: dict[str, Any] = {name: D(amount) for name, amount in amounts.items()}
    return Holding(
        asset,
        D(spendable),
        **levels,
        maximum=None if maximum is None else D(maximum),
        price=D(price),
        brought=brought,
    )


def pair(symbol: str, buy: str | None, sell: str | None) -> Pair:
    asset, against = symbol.split("-")
    return Pair(symbol, asset, against, None if buy is None else D(buy), None if sell is None else D(sell))


def terms(**settings: Any) -> Terms:
    return Terms(**{"base_asset": "USDT", "min_trade": D(10), **settings})


ETH = pair("ETH-USDT", "2000", "2000")
BTC = pair("BTC-USDT", "50000", "50000")
BRL = pair("BRL-USDT", "0.2", "0.2")


def plan(holdings: list[Holding], pairs: list[Pair], **settings: Any) -> ConversionPlan:
    agreed = terms(**settings)
    planned = plan_conversions(holdings, pairs, agreed)
    assert check_conversions(planned, holdings, pairs, agreed) == []
    return planned


def trades(planned: ConversionPlan) -> list[tuple[str, str, Decimal, Purpose, int]]:
    return [(each.side.value, each.symbol, each.amount, each.purpose, each.round) for each in planned.conversions]


def reasons(planned: ConversionPlan) -> Mapping[tuple[str, Purpose], tuple[Decimal, str]]:
    return {(each.asset, each.purpose): (each.amount, each.reason) for each in planned.shortfalls}


def test_a_payroll_of_tomorrow_is_bought_today() -> None:
    planned = plan([holding("USDT", "5000", target="1000"), holding("BRL", "100", "0.2", need="5100")], [BRL])
    assert trades(planned) == [("BUY", "BRL-USDT", D(1000), Purpose.OBLIGATION, 1)]
    assert planned.shortfalls == ()


def test_the_fee_is_bought_with_it() -> None:
    planned = plan([holding("USDT", "5000"), holding("BRL", "0", "0.2", need="5000")], [BRL], fee_bps=D(100))
    [bought] = planned.conversions
    assert bought.expected_receive * D("0.99") >= 5000
    assert bought.amount == D("1010.101011")  # 5000 / 0.99 * 0.2, rounded up
    assert bought.cost == D("10.10101011")
    assert planned.next_unit == {"BRL": D("0.00202021")}  # a hundredth of what 1 BRL after the fee costs


def test_money_on_its_way_counts_against_what_is_missing_and_is_not_spent() -> None:
    on_its_way = holding("BRL", "0", "0.2", need="5000", expected="5000")
    assert plan([holding("USDT", "5000"), on_its_way], [BRL]).conversions == ()
    coming = holding("USDT", "100", expected="5000")
    planned = plan([coming, holding("BRL", "0", "0.2", need="5000")], [BRL])
    assert trades(planned) == [("BUY", "BRL-USDT", D(100), Purpose.OBLIGATION, 1)]
    assert reasons(planned)["BRL", Purpose.OBLIGATION][0] == 4500


def test_an_obligation_comes_before_a_floor_and_a_floor_before_a_band() -> None:
    assets = [
        holding("USDT", "300"),
        holding("BRL", "0", "0.2", need="1000"),
        holding("ETH", "0", "2000", floor="0.04", minimum="0.04", target="0.04", maximum="1"),
        holding("BTC", "0", "50000", minimum="0.01", target="0.01", maximum="1"),
    ]
    planned = plan(assets, [BRL, ETH, BTC])
    assert trades(planned) == [
        ("BUY", "BRL-USDT", D(200), Purpose.OBLIGATION, 1),
        ("BUY", "BTC-USDT", D(20), Purpose.BAND, 1),
        ("BUY", "ETH-USDT", D(80), Purpose.FLOOR, 1),
    ]
    assert reasons(planned)["BTC", Purpose.BAND][0] == D("0.0096")


def test_obligations_take_others_to_their_floor_and_floors_to_their_minimum_and_bands_to_their_target() -> None:
    ether = holding("ETH", "10", "2000", floor="1", minimum="2", target="5", maximum="20")
    spent = {}
    for purpose, lacking in {
        "obligation": {"need": "1000000"},
        "floor": {"floor": "1000000", "minimum": "1000000", "target": "1000000"},
        "band": {"minimum": "1000000", "target": "1000000"},
    }.items():
        [sold] = plan([ether, holding("USDT", "0", **lacking)], [ETH]).conversions
        assert sold.purpose == purpose
        spent[purpose] = sold.amount
    assert spent == {"obligation": 9, "floor": 8, "band": 5}


def test_the_reserve_of_the_base_asset_is_its_minimum() -> None:
    planned = plan(
        [holding("USDT", "1000", minimum="400", target="900"), holding("ETH", "0", "2000", minimum="1", target="1")],
        [ETH],
    )
    assert trades(planned) == [("BUY", "ETH-USDT", D(600), Purpose.BAND, 1)]
    assert reasons(planned) == {
        ("ETH", Purpose.BAND): (D("0.7"), "no other asset has anything that may be spent for it")
    }


@pytest.mark.parametrize(("return_to", "bought", "sold"), [("target", 200, D("0.03")), ("edge", 100, D("0.02"))])
def test_an_asset_outside_its_band_comes_back_to_its_target_or_to_the_edge(
    return_to: str, bought: int, sold: Decimal
) -> None:
    assets = [
        holding("USDT", "1000"),
        holding("ETH", "0", "2000", minimum="0.05", target="0.1", maximum="0.2"),
        holding("BTC", "0.05", "50000", minimum="0.01", target="0.02", maximum="0.03"),
    ]
    planned = plan(assets, [ETH, BTC], return_to=return_to)
    assert trades(planned) == [
        ("SELL", "BTC-USDT", sold, Purpose.BAND, 1),
        ("BUY", "ETH-USDT", D(bought), Purpose.BAND, 1),
    ]


def test_a_step_over_the_edge_is_made_as_large_as_the_smallest_trade_but_not_past_the_target() -> None:
    def at(target: str) -> ConversionPlan:
        ether = holding("ETH", "0.998", "2000", minimum="1", target=target, maximum="2")
        return plan([holding("USDT", "1000"), ether], [ETH], return_to="edge")

    assert trades(at("1.1")) == [("BUY", "ETH-USDT", D(10), Purpose.BAND, 1)]
    assert at("1.001").conversions == ()
    assert reasons(at("1.001")) == {("ETH", Purpose.BAND): (D("0.002"), "worth less than the smallest trade, 10 USDT")}


def test_a_small_rest_of_an_obligation_is_bought_even_past_the_target() -> None:
    planned = plan([holding("USDT", "1000"), holding("BRL", "99", "0.2", need="100", maximum="0")], [BRL])
    assert trades(planned) == [("BUY", "BRL-USDT", D(10), Purpose.OBLIGATION, 1)]


def test_a_full_base_asset_takes_the_smallest_sale_for_an_obligation_and_no_more_than_its_maximum_for_a_band() -> None:
    reais = holding("BRL", "1000", "0.2", maximum="0")
    urgent = plan([holding("USDT", "0", need="1", maximum="0"), reais], [BRL])
    assert trades(urgent) == [("SELL", "BRL-USDT", D(50), Purpose.OBLIGATION, 1)]
    common = plan([holding("USDT", "0", maximum="30"), reais], [BRL])
    assert trades(common) == [("SELL", "BRL-USDT", D(150), Purpose.BAND, 1)]
    assert reasons(common) == {
        ("BRL", Purpose.BAND): (D(850), "USDT is at its maximum, and no other asset lacks anything")
    }


def test_what_only_sales_of_the_same_plan_can_pay_for_waits_for_them_and_counts_their_worst_case() -> None:
    assets = [
        holding("USDT", "0"),
        holding("ETH", "2", "2000", minimum="0.5", target="1", maximum="1"),
        holding("BRL", "0", "0.2", need="20000"),
    ]
    planned = plan(assets, [ETH, BRL], fee_bps=D(100))
    sold, bought = planned.conversions
    assert (sold.round, sold.side, sold.expected_receive) == (1, Side.SELL, 4000)
    assert (bought.round, bought.side, bought.amount) == (2, Side.BUY, D(3960))  # 4000 less the fee
    assert sold.purpose is Purpose.OBLIGATION


def test_without_a_pair_of_its_own_an_asset_goes_through_another() -> None:
    assets = [holding("USDT", "0"), holding("BTC", "0", "50000"), holding("XRP", "1000", "0.5", maximum="0")]
    planned = plan(assets, [BTC, pair("XRP-BTC", "0.00001", "0.00001")])
    assert trades(planned) == [
        ("SELL", "XRP-BTC", D(1000), Purpose.BAND, 1),
        ("SELL", "BTC-USDT", D("0.01"), Purpose.BAND, 2),
    ]


def test_the_cheaper_way_is_taken_even_if_it_is_the_longer_one_until_the_fixed_cost_says_no() -> None:
    assets = [holding("USDT", "1000"), holding("BTC", "0", "50000"), holding("XRP", "0", "0.5", need="1000")]
    pairs = [BTC, pair("XRP-BTC", "0.00001", "0.00001"), pair("XRP-USDT", "0.505", "0.495")]
    assert [each.symbol for each in plan(assets, pairs).conversions] == ["BTC-USDT", "XRP-BTC"]
    assert [each.symbol for each in plan(assets, pairs, fixed_cost=D(6)).conversions] == ["XRP-USDT"]


def test_one_pair_is_never_traded_both_ways() -> None:
    """Ether is lacking, and dollars too: what there is of bitcoin serves both."""
    assets = [
        holding("USDT", "100", minimum="500", target="500"),
        holding("ETH", "0", "2000", need="0.1"),
        holding("BTC", "0.1", "50000", maximum="0.05"),
    ]
    planned = plan(assets, [BTC, ETH, pair("ETH-BTC", "0.04", "0.04")])
    assert len({each.symbol for each in planned.conversions}) == len(planned.conversions)
    assert planned.shortfalls == ()


LIMITED = [
    ({"max_spend": {"USDT": D(150)}}, 150, "max_per_trade (or max_share_percent), 150 USDT, allows no more"),
    ({"max_spent": {"USDT": D(250)}}, 250, "max_per_day, of which 250 USDT are left today, allows no more"),
    ({"max_turnover": {"USDT": D(250)}}, 250, "max_turnover, of which 250 USDT are left today, allows no more"),
    ({"max_turnover": {"ETH": D("0.1")}}, 200, "max_turnover, of which 0.1 ETH are left today, allows no more"),
    (
        {"max_per_pair": {"ETH-USDT": D(300)}},
        300,
        "max_per_pair of ETH-USDT, of which 300 USDT are left today, allows no more",
    ),
    ({"max_total": D(350)}, 350, "max_value_per_day, of which 350 USDT are left, allows no more"),
    ({"max_cost": D(2), "fee_bps": D(50)}, 400, "max_cost_per_day, of which 2 USDT are left, allows no more"),
]


@pytest.mark.parametrize(("limit", "spent", "reason"), LIMITED)
def test_a_limit_is_kept_and_what_it_leaves_open_names_it(limit: dict[str, Any], spent: int, reason: str) -> None:
    planned = plan([holding("USDT", "5000"), holding("ETH", "0", "2000", need="1")], [ETH], **limit)
    [bought] = planned.conversions
    assert bought.amount == spent
    assert reasons(planned)["ETH", Purpose.OBLIGATION][1] == reason


def test_an_asset_that_no_pair_leads_to_is_named_and_the_others_go_on() -> None:
    assets = [holding("USDT", "5000"), holding("ETH", "0", "2000", need="1"), holding("SOL", "0", "100", need="3")]
    planned = plan(assets, [ETH])
    assert trades(planned) == [("BUY", "ETH-USDT", D(2000), Purpose.OBLIGATION, 1)]
    assert reasons(planned) == {("SOL", Purpose.OBLIGATION): (D(3), "no pair of the policy leads to SOL")}
    assert planned.next_unit["SOL"] is None


def test_a_rate_that_could_not_be_had_is_named() -> None:
    assets = [holding("USDT", "5000"), holding("ETH", "0", "2000", need="1")]
    planned = plan(assets, [pair("ETH-USDT", None, "2000")])
    assert reasons(planned) == {("ETH", Purpose.OBLIGATION): (D(1), "the rate of ETH-USDT could not be had")}


def test_a_surplus_of_the_base_asset_that_nobody_lacks_stays_and_is_said() -> None:
    planned = plan([holding("USDT", "5000", maximum="1000"), holding("ETH", "1", "2000")], [ETH])
    reason = "above its maximum, and no other asset lacks anything that it could buy"
    assert reasons(planned) == {("USDT", Purpose.BAND): (D(5000), reason)}


def test_a_surplus_that_passes_through_an_asset_leaves_it_in_its_band_to_the_last_unit() -> None:
    nothing = {"maximum": "0"}
    holdings = [
        holding("USDT", "0"),
        holding("BRL", "110", "0.2", **nothing),
        holding("ETH", "0", "2000", **nothing),
        holding("XRP", "0", "0.5", need="20", **nothing),
        holding("BTC", "0", "50000", expected="0.001", minimum="0.00102", target="0.00122", maximum="0.00122"),
    ]
    rates = {"XRP-BTC": "0.00001", "BRL-BTC": "0.000004", "ETH-USDT": "2000", "ETH-BTC": "0.04"}
    pairs = [pair(symbol, rate, rate) for symbol, rate in rates.items()]
    planned = plan(holdings, pairs, fee_bps=D(10), return_to="edge")
    brought = sum(each.expected_receive * D("0.999") for each in planned.conversions if each.receive_currency == "BTC")
    spent = sum(each.amount for each in planned.conversions if each.currency == "BTC")
    assert D("0.001") + brought - spent >= D("0.00102")


def test_a_surplus_gives_way_to_what_is_missing_further_on_to_the_last_unit() -> None:
    nothing = {"maximum": "0"}
    holdings = [
        holding("USDT", "0"),
        holding("BRL", "105", "0.2", **nothing),
        holding("ETH", "0", "2000", need="0.005", **nothing),
        holding("BTC", "0", "50000", **nothing),
    ]
    rates = {"ETH-BTC": "0.04", "BRL-USDT": "0.2", "BRL-BTC": "0.000004"}
    pairs = [pair(symbol, rate, rate) for symbol, rate in rates.items()]
    planned = plan(holdings, pairs, fee_bps=D(10), return_to="edge")
    assert [each.symbol for each in planned.conversions] == ["BRL-BTC", "BRL-USDT", "ETH-BTC"]
    assert planned.shortfalls == ()


def test_what_a_limit_leaves_goes_to_the_base_asset_first_and_a_rest_too_small_to_trade_is_named() -> None:
    holdings = [
        holding("USDT", "0", need="25", maximum="0"),
        holding("BRL", "180", "0.2", need="5", maximum="5"),
        holding("BTC", "0", "50000", need="0.0005", maximum="0"),
    ]
    pairs = [pair("BRL-USDT", "0.20002", "0.19998"), pair("BRL-BTC", "0.000004", "0.000004")]
    planned = plan(holdings, pairs, return_to="edge", max_total=D("34.37"))
    assert trades(planned) == [("SELL", "BRL-USDT", D("125.01250126"), Purpose.OBLIGATION, 1)]
    assert reasons(planned)["BTC", Purpose.OBLIGATION] == (
        D("0.0005"),
        "max_value_per_day, of which 34.37 USDT are left, allows no more",
    )


def test_a_need_that_is_bought_through_a_full_base_asset_is_met_to_the_last_unit() -> None:
    holdings = [
        holding("USDT", "0", maximum="0"),
        holding("BRL", "0", "0.2", need="2215", maximum="0"),
        holding("BTC", "0.00908", "50000", maximum="0.00002"),
    ]
    planned = plan(holdings, [BRL, BTC], fee_bps=D(10), return_to="edge")
    assert [each.asset for each in planned.shortfalls] == ["BTC"]


def test_what_a_second_plan_would_trade_is_traded_by_the_first() -> None:
    """Rounding leaves trades out of the proposal, and of the plan of each asset by itself: both stop too early."""
    holdings = [
        holding("USDT", "0", maximum="0"),
        holding("BRL", "5", "0.2", need="130", maximum="5"),
        holding("BTC", "0.02906", "50000", minimum="0.00002", target="0.00028", maximum="0.00056"),
        holding("ETH", "0.029", "2000", minimum="0.0145", target="0.016", maximum="0.0265"),
        holding("XRP", "0", "0.5", minimum="18", target="58", maximum="80"),
    ]
    pairs = [
        pair("BTC-USDT", "50000", "50000"),
        pair("ETH-BTC", "0.04008", "0.04008"),
        pair("BRL-BTC", "0.000004012008", "0.000003995992"),
        pair("XRP-USDT", "0.502002", "0.499998"),
        pair("XRP-BTC", "0.00001", "0.00001"),
        pair("BRL-USDT", "0.2016024", "0.1991976"),
        pair("ETH-USDT", "2004.2004", "2003.7996"),
    ]
    planned = plan(holdings, pairs, return_to="edge", fee_bps=D(0))
    assert [each.asset for each in planned.shortfalls] == ["BTC", "ETH"]


def test_a_surplus_too_small_to_be_sold_is_not_sold_with_what_is_bought_for_it() -> None:
    """The smallest purchase brought more than was needed: planning again must not spend BRL on selling the rest."""
    holdings = [
        holding("USDT", "0"),
        holding("BRL", "50", "0.2", maximum="50"),
        holding("BTC", "0", "50000", maximum="0"),
        holding("ETH", "0.005", "2000", need="0.0005", maximum="0"),
    ]
    pairs = [BRL, pair("BRL-BTC", "0.000004", "0.000004"), BTC, ETH, pair("ETH-BTC", "0.04", "0.04")]
    planned = plan(holdings, pairs, return_to="edge", fee_bps=D(0))
    assert planned.conversions == ()
    [left] = planned.shortfalls
    assert (left.asset, left.amount) == ("ETH", D("0.0045"))
    assert "less than the smallest trade" in left.reason


def test_money_of_the_base_asset_pays_before_another_asset_is_sold_for_it() -> None:
    holdings = [
        holding("USDT", "102", need="37", floor="24", minimum="24", target="56", maximum="59"),
        holding("ETH", "0.0115", "2000", need="0.0005", minimum="0.0005", target="0.0095", maximum="0.023"),
        holding("BRL", "290", "0.2", expected="540", need="7020", target="95", maximum="220"),
    ]
    pairs = [BRL, pair("ETH-USDT", "1996", "1996")]
    planned = plan(holdings, pairs, return_to="edge", fee_bps=D(0), max_total=D("52.37"), max_cost=D(0))
    assert trades(planned) == [("BUY", "BRL-USDT", D(41), Purpose.OBLIGATION, 1)]  # 11.37 more is too little for two


def test_the_base_asset_pays_for_a_band_down_to_its_minimum_and_a_sale_for_the_rest() -> None:
    holdings = [
        holding("USDT", "120", minimum="36", target="39", maximum="44", need="42"),
        holding("BRL", "425", "0.2", need="245", minimum="875", target="975", maximum="2000"),
        holding("ETH", "0.8115", "2000", minimum="0.014", target="0.0455", maximum="0.1805"),
    ]
    pairs = [pair("ETH-USDT", "2004.2004", "2003.7996"), pair("BRL-USDT", "0.2012", "0.1988")]
    planned = plan(holdings, pairs, return_to="edge", fee_bps=D(75), max_turnover={"ETH": D("0.08")})
    assert [(each.symbol, each.amount) for each in planned.conversions] == [
        ("ETH-USDT", D("0.04972452")),
        ("BRL-USDT", D("140.890681")),
    ]


@pytest.mark.parametrize(
    ("needs", "bought"),
    [
        ({"need": "10000"}, [(D(2000), Purpose.OBLIGATION, 2)]),
        (
            {"need": "5000", "minimum": "5000", "target": "5000"},
            [(D(1000), Purpose.OBLIGATION, 1), (D(1000), Purpose.BAND, 2)],
        ),
    ],
)
def test_a_purchase_waits_for_proceeds_as_a_whole_but_an_obligation_not_for_those_of_a_band(
    needs: dict[str, str], bought: list[tuple[Decimal, Purpose, int]]
) -> None:
    assets = [
        holding("USDT", "1000"),
        holding("ETH", "2", "2000", minimum="0.5", target="1", maximum="1"),
        holding("BRL", "0", "0.2", **needs),
    ]
    found = [each for each in plan(assets, [ETH, BRL]).conversions if each.symbol == "BRL-USDT"]
    assert [(each.amount, each.purpose, each.round) for each in found] == bought


@pytest.mark.parametrize(("direct", "sold"), [("0.0401", ["ETH-BTC"]), ("0.0409", ["BTC-USDT", "ETH-USDT"])])
def test_a_surplus_takes_a_direct_pair_where_that_is_cheaper_than_the_way_over_the_base_asset(
    direct: str, sold: list[str]
) -> None:
    assets = [
        holding("USDT", "0"),
        holding("BTC", "0.05", "50000", maximum="0.03"),
        holding("ETH", "0", "2000", need="0.4"),
    ]
    pairs = [pair("ETH-USDT", "2010", "1990"), pair("BTC-USDT", "50250", "49750"), pair("ETH-BTC", direct, "0.0399")]
    found = plan(assets, pairs).conversions
    assert [each.symbol for each in found if each.purpose is Purpose.OBLIGATION] == sold


def test_what_sales_brought_for_obligations_is_for_these_alone() -> None:
    ether = holding("ETH", "0", "2000", floor="1", minimum="1", target="1")
    for brought, bought in (("0", []), ("300", ["BRL-USDT"])):
        dollars = holding("USDT", "900", floor="1000", minimum="1000", target="1000", brought=brought)
        reais = holding("BRL", "0", "0.2", need="2500")
        found = plan([dollars, ether, reais], [ETH, BRL]).conversions
        assert [each.symbol for each in found] == bought
        assert sum(each.amount for each in found) == D(brought)


def test_a_surplus_pays_before_the_base_asset_where_both_cost_the_same() -> None:
    assets = [
        holding("USDT", "10", minimum="1", target="12", maximum="12"),
        holding("ETH", "0.005", "2000", maximum="0"),
        holding("BTC", "0", "50000", need="0.00002"),
    ]
    pairs = [Pair("BTC-USDT", "BTC", "USDT", D(50_000), D(50_000)), Pair("ETH-BTC", "ETH", "BTC", D("0.04"), D("0.04"))]
    assert [each.symbol for each in plan(assets, pairs).conversions] == ["ETH-BTC"]


def test_the_example_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "rebalancing.md").read_text(encoding="utf-8")
    assets = [
        holding("USDT", "1400", minimum="1000", target="1000", reserve="1000"),
        holding("ETH", "3.5", "2000", minimum="1", target="2", maximum="3"),
        holding("BRL", "1000", "0.2", need="5000"),
    ]
    found = plan(assets, [ETH, BRL], fee_bps=D(10), return_to="edge").conversions
    for each in found:
        assert f"spend {canonical(each.amount)} {each.currency} | {each.round} |" in page
    held = {"USDT": D(1400), "ETH": D("3.5"), "BRL": D(1000)}
    for each in found:
        held[each.currency] -= each.amount
        held[each.receive_currency] += each.expected_receive * D("0.999")
    after = {asset: canonical(round_down(amount, 6)) for asset, amount in held.items()}
    assert f"there are {after['USDT']} USDT, {after['ETH']} ETH and {after['BRL']} BRL" in page


def test_what_makes_no_sense_is_refused() -> None:
    usdt = holding("USDT", "1")
    with pytest.raises(InputError, match="holding of USDT is given twice"):
        plan_conversions([usdt, usdt], [], terms())
    with pytest.raises(InputError, match="pair ETH-USDT is given twice"):
        plan_conversions([usdt], [ETH, ETH], terms())
    with pytest.raises(InputError, match="price of ETH must be greater than zero"):
        plan_conversions([usdt, holding("ETH", "1", "0")], [], terms())
    with pytest.raises(InputError, match="rates of ETH-USDT must be greater than zero"):
        plan_conversions([usdt, holding("ETH", "1", "1")], [pair("ETH-USDT", "0", "1")], terms())


def test_an_asset_that_can_pay_itself_pays_before_the_base_asset_buys_more_of_it() -> None:
    brl_btc = pair("BRL-BTC", None, "0.000004")
    btc = holding("BTC", "0", "50000", need="0.01")
    held = [holding("USDT", "900"), btc, holding("BRL", "2000", "0.2"), holding("ETH", "0", "2000", need="0.4")]
    planned = plan(held, [ETH, BRL, brl_btc])
    assert trades(planned) == [
        ("BUY", "BRL-USDT", D(100), Purpose.OBLIGATION, 1),
        ("BUY", "ETH-USDT", D(800), Purpose.OBLIGATION, 1),
        ("SELL", "BRL-BTC", D(2500), Purpose.OBLIGATION, 2),
    ]
    assert planned.shortfalls == ()
