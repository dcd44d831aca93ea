"""`treasury status` and `treasury balance`: what ran, what is open, what a person has to do."""

import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.commands.office import Office
from treasury.ledger.obligations import payments_that_wait
from treasury.nights.standing import needs_of
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox(balances={"USDT_TRC20": Decimal(1000), "USDT": Decimal(0)})


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office], prefect_url: str) -> Office:
    return open_office(sandbox.base_url)


def standing(office: Office) -> dict[str, Any]:
    ended = office.run("status", "--json")
    found: dict[str, Any] = json.loads(ended.out)
    assert ended.code == (4 if found["needs"] else 0)
    return found


def test_a_new_home_needs_nobody(office: Office) -> None:
    ended = office.run("status")
    assert (ended.code, ended.last) == (0, "nothing needs a person")
    assert (office.run("balance").code, standing(office)["jobs"]) == (0, [])
    [night] = standing(office)["scheduled"]  # what moves money is not scheduled without a policy in force
    assert night["job"] == "reconcile-transactions"
    assert night["next"].endswith("T19:00:00Z")  # 03:00 in Singapore
    assert f"next {night['job']}: {night['next']}" in ended.out


def test_what_is_open_is_said_until_it_is_done(office: Office, tmp_path: Any) -> None:
    sheet = office.sheet(("a", "10", "12345670001"), ("b", "20", "12345670022"))
    assert office.run("pay", sheet, "--run-key", "run", "--yes", "--follow", "2").code == 0
    needs = standing(office)["needs"]
    assert needs == [
        "no report of everything was made yet: treasury reconcile",
        "the last backup was never made from this home: treasury backup FILE",
    ]
    assert office.run("backup", tmp_path / "one.backup").code == 0
    assert standing(office)["restored"] is None
    assert office.run("restore", tmp_path / "one.backup", TREASURY_HOME=str(tmp_path / "drill")).code == 0
    assert standing(office)["restored"]["days"] == 0
    assert office.run("reconcile").code == 0
    found = standing(office)
    assert [job["job"] for job in found["jobs"]] == ["payout", "reconcile"]
    assert found["needs"] == [
        "1 open break of the last report: read it, then treasury accept BREAK --by NAME --why TEXT"
    ]
    assert (found["backup"]["days"], found["missed_nights"], found["unexplained"]) == (0, [], {})
    [opening] = found["breaks"]
    assert office.run("accept", opening["id"], "--by", "Ana", "--why", "as the service shows it").code == 0
    assert standing(office)["needs"] == []
    assert office.run("stop", "--by", "Ana", "--why", "a test").code == 0
    again = office.sheet(("c", "30", "12345670003"), name="again.csv")
    assert office.run("pay", again, "--run-key", "two", "--yes").code == 4
    ended = office.run("status")
    assert (ended.code, ended.last) == (4, "2 to do")
    assert "to do: 1 of two never left" in ended.out
    assert "to do: all sending was stopped by Ana (a test): treasury stop --lift --by NAME" in ended.out
    assert office.run("stop", "--lift", "--by", "Ana").code == 0
    [need] = standing(office)["needs"]
    assert need.startswith("1 of two never left (a stop kept it back, and was lifted: ")
    assert "stop --lift" not in need


def test_at_most_five_runs_of_unknown_outcome_are_named() -> None:
    """One sentence fits a terminal."""
    none: dict[str, Any] = dict.fromkeys(
        ("stops", "waiting_approvals", "not_sent", "missed_nights", "incomplete", "breaks"), ()
    )
    none |= {"held": {}, "jobs": [], "backup": None, "since": {"unknown": "then"}, "report_hours": None, "older": None}
    for number, named in ((1, "of r0, the"), (7, "of r0, r1, r2, r3, r4 and 2 more, the")):
        runs = [f"r{each}" for each in range(number)]
        found = {**none, "unknown": {"orders": number, "runs": runs, "oldest_hours": 3}}
        [need] = needs_of(found, [], 26, is_listed=False)
        assert need.what == f"{number} of unknown outcome, {named} oldest sent 3 h ago"
        assert "treasury show KEY" in need.command, "no start and no night ends a conversion that no query shows"


def test_money_that_is_gone_is_a_sum_here_and_beside_its_balance(office: Office, sandbox: RunningSandbox) -> None:
    sheet = office.sheet(("a", "10", "12345670001"), ("b", "20", "12345670022"))
    assert office.run("pay", sheet, "--run-key", "run", "--yes", "--follow", "2").code == 0
    assert office.run("reconcile").code == 0
    sandbox.deposit("USDT_TRC20", "-5")
    assert office.run("reconcile").code == 5
    assert standing(office)["unexplained"] == {"USDT_TRC20": "-5"}
    ended = office.run("balance")
    assert (ended.code, ended.last) == (0, "1 balance")
    [line] = [line for line in ended.out.splitlines() if line.startswith("USDT_TRC20")]
    assert line == "USDT_TRC20: 985  held for orders 20  unexplained -5"


