"""A replay of nights comes to the numbers that one works out by hand, and made-up nights are the same each time."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from treasury.errors import InputError
from treasury.planning.backtest import Amounts, NightRates, PlayedNight, PolicyResult, backtest
from treasury.planning.conversions import Conversion, Holding, Pair, Purpose, Side, Terms, plan_conversions
from treasury.planning.made_up_nights import ASSETS, is_payday, made_up_nights
from treasury.reports.backtest import backtest_rows, backtest_table, plot_backtest
from treasury.runs.stored_nights import read_nights, write_nights

D = Decimal
Rates = Mapping[str, NightRates]


def night(day: int, **amounts: dict[str, str]) -> PlayedNight:
    """A night of November with two pairs: BRL at 0.19 and 0.21, ETH at 1990 and 2010."""
    content = {
        "date": f"2026-11-{day:02d}",
        "balances": {},
        "rates": {"BRL-USDT": {"buy": "0.21", "sell": "0.19"}, "ETH-USDT": {"buy": "2010", "sell": "1990"}},
        **amounts,
    }
    return PlayedNight.from_dict(content)


def conversion(side: Side, symbol: str, amount: Decimal) -> Conversion:
    asset, against = symbol.split("-")
    spent, got = (against, asset) if side is Side.BUY else (asset, against)
    return Conversion(symbol, side, spent, amount, got, D(0), D(1), Purpose.BAND, 1, D(0))


def nothing(balances: Amounts, needs: Amounts, rates: Rates) -> Sequence[Conversion]:
    return []


def what_is_needed(balances: Amounts, needs: Amounts, rates: Rates) -> Sequence[Conversion]:
    """Buys the reais that are missing, and a tenth more."""
    missing = needs.get("BRL", D(0)) - balances.get("BRL", D(0))
    price = rates["BRL-USDT"].buy
    return [conversion(Side.BUY, "BRL-USDT", missing * price * D("1.1"))] if missing > 0 and price else []


THREE = [
    night(2, balances={"USDT": "1000", "BRL": "100"}, payouts={"BRL": "300"}),
    night(3, balances={"USDT": "7"}, deposits={"USDT": "50", "ETH": "0.1"}, payouts={"USDT": "20"}),
    night(4, payouts={"BRL": "500", "ETH": "0.2"}),
]


def replayed(*policies: str, fee_bps: str = "0", horizon: int = 1) -> dict[str, PolicyResult]:
    plans = {"nothing": nothing, "needed": what_is_needed}
    found = backtest(
        THREE, {name: plans[name] for name in policies}, base_asset="USDT", fee_bps=D(fee_bps), horizon=horizon
    )
    return {each.policy: each for each in found}


def test_who_converts_nothing_is_short_by_what_payouts_exceed() -> None:
    result = replayed("nothing")["nothing"]
    assert result.days_short == 2
    assert result.short == {"BRL": 700, "ETH": D("0.1")}  # 200 on the second, all 500 on the fourth
    # 1000 USDT after the first; 1000 + 50 - 20 and 0.1 ETH at 2000 after the second; the ether leaves on the third.
    assert [each.idle for each in result.days] == [1000, 1230, 1030]
    assert result.mean_idle == D("1086.666666")
    assert (result.trades, result.cost, result.cost_bps) == (0, 0, None)
    assert result.worst_day is not None
    assert (result.worst_day.day, result.worst_day.short_value) == (date(2026, 11, 4), 300)  # 500 * 0.2 + 0.1 * 2000


def test_fills_are_made_at_the_nights_rates_less_the_fee() -> None:
    result = replayed("needed", fee_bps="100")["needed"]
    # First night: 200 missing * 0.21 * 1.1 = 46.2 USDT for 220 BRL, less 2.2 fee. 17.8 BRL are left: 100 + 217.8 - 300.
    first, _, third = result.days
    assert (first.trades, first.turnover) == (1, D("46.2"))
    assert first.cost == D("2.64")  # 46.2 - 217.8 * 0.2
    assert first.idle == D("957.36")  # 1000 - 46.2 + 17.8 * 0.2
    # Third night: 482.2 missing * 0.231 = 111.3882 USDT for 530.42 BRL, less 5.3042.
    assert third.turnover == D("111.3882")
    assert third.cost == D("6.36504")  # 111.3882 - 525.1158 * 0.2
    assert result.short == {"ETH": D("0.1")}
    assert result.cost == D("9.00504")
    assert result.cost_bps == D("571.43")  # 9.00504 / 157.5882, rounded up


def test_a_horizon_shows_the_needs_of_later_nights_too() -> None:
    result = replayed("needed", horizon=3)["needed"]
    assert [each.trades for each in result.days] == [1, 0, 0]  # 800 - 100 missing on the first: all bought at once
    assert result.days[0].turnover == D("161.7")


def test_a_sale_is_valued_at_mid() -> None:
    def sells(balances: Amounts, needs: Amounts, rates: Rates) -> Sequence[Conversion]:
        return [conversion(Side.SELL, "ETH-USDT", balances["ETH"])] if balances.get("ETH") else []

    [result] = backtest([night(2, balances={"ETH": "2"})], {"sells": sells}, base_asset="USDT")
    [day] = result.days
    assert (day.turnover, day.cost, day.idle) == (4000, 20, 3980)


def test_what_cannot_be_replayed_is_named() -> None:
    def spends_all(balances: Amounts, needs: Amounts, rates: Rates) -> Sequence[Conversion]:
        return [conversion(Side.BUY, "BRL-USDT", D(5000))]

    def unknown(balances: Amounts, needs: Amounts, rates: Rates) -> Sequence[Conversion]:
        return [conversion(Side.BUY, "SOL-USDT", D(5))]

    with pytest.raises(InputError, match="policy x, 2026-11-02: spends 5000 USDT, and has 1000"):
        backtest(THREE, {"x": spends_all}, base_asset="USDT")
    with pytest.raises(InputError, match="BUY SOL-USDT has no rate"):
        backtest(THREE, {"x": unknown}, base_asset="USDT")
    with pytest.raises(InputError, match="at least one night"):
        backtest([], {"x": nothing}, base_asset="USDT")
    with pytest.raises(InputError, match="2026-11-02 does not come after 2026-11-03"):
        backtest([THREE[1], THREE[0]], {"x": nothing}, base_asset="USDT")
    with pytest.raises(InputError, match="no rate leads from SOL to USDT"):
        backtest([night(2, balances={"SOL": "1"})], {"x": nothing}, base_asset="USDT")


def test_an_asset_without_a_pair_of_its_own_is_valued_over_another() -> None:
    rates = {"ETH-USDT": {"buy": "2010", "sell": "1990"}, "XRP-ETH": {"buy": None, "sell": "0.00025"}}
    read = PlayedNight.from_dict({"date": "2026-11-02", "rates": rates})
    assert read.prices("USDT") == {"USDT": 1, "ETH": 2000, "XRP": D("0.5")}


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({}, "a night has no date"),
        ({"date": "yesterday"}, "night yesterday: Invalid isoformat"),
        ({"date": "2026-11-02", "balances": {"USDT": 1.5}}, "floating-point number is not exact"),
        ({"date": "2026-11-02", "payouts": {"USDT": "-1"}}, "an amount is not negative"),
        ({"date": "2026-11-02", "rates": {"ETH-USDT": {"buy": "0"}}}, "a rate is greater than zero"),
        ({"date": "2026-11-02", "rates": {"ETHUSDT": {"buy": "1"}}}, "ETHUSDT is no pair"),
    ],
)
def test_a_night_that_is_wrong_says_where(content: dict[str, object], wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        PlayedNight.from_dict(content)


def test_nights_are_kept_in_a_folder_and_never_overwritten(tmp_path: Path) -> None:
    write_nights(tmp_path / "nights", THREE)
    (tmp_path / "nights" / "notes.txt").write_text("not a night")
    assert list(read_nights(tmp_path / "nights")) == THREE
    with pytest.raises(InputError, match="is already there"):
        write_nights(tmp_path / "nights", THREE[:1])
    (tmp_path / "nights" / "2026-11-09.json").write_text('{"date": "2026-11-08"}')
    with pytest.raises(InputError, match=r"2026-11-09.json: is the night of 2026-11-08"):
        read_nights(tmp_path / "nights")
    with pytest.raises(InputError, match="no such folder"):
        read_nights(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="holds no night"):
        read_nights(tmp_path)


def test_made_up_nights_are_the_same_for_the_same_seed_and_survive_json() -> None:
    nights = made_up_nights(7, date(2026, 11, 1), 40)
    assert nights == made_up_nights(7, date(2026, 11, 1), 40)
    assert nights != made_up_nights(8, date(2026, 11, 1), 40)
    assert [PlayedNight.from_dict(each.as_dict()) for each in nights] == list(nights)
    assert [each.day for each in nights] == [date(2026, 11, 1) + timedelta(days=number) for number in range(40)]


def test_made_up_people_are_paid_twice_a_month_and_suppliers_on_weekdays() -> None:
    november = [date(2026, 11, 1) + timedelta(days=number) for number in range(30)]
    assert [day.day for day in november if is_payday(day)] == [13, 30]  # the 15th is a Sunday
    assert [day for day in (date(2026, 1, 30), date(2026, 1, 31)) if is_payday(day)] == [date(2026, 1, 30)]
    nights = {each.day: each for each in made_up_nights(7, date(2026, 11, 1), 30)}
    assert not any(each.payouts for day, each in nights.items() if day.weekday() >= 5)
    brl = {day: each.payouts.get("BRL", D(0)) * D(str(ASSETS["BRL"].price)) for day, each in nights.items()}
    assert min(brl[date(2026, 11, 13)], brl[date(2026, 11, 30)]) > 20_000
    assert max(value for day, value in brl.items() if not is_payday(day)) < 15_000
    assert all(rates.buy > rates.sell for each in nights.values() for rates in each.rates.values())  # type: ignore[operator]


def planner(return_to: str) -> object:
    """A policy over the made-up assets: the currencies that people are paid in are kept, coins are sold."""

    def plan(balances: Amounts, needs: Amounts, rates: Rates) -> Sequence[Conversion]:
        holdings = []
        for asset, each in ASSETS.items():
            price = D(1) if asset == "USDT" else rates[f"{asset}-USDT"].middle
            assert price is not None
            kept = D(0) if each.payroll == 0 else D(2000) / price
            held = balances.get(asset, D(0))
            holdings.append(
                Holding(
                    asset,
                    spendable=held,
                    expected=held,
                    need=needs.get(asset, D(0)),
                    floor=D(0),
                    minimum=kept,
                    target=2 * kept,
                    maximum=None if asset == "USDT" else 4 * kept,
                    price=price,
                )
            )
        pairs = [Pair(s, s.partition("-")[0], "USDT", each.buy, each.sell) for s, each in rates.items()]
        terms = Terms("USDT", D(50), D(1), D(10), "edge" if return_to == "edge" else "target")
        return plan_conversions(holdings, pairs, terms).conversions

    return plan


def test_a_policy_that_plans_for_its_needs_is_short_less_often_than_one_that_does_nothing() -> None:
    nights = made_up_nights(7, date(2026, 11, 1), 40)
    policies = {"nothing": nothing, "to target": planner("target"), "to edge": planner("edge")}
    idle, target, edge = backtest(nights, policies, base_asset="USDT", fee_bps=D(10), horizon=2)  # type: ignore[arg-type]
    assert idle.days_short > 5
    assert target.days_short == edge.days_short == 0
    assert edge.cost < target.cost
    assert (idle, target, edge) == backtest(nights, policies, base_asset="USDT", fee_bps=D(10), horizon=2)  # type: ignore[arg-type]


def test_the_table_and_the_plot_say_what_was_found() -> None:
    results = list(replayed("nothing", "needed").values())
    assert backtest_rows(results, "USDT")[1] == (
        "nothing",
        "3",
        "2",
        "700 BRL, 0.1 ETH",
        "1,086.67",
        "0",
        "0.00",
        "-",
        "2026-11-04 (300 USDT short)",
    )
    table = backtest_table(results, "USDT").splitlines()
    assert [line.split()[0] for line in table] == ["Policy", "nothing", "needed"]
    drawn = plot_backtest(results, "USDT")
    assert drawn == plot_backtest(results, "USDT")
    assert "Held beyond what was paid, USDT" in drawn
    assert all(f">{each.policy}<" in drawn for each in results)
