"""`treasury serve`: a password, nothing open to others, runs of its deployments, and a payout in its dashboard."""

import json
import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

import data
from flows.commands.prefect_server import answers, free_port
from tests.browser.chromium import PROGRAM, browser
from tests.browser.dashboard import Dashboard
from tests.commands.approvers import key, with_people
from tests.commands.office import PATIENCE, Office, eventually, one_line_error, processes_with
from tests.flows.webhook import save_webhook
from tests.listening import Listening
from tests.proofs import ALL
from treasury.private_files import openings
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

FOREIGN = "https://page.example.com"


class Served(NamedTuple):
    office: Office
    sandbox: RunningSandbox
    port: int
    said: list[str]
    process: "subprocess.Popen[str]"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    @property
    def auth(self) -> tuple[str, str]:
        user, _, password = (self.office.home / "prefect.auth").read_text().strip().partition(":")
        return user, password

    def asked(self, path: str, body: dict[str, Any]) -> Any:
        """Return an answer of its API; on a busy machine its database may be locked."""
        until = time.monotonic() + PATIENCE
        while not (answer := httpx.post(f"{self.url}{path}", json=body, auth=self.auth, timeout=PATIENCE)).is_success:
            assert time.monotonic() < until, answer.text
            time.sleep(0.5)
        return answer.json()

    def state(self, run: str) -> str:
        """Return the type of a flow run's state."""
        found = httpx.get(f"{self.url}/flow_runs/{run}", auth=self.auth).json()
        return str(found["state"]["type"])

    def log(self, run: str) -> str:
        """Return the log of a flow run."""
        of_run = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC"}
        return "\n".join(each["message"] for each in self.asked("/logs/filter", of_run))


