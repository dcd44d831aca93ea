"""Somebody who has the database, and not the ledger's key, changes or adds what people decided: nothing more leaves.

Approvals, stops, acceptances, the first yes of a schedule, rejections and cancellations; policies are in
`test_policies_by_hand.py`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, literal, select, update

from tests.engine import paying
from tests.engine.approvers import HOUR, KEYS, adopt, approve, change, later, propose, start, token_of, waits
from tests.engine.runs import sheet
from treasury.errors import ApprovalNeeded, ConfigurationError, InputError, Stopped
from treasury.ledger import schema
from treasury.ledger.approvals import reject_plan
from treasury.ledger.decisions import RecordedDecision, record
from treasury.ledger.halts import check_not_stopped
from treasury.ledger.kept_breaks import acceptances, withdraw_acceptances
from treasury.ledger.ledger import Ledger
from treasury.ledger.plans import give_consent, has_consent
from treasury.ledger.policies import genuine_policy
from treasury.ledger.proposals import plan_subject
from treasury.ledger.stops import lift_stop, stop_sending, stops_in_force
from treasury.pay import agreeing
from treasury.payments.approving import sign_proposal
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders

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


OTHERWISE = [
    {"verb": "consent"},
    {"named": "x"},
    {"id": 7},
    {"at": 7},
    {"name": "Mallory"},
    {"about": "x"},
    {"why": "no"},
]


@pytest.mark.parametrize("values", OTHERWISE, ids=str)
def test_an_earlier_lifting_lifts_no_stop_that_was_changed_by_hand(open_ledger: OpenLedger, values: Any) -> None:
    ledger = open_ledger()
    stop_sending(ledger, "Ada Example", "a look first")
    assert lift_stop(ledger, "Ben Example") == 1
    stop_sending(ledger, "Cleo Example", "wrong list")
    write(ledger, update(TABLE).where(TABLE.c.why == "wrong list").values(**values))
    assert len(stops_in_force(ledger)) == 1
    with pytest.raises(Stopped):
        ledger.write(lambda connection: check_not_stopped(connection, ledger))
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


def accepted(ledger: Ledger) -> None:
    facts = {"class": "balance_gap", "difference": "5"}
    said = RecordedDecision("accept", "B-1", "break B-1", "Ada", "ada", "known", facts=facts)
    ledger.write(lambda connection: record(connection, ledger, said))


def copied(table: Any, **values: Any) -> Any:
    """A row of a table once more, under another number."""
    names = [column.name for column in table.c]
    columns = [literal(values[name]).label(name) if name in values else table.c[name] for name in names]
    return insert(table).from_select(names, select(*columns).order_by(table.c.id).limit(1))


@pytest.mark.parametrize(
    "how",
    [
        update(TABLE).where(TABLE.c.verb == "accept").values(id=7),
        copied(TABLE, id=7),
        *(update(TABLE).where(TABLE.c.verb != "accept").values(each) for each in ({"verb": "consent"}, {"about": "x"})),
    ],
    ids=["another number", "a copy", "another verb", "about something else"],
)
def test_an_acceptance_that_was_withdrawn_does_not_come_back(open_ledger: OpenLedger, how: Any) -> None:
    ledger = open_ledger()
    accepted(ledger)
    assert withdraw_acceptances(ledger, "B-1", by="Ben Example", os_user="ben", why="it is not known") == 1
    assert acceptances(ledger, ledger.now()) == {}
    write(ledger, how)
    assert acceptances(ledger, ledger.now()) == {}


@pytest.mark.parametrize(
    "how",
    [
        update(schema.plans).where(schema.plans.c.number == 1).values(id=7),
        copied(schema.plans, id=7),
        update(schema.plans).where(schema.plans.c.number == 2).values(id=-1),
    ],
    ids=["another number", "a copy", "the newer one under another number"],
)
def test_a_plan_that_another_one_replaced_does_not_come_back(desk: Desk, tmp_path: Path, how: Any) -> None:
    adopt(desk)
    first = sheet(tmp_path, ("a", "20", "12345670001"), name="first.csv")
    waits(desk, first)
    approve(desk, "ben")
    waits(desk, sheet(tmp_path, ("a", "19", "12345670001"), name="second.csv"))
    change(desk, how)
    with pytest.raises(ApprovalNeeded):
        start(desk, first)
    waits(desk, first)  # proposed and approved anew it is paid
    approve(desk, "ben")
    assert start(desk, first) == {"a": "settled"}


@pytest.mark.parametrize("values", [{"about": "x", "at": 0}, {"id": -1, "at": 0, "about": "x"}], ids=str)
def test_a_rejection_is_not_made_one_of_an_earlier_plan(desk: Desk, tmp_path: Path, values: Any) -> None:
    adopt(desk)
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    reject_plan(desk.ledger, "run", why="not ours", os_user="x", proof=KEYS["cleo"])
    change(desk, update(TABLE).where(TABLE.c.verb == "reject").values(**values))
    with pytest.raises(ApprovalNeeded, match="by hand"):
        start(desk, file)
    waits(desk, file)
    approve(desk, "ben")
    assert start(desk, file) == {"a": "settled"}


@pytest.mark.parametrize("table", [TABLE, schema.plans], ids=["the decision", "the plan"])
def test_a_rejection_that_was_changed_by_hand_counts_under_a_policy_that_asks_for_none(
    desk: Desk, tmp_path: Path, table: Any
) -> None:
    adopt(desk)
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    reject_plan(desk.ledger, "run", why="not ours", os_user="x", proof=KEYS["ben"])
    adopt(desk, key="ada", payouts={})
    change(desk, update(table).values(os_user="mallory"))
    with pytest.raises(InputError, match="by hand"):
        start(desk, file)


def test_a_run_of_which_a_used_plan_was_changed_by_hand_waits(desk: Desk, tmp_path: Path) -> None:
    """Its approvals are expired before anything leaves; only the plan of rows that were added after it is genuine."""
    adopt(desk)
    stop_sending(desk.ledger, "Ada Example", "a look first")
    first, row = sheet(tmp_path, ("a", "20", "12345670001"), name="first.csv"), ("b", "20", "12345670002")
    waits(desk, first)
    approve(desk, "ben")
    paying.commit(desk, first, "run")
    later(desk, 71)
    more = sheet(tmp_path, ("a", "20", "12345670001"), row, name="more.csv")
    plan = paying.plan_of(desk, more, "run")
    added = agreeing.added_plan(desk, plan)
    assert added is not None
    with pytest.raises(ApprovalNeeded):
        paying.propose(desk, plan, proposal=str(sign_proposal(desk, KEYS["ada"], "run", added.sha256)), add=True)
    approve(desk, "ben")
    paying.commit(desk, more, "run", add=True)
    later(desk, 2)
    change(desk, update(schema.plans).where(schema.plans.c.number == 1).values(maker="somebody"))
    lift_stop(desk.ledger, proof=KEYS["cleo"])
    with pytest.raises(ApprovalNeeded):
        start(desk, more)


@pytest.mark.parametrize(
    "how",
    [
        update(TABLE).where(TABLE.c.verb == "propose").values(name="cleo"),
        update(TABLE).where(TABLE.c.verb == "propose").values(verb="consent"),
        update(TABLE).where(TABLE.c.verb == "propose").values(named="x"),
    ],
    ids=["name", "verb", "named"],
)
def test_whoever_signed_a_run_releases_nothing_of_it_by_a_row_changed_by_hand(
    desk: Desk, tmp_path: Path, how: Any
) -> None:
    adopt(desk, payouts={})
    row = ("a", "5", "12345670001")
    assert start(desk, sheet(tmp_path, row, name="one.csv"), "one") == {"a": "settled"}
    file = sheet(tmp_path, row, name="two.csv")
    propose(desk, file, "two", "ada")
    assert start(desk, file, "two") == {"a": "held"}
    change(desk, how)
    with pytest.raises(InputError, match=r"by hand|made what it is about"):
        release_orders(desk, "two", None, KEYS["ada"], why="mine")
    assert cancel(desk, "two", KEYS["ben"], why="not needed").decisions[0].done


def test_a_first_yes_that_was_written_by_hand_is_none(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    give_consent(ledger, "v1", "rebalancing", "ada")
    write(ledger, update(TABLE).values(about="policy v2"))
    write(ledger, forged(verb="consent", named="rebalancing", about="policy v2"))
    assert not has_consent(ledger, "v2", "rebalancing")


@pytest.mark.parametrize("ends", ["reject", "cancel"])
@pytest.mark.parametrize(
    ("values", "has_seen"),
    [({"verb": "release"}, True), *(({name: "x"}, False) for name in ("verb", "about", "named", "why"))],
    ids=str,
)
def test_a_plan_that_somebody_ended_does_not_come_back(
    desk: Desk, tmp_path: Path, ends: str, values: Any, *, has_seen: bool
) -> None:
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
    if not has_seen:
        desk.seen.file.unlink()
    with pytest.raises((ApprovalNeeded, InputError, Stopped)):
        start(desk, file)


def test_an_approval_does_not_come_back_where_the_policy_in_between_was_changed_by_hand(
    desk: Desk, tmp_path: Path
) -> None:
    adopt(desk)
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    adopt(desk, key="ada", changes={"approvals": 0}, payouts={"one_approval_above": {"USDT_TRC20": "1"}})
    adopt(desk, key="ada")
    table = schema.policies
    change(desk, update(table).where(table.c.id == 2).values(ended_at=1))
    with pytest.raises((ApprovalNeeded, ConfigurationError)):
        start(desk, file)


@pytest.mark.parametrize("numbers", [{2: -1}, {1: 7}, {2: 0, 1: 9}], ids=str)
def test_an_earlier_policy_does_not_come_back_under_another_number(desk: Desk, numbers: Any) -> None:
    adopt(desk)
    adopt(desk, key="ada", changes={"approvals": 1})
    table = schema.policies
    for number, other in numbers.items():
        more = {"in_force_at": 2**60} if number == 2 else {}
        change(desk, update(table).where(table.c.id == number).values(id=other, **more))
    with pytest.raises(ConfigurationError, match="--recover"):
        genuine_policy(desk.ledger)


def test_an_approval_that_was_written_by_hand_counts_as_none(desk: Desk, tmp_path: Path) -> None:
    adopt(desk)
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    plan = waits(desk, file)
    row = {"verb": "approve", "named": "run", "about": plan_subject(plan), "name": "ben", "os_user": "ben", "why": ""}
    row |= {"token": str(token_of(plan, "ben")), "checksum": "none"}
    times = {"at": plan.proposed_at, "ends_at": plan.proposed_at + HOUR}
    change(desk, schema.decisions.insert().values(**row, **times, is_alone=False))
    with pytest.raises(ApprovalNeeded, match="written into the ledger by hand"):
        start(desk, file)


@pytest.mark.both_databases
def test_an_approval_that_was_changed_by_hand_counts_as_none(desk: Desk, tmp_path: Path) -> None:
    adopt(desk)
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    later(desk, 73)
    change(desk, update(schema.decisions).values(ends_at=desk.ledger.now() + HOUR))
    with pytest.raises(ApprovalNeeded, match="written into the ledger by hand"):
        start(desk, file)


def test_a_proposal_that_was_changed_by_hand_counts_as_none(desk: Desk, tmp_path: Path) -> None:
    adopt(desk)
    file = sheet(tmp_path, ("a", "120", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    change(desk, update(schema.plans).values(needed=1))
    with pytest.raises(ApprovalNeeded):
        start(desk, file)
    waits(desk, file)
    approve(desk, "ben")
    approve(desk, "cleo")
    assert start(desk, file) == {"a": "settled"}
