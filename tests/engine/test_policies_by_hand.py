"""Somebody who has the database, and not the ledger's key, changes a policy or adds one: nothing leaves until a
recovery."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text, update

from tests.engine.approvers import HOUR, KEYS, adopt, change, later, recover, start
from tests.engine.runs import sheet
from treasury.errors import ApprovalNeeded, ConfigurationError, TreasuryError
from treasury.ledger import schema
from treasury.ledger.policies import adopt_policy, genuine_policy, policy_in_force, recover_policy
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.payments.desk import Desk
from treasury.policy.model import parse_policy


@pytest.fixture
def desk(open_desk: Callable[..., Desk], start_sandbox: Any) -> Desk:
    return open_desk(start_sandbox().base_url)


@pytest.mark.parametrize("policies", [1, 2], ids=["the only one", "the newest one"])
def test_a_policy_that_was_changed_by_hand_is_changed_by_a_recovery_alone(desk: Desk, policies: int) -> None:
    adopt(desk)
    for _ in range(policies - 1):
        adopt(desk, key="ada", changes={"approvals": 1})
    table = schema.policies
    change(desk, update(table).where(table.c.id == policies).values(content="{}"))
    wanted = parse_policy({"payouts": {"max_per_run": {"USDT": "1000000"}}}, "policy.toml")
    for key in (None, KEYS["ada"]):
        with pytest.raises(ConfigurationError, match="--recover"):
            adopt_policy(desk.ledger, wanted, "policy.toml", by="ada", os_user="x", key=key)
    recover_policy(desk.ledger, wanted, "policy.toml", by="Mallory", os_user="x", now=desk.ledger.now())
    with pytest.raises(TreasuryError):
        genuine_policy(desk.ledger)
    later(desk, 73)
    found = genuine_policy(desk.ledger)
    assert found is not None
    assert found.version == wanted.version


@pytest.mark.parametrize("how", ["changed", "added"])
@pytest.mark.both_databases
def test_while_a_policy_was_written_by_hand_nothing_leaves(desk: Desk, tmp_path: Path, how: str) -> None:
    adopt(desk)
    file = sheet(tmp_path, ("a", "5", "12345670001"))
    before = policy_in_force(desk.ledger)
    assert before is not None
    loose = text("UPDATE policies SET content = replace(content, '\"10\"', '\"1000000\"')")
    row = {"version": "f" * 64, "source": "x", "adopted_by": "ada", "os_user": "ada", "recovery": False}
    row |= {"content": "{}", "adopted_at": before.adopted_at + 1, "in_force_at": before.in_force_at + 1}
    change(desk, loose if how == "changed" else schema.policies.insert().values(**row))
    later(desk, 1)
    with pytest.raises(ConfigurationError, match="by hand"):
        start(desk, file)
    with pytest.raises(ConfigurationError, match="by hand"):
        adopt(desk, key=None if how == "changed" else "ada")
    recover(desk)
    assert start(desk, file) == {"a": "settled"}


@pytest.mark.parametrize("changed", ["in_force_at", "ended_at", "recovery"])
@pytest.mark.both_databases
def test_a_policy_that_was_put_out_of_force_by_hand_makes_room_for_no_older_one(
    desk: Desk, tmp_path: Path, changed: str
) -> None:
    adopt(desk, {}, payouts={"max_per_run": {"USDT_TRC20": "1000"}})  # typed names, and no approvals
    adopt(desk)
    newest = policy_in_force(desk.ledger)
    assert newest is not None
    file = sheet(tmp_path, ("a", "500", "12345670001"))
    far = {changed: True if changed == "recovery" else desk.ledger.now() + 1000 * HOUR}
    change(desk, update(schema.policies).where(schema.policies.c.id == newest.id).values(**far))
    with pytest.raises(ConfigurationError, match="by hand"):
        start(desk, file)
    stop_sending(desk.ledger, "Ann", "a look first")
    with pytest.raises(ConfigurationError, match="by hand"):
        lift_stop(desk.ledger, "Mallory")
    with pytest.raises(ConfigurationError, match="by hand"):
        adopt(desk)
    recover(desk)
    lift_stop(desk.ledger, proof=KEYS["ben"])
    with pytest.raises(ApprovalNeeded):
        start(desk, file)
