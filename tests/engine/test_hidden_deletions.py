"""Somebody deletes what holds payments back, and makes the ledger look restored, or like another file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, update

from tests.engine.answers import OpenDesk
from tests.engine.approvers import adopt, change, start
from tests.engine.runs import sheet
from treasury.errors import Stopped
from treasury.ledger import schema
from treasury.ledger.backup import make_backup
from treasury.ledger.continuity import SeenFile
from treasury.ledger.database import sqlite_file
from treasury.ledger.restore import restore_backup
from treasury.ledger.stops import lift_stop, stop_sending, stops_in_force
from treasury.payments.desk import Desk

pytestmark = pytest.mark.both_databases

DECISIONS, META = schema.decisions, schema.meta
PAID = ("first", "1", "12345670009")
HIDES: Mapping[str, list[Any]] = {
    "restored": [insert(META).values(key="restored_at", value="1")],
    "another file": [update(META).where(META.c.key == "file").values(value="1@2")],
}


@pytest.fixture
def desk(open_desk: OpenDesk, start_sandbox: Any) -> Desk:
    return open_desk(start_sandbox().base_url)


@pytest.mark.parametrize("how", HIDES)
def test_a_stop_that_is_gone_from_a_ledger_that_looks_older_is_a_stop(desk: Desk, tmp_path: Path, how: str) -> None:
    adopt(desk, {}, payouts={"max_per_payout": {"USDT_TRC20": "1000"}})
    assert start(desk, sheet(tmp_path, PAID, name="first.csv"), "first") == {"first": "settled"}
    stop_sending(desk.ledger, "Ada Example", "wrong list")
    change(desk, delete(DECISIONS))
    for statement in HIDES[how]:
        change(desk, statement)
    with pytest.raises(Stopped, match="by the ledger"):
        start(desk, sheet(tmp_path, ("a", "10", "12345670001")))
    [stop] = stops_in_force(desk.ledger)
    assert (stop.name, "1 stop" in stop.why) == ("the ledger", True)


@pytest.mark.parametrize("who_sent", [False, True], ids=["new machines", "machines that sent"])
def test_what_was_deleted_stops_all_sending_once(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, *, who_sent: bool
) -> None:
    url = start_sandbox().base_url
    desk, other = open_desk(url), open_desk(url, tokens=tmp_path / "other")
    other.seen = SeenFile(tmp_path / "other" / "seen.json", sqlite_file(other.settings.ledger_url))
    other.ledger.remember_in(other.seen)
    adopt(desk, {}, payouts={"max_per_payout": {"USDT_TRC20": "1000"}})
    for number, each in enumerate((desk, other) if who_sent else ()):
        run_key = f"first-{number}"
        paid = (run_key, f"{number + 1}", f"1234567000{number}")
        assert start(each, sheet(tmp_path, paid, name=run_key), run_key) == {run_key: "settled"}
    for number in range(2):
        stop_sending(desk.ledger, "Ada Example", f"wrong list {number}")
    lift_stop(desk.ledger, "Ben Example")
    desk.check_standing()
    other.check_standing()
    change(desk, delete(DECISIONS))
    with pytest.raises(Stopped):
        desk.check_standing()
    assert lift_stop(desk.ledger, "Ben Example") == 1
    other.check_standing()
    desk.check_standing()
    assert not stops_in_force(desk.ledger)


def test_a_backup_that_is_restored_where_more_was_seen_stops_nothing(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, postgres: Any
) -> None:
    url = start_sandbox().base_url
    desk = open_desk(url)
    adopt(desk, {}, payouts={"max_per_payout": {"USDT_TRC20": "1000"}})
    make_backup(desk.settings, tmp_path / "one.backup")
    stop_sending(desk.ledger, "Ada Example", "wrong list")
    desk.settings.ledger_key_file.unlink()
    again = None
    if desk.settings.ledger_url.startswith("sqlite"):
        desk.close()
        for each in tmp_path.glob("*.db*"):
            each.unlink()
    else:
        again = postgres(empty=True)
    restore_backup(replace(desk.settings, ledger_url=again or desk.settings.ledger_url), tmp_path / "one.backup")
    restored = open_desk(url, ledger=again)
    restored.check_standing()
    assert not stops_in_force(restored.ledger)
