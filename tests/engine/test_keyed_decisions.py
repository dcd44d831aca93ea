"""Decisions by key at one ledger: who made what, what a token is about, what a word in a sheet is worth."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from tests.engine import paying
from tests.engine.approvers import HOUR, KEYS, PEOPLE, adopt, approve, change, later, person, propose, start, waits
from tests.engine.runs import sheet
from tests.parts import DIRECT
from treasury.approving.tokens import Token, Verb, sign
from treasury.call import calls
from treasury.errors import ApprovalNeeded, InputError, RecoveryRuns
from treasury.ledger import schema
from treasury.ledger.decisions import Word
from treasury.ledger.kept_breaks import accept_break
from treasury.ledger.policies import recover_policy
from treasury.ledger.seals import is_sealed
from treasury.ledger.stops import lift_stop, stop_sending, stops_to_lift
from treasury.orders.states import Event, State
from treasury.payments.cancelling import cancel, cancel_word
from treasury.payments.deciding import code_of
from treasury.payments.desk import Desk
from treasury.payments.resolving import decided_word, release_orders
from treasury.policy.model import Policy, parse_policy
from treasury.provider.orders import Payout

OpenDesk = Callable[..., Desk]
WHY = "called the customer"
ONE = ("a", "5", "12345670001")


@pytest.fixture
def sandbox(start_sandbox: Any) -> Any:
    return start_sandbox()


@pytest.fixture
def desk(open_desk: OpenDesk, sandbox: Any) -> Desk:
    return open_desk(sandbox.base_url)


def by_hand(desk: Desk, people: Any = PEOPLE) -> None:
    """Put a policy in force that lists people and asks for no approvals."""
    adopt(desk, people, payouts={})


def token(desk: Desk, name: str, purpose: Verb, reference: str, hours: float = 1) -> Token:
    """Return the token that this person signs about what stands there now."""
    word = cancel_word(desk, reference) if purpose is Verb.CANCEL else decided_word(desk, purpose, reference)
    return sign(KEYS[name], purpose, reference, code_of(desk, word), desk.ledger.now() + int(hours * HOUR))


def lift_token(desk: Desk, name: str) -> Token:
    return sign(KEYS[name], Verb.LIFT, "stop", stops_to_lift(desk.ledger).code, desk.ledger.now() + HOUR)


def held_duplicate(desk: Desk, folder: Path, maker: str | None = "ada", run_key: str = "two") -> Path:
    """A row that looks like one that was paid, in a run that this person signed."""
    assert start(desk, sheet(folder, ONE, name="one.csv"), "one") == {"a": "settled"}
    file = sheet(folder, ONE, name=f"{run_key}.csv")
    propose(desk, file, run_key, maker)
    assert start(desk, file, run_key) == {"a": "held"}
    return file


def state(desk: Desk, run_key: str = "two") -> State:
    [order] = desk.ledger.orders(run_key=run_key)
    return order.state


# --- duplicate_ok ----------------------------------------------------------------------------------------------------


@pytest.mark.both_databases
def test_a_word_in_the_sheet_releases_nothing_that_is_held(desk: Desk, sandbox: Any, tmp_path: Path) -> None:
    by_hand(desk)
    held_duplicate(desk, tmp_path)
    excused = sheet(tmp_path, ONE, name="excused.csv", why="second instalment")
    assert start(desk, excused, "two") == {"a": "held"}
    assert len(sandbox.orders()) == 1
    with pytest.raises(InputError, match="somebody else has to: ben, cleo"):
        release_orders(desk, "two", None, KEYS["ada"], why=WHY)
    assert [each.done for each in release_orders(desk, "two", None, KEYS["ben"], why=WHY)] == [True]
    assert start(desk, excused, "two") == {"a": "settled"}
    assert len(sandbox.orders()) == 2


def test_a_word_that_is_written_while_a_row_waits_excuses_nothing(desk: Desk, sandbox: Any, tmp_path: Path) -> None:
    """It is no duplicate when it is recorded; a payment like it is made before it leaves."""
    by_hand(desk)
    waiting, other = sheet(tmp_path, ONE, name="waits.csv"), sheet(tmp_path, ONE, name="other.csv")
    stop_sending(desk.ledger, "Somebody", "a look first")
    paying.commit(desk, waiting, "two")
    lift_stop(desk.ledger, proof=KEYS["ben"])
    assert start(desk, other, "one") == {"a": "held"}  # it looks like the one that waits
    release_orders(desk, "one", None, KEYS["ben"], why=WHY)
    assert start(desk, other, "one") == {"a": "settled"}
    excused = sheet(tmp_path, ONE, name="excused.csv", why="second instalment")
    assert start(desk, excused, "two") == {"a": "held"}
    [held] = desk.ledger.orders(run_key="two")
    assert f"treasury release {held.request_id} --key FILE" in str(held.reason)
    assert len(sandbox.orders()) == 1


def test_a_word_that_was_there_from_the_beginning_counts(desk: Desk, sandbox: Any, tmp_path: Path) -> None:
    by_hand(desk)
    assert start(desk, sheet(tmp_path, ONE, name="one.csv"), "one") == {"a": "settled"}
    excused = sheet(tmp_path, ONE, name="two.csv", why="second instalment")
    stop_sending(desk.ledger, "Somebody", "a look first")
    paying.commit(desk, excused, "two")
    lift_stop(desk.ledger, proof=KEYS["ben"])
    assert start(desk, excused, "two") == {"a": "settled"}
    assert len(sandbox.orders()) == 2


def test_an_approval_without_the_word_does_not_count_with_it(desk: Desk, tmp_path: Path) -> None:
    adopt(desk)
    row = ("a", "20", "12345670001")
    plain, excused = sheet(tmp_path, row, name="plain.csv"), sheet(tmp_path, row, name="excused.csv", why="meant")
    plans = [paying.plan_of(desk, file, "run") for file in (plain, excused)]
    assert plans[0].sha256 != plans[1].sha256
    waits(desk, plain)
    approve(desk, "ben")
    with pytest.raises(ApprovalNeeded):
        start(desk, excused)
    assert start(desk, plain) == {"a": "settled"}


def test_an_amount_that_changed_waits_for_a_second_person(desk: Desk, sandbox: Any, tmp_path: Path) -> None:
    adopt(desk, PEOPLE, payouts={"when_changed": "second_person"})
    assert start(desk, sheet(tmp_path, ONE, name="october.csv"), "october") == {"a": "settled"}
    file = sheet(tmp_path, ("a", "7", "12345670001"), name="november.csv")
    propose(desk, file, "november", "ada")
    for _ in range(2):
        assert start(desk, file, "november") == {"a": "held"}
    reason = str(desk.ledger.orders(run_key="november")[0].reason)
    assert reason.startswith("7 USDT_TRC20 (+40 %) instead of 5 in run october; it waits for a second person: ")
    with pytest.raises(InputError, match="ada made what it is about; somebody else has to: ben, cleo"):
        release_orders(desk, "november", None, KEYS["ada"], why=WHY)
    release_orders(desk, "november", None, KEYS["ben"], why=WHY)
    assert start(desk, file, "november") == {"a": "settled"}
    assert len(sandbox.orders()) == 2


@pytest.mark.parametrize("table", ["payouts", "withdrawals"])
def test_a_second_person_is_asked_for_only_where_people_have_keys(table: str) -> None:
    with pytest.raises(InputError, match=rf"{table}.when_changed: .second_person. needs \[people\] with keys"):
        parse_policy({table: {"when_changed": "second_person"}}, "policy.toml")
    alone = {"ada": person("ada", may=("make", "approve", "change_policy"))}
    with pytest.raises(InputError, match="1 more must be listed under"):
        parse_policy({table: {"when_changed": "second_person"}, "people": alone}, "policy.toml")


@pytest.mark.parametrize("run_key", ["payroll", "policy-holders"])
def test_a_cancelled_order_whose_reference_reads_like_a_run_key_ends_no_run(
    desk: Desk, tmp_path: Path, run_key: str
) -> None:
    by_hand(desk)
    stop_sending(desk.ledger, "Somebody", "a look first")
    fields = {name: value for name, value in DIRECT.items() if name != "route"} | {"account_no": "12345670009"}
    calls.submit_operation(desk, Payout(**{**fields, "currency": "USDT_TRC20", "request_id": run_key, "amount": "5"}))
    [cancelled] = cancel(desk, run_key, KEYS["ada"], why=WHY).decisions
    assert cancelled.done
    lift_stop(desk.ledger, proof=KEYS["ben"])
    assert start(desk, sheet(tmp_path, ONE), run_key) == {"a": "settled"}


# --- who made it -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maker", ["ben", None])
def test_the_maker_is_who_signed_or_works_as_the_user(desk: Desk, tmp_path: Path, maker: str | None) -> None:
    from treasury.settings import os_user

    people = {
        "ada": person("ada", may=("make", "change_policy")),
        "ben": person("ben", may=("make",), users=() if maker else (os_user(),)),
        "cleo": person("cleo"),
    }
    by_hand(desk, people)
    held_duplicate(desk, tmp_path, maker)
    with pytest.raises(InputError, match="ben made what it is about"):
        release_orders(desk, "two", None, KEYS["ben"], why=WHY)
    release_orders(desk, "two", None, KEYS["ada"], why=WHY)


def test_who_adds_rows_is_a_maker_too(desk: Desk, tmp_path: Path) -> None:
    people = {**PEOPLE, "ben": person("ben", may=("make", "approve"))}
    by_hand(desk, people)
    held_duplicate(desk, tmp_path)
    more = sheet(tmp_path, ONE, ("b", "6", "12345670002"), name="more.csv")
    plan = paying.plan_of(desk, more, "two")
    from treasury.pay import agreeing
    from treasury.payments import approving

    added = agreeing.added_plan(desk, plan)
    assert added is not None
    signed = approving.sign_proposal(desk, KEYS["ben"], "two", added.sha256)
    paying.propose(desk, plan, proposal=str(signed), add=True)
    paying.commit(desk, more, "two", add=True)
    for name in ("ada", "ben"):
        with pytest.raises(InputError, match="somebody else has to: cleo"):
            release_orders(desk, "two", None, KEYS[name], why=WHY)


@pytest.mark.both_databases
def test_who_made_a_run_is_not_changed_by_hand(desk: Desk, tmp_path: Path) -> None:
    by_hand(desk, {**PEOPLE, "ada": person("ada", may=("make", "change_policy"), users=(_user(),))})
    file = held_duplicate(desk, tmp_path, None)
    change(desk, update(schema.runs).where(schema.runs.c.run_key == "two").values(makers=None))
    with pytest.raises(InputError, match="nobody knows who made it"):
        release_orders(desk, "two", None, KEYS["ada"], why=WHY)
    start(desk, file, "two")  # judged anew
    [released] = release_orders(desk, "two", None, KEYS["ada"], why=WHY)
    assert ", alone: " in str(desk.ledger.journal(released.order)[-1].cause)


@pytest.mark.both_databases
def test_who_made_a_run_is_known_also_once_it_is_to_be_judged_anew(desk: Desk, tmp_path: Path) -> None:
    """A payment that was held for a limit and is released is judged anew, with all that waits of its run."""
    adopt(desk, PEOPLE, payouts={"max_per_day": {"USDT_TRC20": "10"}})
    assert start(desk, sheet(tmp_path, ONE, name="one.csv"), "one") == {"a": "settled"}
    later(desk, 24)
    file = sheet(tmp_path, ONE, ("b", "5", "12345670002"), name="two.csv")
    propose(desk, file, "two", "ada")
    stop_sending(desk.ledger, "Somebody", "a look first")
    paying.commit(desk, file, "two")
    lift_stop(desk.ledger, proof=KEYS["ben"])
    later(desk, 24)
    assert start(desk, sheet(tmp_path, ("c", "6", "12345670003"), name="three.csv"), "three") == {"c": "settled"}
    assert start(desk, file, "two") == {"a": "held", "b": "held"}
    [limited] = desk.ledger.orders(reference="b")
    assert limited.hold_kind == "limit"
    assert [each.done for each in release_orders(desk, limited.request_id, None, KEYS["ben"], why=WHY)] == [True]
    for _ in range(2):
        with pytest.raises(InputError, match="ada made what it is about; somebody else has to: ben, cleo"):
            release_orders(desk, "two", "duplicate", KEYS["ada"], why=WHY)
        later(desk, 24)
        assert start(desk, file, "two") == {"a": "held", "b": "settled"}


def test_a_maker_under_another_name_has_the_same_key(desk: Desk, tmp_path: Path) -> None:
    by_hand(desk)
    held_duplicate(desk, tmp_path)
    stop_sending(desk.ledger, "", "a look first", key=KEYS["ada"])
    renamed = {"ada king" if name == "ada" else name: person for name, person in PEOPLE.items()}
    adopt(desk, renamed, key="ada", payouts={})
    with pytest.raises(InputError, match="ada king made what it is about; somebody else has to: ben, cleo"):
        release_orders(desk, "two", None, KEYS["ada"], why=WHY)
    with pytest.raises(InputError, match="ada king made what it is about; somebody else has to: ben, cleo"):
        lift_stop(desk.ledger, proof=KEYS["ada"])
    assert [each.done for each in release_orders(desk, "two", None, KEYS["ben"], why=WHY)] == [True]


def _user() -> str:
    from treasury.settings import os_user

    return os_user()


# --- tokens ----------------------------------------------------------------------------------------------------------


def test_a_token_is_about_this_row_this_verb_this_ledger_and_this_hour(desk: Desk, tmp_path: Path) -> None:
    by_hand(desk)
    held_duplicate(desk, tmp_path)
    genuine = token(desk, "ben", Verb.RELEASE, "two")
    for wrong, said in (
        (replace(genuine, signature=bytes(64)), "not genuine"),
        (replace(genuine, expires_at=genuine.expires_at + 1), "not genuine"),
        (token(desk, "mallory", Verb.RELEASE, "two"), "does not list this key"),
        (token(desk, "ada", Verb.RELEASE, "two"), "somebody else has to"),
        (token(desk, "ben", Verb.CANCEL, "two"), "to cancel, not to release"),
        (token(desk, "ben", Verb.RELEASE, "two", hours=-1), "expired"),
        (sign(KEYS["ben"], Verb.RELEASE, "two", "1-" + "0" * 64, genuine.expires_at), "something else"),
    ):
        with pytest.raises(InputError, match=said):
            release_orders(desk, "two", None, wrong, why=WHY)
        assert state(desk) is State.HELD
    assert [each.done for each in release_orders(desk, "two", None, genuine, why=WHY)] == [True]
    [kept] = desk.ledger.read(select(schema.decisions).where(schema.decisions.c.verb == "release"))
    assert is_sealed(desk.ledger.key, schema.decisions, kept)
    assert (kept.name, kept.token, bool(kept.is_alone)) == ("ben", str(genuine), False)


def test_a_kept_token_releases_no_later_hold(desk: Desk, sandbox: Any, tmp_path: Path) -> None:
    by_hand(desk)
    file = held_duplicate(desk, tmp_path)
    kept = token(desk, "ben", Verb.RELEASE, "two", hours=99)
    release_orders(desk, "two", None, kept, why=WHY)
    [order] = desk.ledger.orders(run_key="two")
    desk.ledger.step(order, Event.HOLD, cause="again", reason="again", hold_kind="duplicate")
    with pytest.raises(InputError, match="what it is about changed since"):
        release_orders(desk, "two", None, kept, why=WHY)
    assert start(desk, file, "two") == {"a": "held"}
    assert len(sandbox.orders()) == 1


def test_a_token_from_before_a_restore_decides_nothing(desk: Desk, tmp_path: Path) -> None:
    by_hand(desk)
    held_duplicate(desk, tmp_path)
    stop_sending(desk.ledger, "Somebody", "a look first")
    release, lift = token(desk, "ben", Verb.RELEASE, "two"), lift_token(desk, "ben")
    reject = token(desk, "ben", Verb.CANCEL, "two")
    desk.begin_epoch("it was restored")
    for act in (
        lambda: release_orders(desk, "two", None, release, why=WHY),
        lambda: cancel(desk, "two", reject, why=WHY),
        lambda: lift_stop(desk.ledger, proof=lift),
    ):
        with pytest.raises(InputError, match="something else, or what it is about changed"):
            act()
    assert state(desk) is State.HELD


@pytest.mark.sqlite_alone
def test_a_token_for_one_ledger_decides_nothing_in_another(open_desk: OpenDesk, sandbox: Any, tmp_path: Path) -> None:
    """Two databases of one account, the second a copy of the first."""
    one = open_desk(sandbox.base_url)
    by_hand(one)
    held_duplicate(one, tmp_path)
    kept = token(one, "ben", Verb.RELEASE, "two")
    other = copied(one, tmp_path)
    with pytest.raises(InputError):
        release_orders(other, "two", None, kept, why=WHY)  # the epoch begins: another file than before
    with pytest.raises(InputError):
        release_orders(other, "two", None, kept, why=WHY)
    assert state(other) is State.HELD
    other.close()


def copied(desk: Desk, folder: Path) -> Desk:
    """Another home with a copy of this ledger, its key and its tokens."""
    from treasury.ledger.database import sqlite_file

    file = sqlite_file(desk.settings.ledger_url)
    assert file is not None
    home = folder / "copy"
    home.mkdir()
    desk.ledger.close()
    shutil.copy(file, home / file.name)
    shutil.copy(desk.settings.ledger_key_file, home / "ledger.key")
    settings = replace(desk.settings, home=home, ledger_url=f"sqlite:///{home / file.name}")
    return Desk(desk.account, replace(settings, ledger_key_file=home / "ledger.key"))


# --- a way out -------------------------------------------------------------------------------------------------------


def test_after_a_recovery_the_new_keys_do_all(desk: Desk, sandbox: Any, tmp_path: Path) -> None:
    by_hand(desk)
    file = held_duplicate(desk, tmp_path)
    kept = token(desk, "ben", Verb.RELEASE, "two", hours=200)
    stop_sending(desk.ledger, "Somebody", "the keys are gone")
    people = {"ada": person("mallory", may=("make", "approve", "change_policy")), "cleo": person("cleo")}
    other = parse_policy({"payouts": {}, "people": people}, "new.toml")
    recover_policy(desk.ledger, other, "new.toml", by="Ada Example", os_user="ada", now=desk.ledger.now())
    for act in (
        lambda: release_orders(desk, "two", None, KEYS["ben"], why=WHY),
        lambda: lift_stop(desk.ledger, proof=KEYS["ben"]),
        lambda: accept_any(desk, "ben"),
    ):
        with pytest.raises((RecoveryRuns, InputError)):
            act()
    stop_sending(desk.ledger, "Mallory", "at any time")
    later(desk, 73)
    for proof, said in ((KEYS["ben"], "does not list this key"), (kept, "does not list this key")):
        with pytest.raises(InputError, match=said):
            release_orders(desk, "two", None, proof, why=WHY)
    assert lift_stop(desk.ledger, proof=KEYS["cleo"]) == 2
    assert [each.done for each in release_orders(desk, "two", None, KEYS["cleo"], why=WHY)] == [True]
    assert start(desk, file, "two") == {"a": "settled"}
    assert len(sandbox.orders()) == 2


def accept_any(desk: Desk, name: str) -> None:
    accept_break(desk.ledger, "B-000000000000", os_user="x", why=WHY, proof=KEYS[name])


def test_while_a_recovery_runs_nothing_is_approved_and_what_waits_can_be_ended(desk: Desk, tmp_path: Path) -> None:
    adopt(desk)
    waits(desk, sheet(tmp_path, ("a", "20", "12345670001")))
    other = parse_policy({"payouts": {}, "people": PEOPLE}, "new.toml")
    recover_policy(desk.ledger, other, "new.toml", by="Ada Example", os_user="ada", now=desk.ledger.now())
    with pytest.raises(RecoveryRuns):
        approve(desk, "ben")
    assert cancel(desk, "run", KEYS["ada"], why=WHY).plan is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"people": []},
        {"people": ["Bert Example"], "approvals": 1},
        {"people": ["Bert Example", "BERT  EXAMPLE"], "approvals": 1},
    ],
)
def test_a_policy_that_nobody_could_ever_change_is_refused(desk: Desk, changes: Any) -> None:
    wanted = parse_policy({"payouts": {}, "changes": changes}, "policy.toml")
    with pytest.raises(InputError, match="nobody could ever adopt another policy"):
        recover_policy(desk.ledger, wanted, "policy.toml", by="Ada", os_user="ada", now=desk.ledger.now())
    with pytest.raises(InputError, match="nobody could ever adopt another policy"):
        adopt_as_ada(desk, wanted)


def test_a_policy_that_a_script_made_past_its_checks_is_refused(desk: Desk) -> None:
    checked = parse_policy({"payouts": {}, "people": PEOPLE}, "policy.toml")
    nobody = {name: each.model_copy(update={"may": ()}) for name, each in checked.people.items()}
    with pytest.raises(InputError, match="nobody who has a key may change_policy"):
        adopt_as_ada(desk, checked.model_copy(update={"people": nobody}))


def adopt_as_ada(desk: Desk, wanted: Policy) -> None:
    from treasury.ledger.policies import adopt_policy

    adopt_policy(desk.ledger, wanted, "policy.toml", by="ada", os_user="ada")


# --- every verb ------------------------------------------------------------------------------------------------------


def test_a_word_for_one_verb_makes_no_other_step(desk: Desk, tmp_path: Path) -> None:
    by_hand(desk)
    held_duplicate(desk, tmp_path)
    [order] = desk.ledger.orders(run_key="two")
    word = Word(Verb.CANCEL, "", WHY, "x", KEYS["ben"])
    with pytest.raises(InputError, match="it is to cancel, and this is to release"):
        desk.ledger.step(order, Event.RELEASE, word=word, hold_kind=None)
    assert state(desk) is State.HELD
