"""A copy of the ledger that is older than a cancellation brings its rows back: held, never sent by themselves."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.engine import paying
from tests.engine.runs import sheet
from treasury.ledger.policies import adopt_policy
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.orders.states import Hold, State
from treasury.payments import execution
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders, resolve_as_sent
from treasury.policy.model import parse_policy
from treasury.provider.client import Account
from treasury.sandbox import RunningSandbox, SandboxSettings, generate_key_pair, running_sandbox
from treasury.settings import Settings

PERSON = {"by": "Ada Example", "why": "a test"}
PARTNER_ID = "900001"


@pytest.fixture(scope="module")
def keys() -> tuple[str, str]:
    return generate_key_pair()


@pytest.fixture
def sandbox(keys: tuple[str, str]) -> Iterator[RunningSandbox]:
    with running_sandbox(SandboxSettings(partner_id=PARTNER_ID, public_key=keys[1], settle_seconds=0.0)) as sandbox:
        yield sandbox


def open_desk(sandbox: RunningSandbox, home: Path, key: str) -> Desk:
    url = f"sqlite:///{home / 'ledger.db'}"
    return Desk(
        Account(sandbox.base_url, PARTNER_ID, key),
        Settings(home, None, None, None, None, url, home / "ledger.key", resend_after_seconds=0.0),
    )


def start(desk: Desk, file: Path, run_key: str) -> set[str]:
    """The outcomes of a run after a start of it."""
    for ids in paying.commit(desk, file, run_key):
        execution.send_orders(desk, run_key, ids)
    return {order.state.outcome for order in desk.ledger.orders(run_key=run_key)}


def delete_and_copy(copy: Path, home: Path) -> None:
    """Another file: file systems often give it the number that the deleted one had."""
    (home / "ledger.db").unlink()
    shutil.copy(copy / "ledger.db", home)
    shutil.rmtree(home / "tokens")
    shutil.copytree(copy / "tokens", home / "tokens")


def over_the_same_file(copy: Path, home: Path) -> None:
    """The ledger alone: the same file, with older content."""
    with closing(sqlite3.connect(copy / "ledger.db")) as old, closing(sqlite3.connect(home / "ledger.db")) as new:
        old.backup(new)


@pytest.mark.parametrize("put_back", [delete_and_copy, over_the_same_file])
def test_what_was_cancelled_is_held_when_an_older_ledger_brings_it_back(
    put_back: Callable[[Path, Path], None], sandbox: RunningSandbox, keys: tuple[str, str], tmp_path: Path
) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    paid, wrong = (sheet(tmp_path, ("a", "10", f"1234567000{n}"), name=f"{n}.csv") for n in range(2))
    desk = open_desk(sandbox, home, keys[0])
    assert start(desk, paid, "paid") == {"in_progress"}
    stop_sending(desk.ledger, "Ada Example", "a wrong account")
    assert start(desk, wrong, "wrong") == {"not_sent"}
    lift_stop(desk.ledger, "Ada Example")
    desk.close()
    shutil.copytree(home, copy)
    desk = open_desk(sandbox, home, keys[0])
    assert [each.done for each in cancel(desk, "wrong", **PERSON).decisions] == [True]
    desk.close()
    put_back(copy, home)
    desk = open_desk(sandbox, home, keys[0])
    assert start(desk, wrong, "wrong") == {"held"}
    [order] = desk.ledger.orders(run_key="wrong")
    assert (order.state, order.hold_kind) == (State.HELD, Hold.OLDER)
    assert len(sandbox.orders()) == 1
    assert [each.done for each in cancel(desk, "wrong", **PERSON).decisions] == [True]
    desk.close()


@pytest.mark.parametrize("started", [True, False], ids=["after a start", "before any start"])
def test_what_an_older_ledger_brings_back_is_asked_about_before_it_is_called_cancelled(
    started: bool, sandbox: RunningSandbox, keys: tuple[str, str], tmp_path: Path
) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    file = sheet(tmp_path, ("a", "10", "12345670001"), ("b", "20", "12345670002"))
    desk = open_desk(sandbox, home, keys[0])
    stop_sending(desk.ledger, "Ada Example", "a look first")
    assert start(desk, file, "run") == {"not_sent"}
    lift_stop(desk.ledger, "Ada Example")
    desk.close()
    shutil.copytree(home, copy)
    desk = open_desk(sandbox, home, keys[0])
    assert [each.done for each in cancel(desk, "b", **PERSON).decisions] == [True]
    assert start(desk, file, "run") == {"in_progress", "cancelled"}
    desk.close()
    delete_and_copy(copy, home)
    desk = open_desk(sandbox, home, keys[0])
    if started:
        assert start(desk, file, "run") == {"held"}
    assert [each.done for each in cancel(desk, "run", **PERSON).decisions] == [False, True]
    [paid, never_left] = desk.ledger.orders(run_key="run")
    assert (paid.state, paid.hold_kind) == (State.HELD, Hold.KNOWN)
    assert never_left.state is State.CANCELLED
    assert [each.done for each in resolve_as_sent(desk, "run", **PERSON)] == [True]
    assert len(sandbox.orders()) == 1
    desk.close()


def test_what_an_older_ledger_holds_stays_held_while_the_service_cannot_be_asked(
    sandbox: RunningSandbox, keys: tuple[str, str], tmp_path: Path
) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    file = sheet(tmp_path, ("a", "10", "12345670001"))
    desk = open_desk(sandbox, home, keys[0])
    stop_sending(desk.ledger, "Ada Example", "a look first")
    start(desk, file, "run")
    lift_stop(desk.ledger, "Ada Example")
    desk.close()
    shutil.copytree(home, copy)
    delete_and_copy(copy, home)
    desk = open_desk(sandbox, home, keys[0])
    assert start(desk, file, "run") == {"held"}
    desk.client.account = Account("http://127.0.0.1:9", PARTNER_ID, keys[0])  # nobody listens there
    [decision] = cancel(desk, "run", **PERSON).decisions
    assert (decision.done, decision.order.state) == (False, State.HELD)
    assert "could not be asked" in decision.says
    desk.close()


def _stops(desk: Desk) -> None:
    stop_sending(desk.ledger, "Ada Example", "a wrong sheet")


def _adopts(desk: Desk) -> None:
    policy = parse_policy({"payouts": {"max_per_day": {"USDT_TRC20": "1"}}}, "policy.toml")
    adopt_policy(desk.ledger, policy, "policy.toml", by="Ada Example", os_user="ada")


@pytest.mark.parametrize("decides", [_stops, _adopts])
def test_a_stop_or_a_policy_that_an_older_ledger_forgot_makes_it_an_older_ledger(
    decides: Callable[[Desk], None], sandbox: RunningSandbox, keys: tuple[str, str], tmp_path: Path
) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    paid, waits = (sheet(tmp_path, ("a", "10", f"1234567000{n}"), name=f"{n}.csv") for n in range(2))
    desk = open_desk(sandbox, home, keys[0])
    assert start(desk, paid, "paid") == {"in_progress"}
    stop_sending(desk.ledger, "Ada Example", "a look first")
    assert start(desk, waits, "waits") == {"not_sent"}
    lift_stop(desk.ledger, "Ada Example")
    desk.close()
    shutil.copytree(home, copy)
    desk = open_desk(sandbox, home, keys[0])
    desk.check_standing()
    decides(desk)
    desk.close()
    over_the_same_file(copy, home)
    desk = open_desk(sandbox, home, keys[0])
    assert start(desk, waits, "waits") == {"held"}
    assert len(sandbox.orders()) == 1
    desk.close()


def test_a_row_that_was_held_and_then_released_and_paid_is_not_called_cancelled(
    sandbox: RunningSandbox, keys: tuple[str, str], tmp_path: Path
) -> None:
    """The copy holds it as a duplicate; what came after the copy is lost."""
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    first, again = (sheet(tmp_path, (row, "10", "12345670001"), name=f"{row}.csv") for row in ("a", "b"))
    desk = open_desk(sandbox, home, keys[0])
    assert start(desk, first, "first") == {"in_progress"}
    assert start(desk, again, "again") == {"held"}
    desk.close()
    shutil.copytree(home, copy)
    desk = open_desk(sandbox, home, keys[0])
    release_orders(desk, "again", "duplicate", **PERSON)
    assert start(desk, again, "again") == {"in_progress"}
    desk.close()
    over_the_same_file(copy, home)
    desk = open_desk(sandbox, home, keys[0])
    [decision] = cancel(desk, "again", **PERSON).decisions
    assert (decision.done, decision.order.hold_kind) == (False, Hold.KNOWN)
    assert [each.done for each in resolve_as_sent(desk, "again", **PERSON)] == [True]
    assert len(sandbox.orders()) == 2
    desk.close()
