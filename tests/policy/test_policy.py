"""The policy: what it says, and how it explains what is wrong with it."""

import re
import tomllib
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import data
from treasury.errors import InputError
from treasury.policy.model import Policy, parse_policy
from treasury.policy_file import line_of, read_policy

GOOD = """
time_zone = "Asia/Singapore"
base_asset = "USDT"
[rebalancing]
min_trade = "25"
[assets.ETH]
target = "2.5"
"""


TABLES = ("base_asset", "assets", "rebalancing")


def write(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_a_policy_leaves_out_has_defaults(tmp_path: Path) -> None:
    policy = read_policy(write(tmp_path, GOOD))
    band = policy.assets["ETH"]
    assert (str(band.minimum), str(band.target), str(band.maximum)) == ("2.5",) * 3
    assert policy.symbol("ETH") == "ETH-USDT"
    assert (policy.trading.slippage_bps, policy.trading.fee_bps) == (50, 100)


def test_a_symbol_can_be_named(tmp_path: Path) -> None:
    policy = read_policy(write(tmp_path, GOOD + 'symbol = "ETH-USDT_TRC20"\n'))
    assert policy.symbol("ETH") == "ETH-USDT_TRC20"


def test_the_sample_is_valid() -> None:
    policy = read_policy(data.path("treasury_policy.toml"))
    assert set(policy.assets) == {"USDT", "BTC", "ETH", "DOGE"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"2.5"', "2.5", "assets.ETH.target: an amount is written as text"),
        ('"2.5"', '"2,5"', "assets.ETH.target: an amount is plain digits"),
        ('"2.5"', '"-1"', "assets.ETH.target: must be zero or more"),
        ('"2.5"', '"2.5"\nminimum = "3"', "assets.ETH: minimum, target and maximum"),
        ('"2.5"', '"2.5"\nmaximum = 2', "assets.ETH: minimum, target and maximum"),
        ('target = "2.5"', "", "assets.ETH.target: is required"),
        (
            '"2.5"',
            '"2.5"\nmaxmum = "3"',
            "line 8: assets.ETH.maxmum: is not a setting of the policy; did you mean maximum?",
        ),
        ('"2.5"', '"2.5"\nsymbol = "ETHUSDT"', "symbol: is a pair of currencies, as BTC-USDT (got 'ETHUSDT')"),
        ('"25"', '"0"', "line 5: rebalancing.min_trade: must be greater than zero"),
        ('"25"', "true", "line 5: rebalancing.min_trade: an amount is written as text"),
        ('min_trade = "25"', "", "line 4: rebalancing.min_trade: is required"),
        ('"25"', '"25"\nslippage_bps = 1001', "slippage_bps: is at most 1000 (got 1001)"),
        ('"25"', '"25"\nslippage_bps = -1', "slippage_bps: is at least 0 (got -1)"),
        ('"25"', '"25"\nslippage_bps = 0.5', "slippage_bps: is a whole number (got 0.5)"),
        ('"25"', '"25"\nreturn_to = "middle"', "return_to: is one of 'edge' or 'target' (got 'middle')"),
        (
            '"25"',
            '"25"\nslipage_bps = 5',
            "line 6: rebalancing.slipage_bps: is not a setting of the policy; did you mean slippage_bps?",
        ),
        ("Asia/Singapore", "Asia/Atlantis", "line 2: time_zone: must be an IANA time zone"),
        ("Asia/Singapore", "../etc/passwd", "line 2: time_zone: must be an IANA time zone"),
        ("Asia/Singapore", "", "line 2: time_zone: must be an IANA time zone"),
        ('"USDT"', '""', "base_asset"),
        ("assets.ETH", "assets.USDT", "names no asset to trade"),
        ('"2.5"', '"2.5"\n[assets.USDT]\ntarget = 1\nsymbol = "USDT-USDT"', "not traded against itself"),
        ("[assets.ETH]", "[assets.ETH", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(InputError) as caught:
        read_policy(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_broken_toml_names_line_and_column(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 2, column"):
        read_policy(write(tmp_path, 'time_zone = "UTC"\nbase_asset = USDT\n'))


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_policy(write(tmp_path, 'time_zone = "UTC"\ncolour = "red"\n[assets.ETH]\ntarget = 0.5\n'))
    for place in ("line 2: colour", "line 4: assets.ETH.target", "base_asset", "rebalancing.min_trade"):
        assert f"{place}: " in str(caught.value)
    assert "minimum" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: the policy cannot be read"):
        read_policy(tmp_path / "none.toml")
    path = tmp_path / "latin.toml"
    path.write_bytes('# Köln\ntime_zone = "UTC"'.encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        read_policy(path)


def test_the_version_is_of_the_content_and_not_of_its_writing(tmp_path: Path) -> None:
    version = read_policy(write(tmp_path, GOOD)).fingerprint(*TABLES)
    lines = GOOD.strip().splitlines()
    other = "# a comment\n" + "\n".join([*reversed(lines[:2]), *lines[4:], *lines[2:4]])
    other = other.replace('"25"', '"25.00"').replace('"2.5"', '"2.50"\nminimum = "2.500"')
    assert read_policy(write(tmp_path, other)).fingerprint(*TABLES) == version
    assert len(version) == 64


@pytest.mark.parametrize(("old", "new"), [('"25"', '"26"'), ('"2.5"', '"2.5"\nmaximum = 3'), ("Singapore", "Tokyo")])
def test_the_version_changes_with_what_the_policy_says(tmp_path: Path, old: str, new: str) -> None:
    version = read_policy(write(tmp_path, GOOD)).fingerprint(*TABLES)
    assert read_policy(write(tmp_path, GOOD.replace(old, new))).fingerprint(*TABLES) != version


def test_the_business_date_is_the_policys_own(tmp_path: Path) -> None:
    policy = read_policy(write(tmp_path, GOOD))
    assert policy.business_date(datetime(2026, 11, 3, 15, 59, tzinfo=UTC)) == date(2026, 11, 3)
    assert policy.business_date(datetime(2026, 11, 3, 16, 0, tzinfo=UTC)) == date(2026, 11, 4)
    with pytest.raises(ValueError, match="zone"):
        policy.business_date(datetime.fromisoformat("2026-11-03T12:00:00"))


UNKNOWN = "is not a setting of the policy; did you mean"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[reconcilation]\nfee_tolerance_bps = 1\n", f"line 1: reconcilation: {UNKNOWN} reconciliation?"),
        ('timezone = "UTC"\n', f"line 1: timezone: {UNKNOWN} time_zone?"),
        (
            "[payouts]\n\nmax_per_paiout = {USDT = 1}\n",
            f"line 3: payouts.max_per_paiout: {UNKNOWN} max_per_payout?",
        ),
        ("[payouts]\nmax_per_run = {USDT = -1}\n", "line 2: payouts.max_per_run.USDT: must be zero or more"),
        (
            "[reconciliation.due_hours]\npayuot = 3\n",
            "line 1: reconciliation.due_hours: payuot is not an operation that moves money",
        ),
        ("[rebalancing]\nmin_trade = 1\n", "time_zone: is required; base_asset: is required; assets: is required"),
        ("payouts = 3\n", "line 1: payouts: is a table (got 3)"),
        ("[payouts]\nmost_per_run = {USDT = 1}\n", f"line 2: payouts.most_per_run: {UNKNOWN} max_per_run?"),
        ('[conversions]\npairs = "BTC-USDT"\n', "line 2: conversions.pairs: is a list (got 'BTC-USDT')"),
    ],
)
def test_a_name_that_no_table_has_is_told_with_its_line_and_the_nearest(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_policy(path)
    assert f"{path}: " in str(caught.value)
    assert said in str(caught.value)


def test_a_line_is_found_in_tables_inline_tables_and_values_of_several_lines() -> None:
    text = '# first\n[a]\nb = [\n  1,\n  2,\n]\nc = {d = 1, e = 2}\n[a.f]\n"g-h" = 1\n'
    assert [line_of(text, path) for path in (("a",), ("a", "b"), ("a", "c", "e"), ("a", "f", "g-h"))] == [2, 6, 7, 9]
    assert line_of(text, ("a", "f", "missing")) == 8
    assert line_of(text, ("nowhere",)) is None


def test_an_empty_policy_is_one_that_says_nothing(tmp_path: Path) -> None:
    policy = read_policy(write(tmp_path, "# nothing\n"))
    assert policy == Policy()
    with pytest.raises(InputError, match=r"no \[rebalancing\] table"):
        _ = policy.trading


@pytest.mark.parametrize(
    ("tables", "place"),
    [
        ({"payouts": {"max_per_day": {"usdt_trc20": "5"}}}, "payouts.max_per_day.usdt_trc20"),
        ({"withdrawals": {"max_per_payout": {" USDT": "5"}}}, "withdrawals.max_per_payout. USDT"),
        ({"payouts": {"min_rates": {"USDT eur": "0.8"}}}, "payouts.min_rates.USDT eur"),
        ({"conversions": {"max_turnover": {"USDT\u200b": "5"}}}, "conversions.max_turnover.USDT"),
        ({"reconciliation": {"high_amounts": {"usdt": "5"}}}, "reconciliation.high_amounts.usdt"),
        (
            {"scheduled": [{"name": "rent", "currency": "usdt", "amount": "5", "day_of_month": 1}]},
            "scheduled.rent.currency.usdt",
        ),
        (
            {
                "time_zone": "UTC",
                "base_asset": "usdt",
                "assets": {"BTC": {"target": "1"}},
                "rebalancing": {"min_trade": "5"},
            },
            "base_asset.usdt",
        ),
    ],
)
def test_a_limit_of_a_currency_that_no_payment_spells_so_is_refused(tables: dict[str, Any], place: str) -> None:
    with pytest.raises(InputError, match=f"^policy.toml: {re.escape(place)}.*: must be written in capitals"):
        parse_policy(tables, "policy.toml")


@pytest.mark.parametrize("pair", ["EUR-USDT", "USDT/EUR", "USDT.EUR", "USDT", "USDT-EUR-EUR", "USDT-EURO"])
def test_a_lowest_rate_of_what_no_quote_has_is_refused(pair: str) -> None:
    with pytest.raises(InputError, match=rf"^policy.toml: payouts.min_rates.{pair}: must be .* for example USDT"):
        parse_policy({"payouts": {"min_rates": {pair: "0.8"}}}, "policy.toml")


def test_a_limit_of_a_pair_the_other_way_round_is_refused() -> None:
    """It limited nothing: trades are made of the pair as the policy names it."""
    tables = tomllib.loads(data.path("treasury_policy.toml").read_text())
    tables["conversions"]["max_per_pair"] = {"BTC-USDT": "5", "SOL-USDT": "5", "ETH-BTC": "5"}
    parse_policy(tables, "policy.toml")
    tables["conversions"]["max_per_pair"] = {"USDT-BTC": "5"}
    with pytest.raises(InputError, match=r"max_per_pair.USDT-BTC: is traded as BTC-USDT: write that$"):
        parse_policy(tables, "policy.toml")


@pytest.mark.parametrize(
    ("time_zone", "day", "ends"),
    [
        ("Pacific/Kiritimati", "2026-12-31", "2026-12-31T10:00:00+00:00"),
        ("Pacific/Pago_Pago", "2026-12-31", "2027-01-01T11:00:00+00:00"),
        ("Europe/Berlin", "2026-10-25", "2026-10-25T23:00:00+00:00"),  # a day of 25 hours
        ("Asia/Beirut", "2026-03-28", "2026-03-28T22:00:00+00:00"),  # the next day has no midnight
        ("Asia/Kathmandu", "2028-02-29", "2028-02-29T18:15:00+00:00"),
    ],
)
def test_a_day_ends_in_the_time_zone(time_zone: str, day: str, ends: str) -> None:
    policy, end = Policy(time_zone=time_zone), int(datetime.fromisoformat(ends).timestamp() * 1000)
    assert policy.end_of_day_ms(date.fromisoformat(day)) == end == policy.day_end_ms(end - 1)
    assert policy.day_of(end - 1) == day < policy.day_of(end)
