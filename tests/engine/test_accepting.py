"""Acceptances of breaks: a second one adds, one may end or be withdrawn, and each takes a key of a listed person."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine.approvers import KEYS, PEOPLE, adopt, change, person
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.approving.tokens import Verb, sign
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.decisions import Proof
from treasury.ledger.kept_breaks import accept_break, matter_of_break, withdraw_acceptances
from treasury.payments.desk import Desk
from treasury.settings import os_user

OpenDesk = Callable[..., Desk]
DAY = 86_400
ROW = ("a", "10", "12345670001")


def classes(report: Any) -> dict[str, str]:
    return {each["row_ref"]: f"{each['class']} {each['lifecycle']}" for each in report["breaks"]}


def forge(desk: Desk, amount: str) -> None:
    """Somebody changes what the ledger says was paid."""
    change(desk, update(schema.orders).values(amount=amount))


@pytest.fixture
def desk(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> Desk:
    opened = open_desk(start_sandbox().base_url)
    pay(opened, sheet(tmp_path, ROW), tmp_path / "out", seconds=20)
    return opened


def accept(desk: Desk, report: Any, by: str, **more: Any) -> None:
    accept_break(desk.ledger, report["breaks"][0]["id"], by=by, os_user=by.lower(), why=f"{by} knows", **more)


def withdraw(desk: Desk, report: Any, by: str = "", proof: Proof | None = None) -> int:
    number = report["breaks"][0]["id"]
    return withdraw_acceptances(desk.ledger, number, by=by, os_user="x", why="it was a mistake", proof=proof)


@pytest.mark.both_databases
def test_a_second_acceptance_adds_and_overwrites_none(desk: Desk, tmp_path: Path) -> None:
    forge(desk, amount="9")
    accept(desk, night(desk, tmp_path / "1"), "Ana")
    forge(desk, amount="8")
    changed = night(desk, tmp_path / "2")
    assert changed["verdict"] == "breaks"
    accept(desk, changed, "Ben")
    assert night(desk, tmp_path / "3")["breaks"][0]["accepted"]["by"] == "Ben"
    forge(desk, amount="9")
    back = night(desk, tmp_path / "4")
    assert (back["verdict"], back["breaks"][0]["accepted"]["by"]) == ("reconciled", "Ana")
    accept(desk, back, "Cleo")
    both = night(desk, tmp_path / "5")["breaks"][0]["accepted"]
    assert (both["by"], both["why"]) == ("Ana, Cleo", "Ana knows; Cleo knows")


def test_what_was_accepted_counts_again_once_it_is_withdrawn(desk: Desk, tmp_path: Path) -> None:
    forge(desk, amount="9")
    found = night(desk, tmp_path / "1")
    accept(desk, found, "Ana")
    accept(desk, found, "Ben")
    assert night(desk, tmp_path / "2")["verdict"] == "reconciled"
    assert withdraw(desk, found, "Cleo") == 2
    assert night(desk, tmp_path / "3")["verdict"] == "breaks"
    with pytest.raises(InputError, match="nobody accepted"):
        withdraw(desk, found, "Cleo")
    accept(desk, found, "Ana")
    assert night(desk, tmp_path / "4")["verdict"] == "reconciled"


def test_what_is_on_its_way_is_pending_though_a_person_accepted_that_it_is_late(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=5 * DAY)
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ROW), tmp_path / "out", seconds=0)
    clock_of(desk).move(4 * DAY)
    late = night(desk, tmp_path / "1")
    assert (late["verdict"], classes(late)) == ("warnings", {"a": "pending_late new"})
    accept(desk, late, "Ana")
    again = night(desk, tmp_path / "2")
    assert (again["verdict"], again["statement"][0]["closing_in_flight"]) == ("pending", "10")
    clock_of(desk).move(2 * DAY)
    sandbox.advance(2 * DAY)
    ended = night(desk, tmp_path / "3")
    assert (ended["verdict"], ended["statement"][0]["closing_in_flight"]) == ("reconciled", "0")


def test_an_acceptance_may_end(desk: Desk, tmp_path: Path) -> None:
    forge(desk, amount="9")
    accept(desk, night(desk, tmp_path / "1"), "Ana", ends_at=desk.ledger.now() + 2 * DAY * 1000)
    clock_of(desk).move(DAY)
    second = night(desk, tmp_path / "2")
    assert (second["verdict"], "until" in second["breaks"][0]["accepted"]) == ("reconciled", True)
    assert second["breaks"][0]["next_action"] == "nothing: a person accepted it as it was"
    clock_of(desk).move(DAY + 1)
    third = night(desk, tmp_path / "3")
    assert (third["verdict"], third["breaks"][0]["accepted"]) == ("breaks", None)


def test_a_break_that_was_gone_by_an_acceptance_is_back_once_that_is_withdrawn(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """The ledger's own correction hides what came back, so nothing else would show it again."""
    desk = open_desk(start_sandbox(settle_seconds=1, faults={"flip_final": 1.0}, flip_seconds=3600).base_url)
    pay(desk, sheet(tmp_path, ROW), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    found = night(desk, tmp_path / "2")
    assert classes(found) == {"a": "reversed_after_final new"}
    accept(desk, found, "Ana")
    assert classes(night(desk, tmp_path / "3")) == {"a": "reversed_after_final resolved"}
    assert classes(night(desk, tmp_path / "4")) == {}
    clock_of(desk).move(1)
    withdraw(desk, found, "Ben")
    back = night(desk, tmp_path / "5")
    assert (back["verdict"], classes(back)) == ("breaks", {"a": "reversed_after_final persisting"})


def test_where_people_are_listed_the_maker_of_the_run_accepts_nothing_of_it(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, {**PEOPLE, "ada": person("ada", may=("make", "change_policy"), users=(os_user(),))}, payouts={})
    pay(desk, sheet(tmp_path, ROW), tmp_path / "out", seconds=20)
    forge(desk, amount="9")
    found = night(desk, tmp_path / "1", accepts=False)
    for proof, said in ((None, "takes the key"), (KEYS["mallory"], "does not list"), (KEYS["ada"], "somebody else")):
        with pytest.raises(InputError, match=said):
            accept(desk, found, "" if proof else "Ana", proof=proof)
    accept(desk, found, "", proof=KEYS["ben"])
    assert night(desk, tmp_path / "2", accepts=False)["breaks"][0]["accepted"]["by"] == "ben"
    with pytest.raises(InputError, match="takes the key"):
        withdraw(desk, found, "ben")
    assert withdraw(desk, found, proof=KEYS["ada"]) == 1


def test_a_token_accepts_once_and_not_again_after_it_was_withdrawn(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, payouts={})
    pay(desk, sheet(tmp_path, ROW), tmp_path / "out", seconds=20)
    forge(desk, amount="9")
    found = night(desk, tmp_path / "1", accepts=False)
    number = found["breaks"][0]["id"]
    code = matter_of_break(desk.ledger, number, ends_at=None, withdraw=False).code
    token = sign(KEYS["ben"], Verb.ACCEPT, number, code, desk.ledger.now() + DAY * 1000)
    accept(desk, found, "", proof=token)
    assert withdraw(desk, found, proof=KEYS["cleo"]) == 1
    with pytest.raises(InputError, match="this token was recorded before"):
        accept(desk, found, "", proof=token)
    accept(desk, found, "", proof=KEYS["ben"])
