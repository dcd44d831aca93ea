"""The account file is one model: what is unknown or not allowed is named with its place, and nothing is dropped."""

import json
from pathlib import Path

import pytest

from treasury.account_file import read_account_file, write_account_file
from treasury.errors import ConfigurationError
from treasury.settings import read_settings


def written(folder: Path, content: object) -> Path:
    file = folder / "account.json"
    file.touch(mode=0o600)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"service": {"hash": "SHA512"}}, "service.hash: is one of 'SHA1' or 'SHA256'"),
        ({"hash": "SHA256"}, "hash is not known; did you mean service.hash?"),
        ({"service": {"timestamp_unit": "us"}}, "service.timestamp_unit: is one of 'ms' or 's'"),
        ({"servce": {}}, "servce is not known; did you mean service?"),
        ({"service": {"hsah": "SHA1"}}, "service.hsah is not known; did you mean service.hash?"),
        ({"service": {"no_such_order": ["http-404"]}}, "service.no_such_order: http-404 may come from a proxy"),
        ({"service": {"statuses": {"45": "lost"}}}, "a status means one of submitted, processing, failed"),
        ({"service": {"asked_first": ["202224"]}}, "202224 decides nothing, whoever says it"),
        ({"service": {"fee_on_top": ["pay"]}}, "pay is not an operation that moves money"),
        ({"service": {"statuses": {"22": "submitted"}}}, "22 shows a payment"),
        ({"service": {"statuses": {"99": "failed"}}}, "99 shows what is on its way or was paid"),
        ({"service": {"statuses": {"12": "closed"}}}, "12 shows what is on its way or was paid"),
        ({"service": {"no_such_order": ["401"]}}, "401 is answered to what exists, too"),
        ({"service": {"no_such_order": ["202206"]}}, "202206 stands in two of"),
        ({"service": {"asked_first": ["7002", "400"]}}, "7002 stands in two of"),
        ({"service": {"refused_for_good": ["202203"]}}, "202203 depends on the state of the account"),
        ("[]", "is not a JSON object"),
        ("{", "cannot be read"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(content: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_account_file(written(tmp_path, content))
    assert words in str(raised.value)
    assert "account.json" in str(raised.value)


def test_a_change_keeps_all_other_entries(tmp_path: Path) -> None:
    file = written(tmp_path, {"ledger_key_file": "/k", "service": {"hash": "SHA256", "buy": "quote"}})
    write_account_file(file, partner_id="7")
    assert json.loads(file.read_text()) == {
        "partner_id": "7",
        "ledger_key_file": "/k",
        "service": {"hash": "SHA256", "buy": "quote"},
    }


def test_the_environment_wins_entry_by_entry(tmp_path: Path) -> None:
    written(tmp_path, {"service": {"hash": "SHA256", "buy": "quote"}})
    environ = {"TREASURY_HOME": str(tmp_path), "TREASURY_BUY": "base", "TREASURY_STATUSES": "45:failed,46:closed"}
    service = read_settings(environ).service
    assert (service.hash, service.buy, service.statuses) == ("SHA256", "base", {45: "failed", 46: "closed"})
    with pytest.raises(ConfigurationError, match="TREASURY_NO_SUCH_ORDER: service: 7002 stands in two of"):
        read_settings({"TREASURY_HOME": str(tmp_path), "TREASURY_NO_SUCH_ORDER": "7002"})
    with pytest.raises(ConfigurationError, match="TREASURY_SIDE_CASE: is one of 'upper' or 'lower'"):
        read_settings({**environ, "TREASURY_SIDE_CASE": "Title"})


def test_pings_and_alarms_that_cannot_be_meant_are_refused_by_name(tmp_path: Path) -> None:
    home = {"TREASURY_HOME": str(tmp_path)}
    for url in ("watcher.example.com/key", "ftp://watcher.example.com/key", "https://", "https://a b/", "https:///key"):
        with pytest.raises(ConfigurationError, match="TREASURY_PING_URL must be an address"):
            read_settings({**home, "TREASURY_PING_URL": url})
    for url in (
        "https://watcher.example.com/key/{job}",
        "http://127.0.0.1:9/key?create=1",
        "https://watcher.example.com",
    ):
        assert read_settings({**home, "TREASURY_PING_URL": url}).ping_url == url
    for hours, why in (("-1", "number of hours"), ("a", "number of hours"), ("0", "at least"), ("0.001", "at least")):
        for name in ("REPORT", "WAITING", "UNKNOWN", "LATE"):
            with pytest.raises(ConfigurationError, match=f"TREASURY_ALARM_{name}_HOURS must be .*{why}"):
                read_settings({**home, f"TREASURY_ALARM_{name}_HOURS": hours})
