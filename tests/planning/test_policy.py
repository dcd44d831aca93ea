"""The policy: what it says, and how it explains what is wrong with it."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import data
from treasury.errors import InputError
from treasury.planning.policy import read_policy

GOOD = """
time_zone = "Asia/Singapore"
base_asset = "USDT"
smallest_trade = "25"
[assets.ETH]
target = "2.5"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_a_policy_leaves_out_has_defaults(tmp_path: Path) -> None:
    policy = read_policy(write(tmp_path, GOOD))
    band = policy.assets["ETH"]
    assert (band.minimum, band.target, band.maximum) == (Decimal("2.5"),) * 3
    assert policy.symbol("ETH") == "ETH-USDT"
    assert (policy.slippage_bps, policy.fee_bps) == (50, 100)
    assert policy.reserve == 0


def test_a_symbol_and_the_reserve_can_be_named(tmp_path: Path) -> None:
    text = GOOD + 'symbol = "ETH-USDT_TRC20"\n[assets.USDT]\ntarget = 100\nminimum = "40.5"\n'
    policy = read_policy(write(tmp_path, text))
    assert policy.symbol("ETH") == "ETH-USDT_TRC20"
    assert policy.reserve == Decimal("40.5")


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
        ('"2.5"', '"2.5"\nmaxmum = "3"', "assets.ETH.maxmum: is not a setting of the policy"),
        ('"2.5"', '"2.5"\nsymbol = "ETHUSDT"', "assets.ETH.symbol"),
        ('"25"', '"0"', "smallest_trade: must be greater than zero"),
        ('"25"', "true", "smallest_trade: an amount is written as text"),
        ('smallest_trade = "25"', "", "smallest_trade: is required"),
        ('"25"', '"25"\nslippage_bps = 1001', "slippage_bps"),
        ('"25"', '"25"\nslippage_bps = -1', "slippage_bps"),
        ('"25"', '"25"\nslippage_bps = 0.5', "slippage_bps"),
        ('"25"', '"25"\nslipage_bps = 5', "slipage_bps: is not a setting of the policy"),
        ("Asia/Singapore", "Asia/Atlantis", "time_zone: must be an IANA time zone"),
        ("Asia/Singapore", "../etc/passwd", "time_zone: must be an IANA time zone"),
        ("Asia/Singapore", "", "time_zone: must be an IANA time zone"),
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
    for place in ("colour", "assets.ETH.target", "base_asset", "smallest_trade"):
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
    version = read_policy(write(tmp_path, GOOD)).version
    lines = GOOD.strip().splitlines()
    other = "# a comment\n" + "\n".join([*reversed(lines[:3]), *lines[3:]])
    other = other.replace('"25"', '"25.00"').replace('"2.5"', '"2.50"\nminimum = "2.500"')
    assert read_policy(write(tmp_path, other)).version == version
    assert len(version) == 64


@pytest.mark.parametrize(("old", "new"), [('"25"', '"26"'), ('"2.5"', '"2.5"\nmaximum = 3'), ("Singapore", "Tokyo")])
def test_the_version_changes_with_what_the_policy_says(tmp_path: Path, old: str, new: str) -> None:
    version = read_policy(write(tmp_path, GOOD)).version
    assert read_policy(write(tmp_path, GOOD.replace(old, new))).version != version


def test_the_business_date_is_the_policys_own(tmp_path: Path) -> None:
    policy = read_policy(write(tmp_path, GOOD))
    assert policy.business_date(datetime(2026, 11, 3, 15, 59, tzinfo=UTC)) == date(2026, 11, 3)
    assert policy.business_date(datetime(2026, 11, 3, 16, 0, tzinfo=UTC)) == date(2026, 11, 4)
    with pytest.raises(ValueError, match="zone"):
        policy.business_date(datetime.fromisoformat("2026-11-03T12:00:00"))
