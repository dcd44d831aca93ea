"""Tests of what a person decides about held rows, through the commands; and homes that meet on one machine."""

import json
from collections.abc import Callable

import pytest

from tests.commands.office import PARTNER_ID, Office
from treasury.ledger.holder import MachineLock
from treasury.sandbox import RunningSandbox

PERSON = ("--by", "Ada Example", "--why", "looked at the portal")


@pytest.fixture(scope="module")
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox(faults={"repeat_acts": 1.0})


@pytest.fixture
def homes(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> tuple[Office, Office]:
    """Two homes of one account that know nothing of each other."""
    return open_office(sandbox.base_url, prefect=False), open_office(sandbox.base_url, prefect=False)


def withdraw(office: Office, reference: str) -> tuple[int, str]:
    fields = {"request_id": reference, "currency": "USDT_TRC20", "amount": "20", "customer_ref_id": "c-1"}
    ended = office.run("call", "withdraw", "--json", json.dumps({**fields, "address": f"TXYZ{reference}"}), "--yes")
    return ended.code, ended.err if ended.code == 6 else ended.last


def effects(sandbox: RunningSandbox, reference: str) -> int:
    return sum(order["effects"] for order in sandbox.orders() if order["request_id"] == reference)


def test_what_another_home_paid_is_held_taken_over_and_never_released(
    homes: tuple[Office, Office], sandbox: RunningSandbox
) -> None:
    one, two = homes
    assert withdraw(one, "w-two-homes")[0] == 0
    assert withdraw(two, "w-two-homes") == (4, "held: w-two-homes")
    released = two.run("release", "w-two-homes", *PERSON)
    assert released.code == 2
    assert "cannot be released" in released.err
    refused = two.run("resolve", "w-two-homes", "--as", "not-sent", *PERSON)
    assert (refused.code, refused.last) == (4, "0 decided, 1 not")
    assert "the service shows it" in refused.out
    taken = two.run("resolve", "w-two-homes", "--as", "sent", *PERSON)
    assert (taken.code, taken.last) == (0, "1 decided, 0 not")
    shown = two.run("show", "w-two-homes").out
    assert "Ada Example" in shown
    assert "outcome: held" not in shown
    assert withdraw(two, "w-two-homes")[0] == 0
    assert effects(sandbox, "w-two-homes") == 1


def test_a_run_that_another_home_of_this_machine_holds_ends_with_6(
    homes: tuple[Office, Office], sandbox: RunningSandbox
) -> None:
    lock = MachineLock(f"{sandbox.base_url}|{PARTNER_ID}")
    with lock.hold("call-w-held"):
        code, said = withdraw(homes[0], "w-held")
        assert code == 6
        assert "is held by process" in said
        assert effects(sandbox, "w-held") == 0
    assert withdraw(homes[0], "w-held")[0] == 0
    assert effects(sandbox, "w-held") == 1


def test_a_token_that_counts_more_than_the_ledger_begins_an_epoch(
    homes: tuple[Office, Office], sandbox: RunningSandbox
) -> None:
    office = homes[0]
    environ = {"TREASURY_RESEND_AFTER_SECONDS": "0"}
    office.environ.update(environ)
    assert withdraw(office, "w-first")[0] == 0
    [token] = (office.home / "tokens").iterdir()
    content = json.loads(token.read_text())
    assert content["marks"] == 1
    token.write_text(json.dumps({**content, "marks": 5}).ljust(199) + "\n")
    # Two queries that find nothing are needed now; the second is asked at the next start.
    assert withdraw(office, "w-second")[1] in ("not_sent: w-second", "in_progress: w-second", "settled: w-second")
    doctor = office.run("doctor").out
    assert "this machine marked 5 sends, and the ledger knows of 1" in doctor
    withdraw(office, "w-second")
    assert effects(sandbox, "w-second") == 1


@pytest.mark.parametrize("content", ["", "{", '{"host": "x"}', "\x00" * 200])
def test_a_token_that_cannot_be_read_counts_as_an_older_ledger(
    content: str, homes: tuple[Office, Office], sandbox: RunningSandbox
) -> None:
    office = homes[0]
    reference = f"w-unreadable-{len(content)}"
    assert withdraw(office, reference)[0] == 0
    [token] = (office.home / "tokens").iterdir()
    token.write_text(content)
    withdraw(office, f"{reference}-next")
    assert "cannot be read" in office.run("doctor").out
    assert json.loads(token.read_text())["marks"] >= 0