def test_a_plan_that_lacks_no_approval_is_to_be_started_and_not_to_be_approved(office: Office) -> None:
    rules = "[payouts.one_approval_above]\nUSDT_TRC20 = "
    for name, most in (("one.toml", "5"), ("two.toml", "6")):
        office.file(name, f'time_zone = "UTC"\n{rules}"{most}"\n')
    assert office.run("policy", "adopt", "one.toml", "--by", "Ana").code == 0
    assert office.run("pay", office.sheet(("a", "10", "12345670001")), "--run-key", "run", "--yes").code == 3
    [waiting] = standing(office)["waiting_approvals"]
    assert waiting["lacks"] == 1
    assert any(" waits for approvals since " in need for need in standing(office)["needs"])
    assert office.run("approve", "run", "--plan", waiting["code"], "--by", "Ben").code == 0
    started = "start it again (a policy: treasury policy adopt FILE --by NAME), unless it runs now"
    [need] = [need for need in standing(office)["needs"] if need.startswith("run waits")]
    assert need == f"run waits since {waiting['since']} and has the approvals that it needs: {started}"
    assert office.run("policy", "adopt", "two.toml", "--by", "Ana").code == 0
    [need] = [need for need in standing(office)["needs"] if need.startswith("run waits")]
    assert (
        need == f"run waits since {waiting['since']} and was made under another policy than the one in force: {started}"
    )


def test_a_plan_of_before_a_restore_is_to_be_started_again_and_not_to_be_approved(office: Office) -> None:
    """Each command that named it told to approve it, which was refused."""
    office.file("one.toml", 'time_zone = "UTC"\n[payouts.one_approval_above]\nUSDT_TRC20 = "5"\n')
    assert office.run("policy", "adopt", "one.toml", "--by", "Ana").code == 0
    assert office.run("pay", office.sheet(("a", "10", "12345670001")), "--run-key", "run", "--yes").code == 3
    ledger = office.home / "ledger.db"
    shutil.copy(ledger.rename(office.home / "aside.db"), ledger)
    refused = office.run("approve", "run", "--by", "Ben")
    assert (refused.code, "was made before this ledger was restored: start the run again" in refused.err) == (2, True)
    [need] = [need for need in standing(office)["needs"] if need.startswith("run waits")]
    assert "and was made before this ledger was restored: start it again" in need
    assert "made before this ledger was restored: start the run again" in office.run("approvals").out
    assert office.run("show", "run").last == "it was made before this ledger was restored: start the run again"
    assert office.run("pay", office.sheet(("a", "10", "12345670001")), "--run-key", "run", "--yes").code == 3
    assert standing(office)["waiting_approvals"][0]["lacks"] == 1


def test_a_ledger_that_was_put_back_is_told_before_and_after_the_start_that_asks_first(office: Office) -> None:
    """A report of a restored ledger said nothing of it, and the status told to start the run again, and no more."""
    why = "because its file, or its database on a server, is another one than before"
    sheet = office.sheet(("a", "10", "12345670001"))
    assert office.run("pay", sheet, "--run-key", "run", "--yes", "--follow", "20").code == 0

    def said() -> tuple[set[bool], list[str]]:
        office.run("reconcile")
        pages = [*(office.home / "nights").glob("*/*.html"), *(office.home / "nights").glob("*/*.md")]
        return {why in each.read_text() for each in pages}, [each for each in standing(office)["needs"] if why in each]

    assert said() == ({False}, [])
    ledger = office.home / "ledger.db"
    shutil.copy(ledger.rename(office.home / "aside.db"), ledger)
    pages, [need] = said()
    assert (pages, "may know less than the service, because" in need) == ({True}, True)
    again = office.sheet(("b", "20", "12345670002"), name="again.csv")
    assert office.run("pay", again, "--run-key", "two", "--yes", "--follow", "0").code == 4
    assert said() == ({True}, [])


def test_a_plan_that_was_paid_under_a_later_policy_without_approvals_waits_no_more(office: Office) -> None:
    rules = "[payouts.one_approval_above]\nUSDT_TRC20 = "
    for most in ("5", "500"):
        office.file(f"{most}.toml", f'time_zone = "UTC"\n{rules}"{most}"\n')
    rows = [("a", "10", "12345670001"), ("b", "20", "12345670002")]
    for number, more in ((1, ()), (2, ("--add",))):
        assert office.run("policy", "adopt", "5.toml", "--by", "Ana").code == 0
        sheet = office.sheet(*rows[:number])
        assert office.run("pay", sheet, "--run-key", "run", "--yes", *more).code == 3
        assert office.run("policy", "adopt", "500.toml", "--by", "Ana").code == 0
        assert office.run("pay", sheet, "--run-key", "run", "--yes", *more).last == f"{number} settled"
        assert standing(office)["waiting_approvals"] == []
        assert payments_that_wait(office.desk().ledger) == []  # the rebalancing would buy for it