@pytest.fixture(scope="module")
def served(open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]) -> Iterator[Served]:
    """`treasury serve` of a home, with a folder of Prefect's of its own."""
    sandbox = open_sandbox()
    office, port, told = open_office(sandbox.base_url, own_prefect=True), free_port(), free_port()
    office.environ["TREASURY_PLATFORM_KEY_FILE"] = str(office.file("platform.pem", sandbox.platform_key))
    office.environ["TREASURY_NOTIFY_URL"] = f"http://127.0.0.1:{told}/"
    with office.running("serve", "--port", str(port), "--metrics", "0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("serving"):
                break
        # It outlives the reader of its output.
        process.stdout.close()
        process.stderr.close()
        yield Served(office, sandbox, port, said, process)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


@pytest.mark.costly("the first server with tables of its own")
def test_without_the_password_nothing_is_told_and_nothing_is_started(served: Served) -> None:
    assert httpx.get(f"{served.url}/health").status_code == 200
    for path in ("deployments/filter", "flow_runs/", "flow_runs/filter", "block_documents/filter"):
        for auth in (None, ("treasury", "wrong"), ("", "")):
            assert httpx.post(f"{served.url}/{path}", json={}, auth=auth).status_code == 401
    assert httpx.get(f"{served.url}/admin/settings").status_code == 401
    assert len(httpx.post(f"{served.url}/deployments/filter", json={}, auth=served.auth).json()) > 3


def test_the_types_of_our_blocks_are_there_to_be_filled_in(served: Served) -> None:
    for slug in ("partner-account", "treasury-ledger", "treasury-policy"):
        found = httpx.get(f"{served.url}/block_types/slug/{slug}", auth=served.auth)
        assert found.status_code == 200, found.text
        assert "from blocks import" in found.json()["code_example"]


def test_notifications_are_received_beside_the_runs(served: Served) -> None:
    url = served.office.environ["TREASURY_NOTIFY_URL"]

    def answers() -> bool:
        with suppress(httpx.HTTPError):
            return httpx.post(url, content=b"{}").status_code == 401
        return False

    eventually(answers, 60)
    listeners = [pid for pid in processes_with(str(served.office.home)) if b"listen" in cmdline(pid)]
    for pid in listeners:
        os.kill(pid, signal.SIGKILL)
    assert listeners
    eventually(lambda: not answers(), 60)
    eventually(answers, 120, "a listener that ended is started again")


def test_metrics_are_answered_beside_the_runs(served: Served) -> None:
    [address] = [line.split()[-1] for line in served.said if line.startswith("metrics at ")]
    assert "treasury_ledger_readable 1.0" in httpx.get(address, trust_env=False).text


@pytest.fixture(scope="module")
def told() -> Iterator[list[str]]:
    """The subjects of what a webhook of the operator's is told."""
    subjects: list[str] = []
    hears = Listening(lambda _, body: (subjects.append(json.loads(body)["subject"]), (200, b"", {}))[1])
    subjects.append(hears.base_url)
    yield subjects
    hears.close()


def point_alarms(served: Served, told: list[str]) -> str:
    """Send the alarms to the webhook, whose address `told` holds until then; the command's last line."""
    save_webhook(served.office, served.url, served.auth, told.pop())
    environ = {"PREFECT_API_URL": served.url, "TREASURY_ALARM_BLOCK": "custom-webhook/alarms"}
    return served.office.process("alarms", **environ).last


@pytest.mark.costly("three commands as processes beside a server that serves")
def test_alarms_are_made_once_and_sent_by_the_block_that_the_operator_picks(served: Served, told: list[str]) -> None:
    def automations() -> dict[str, dict[str, Any]]:
        found = httpx.post(f"{served.url}/automations/filter", json={}, auth=served.auth).json()
        return {each["name"]: each for each in found}

    made = automations()
    assert len(made) == 8
    active = [each["name"] for each in made.values() if each["actions"] or not each["enabled"]]
    assert active == ["treasury: a run gives no sign of life"]
    paused = made["treasury: a run crashed"]["id"]
    one, off = f"{served.url}/automations/{paused}", {"enabled": False}
    eventually(lambda: httpx.patch(one, json=off, auth=served.auth).is_success, 60)  # its database may be locked
    environ = {"PREFECT_API_URL": served.url, "TREASURY_ALARM_BLOCK": "custom-webhook/alarms"}
    assert point_alarms(served, told) == "0 alarms made, 7 changed of 8; they are sent"
    assert served.office.process("alarms", **environ).last == "0 alarms made, 0 changed of 8; they are sent"
    now = automations()
    assert {name: each["id"] for name, each in now.items()} == {name: each["id"] for name, each in made.items()}
    assert [name for name, each in now.items() if not each["enabled"]] == ["treasury: a run crashed"]
    assert [len(each["actions"]) for each in now.values()] == [1] * 8
    ended = served.office.process("alarms", **{**environ, "TREASURY_ALARM_BLOCK": "custom-webhook/none"})
    assert ended.code == 2
    assert "there is no notification block custom-webhook/none" in one_line_error(ended)


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_page_of_another_origin_is_allowed_nothing(served: Served) -> None:
    own = [f"http://127.0.0.1:{served.port}", f"http://localhost:{served.port}"]
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for origin in (FOREIGN, "null", "http://127.0.0.1:1", *own):
        asked = httpx.options(f"{served.url}/deployments/filter", headers={"Origin": origin, **asks})
        told = httpx.post(f"{served.url}/deployments/filter", json={}, headers={"Origin": origin}, auth=served.auth)
        assert told.status_code == 200
        for answer in (asked, told):
            allowed = answer.headers.get("access-control-allow-origin")
            assert allowed == (origin if origin in own else None), (origin, answer.headers)


def test_the_password_is_kept_where_the_output_says_for_its_owner_alone(served: Served) -> None:
    file = served.office.home / "prefect.auth"
    assert any(str(file) in line and "password" in line for line in served.said)
    assert served.auth[1] not in "".join(served.said)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(file.read_text().splitlines()) == 1
    assert len(served.auth[1]) >= 32
    for process in processes_with(f"TREASURY_HOME={served.office.home}"):
        assert served.auth[1].encode() not in Path(f"/proc/{process}/cmdline").read_bytes()


def test_prefects_folder_is_closed_to_others(served: Served) -> None:
    ours = [served.office.home / "prefect", served.office.home / "prefect.auth", served.office.home / "prefect.servers"]
    assert (served.office.home / "prefect" / "prefect.db").exists()
    assert [str(each) for each in openings(*ours)] == []


@pytest.mark.costly("a command as a process beside a server that serves")
def test_a_server_that_is_silent_for_some_seconds_is_waited_for(served: Served) -> None:
    office, stopped = served.office, processes_with(f"TREASURY_HOME={served.office.home}")
    row = office.sheet(("b", "9", "12345670009"), name="silent.csv")
    url = f"http://127.0.0.1:{served.port}/api"
    with office.start("pay", row, "--run-key", "silent", "--yes", "--follow", "20", PREFECT_API_URL=url) as process:
        try:
            for number in stopped:
                os.kill(number, signal.SIGSTOP)
            time.sleep(12)  # the command comes to its question after some seconds, and asked for five of them only
        finally:
            for number in stopped:
                os.kill(number, signal.SIGCONT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out.splitlines()[-1]) == (0, "1 settled"), out + err


@pytest.mark.proof
@pytest.mark.costly("four commands as processes")
def test_a_command_of_this_home_knows_the_password_and_one_of_another_does_not(
    served: Served, open_office: Callable[..., Office]
) -> None:
    office = served.office
    sheet = office.sheet(("a", "10", "12345670001"))
    for number, host in enumerate(("127.0.0.1", "localhost")):
        url = f"http://{host}:{served.port}/api"
        row = office.sheet((f"a{number}", f"1{number}", "12345670001"), name=f"{number}.csv")
        ended = office.run("pay", row, "--run-key", f"r{number}", "--yes", "--follow", "20", PREFECT_API_URL=url)
        assert (ended.code, ended.last) == (0, "1 settled"), ended.out + ended.err
    stranger = open_office(office.environ["TREASURY_BASE_URL"], prefect=False, PREFECT_API_URL=served.url)
    ended = stranger.run("pay", sheet, "--run-key", "r", "--yes")
    assert ended.code == 2
    assert "PREFECT_API_AUTH_STRING" in one_line_error(ended)
    assert not (stranger.home / "prefect.auth").exists()
    told = ":".join(served.auth)
    ended = stranger.run("pay", sheet, "--run-key", "r", "--yes", "--follow", "20", PREFECT_API_AUTH_STRING=told)
    assert ended.last == "1 settled", ended.out + ended.err


def ends_badly(office: Office, users: str) -> list[tuple[str, dict[str, Any], str, str]]:
    """Starts that are refused or need a person: flow, parameters, how it ends, and a part of its log."""
    wrong = str(office.sheet(("a", "twelve", "12345670009"), name="wrong.csv"))
    rich = str(office.sheet(("a", "99999999", "12345670008"), name="rich.csv"))
    return [
        (
            "pay_beneficiaries",
            {"run_key": "wrong", "file": wrong},
            "InputRejected(",
            "amount: an amount is plain digits",
        ),
        ("pay_beneficiaries", {"run_key": "rich", "file": rich}, "NeedsAttention(", "lacks 99"),
        ("rebalance_treasury", {"policy": "block:none"}, "Failed('there is no Treasury Policy block", "Beginning"),
        ("provision_card_users", {"file": users, "out": "/elsewhere"}, "InputRejected('out: /elsewhere", "Begin"),
    ]


@pytest.mark.proof
@pytest.mark.costly("waits for flows in processes of their own")
def test_every_flow_runs_from_its_deployment_and_says_in_its_log_what_it_did(
    served: Served, told: list[str], tmp_path: Path
) -> None:
    if told:  # no other test has
        point_alarms(served, told)
    limit = tmp_path / "limit.toml"
    limit.write_text('[payouts.one_approval_above]\nUSDT_TRC20 = "1"\n')
    sheet = str(served.office.sheet(("a", "12", "12345670009"), name="served.csv"))
    row = {"run_key": "served", "file": sheet, "policy": str(limit)}
    trades, users = str(data.path("treasury_policy.toml")), str(data.path("card_users.csv"))
    long = {"follow_seconds": 120}  # a busy machine settles late
    wanted: dict[str, tuple[dict[str, Any], str, str]] = {
        "provision_card_users": ({"file": users}, "Provisioned('4 created'", "card users: 4 absent"),
        "rebalance_treasury": ({"policy": trades, **long}, "Settled('3 settled'", "balance of BTC is proven"),
        "pay_beneficiaries": (row, "Suspended(", "run served: 1 payment; debits 12"),
        "withdraw_assets": (
            {"run_key": "served-out", "file": str(data.path("withdrawals.csv")), **long},
            "Settled('2 settled'",
            "run served-out: 2 payments; debits",
        ),
        "pay_qr_codes": (
            {"run_key": "served-codes", "file": str(data.path("qr_codes.csv")), **long},
            "Settled('2 settled'",
            "run served-codes: 2 payments; debits",
        ),
        "issue_deposit_addresses": (
            {"file": str(data.path("deposit_addresses.csv"))},
            "Issued('3 issued'",
            "Beginning flow run 'issue deposit addresses",
        ),
        "collect_payments": (
            {"run_key": "served-invoices", "file": str(data.path("invoices.csv"))},
            "Collected('3 waiting'",
            "Beginning flow run 'collect served-invoices",
        ),
        "approve_and_pay": (
            {"run_key": "served", "name": "Checker", **long},
            "Settled('1 settled'",
            "Beginning flow run 'approve",
        ),
        "reconcile_transactions": ({}, "Warnings('", "Beginning flow run 'reconcile"),
    }
    badly = ends_badly(served.office, users)

    def ended(run: str, how: str) -> bool:
        return f"Finished in state {how}" in served.log(run)

    ids = {each["entrypoint"].rpartition(".")[2]: each["id"] for each in served.asked("/deployments/filter", {})}
    assert ids.keys() == wanted.keys()
    runs = []
    for name, parameters, ends, said in [*((name, *each) for name, each in wanted.items()), *badly]:
        run = served.asked(f"/deployments/{ids[name]}/create_flow_run", {"parameters": parameters})["id"]
        eventually(partial(ended, run, ends), PATIENCE, name, every=0.3)
        assert said in served.log(run)
        assert "Logging error" not in served.log(run)
        runs.append(run)
    suspended = runs[list(wanted).index("pay_beneficiaries")]  # and paid meanwhile: it finds that, and ends so
    served.asked(f"/flow_runs/{suspended}/resume", {})
    eventually(partial(ended, suspended, "Settled('1 settled'"), PATIENCE, every=0.3)
    time.sleep(1)  # what follows the end of the last run
    logs = [served.log(run) for run in runs]
    assert [each for each in logs if "Traceback" in each or "unexpected exception" in each] == []
    assert [str(each) for each in openings(served.office.home / "reconciliation")] == []
    eventually(lambda: len(told) >= len(badly), 60, "a run that failed was not told")
    assert told == ["treasury: a run failed"] * len(badly)
    assert served.office.run("cancel", "rich", "--by", "Checker", "--why", "its money is not there").code == 0


CHROMIUM = pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed (apt-get install chromium)")


@pytest.fixture(scope="module")
def people(served: Served) -> Office:
    """The office that is served, once people with keys decide in it; its commands do not ask its Prefect."""
    office = copy(served.office)
    office.environ = office.environ | {"PREFECT_HOME": os.environ["PREFECT_HOME"]}
    return with_people(office)


@pytest.fixture(scope="module")
def dashboard(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """Somebody who signed in."""
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        opened = Dashboard(tab, f"http://127.0.0.1:{served.port}", ":".join(served.auth))
        opened.sign_in()
        yield opened


def starts(served: Served, dashboard: Dashboard, run_key: str, account: str) -> tuple[str, str]:
    """Start a payout with its form; return its run, and the page of its plan, once it waits."""
    sheet = served.office.sheet(("a", "20", account), name=f"{run_key}.csv")
    found = httpx.post(f"{served.url}/deployments/filter", json={}, auth=served.auth).json()
    [deployment] = [each["id"] for each in found if each["entrypoint"].endswith(".pay_beneficiaries")]
    run = dashboard.submit(deployment, file=str(sheet), run_key=run_key)
    dashboard.open(f"/runs/flow-run/{run}", "Suspended")
    tab = "[...document.querySelectorAll('[role=tab]')].find((tab) => tab.innerText.trim() === 'Artifacts')"
    link = "document.querySelector('a[href*=\"/artifacts/key/waiting-plan\"]')"
    dashboard.follow(tab, f"!!{link}")
    newest = "document.querySelector('a[href*=\"/artifacts/artifact/\"]')"  # the newest is first
    dashboard.follow(link, newest)
    parts = f"['Plan of {run_key} waits for approval', 'Debits at most', 'Approved by', 'By country']"
    whole = f"{parts}.every((part) => (document.body?.innerText ?? '').includes(part))"
    dashboard.follow(newest, whole)
    page = dashboard.tab.await_holds(f"{whole} && document.body.innerText")  # it may be drawn anew meanwhile
    return run, " ".join(str(page).split())


@CHROMIUM
@pytest.mark.costly("a browser, and a run in three processes")
def test_a_payout_waits_is_read_and_is_paid_with_a_token_of_another_machine(
    served: Served, people: Office, dashboard: Dashboard, open_office: Callable[..., Office]
) -> None:
    before = len(served.sandbox.orders())
    run, plan = starts(served, dashboard, "form", "12345670031")
    for part in ("1 approval", "20 USDT_TRC20", "above one_approval_above (10)"):
        assert part in plan, plan
    assert re.search("first payment to this account|this name was paid to another account before", plan)
    assert "12345670031" not in plan  # whoever sees the dashboard sees it masked
    [code] = set(re.findall(r"--plan ([0-9]+-[0-9a-f]{64})", plan))
    elsewhere = open_office("http://127.0.0.1:9", prefect=False)
    for name in ("TREASURY_BASE_URL", "TREASURY_PARTNER_ID", "TREASURY_PRIVATE_KEY_FILE"):
        del elsewhere.environ[name]
    printed = elsewhere.run("approve", "form", "--plan", code, "--key", key(people, "ben"), "--print")
    assert printed.code == 0, printed.err
    dashboard.resume(run, "at most 20 USDT_TRC20 leave", Name="Ben Example")
    # Of a run that is not suspended yet the page shows the form before.
    eventually(lambda: served.log(run).count("Suspending flow run") == 2 and served.state(run) == "PAUSED", PATIENCE)
    dashboard.open(f"/runs/flow-run/{run}", "Suspended")
    assert len(served.sandbox.orders()) == before
    dashboard.resume(run, "Not approved: the approval of run form", Token=printed.out.strip())
    dashboard.open(f"/runs/flow-run/{run}", "Settled")
    assert [order["effects"] for order in served.sandbox.orders()[before:]] == [1]
    assert people.results("form")["a"]["approved_by"] == "ben"
    log = served.log(run)
    assert "run form: 1 payment; debits 20" in log
    assert "Suspended(" in log
    assert [part for part in ("Traceback", "unexpected exception", "Logging error") if part in log] == []


@CHROMIUM
@pytest.mark.proof
def test_a_payout_whose_plan_was_rejected_ends_rejected(served: Served, people: Office, dashboard: Dashboard) -> None:
    before = len(served.sandbox.orders())
    run, _ = starts(served, dashboard, "no", "12345670021")
    said = served.office.run("reject", "no", "--key", key(people, "cleo"), "--why", "the amount is wrong")
    assert said.code == 0, said.err  # it resumes the run, which ends so
    dashboard.open(f"/runs/flow-run/{run}", "Rejected")
    assert len(served.sandbox.orders()) == before


@pytest.mark.costly("a server is started once more")
def test_a_server_that_ends_is_started_again(served: Served) -> None:
    [killed] = servers(served)
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: servers(served) not in ([killed], []) and answers(f"{served.url}/health"), PATIENCE, every=0.5)
    assert served.process.poll() is None


def servers(served: Served) -> list[int]:
    """Return the Prefect servers at its port."""
    return processes_with(f"server\0start\0--host\000127.0.0.1\0--port\0{served.port}\0")


@pytest.mark.costly("ends the server that ran every flow, each in a process of its own")
def test_it_outlives_the_reader_of_its_output(served: Served) -> None:
    process = served.process
    found = served.asked("/deployments/filter", {})
    [asked] = [each["id"] for each in found if "reconcile" in each["entrypoint"]]
    for _ in range(2 if ALL else 1):
        run = served.asked(f"/deployments/{asked}/create_flow_run", {"state": {"type": "SCHEDULED"}})["id"]
        until = time.monotonic() + PATIENCE
        while "Finished in state" not in served.log(run) or served.state(run) in ("PENDING", "RUNNING"):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.5)
        assert served.state(run) == "COMPLETED"
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
