"""Approvals by key: bound to one proposal of one ledger, judged when recorded and again before anything leaves."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engine.approvers import (
    ASKS,
    HOUR,
    KEYS,
    PEOPLE,
    adopt,
    approve,
    later,
    person,
    propose,
    start,
    token_of,
    waits,
)
from tests.engine.runs import sheet
from treasury.approving.tokens import Binding, Verb, public_text, read_token, sign
from treasury.errors import ApprovalNeeded, InputError, PlanRejected
from treasury.ledger.approvals import reject_plan, waiting_plan
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.payments import approving
from treasury.payments.desk import Desk
from treasury.policy.model import parse_policy
from treasury.settings import os_user

OpenDesk = Callable[..., Desk]


@pytest.fixture
def desk(open_desk: OpenDesk, start_sandbox: Any) -> Desk:
    opened = open_desk(start_sandbox().base_url)
    adopt(opened)
    return opened


@pytest.mark.both_databases
def test_a_plan_is_paid_with_the_approvals_of_listed_people(desk: Desk, tmp_path: Path) -> None:
    file = sheet(tmp_path, ("a", "120", "12345670001"))
    plan = waits(desk, file)
    assert (plan.maker.name, plan.needed) == ("ada", 2)
    with pytest.raises(ApprovalNeeded, match="needs 2 approval"):
        start(desk, file)
    assert approve(desk, "ben").lacks == 1
    assert approve(desk, "cleo").lacks == 0
    assert start(desk, file) == {"a": "settled"}


def test_a_typed_name_approves_nothing_where_people_have_keys(desk: Desk, tmp_path: Path) -> None:
    waits(desk, sheet(tmp_path, ("a", "20", "12345670001")))
    with pytest.raises(InputError, match="typed name"):
        approving.approve(desk, "run", name="ben")


def test_one_name_written_in_two_alphabets_is_one_approval(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, {})
    waits(desk, sheet(tmp_path, ("a", "120", "12345670001")), maker=None)
    assert approving.approve(desk, "run", name="John Doe").lacks == 1
    with pytest.raises(InputError, match="approved this plan already"):
        approving.approve(desk, "run", name="J\N{CYRILLIC SMALL LETTER O}hn D\N{GREEK SMALL LETTER OMICRON}e")


@pytest.mark.parametrize(
    ("who", "said"),
    [
        ("ada", "made this plan"),
        ("mallory", "does not list this key"),
    ],
)
def test_an_approval_of_the_maker_or_a_stranger_is_refused(desk: Desk, tmp_path: Path, who: str, said: str) -> None:
    waits(desk, sheet(tmp_path, ("a", "20", "12345670001")))
    with pytest.raises(InputError, match=said):
        approve(desk, who)


def test_two_keys_of_one_person_are_one_approval(desk: Desk, tmp_path: Path) -> None:
    waits(desk, sheet(tmp_path, ("a", "120", "12345670001")))
    approve(desk, "ben")
    with pytest.raises(InputError, match="approved this plan already"):
        approve(desk, "ben-two")


def test_a_forged_token_is_refused_with_its_reason(desk: Desk, tmp_path: Path) -> None:
    plan = waits(desk, sheet(tmp_path, ("a", "20", "12345670001")))
    genuine = token_of(plan, "ben")
    stolen = public_text(KEYS["cleo"])
    for token, said in (
        (replace(genuine, expires_at=genuine.expires_at + HOUR), "not genuine"),
        (replace(genuine, signature=bytes(64)), "not genuine"),
        (replace(genuine, key=stolen), "not genuine"),
        (sign(KEYS["ben"], Verb.PROPOSE, "run", plan.code, genuine.expires_at), "approves none"),
        (sign(KEYS["ben"], Verb.APPROVE, "other", plan.code, genuine.expires_at), "for run other"),
        (token_of(plan, "ben", hours=-1), "expired"),
    ):
        with pytest.raises(InputError, match=said):
            approve(desk, "ben", token=token)
    assert approve(desk, "ben", token=read_token(str(genuine))).lacks == 0


def test_a_token_counts_for_one_run_proposal_account_and_policy_alone(desk: Desk, tmp_path: Path) -> None:
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    plan = waits(desk, file)
    other = waits(desk, file, "other")
    with pytest.raises(InputError, match="for run other"):
        approve(desk, "ben", token=token_of(other, "ben"))
    bound = plan.proposal.binding
    for wrong in (
        replace(bound, account="http://127.0.0.1:1|2"),
        replace(bound, ledger="another"),
        replace(bound, number=plan.number + 1),
        replace(bound, policy=None),
        replace(bound, plan_sha256="0" * 64),
    ):
        with pytest.raises(InputError, match="another proposal, ledger, account or policy"):
            approve(desk, "ben", token=sign(KEYS["ben"], Verb.APPROVE, "run", wrong.code, plan.proposed_at + HOUR))
    assert Binding(**vars(bound)).code == plan.code


def test_a_yes_for_a_plan_that_was_replaced_and_shown_again_pays_nothing(desk: Desk, tmp_path: Path) -> None:
    first = sheet(tmp_path, ("a", "20", "12345670001"), name="first.csv")
    second = sheet(tmp_path, ("a", "90", "12345670001"), name="second.csv")
    seen = waits(desk, first)
    yes = token_of(seen, "ben")
    waits(desk, second)
    with pytest.raises(InputError, match="another proposal"):
        approve(desk, "ben", token=yes)
    again = waits(desk, first)
    assert (again.number, again.sha256) == (3, seen.sha256)
    with pytest.raises(InputError, match="another proposal"):
        approve(desk, "ben", token=yes)
    with pytest.raises(InputError, match="another plan of run run waits"):
        approving.approve(desk, "run", key=KEYS["ben"], plan_named=seen.code)
    with pytest.raises(ApprovalNeeded):
        start(desk, first)


def test_a_rejected_plan_is_not_paid_until_another_one_is_made(desk: Desk, tmp_path: Path) -> None:
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    plan = waits(desk, file)
    approve(desk, "ben")
    reject_plan(desk.ledger, "run", why="wrong amount", os_user="cleo", proof=KEYS["cleo"])
    assert waiting_plan(desk.ledger, "run") is None
    for attempt in (lambda: start(desk, file), lambda: propose(desk, file), lambda: approve(desk, "cleo")):
        with pytest.raises(PlanRejected, match=r"rejected by cleo \(wrong amount\)"):
            attempt()
    with pytest.raises(PlanRejected):
        approve(desk, "ben", token=token_of(plan, "ben"))
    mended = sheet(tmp_path, ("a", "19", "12345670001"), name="mended.csv")
    waits(desk, mended)
    approve(desk, "ben")
    assert start(desk, mended) == {"a": "settled"}


def test_an_approval_expires_before_the_run_began(desk: Desk, tmp_path: Path) -> None:
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    later(desk, 73)
    with pytest.raises(ApprovalNeeded, match="ben: the approval is expired"):
        start(desk, file)
    approve(desk, "cleo")
    assert start(desk, file) == {"a": "settled"}


def test_what_was_recorded_and_never_left_needs_an_approval_that_still_counts(desk: Desk, tmp_path: Path) -> None:
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    stop_sending(desk.ledger, "Ada Example", "a look first")
    assert start(desk, file) == {"a": "not_sent"}
    lift_stop(desk.ledger, proof=KEYS["ben"])
    later(desk, 73)
    with pytest.raises(ApprovalNeeded, match="ben: the approval is expired"):
        start(desk, file)
    approve(desk, "cleo")
    assert start(desk, file) == {"a": "settled"}


def test_a_revoked_key_and_a_person_taken_off_the_list_approve_nothing(desk: Desk, tmp_path: Path) -> None:
    file = sheet(tmp_path, ("a", "120", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    approve(desk, "cleo")
    without = {**PEOPLE, "ben": person("ben-two")}
    adopt(desk, without, key="cleo")
    with pytest.raises(ApprovalNeeded):  # another policy: another proposal
        propose(desk, file)
    with pytest.raises(InputError, match="does not list this key"):
        approve(desk, "ben")
    approve(desk, "ben-two")
    approve(desk, "cleo")
    assert start(desk, file) == {"a": "settled"}


def test_a_maker_whom_nobody_lists_needs_one_approval_more(desk: Desk, tmp_path: Path) -> None:
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    plan = waits(desk, file, maker=None)
    assert (plan.maker.name, plan.maker.is_listed, plan.needed) == (os_user(), False, 2)
    approve(desk, "ben")
    with pytest.raises(ApprovalNeeded):
        start(desk, file)
    approve(desk, "ada")
    assert start(desk, file) == {"a": "settled"}
    assert waits(desk, sheet(tmp_path, ("b", "120", "12345670002")), "all", maker=None).needed == 3
    assert waits(desk, sheet(tmp_path, ("c", "120", "12345670003")), "signed").needed == 2


def test_whoever_works_as_the_makers_os_user_does_not_approve(desk: Desk, tmp_path: Path) -> None:
    adopt(desk, {**PEOPLE, "ben": person("ben", may=("make", "approve"), users=(os_user(),))}, key="ada")
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    plan = waits(desk, file, maker=None)
    assert (plan.maker.name, plan.needed) == ("ben", 1)
    with pytest.raises(InputError, match="made this plan"):
        approve(desk, "ben")
    approve(desk, "cleo")
    assert start(desk, file) == {"a": "settled"}


def test_a_person_who_may_not_make_plans_makes_none_and_starts_approved_ones(desk: Desk, tmp_path: Path) -> None:
    adopt(desk, {**PEOPLE, "ben": person("ben", users=(os_user(),))}, key="ada")
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    with pytest.raises(InputError, match="does not let ben make plans"):
        propose(desk, file, maker=None)
    waits(desk, file)
    approve(desk, "ben")
    propose(desk, file, maker=None)
    assert start(desk, file) == {"a": "settled"}


def test_what_nobody_could_approve_is_refused_when_it_is_adopted_or_proposed(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"payouts: it needs 2 approval.*1 more must be listed"):
        adopt(desk, {name: PEOPLE[name] for name in ("ada", "ben")}, key="ada")
    with pytest.raises(InputError, match="nobody who has a key may change_policy"):
        adopt(desk, {**PEOPLE, "ada": person("ada"), "cleo": person("cleo")}, key="ada")
    both = {"ada": PEOPLE["ada"], "ben": person("ben", may=("make", "approve")), "cleo": person("cleo", may=("make",))}
    adopt(desk, both, key="ada")  # cleo's plans can have two approvals
    with pytest.raises(InputError, match=r"besides ada .*lists 1 \(ben\)"):
        propose(desk, sheet(tmp_path, ("a", "120", "12345670001")))


def test_a_policy_that_is_wanted_again_waits_like_any_other(desk: Desk) -> None:
    two = {"changes": {"approvals": 1}}
    adopt(desk, key="ada", **two)
    loose = {**PEOPLE, "ben": person("ben", may=("make", "approve"))}
    for people in (loose, PEOPLE, loose):
        with pytest.raises(ApprovalNeeded) as needed:
            adopt(desk, people, key="ada", **two)
        run_key = needed.value.run_key
        assert waiting_plan(desk.ledger, run_key) is not None
        approve(desk, "cleo", run_key)
        adopt(desk, people, key="ada", **two)
        assert waiting_plan(desk.ledger, run_key) is None


@pytest.mark.parametrize("twin", ["Аda", "a-da", "ada\u200b", "ADA"])
def test_names_that_look_alike_are_refused_in_the_list(twin: str) -> None:
    with pytest.raises(InputError, match=r"looks like ada|is no name"):
        parse_policy({"payouts": ASKS, "people": {**PEOPLE, twin: person("mallory")}}, "policy.toml")


def test_one_key_or_os_user_of_two_people_is_refused() -> None:
    for double in (person("ben"), person("mallory", users=("svc",))):
        people = {**PEOPLE, "ben": person("ben", users=("svc",)), "dan": double}
        with pytest.raises(InputError, match="nobody can tell the two apart"):
            parse_policy({"payouts": ASKS, "people": people}, "policy.toml")


@pytest.mark.parametrize("name", ["Maker\u200b", "МАKER", " maker "])
def test_without_a_list_an_invisible_or_lookalike_letter_makes_nobody_else(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approving, "os_user", lambda: "maker")  # the name of whoever runs the tests has no such twins
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, {})
    waits(desk, sheet(tmp_path, ("a", "20", "12345670001")), maker=None)
    with pytest.raises(InputError, match=r"made this plan|cannot be shown"):
        approving.approve(desk, "run", name=name)


# --- the ledger itself -----------------------------------------------------------------------------------------------


@pytest.mark.sqlite_alone
def test_an_approval_from_before_a_restore_counts_for_nothing(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, ledger_url: str
) -> None:
    url = start_sandbox().base_url
    desk = open_desk(url)
    adopt(desk)
    first = sheet(tmp_path, ("first", "5", "12345670009"), name="first.csv")
    assert start(desk, first, "first") == {"first": "settled"}  # this machine is known to the ledger
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    plan = waits(desk, file)
    approve(desk, "ben")
    desk.close()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    rejecting = open_desk(url)
    rejecting.check_standing()
    reject_plan(rejecting.ledger, "run", why="wrong", os_user="cleo", proof=KEYS["cleo"])
    rejecting.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "ledger.db")  # over the same file
    again = open_desk(url)
    with pytest.raises(ApprovalNeeded, match="before this ledger was restored"):
        start(again, file)
    with pytest.raises(InputError, match="restored"):
        approve(again, "ben", token=token_of(plan, "ben"))
    anew = waits(again, file)
    assert anew.code != plan.code
    with pytest.raises(InputError, match="another proposal, ledger"):
        approve(again, "ben", token=token_of(plan, "ben"))
