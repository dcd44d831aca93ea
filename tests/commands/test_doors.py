"""Doors that a person, a form or a script could go around a control by: plans, accounts, schedules, files."""

import json
import re
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

import data
from tests.commands.office import Ended, Office, one_line_error
from treasury.ledger.holder import SHARED_FOLDER
from treasury.sandbox import RunningSandbox

pytestmark = [pytest.mark.prefect, pytest.mark.no_real_pauses]

BY = ("--by", "Ada Example")
POLICY = data.path("treasury_policy.toml")


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox()


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office], prefect_url: str) -> Office:
    return open_office(sandbox.base_url)


def flow(office: Office, call: str) -> Ended:
    return office.python(
        "from treasury.errors import TreasuryError\n"
        "from flows.rebalance_treasury import rebalance_treasury\n"
        "from flows.pay_beneficiaries import pay_beneficiaries\n"
        f"try:\n    {call}\nexcept TreasuryError as error:\n    print(type(error).__name__, error)\n"
        "else:\n    print('it ran')\n"
    )


def trades(sandbox: RunningSandbox) -> int:
    return sum(order["effects"] for order in sandbox.orders())


def test_only_a_plan_that_this_ledger_made_is_traded(office: Office, sandbox: RunningSandbox) -> None:
    looked = office.run("rebalance", "--policy", POLICY, "--dry-run")
    assert looked.code == 0, looked.err
    [file] = (office.home / "runs").glob("rebalance-*/plan.json")
    looked_at = json.loads(file.read_text())["plan_sha256"]
    refused = flow(office, f"rebalance_treasury({str(POLICY)!r}, plan={looked_at!r})")
    assert "InputError this ledger made no rebalancing plan" in refused.out, refused.err
    shown = office.run("rebalance", "--policy", POLICY)
    assert shown.code == 3, shown.err
    [file] = (office.home / "runs").glob("rebalance-*/plan.json")
    content = json.loads(file.read_text())
    content["plan"]["trades"][0]["amount"] = "1"
    made = office.file("made.json", json.dumps(content))
    for plan in (str(made), "0" * 64):
        refused = flow(office, f"rebalance_treasury({str(POLICY)!r}, plan={plan!r})")
        assert "InputError this ledger made no rebalancing plan" in refused.out, refused.err
    code = (
        "from tasks.rebalancing import record_trades\nfrom prefect import flow\n"
        f"planned = {{'run_key': {content['run_key']!r}, 'plan_sha256': '0' * 64, 'policy': {str(POLICY)!r}}}\n"
        "@flow\ndef own():\n    return record_trades(planned)\n"
        "try:\n    own()\nexcept Exception as error:\n    print(error)\n"
    )
    assert "this ledger made no rebalancing plan" in office.python(code).out
    assert trades(sandbox) == 0
    done = flow(office, f"rebalance_treasury({str(POLICY)!r}, plan={content['plan_sha256']!r}, follow_seconds=20)")
    assert "it ran" in done.out, done.out + done.err
    assert trades(sandbox) > 0


def test_a_mistyped_target_and_a_schedule_that_nobody_said_yes_to_trade_nothing(
    office: Office, sandbox: RunningSandbox
) -> None:
    mistyped = office.file(
        "mistyped.toml",
        POLICY.read_text()
        .replace('target = "0.40"', 'target = "40"')
        .replace('maximum = "0.50"', 'maximum = "50"')
        .replace('minimum = "0.35"', 'minimum = "35"')
        .replace('minimum = "5000"', 'minimum = "0"'),
    )
    assert office.run("policy", "adopt", mistyped, *BY).code == 0
    balances = office.file("balances.csv", "currency,available\nUSDT,2000000\nBTC,0.4\nETH,2.5\nDOGE,2000\n")
    refused = office.run("rebalance", "--balances", balances, "--yes")
    assert (refused.code, "max_per_trade" in refused.err) == (2, True), refused.out + refused.err
    assert office.run("policy", "adopt", POLICY, *BY).code == 0
    waiting = flow(office, "rebalance_treasury()")
    assert "ApprovalNeeded" in waiting.out, waiting.out + waiting.err
    assert trades(sandbox) == 0
    assert office.run("rebalance", "--yes", "--follow", "20").last.endswith("settled")
    again = flow(office, "rebalance_treasury(follow_seconds=1)")
    assert "it ran" in again.out, again.out + again.err


def test_what_is_left_of_an_earlier_day_is_cancelled(office: Office, sandbox: RunningSandbox) -> None:
    """At any hour the two zones have another date."""
    text = POLICY.read_text()
    earlier, later = (
        office.file(f"{name}.toml", re.sub(r'time_zone = ".*"', f'time_zone = "{zone}"', text))
        for name, zone in (("earlier", "Etc/GMT+12"), ("later", "Pacific/Kiritimati"))
    )
    office.run("stop", *BY, "--why", "a look first")
    assert office.run("rebalance", "--policy", earlier, "--yes", "--follow", "1").code == 4
    office.run("stop", "--lift", *BY)
    [before] = (office.home / "runs").glob("rebalance-*")
    assert office.run("rebalance", "--policy", later, "--yes", "--follow", "20").last.endswith("settled")
    shown = office.run("show", before.name)
    assert "cancelled" in shown.last
    assert "its rebalancing is over" in shown.out


