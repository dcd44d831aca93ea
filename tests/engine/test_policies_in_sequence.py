"""Policies follow each other as they were adopted, whatever a clock said then: one that was ahead, and is set right,
brings no earlier policy back, and one that is behind keeps no newer one from taking effect."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.approvers import ASKS, KEYS, PEOPLE, adopt, approve, person, start, waits
from tests.engine.runs import sheet
from tests.moved_clock import clock_of
from treasury.errors import ApprovalNeeded, InputError
from treasury.ledger.approvals import waiting_plan
from treasury.ledger.policies import adopt_policy, end_recovery, policy_in_force, recover_policy
from treasury.payments.desk import Desk
from treasury.policy.model import parse_policy

pytestmark = pytest.mark.both_databases

TWO_DAYS = 2 * 86_400.0
RIGHTS = ("make", "approve", "change_policy")


@pytest.fixture
def desk(open_desk: Callable[..., Desk], start_sandbox: Any) -> Desk:
    return open_desk(start_sandbox().base_url)


def put(desk: Desk, most: str) -> str:
    policy = parse_policy(
        {"payouts": {**ASKS, "max_per_payout": {"USDT_TRC20": most}}, "people": PEOPLE}, "policy.toml"
    )
    return adopt_policy(desk.ledger, policy, "policy.toml", by="ada", os_user="ada", key=KEYS["ada"]).version


def in_force(desk: Desk) -> str:
    found = policy_in_force(desk.ledger)
    assert found is not None
    return found.version


@pytest.mark.parametrize("off", [TWO_DAYS, -TWO_DAYS], ids=["ahead", "behind"])
def test_what_was_adopted_last_is_in_force_whatever_the_clock_said(desk: Desk, tmp_path: Path, off: float) -> None:
    adopt(desk)
    file = sheet(tmp_path, ("a", "9", "12345670001"))
    clock_of(desk).set_wall(off)
    tight = put(desk, "1")
    assert in_force(desk) == tight
    clock_of(desk).set_wall(-off)
    assert in_force(desk) == tight
    with pytest.raises(InputError):
        start(desk, file, "over")
    tighter = put(desk, "0.5")
    assert in_force(desk) == tighter
    clock_of(desk).move(2 * TWO_DAYS)
    assert in_force(desk) == tighter


def test_approvals_count_and_end_with_a_policy_that_a_clock_dated_ahead(desk: Desk, tmp_path: Path) -> None:
    clock_of(desk).set_wall(TWO_DAYS)
    adopt(desk)
    clock_of(desk).set_wall(-TWO_DAYS)
    file, other = sheet(tmp_path, ("a", "20", "12345670001")), sheet(tmp_path, ("b", "30", "12345670002"), name="b.csv")
    first = put(desk, "90")
    waits(desk, file)
    approve(desk, "ben")
    waits(desk, other, "other")
    approve(desk, "ben", "other")
    assert start(desk, file) == {"a": "settled"}
    put(desk, "80")
    assert put(desk, "90") == first
    with pytest.raises(ApprovalNeeded):
        start(desk, other, "other")
    with pytest.raises(InputError, match="the policy changed since"):
        approve(desk, "ben", "other")
    waits(desk, other, "other")
    approve(desk, "ben", "other")
    assert start(desk, other, "other") == {"b": "settled"}


def test_a_change_that_waits_for_approvals_waits_no_more_once_it_is_in_force(desk: Desk) -> None:
    clock_of(desk).set_wall(TWO_DAYS)
    adopt(desk, changes={"approvals": 1})
    clock_of(desk).set_wall(-TWO_DAYS)
    with pytest.raises(ApprovalNeeded) as waiting:
        put(desk, "5")
    run_key = waiting.value.run_key
    approve(desk, "cleo", run_key)
    wanted = put(desk, "5")
    assert in_force(desk) == wanted
    assert waiting_plan(desk.ledger, run_key) is None


def test_a_clock_that_is_ahead_brings_nothing_in_force_under_a_recovery_that_waits(desk: Desk) -> None:
    adopt(desk)
    ours = in_force(desk)
    theirs = parse_policy(
        {"payouts": {"duplicate_days": 2}, "people": {"mallory": person("mallory", may=RIGHTS)}}, "policy.toml"
    )
    recover_policy(desk.ledger, theirs, "policy.toml", by="Mallory", os_user="x", now=desk.ledger.now())
    clock_of(desk).set_wall(2 * TWO_DAYS)
    loose = parse_policy({**theirs.model_dump(mode="json"), "payouts": {"duplicate_days": 1}}, "policy.toml")
    adopt_policy(desk.ledger, loose, "policy.toml", by="mallory", os_user="x", key=KEYS["mallory"])
    clock_of(desk).set_wall(-2 * TWO_DAYS)
    assert in_force(desk) == ours
    end_recovery(desk.ledger, by="ada", os_user="ada", key=KEYS["ada"])
    assert in_force(desk) == ours
    clock_of(desk).move(3 * TWO_DAYS)
    assert in_force(desk) == ours
    tight = put(desk, "1")
    assert in_force(desk) == tight
