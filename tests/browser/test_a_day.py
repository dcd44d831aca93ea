"""A day at Prefect's dashboard in Chromium, by somebody with a mouse: a payout, a pause, a server that dies."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.commands.prefect_server import free_port
from tests.browser.chromium import PROGRAM, Tab, browser
from tests.browser.dashboard import Dashboard
from tests.commands.office import PATIENCE, Office, eventually, processes_with
from treasury.sandbox import RunningSandbox

pytestmark = [
    pytest.mark.prefect,
    pytest.mark.proof,
    pytest.mark.costly("a browser, and a server that serves three times"),
    pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed (apt-get install chromium)"),
]

PICTURES = os.environ.get("PICTURES")
"""A folder that keeps a picture of each page, for people to look at."""


class Day:
    """An office that is served, and somebody at its dashboard."""

    def __init__(self, office: Office, sandbox: RunningSandbox, tab: Tab, port: int, pictures: Path) -> None:
        self.office, self.sandbox, self.tab, self.pictures = office, sandbox, tab, pictures
        self.port, self.url = port, f"http://127.0.0.1:{port}"

    @cached_property
    def dashboard(self) -> Dashboard:
        """The dashboard, once it is served."""
        return Dashboard(self.tab, self.url, self.password)

    @property
    def password(self) -> str:
        return (self.office.home / "prefect.auth").read_text().strip()

    @contextmanager
    def served(self) -> "Iterator[subprocess.Popen[str]]":
        """`treasury serve`, once it serves; ended in order, or killed inside the block."""
        process = self.office.start("serve", "--port", str(self.port))
        try:
            assert process.stdout is not None
            assert any(line.startswith("serving") for line in process.stdout)
            yield process
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=60)
        finally:
            process.kill()
            process.communicate()

    def asked(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Ask the server itself."""
        user, _, secret = self.password.partition(":")
        for _ in range(100):
            found = httpx.request(
                "GET" if body is None else "POST", f"{self.url}/api/{path}", json=body, auth=(user, secret), timeout=60
            )
            if found.is_success:  # on a busy machine its database may be locked
                return found.json()
            time.sleep(0.5)
        raise AssertionError(found.text)

    def deployment(self, flow: str) -> str:
        """The id of the deployment of a flow."""
        found = self.asked("deployments/filter", {})
        return next(str(each["id"]) for each in found if each["entrypoint"].endswith(f".{flow}"))

    def state(self, run: str) -> tuple[str, str]:
        """The type and name of the state of a run."""
        state = self.asked(f"flow_runs/{run}")["state"]
        return state["type"], state["name"]

    def schedules(self) -> dict[str, bool]:
        """Slug of each schedule -> whether it is active."""
        found = [each["schedules"] for each in self.asked("deployments/filter", {})]
        return {schedule["slug"]: schedule["active"] for each in found for schedule in each}

    def look(self, name: str) -> str:
        """Take a picture of the page; its text."""
        time.sleep(1)  # what is drawn
        self.tab.screenshot(self.pictures / f"{name}.png", 3000)
        return self.tab.text()

    def tab_of_run(self, run: str, words: str, shows: str) -> None:
        """Open one of the tabs of a run, and wait until it shows a text."""
        self.dashboard.open(f"/runs/flow-run/{run}", "Artifacts")
        tab = f"[...document.querySelectorAll('[role=tab]')].find((tab) => tab.innerText.trim() === '{words}')"
        self.dashboard.follow(tab, f"(document.body?.innerText ?? '').includes({shows!r})")


@pytest.fixture
def day(
    open_sandbox: Callable[..., RunningSandbox],
    open_office: Callable[..., Office],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Day]:
    sandbox = open_sandbox(faults=FAULTS, slow_seconds=2.0)
    office = open_office(sandbox.base_url, own_prefect=True, TREASURY_IN_FLIGHT="1")
    policy = office.file("policy.toml", '[payouts.one_approval_above]\nUSDT_TRC20 = "50"\n')
    assert office.run("policy", "adopt", policy, "--by", "Ada Example").code == 0
    pictures = Path(PICTURES) if PICTURES else tmp_path_factory.mktemp("pictures")
    pictures.mkdir(exist_ok=True)
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield Day(office, sandbox, tab, free_port(), pictures)


FAULTS: dict[str, float] = {}
ROWS = 40
SWITCH = "document.querySelector('button[role=switch]')"
"""A schedule's switch on the page of its deployment: whether its schedule is active."""


def test_a_day_at_the_dashboard(day: Day) -> None:
    with day.served():
        day.dashboard.sign_in()
        pays_by_the_form(day)
        pauses_the_night(day)
    with day.served() as process:
        stays_paused(day)
        dies, lives = starts_two(day)
        [number] = processes_with(f"PREFECT__FLOW_RUN_ID={dies}")
        process.kill()
        process.wait()
        os.kill(number, signal.SIGKILL)
    with day.served():
        what_died_crashed_and_what_lives_ends_well(day, dies, lives)