def test_an_account_that_is_named_is_used_or_nothing_happens(office: Office, sandbox: RunningSandbox) -> None:
    save = (
        "from blocks import PartnerAccount\n"
        f"PartnerAccount(base_url={sandbox.base_url!r}, partner_id='900002', private_key='key').save('other')\n"
    )
    assert "Error" not in office.python(save).err
    sheet = office.sheet(("r1", "1.00", "12345678901"))
    for name, said in (("other", "is partner 900002"), ("nobody", "no Partner Account block called nobody")):
        refused = flow(office, f"pay_beneficiaries({str(sheet)!r}, 'named', account={name!r})")
        assert said in refused.out, refused.out
    assert trades(sandbox) == 0


def test_what_moves_money_is_scheduled_once_a_policy_is_in_force(office: Office) -> None:
    code = "from flows.commands.deployments import without_policy\nprint(sorted(without_policy()))"
    assert office.python(code).out.strip() == "['every-morning']"
    assert office.run("policy", "adopt", POLICY, *BY).code == 0
    assert office.python(code).out.strip() == "[]"


def test_a_start_replaces_only_what_it_knows_better(office: Office, sandbox: RunningSandbox) -> None:
    rows = [(f"r{number}", "1.00", f"1234567890{number}") for number in range(3)]
    assert office.run("pay", office.sheet(*rows), "--run-key", "files", "--yes", "--follow", "20").code == 0
    folder = office.home / "runs" / "files"
    plan = (folder / "plan.json").read_bytes()
    fewer = office.sheet(rows[0], name="fewer.csv")
    assert office.run("pay", fewer, "--run-key", "files", "--yes", "--follow", "20").last == "1 settled"
    assert set(office.results("files")) == {"r0", "r1", "r2"}
    assert "REHEARSAL" in (folder / "results.csv").read_text()
    assert "REHEARSAL" in json.loads((folder / "run.json").read_text())["rehearsal"]
    newest = (folder / "plan.json").read_bytes()
    dry = office.run("pay", office.sheet(rows[1], name="one.csv"), "--run-key", "files", "--dry-run")
    assert dry.code == 0
    assert (folder / "plan.json").read_bytes() == newest
    own = Path(dry.out.splitlines()[-2].strip())
    assert own.parent.parent == folder / "starts"
    assert len(list((folder / "starts").iterdir())) == 3
    assert plan == newest


def test_a_start_that_is_refused_beside_another_one_leaves_the_plan_of_that_one(office: Office) -> None:
    """The other one holds its run, and records it seconds later, once Prefect has started."""
    meant = office.sheet(("r1", "1.00", "12345678901"))
    assert office.run("pay", meant, "--run-key", "beside", "--dry-run").code == 0
    newest = office.home / "runs" / "beside" / "plan.json"
    plan, other = newest.read_bytes(), office.sheet(("r1", "2.00", "12345678901"), name="other.csv")
    desk = office.desk()
    lock = SHARED_FOLDER / f"{sha256(f'{desk.account.identity}|beside'.encode()).hexdigest()[:32]}.lock"
    with desk.hold("beside"):
        killed = json.loads(lock.read_bytes())
        for how, code in (("--yes", 6), ("--dry-run", 0)):
            assert office.run("pay", other, "--run-key", "beside", how).code == code
            assert newest.read_bytes() == plan
    ended = subprocess.Popen(["true"])
    ended.wait()
    lock.write_text(json.dumps({**killed, "process": str(ended.pid)}))  # as one that was killed leaves it
    assert office.run("pay", other, "--run-key", "beside", "--dry-run").code == 0
    assert newest.read_bytes() != plan
    lock.unlink()


@pytest.mark.parametrize(
    "how", ["DELETE FROM decisions", "UPDATE decisions SET verb = 'accept', named = 'x', about = 'x'"]
)
@pytest.mark.parametrize("pays", [True, False], ids=["pay", "lift"])
def test_a_stop_that_somebody_deletes_in_the_database_stands(
    office: Office, sandbox: RunningSandbox, how: str, *, pays: bool
) -> None:
    assert office.run("stop", *BY, "--why", "the list is wrong").code == 0
    with closing(sqlite3.connect(office.home / "ledger.db")) as database:
        database.execute(how)
        database.commit()
    pay = "pay", office.sheet(("a", "10", "12345670001")), "--run-key", "may", "--yes"
    ended = office.run(*pay if pays else ("stop", "--lift", *BY))
    assert ended.code == 4
    assert "stopped by the ledger: deleted from it, or changed by hand: 1 stop" in one_line_error(ended)
    assert "by the ledger" in office.run("status").out
    assert sandbox.orders() == []
    assert office.run("stop", "--lift", *BY).out.startswith("1 stop lifted")
