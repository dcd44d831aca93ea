"""`treasury cancel`, `release` and `resolve`: no decision pays what was not meant, and none is a dead end."""

import json
import time
from collections.abc import Callable

import pytest

from tests.commands.office import PATIENCE, Office, eventually
from treasury.sandbox import RunningSandbox

PERSON = ("--by", "Ada Example", "--why", "paid by hand already")
ROWS = [(f"r{number}", "5.00", f"12345678{number:03d}") for number in range(4)]

pytestmark = pytest.mark.prefect


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox()


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office], prefect_url: str) -> Office:
    return open_office(sandbox.base_url, TREASURY_RESEND_AFTER_SECONDS="0")


def pay(office: Office, key: str, *rows: tuple[str, str, str], name: str = "rows.csv") -> tuple[int, str]:
    ended = office.run("pay", office.sheet(*rows, name=name), "--run-key", key, "--yes", "--follow", "20")
    return ended.code, ended.last


def paid(sandbox: RunningSandbox) -> int:
    return sum(order["effects"] for order in sandbox.orders())


def test_a_held_duplicate_that_is_not_to_be_paid_is_cancelled_for_ever(office: Office, sandbox: RunningSandbox) -> None:
    assert pay(office, "first", *ROWS) == (0, "4 settled")
    again = pay(office, "again", *ROWS)
    assert again == (4, "0 settled, 4 held")
    refused = office.run("resolve", "again", "--as", "not-sent", *PERSON)
    assert refused.code == 2
    assert "treasury release" in refused.err
    assert "treasury cancel" in refused.err
    ended = office.run("resolve", "again", "--as", "settled", *PERSON)
    assert ended.code == 2
    one = office.run("cancel", "r0", *PERSON)
    assert one.code == 2
    assert "names several things" in one.err
    reference = office.results("again")["r0"]["request_id"]
    assert office.run("cancel", reference, *PERSON).code == 0
    assert office.run("cancel", "again", *PERSON).last == "4 decided, 0 not"
    assert "Ada Example" in office.run("show", reference).out
    assert pay(office, "again", *ROWS) == (4, "0 settled, 4 cancelled")
    assert {row["outcome"] for row in office.results("again").values()} == {"cancelled"}
    assert paid(sandbox) == 4
    night = office.run("reconcile", "--out", str(office.home / "night"))
    assert (night.code, night.last) == (0, "warnings: 1 opening, 8 matched")


def test_a_run_that_was_stopped_half_way_is_cancelled_and_its_corrected_list_paid_once(
    office: Office, sandbox: RunningSandbox
) -> None:
    office.run("stop", "--by", "Ada Example", "--why", "a wrong account")
    code, last = pay(office, "wrong", *ROWS)
    assert (code, "not sent" in last) == (4, True)
    assert office.run("cancel", "wrong", *PERSON).last == "4 decided, 0 not"
    office.run("stop", "--lift", "--by", "Ada Example")
    assert pay(office, "corrected", *ROWS, name="corrected.csv") == (0, "4 settled")  # no duplicate of what never left
    assert pay(office, "wrong", *ROWS) == (4, "0 settled, 4 cancelled")
    assert paid(sandbox) == 4


@pytest.mark.costly("a process that sends meanwhile")
def test_a_run_is_cancelled_while_it_is_sent(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], prefect_url: str
) -> None:
    sandbox = open_sandbox(faults={"slow": 1.0}, slow_seconds=0.5)
    office = open_office(sandbox.base_url, TREASURY_IN_FLIGHT="4")
    rows = [(f"r{number}", "1.00", f"12345{number:06d}") for number in range(200)]
    with office.running("pay", office.sheet(*rows), "--run-key", "long", "--yes", "--follow", "20") as process:
        eventually(lambda: len(sandbox.orders()) > 8 or process.poll() is not None, PATIENCE)
        cancelled = office.run("cancel", "long", *PERSON)
        assert "it left, or may have left" in cancelled.out
        time.sleep(1.5)  # what was marked before is on its way
        sent = len(sandbox.orders())
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 4, out + err
    assert len(sandbox.orders()) == sent < 100
    results = office.results("long")
    assert sum(row["outcome"] == "cancelled" for row in results.values()) == 200 - sent
    assert office.run("pay", office.sheet(*rows), "--run-key", "long", "--yes", "--follow", "20").code == 4
    assert paid(sandbox) == sent


def test_a_plan_that_waits_is_cancelled_with_its_approvals(office: Office, sandbox: RunningSandbox) -> None:
    policy = office.file("policy.toml", '[payouts.one_approval_above]\nUSDT_TRC20 = "1"\n')
    start = ("pay", office.sheet(*ROWS), "--run-key", "waits", "--policy", policy, "--yes", "--follow", "20")
    assert office.run(*start).code == 3
    assert office.run("approve", "waits", "--by", "Bert Example").code == 0
    assert office.run("cancel", "waits", *PERSON).code == 0
    for command in (start, ("approve", "waits", "--by", "Cleo Example")):
        refused = office.run(*command)
        assert refused.code == 2
        assert "was cancelled by Ada Example" in refused.err
    assert paid(sandbox) == 0


def test_rows_that_wait_to_be_added_are_cancelled_and_nothing_is_undecided(
    office: Office, sandbox: RunningSandbox
) -> None:
    policy = office.file("policy.toml", '[payouts.one_approval_above]\nUSDT_TRC20 = "15"\n')
    more = ("--run-key", "grows", "--policy", policy, "--yes", "--follow", "20")
    assert office.run("pay", office.sheet(("a", "10", "12345670051"), name="a.csv"), *more).code == 0
    both = office.sheet(("a", "10", "12345670051"), ("b", "10", "12345670052"), name="b.csv")
    assert office.run("pay", both, *more, "--add").code == 3
    cancelled = office.run("cancel", "grows", *PERSON)
    assert (cancelled.code, "the plan of run grows that waited is cancelled" in cancelled.out) == (0, True)
    assert "it is settled: nothing of it is left to cancel" in cancelled.out
    assert cancelled.last == "1 decided, 0 not"


def test_an_order_that_never_ends_is_ended_on_a_persons_word(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], prefect_url: str
) -> None:
    sandbox = open_sandbox(settle_seconds=10_000)
    office = open_office(sandbox.base_url)
    assert office.run("pay", office.sheet(*ROWS), "--run-key", "endless", "--yes", "--follow", "0").code == 0
    several = office.run("resolve", "endless", "--as", "settled", *PERSON)
    assert (several.code, "one at a time" in several.err) == (2, True)
    row = office.results("endless")["r1"]
    other = office.run("resolve", row["request_id"], "--as", "settled", "--order-no", "another", *PERSON)
    assert (other.code, "look again" in other.out) == (4, True)
    said = office.run("resolve", row["request_id"], "--as", "settled", "--order-no", row["order_no"], *PERSON)
    assert (said.code, said.last) == (0, "1 decided, 0 not"), said.out + said.err
    assert office.run("resolve", office.results("endless")["r2"]["request_id"], "--as", "failed", *PERSON).code == 0
    assert office.run("pay", office.sheet(*ROWS), "--run-key", "endless", "--yes", "--follow", "0").code == 4
    results = office.results("endless")
    assert [results[f"r{number}"]["outcome"] for number in (1, 2)] == ["settled", "failed"]
    assert "not confirmed by the service" in results["r1"]["reason"]
    office.run("reconcile", "--out", str(office.home / "night"))
    report = json.loads((office.home / "night" / "reconciliation.json").read_text())
    assert {each["row_ref"] for each in report["breaks"]} == {"r1", "r2", None}  # None: the opening
