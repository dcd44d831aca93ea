"""Somebody who has the database deletes what holds payments back: all sending stops, and a person decides again."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import delete, func, select, update

from tests.engine.answers import OpenDesk
from tests.engine.approvers import KEYS, adopt, approve, change, start, waits
from tests.engine.runs import sheet
from treasury.errors import ApprovalNeeded, Stopped
from treasury.ledger import schema
from treasury.ledger.approvals import reject_plan
from treasury.ledger.continuity import SeenFile
from treasury.ledger.database import sqlite_file
from treasury.ledger.epoch import Standing
from treasury.ledger.stops import lift_stop, stop_sending, stops_in_force
from treasury.payments.desk import Desk

pytestmark = pytest.mark.both_databases

DECISIONS, POLICIES = schema.decisions, schema.policies
PAID = ("first", "1", "12345670009")


@pytest.fixture
def desk(open_desk: OpenDesk, start_sandbox: Any) -> Desk:
    return open_desk(start_sandbox().base_url)


def lifted(desk: Desk, said: str, key: Ed25519PrivateKey | None = None) -> None:
    """The stop that deleted rows made stands, says which, and is lifted."""
    [stop] = stops_in_force(desk.ledger)
    assert (stop.name, said in stop.why) == ("the ledger", True), stop
    assert lift_stop(desk.ledger, "" if key else "Ada Example", proof=key) == 1


GONE = {
    "deleted": delete(DECISIONS).where(DECISIONS.c.verb == "stop"),
    "made another": update(DECISIONS).where(DECISIONS.c.verb == "stop").values(verb="accept", named="x", about="y"),
    "all deleted": delete(DECISIONS),
}


@pytest.mark.parametrize("how", GONE)
@pytest.mark.parametrize("is_new", [False, True], ids=["a machine that sent", "a new machine"])
def test_a_stop_that_is_gone_is_a_stop(desk: Desk, tmp_path: Path, how: str, *, is_new: bool) -> None:
    if not is_new:
        assert start(desk, sheet(tmp_path, PAID, name="first.csv"), "first") == {"first": "settled"}
    stop_sending(desk.ledger, "Ada Example", "wrong list")
    change(desk, GONE[how])
    file = sheet(tmp_path, ("a", "10", "12345670001"))
    with pytest.raises(Stopped, match="by the ledger: deleted"):
        start(desk, file)
    assert start(desk, file) == {"a": "not_sent"}  # found once, it stands until it is lifted
    lifted(desk, "1 stop")
    assert start(desk, file) == {"a": "settled"}


def test_a_rejection_that_is_deleted_revives_no_approval(desk: Desk, tmp_path: Path) -> None:
    adopt(desk)
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    reject_plan(desk.ledger, "run", why="not this one", os_user="cleo", proof=KEYS["cleo"])
    change(desk, delete(DECISIONS).where(DECISIONS.c.verb == "reject"))
    with pytest.raises(Stopped):
        start(desk, file)
    lifted(desk, "1 rejection", KEYS["cleo"])
    with pytest.raises(ApprovalNeeded):
        start(desk, file)
    assert desk.ledger.run("run") is None


def test_a_policy_that_is_deleted_stops_all_sending(desk: Desk, tmp_path: Path) -> None:
    adopt(desk, {}, payouts={"max_per_payout": {"USDT_TRC20": "1000"}})
    adopt(desk, {}, payouts={"max_per_payout": {"USDT_TRC20": "5"}})
    newest = select(func.max(POLICIES.c.id)).scalar_subquery()
    change(desk, delete(POLICIES).where(POLICIES.c.id == newest))
    with pytest.raises(Stopped):
        start(desk, sheet(tmp_path, ("a", "10", "12345670001")))
    lifted(desk, "1 policy adoption")


def test_a_row_of_another_machine_is_missed_by_who_saw_it(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    url = start_sandbox().base_url
    desk, other = open_desk(url), open_desk(url, tokens=tmp_path / "other")
    other.seen = SeenFile(tmp_path / "other" / "seen.json", sqlite_file(other.settings.ledger_url))
    other.ledger.remember_in(other.seen)
    stop_sending(other.ledger, "Ada Example", "wrong list")
    desk.check_standing()
    change(other, delete(DECISIONS))
    with pytest.raises(Stopped):
        desk.check_standing()
    assert other.check_standing() is not Standing.OLDER  # it learns anew what is there after that
    assert len(stops_in_force(other.ledger)) == 1
