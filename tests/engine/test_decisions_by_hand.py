"""Somebody who has the database, and not the ledger's key, changes or adds what people decided: nothing more leaves.

Stops, acceptances, the first yes of a schedule, rejections and cancellations; approvals are in `test_approvals.py`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, update

from tests.engine.approvers import KEYS, adopt, approve, change, later, start, waits
from tests.engine.runs import sheet
from treasury.errors import ApprovalNeeded, ConfigurationError, InputError, TreasuryError
from treasury.ledger import schema
from treasury.ledger.acceptances import acceptances
from treasury.ledger.approvals import reject_plan
from treasury.ledger.decisions import RecordedDecision, record
from treasury.ledger.ledger import Ledger
from treasury.ledger.policies import adopt_policy, genuine_policy, recover_policy
from treasury.ledger.stops import lift_stop, stop_sending, stops_in_force
from treasury.ledger.trade_plans import give_consent, has_consent
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.policy.model import parse_policy

pytestmark = pytest.mark.both_databases

TABLE = schema.decisions
OpenLedger = Callable[..., Ledger]


@pytest.fixture
def desk(open_desk: Callable[..., Desk], start_sandbox: Any) -> Desk:
    return open_desk(start_sandbox().base_url)


def write(ledger: Ledger, statement: Any) -> None:
    ledger.write(lambda connection: connection.execute(statement).rowcount)


def forged(**values: Any) -> Any:
    row = {"at": 1, "named": "stop", "about": "x", "name": "Mallory", "os_user": "m", "why": "w", "is_alone": False}
    return insert(TABLE).values(**{**row, **values}, checksum="none")


def test_a_stop_is_lifted_by_no_row_that_was_written_by_hand(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    stop_sending(ledger, "Ada Example", "wrong list")
    [stop] = stops_in_force(ledger)
    write(ledger, forged(verb="lift a stop", about=stop.itself))
    assert stops_in_force(ledger) == [stop]


@pytest.mark.parametrize("values", [{"id": 7}, {"at": 7}, {"name": "Mallory"}, {"about": "x"}, {"why": "no"}], ids=str)
def test_an_earlier_lifting_lifts_no_stop_that_was_changed_by_hand(open_ledger: OpenLedger, values: Any) -> None:
    ledger = open_ledger()
    stop_sending(ledger, "Ada Example", "a look first")
    assert lift_stop(ledger, "Ben Example") == 1
    stop_sending(ledger, "Cleo Example", "wrong list")
    write(ledger, update(TABLE).where(TABLE.c.why == "wrong list").values(**values))
    assert len(stops_in_force(ledger)) == 1
    assert lift_stop(ledger, "Ben Example") == 1
    assert stops_in_force(ledger) == []


@pytest.mark.parametrize("how", [forged(verb="accept", named="B-1"), update(TABLE).values(facts='{"difference": "9"}')])
def test_a_break_about_which_a_row_was_written_by_hand_is_not_accepted(open_ledger: OpenLedger, how: Any) -> None:
    ledger = open_ledger()
    facts = {"class": "balance_gap", "difference": "5"}
    accepted = RecordedDecision("accept", "B-1", "break B-1", "Ada", "ada", "known", facts=facts)
    ledger.write(lambda connection: record(connection, ledger, accepted))
    assert acceptances(ledger, ledger.now()).keys() == {"B-1"}
    write(ledger, how)
    assert acceptances(ledger, ledger.now()) == {}


def test_a_first_yes_that_was_written_by_hand_is_none(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    give_consent(ledger, "v1", "rebalancing", "ada")
    write(ledger, update(TABLE).values(about="policy v2"))
    write(ledger, forged(verb="consent", named="rebalancing", about="policy v2"))
    assert not has_consent(ledger, "v2", "rebalancing")


@pytest.mark.parametrize("ends", ["reject", "cancel"])
@pytest.mark.parametrize("values", [{"verb": "release"}, {"about": "x"}, {"named": "x"}, {"why": "x"}], ids=str)
def test_a_plan_that_somebody_ended_does_not_come_back(desk: Desk, tmp_path: Path, ends: str, values: Any) -> None:
    adopt(desk)
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    later(desk, 1)
    approve(desk, "ben")
    if ends == "cancel":
        cancel(desk, "run", KEYS["ben"], why="not needed")
    else:
        reject_plan(desk.ledger, "run", why="not ours", os_user="x", proof=KEYS["ben"])
    change(desk, update(TABLE).where(TABLE.c.verb == ends).values(**values))
    with pytest.raises((ApprovalNeeded, InputError)):
        start(desk, file)


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