def pays_by_the_form(day: Day) -> None:
    """A payout is started by its form, waits, is read, approved in the form, and paid; its run shows all of it."""
    day.dashboard.open("/deployments", "pay-a-sheet")
    day.look("01-deployments")
    sheet = day.office.sheet(("ana", "20", "12345670001"), ("ben", "35.50", "12345670002"), name="payroll.csv")
    pay = day.deployment("pay_beneficiaries")
    day.dashboard.open(f"/deployments/deployment/{pay}/run", "run_key")
    day.look("02-form")
    run = day.dashboard.submit(pay, file=str(sheet), run_key="payroll-2026-11")
    day.dashboard.open(f"/runs/flow-run/{run}", "Suspended")
    assert day.sandbox.orders() == []
    day.tab.show(f"{day.url}/runs/flow-run/{run}")
    day.tab.press("Resume")
    day.tab.await_text("2 payments to 2 new payees: at most 55.50 USDT_TRC20 leave")
    day.look("03-approval")
    day.dashboard.resume(run, "at most 55.50 USDT_TRC20 leave", Name="Ben Example")
    eventually(lambda: day.state(run) == ("COMPLETED", "Settled"), PATIENCE)
    day.dashboard.open(f"/runs/flow-run/{run}", "Finished in state Suspended")  # the rest of its log needs scrolling
    of_run = {"logs": {"flow_run_id": {"any_": [run]}}}
    eventually(lambda: "Finished in state Settled('2 settled'" in str(day.asked("logs/filter", of_run)), PATIENCE)
    log = day.look("04-log")
    assert "WaitingForApproval" in log
    assert "ERROR" not in log, "to wait is no error"
    day.tab_of_run(run, "Task Runs", "write results payroll-2026-11")
    tasks = day.look("05-tasks")
    for name in ("plan payroll-2026-11", "record payroll-2026-11", "send payouts 1-2", "follow payroll-2026-11"):
        assert name in tasks
    day.tab_of_run(run, "Artifacts", "Run payroll-2026-11: 2 settled")
    artifacts = day.look("06-artifacts")
    for text in ("Plan of payroll-2026-11 waits for approval", "Rows of payroll-2026-11", "1 to do"):
        assert text in artifacts
    drawn = "[...document.querySelectorAll('canvas')].some((each) => each.width * each.height > 10000)"
    day.tab.await_holds(drawn)  # the graph
    assert [(order["effects"], order["amount"]) for order in day.sandbox.orders()] == [(1, 20), (1, Decimal("35.50"))]
    day.dashboard.open("/automations", "a run waits for approval")
    assert "The run NAME has waited 24 h for approvals" in day.look("07-automations")


def pauses_the_night(day: Day) -> None:
    """A person pauses the schedule of the nightly reconciliation."""
    day.dashboard.open(f"/deployments/deployment/{day.deployment('reconcile_transactions')}", "At 03:00 AM")
    day.tab.await_holds(f"{SWITCH}?.getAttribute('aria-checked') === 'true'")
    day.tab.click(SWITCH)
    day.tab.await_holds(f"{SWITCH}?.getAttribute('aria-checked') === 'false'")
    eventually(lambda: day.schedules()["every-night"] is False, 60, "it was not paused")


def stays_paused(day: Day) -> None:
    """It is paused after a restart; the other schedule is not."""
    day.dashboard.open(f"/deployments/deployment/{day.deployment('reconcile_transactions')}", "At 03:00 AM")
    day.tab.await_holds(f"{SWITCH}?.getAttribute('aria-checked') === 'false'")
    day.look("08-paused")
    assert day.schedules() == {"every-night": False, "every-morning": True}


def starts_two(day: Day) -> tuple[str, str]:
    """Two payouts that take a minute each, started by their form; their runs, once both send."""
    FAULTS["slow"] = 1.0
    pay, before, runs = day.deployment("pay_beneficiaries"), len(day.sandbox.orders()), []
    for number, run_key in enumerate(("dies", "lives")):
        rows = [(f"{run_key}{row}", "1.20", f"1234567{number + 1}{row:03}") for row in range(ROWS)]
        sheet = day.office.sheet(*rows, name=f"{run_key}.csv")
        runs.append(day.dashboard.submit(pay, file=str(sheet), run_key=run_key))
    eventually(lambda: len({order["request_id"] for order in day.sandbox.orders()}) > before + 4, 60)
    eventually(lambda: {day.state(run) for run in runs} == {("RUNNING", "Running")}, 60)
    day.dashboard.open("/runs", "Running")
    day.look("09-running")
    return runs[0], runs[1]


def what_died_crashed_and_what_lives_ends_well(day: Day, dies: str, lives: str) -> None:
    """After a restart nothing that died is shown as running, nothing that lives as crashed; each row is paid once."""
    assert day.state(dies) == ("CRASHED", "Crashed")
    day.dashboard.open(f"/runs/flow-run/{dies}", "Crashed")
    day.tab_of_run(dies, "Details", "it can be started again")
    day.look("10-crashed")
    FAULTS.clear()
    eventually(lambda: day.state(lives)[0] == "COMPLETED", PATIENCE, f"it lives, and is {day.state(lives)}")
    day.dashboard.open(f"/runs/flow-run/{lives}", "Settled")
    day.look("11-lived")
    names = {each["name"] for each in day.asked(f"flow_run_states/?flow_run_id={lives}")}
    assert "Crashed" not in names
    sheet = day.office.home / "dies.csv"
    again = day.dashboard.submit(day.deployment("pay_beneficiaries"), file=str(sheet), run_key="dies")
    eventually(lambda: day.state(again)[0] == "COMPLETED", PATIENCE)
    day.dashboard.open("/runs", "Crashed")
    day.look("12-runs")
    orders = day.sandbox.orders()
    assert len(orders) == 2 + 2 * ROWS
    assert {order["effects"] for order in orders} == {1}
