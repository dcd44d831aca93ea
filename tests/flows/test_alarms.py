"""The alarms on a real server, with graces of seconds: each is told through a webhook, once."""

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest

from flows.commands.prefect_server import free_port
from tests.commands.office import PATIENCE, Office, eventually
from tests.engine.intents import commit
from tests.flows.webhook import save_webhook
from tests.listening import Listening
from treasury.orders.states import Event
from treasury.sandbox import RunningSandbox

pytestmark = [
    pytest.mark.prefect,
    pytest.mark.proof,
    pytest.mark.costly("a server of its own, and commands as processes"),
]

HOURS = {  # a plan waits for longer than two commands take on a busy machine
    "TREASURY_ALARM_REPORT_HOURS": 60 / 3600,
    "TREASURY_ALARM_WAITING_HOURS": 120 / 3600,
    "TREASURY_ALARM_UNKNOWN_HOURS": 10.1 / 3600,
    "TREASURY_ALARM_LATE_HOURS": 10.1 / 3600,
    "TREASURY_ALARM_SILENT_HOURS": 15 / 3600,
}


def unknown_order(office: Office) -> None:
    """An order that left, and whose answer was lost."""
    with closing(office.desk()) as desk:
        [order] = commit(desk.ledger, "lost", run_key="lost")
        desk.ledger.step(desk.ledger.step(order, Event.SEND), Event.LOSE, cause="a test")


def test_every_alarm_is_told_once(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    office, port = open_office(open_sandbox().base_url, own_prefect=True), free_port()
    office.environ |= {name: f"{hours:.6f}" for name, hours in HOURS.items()}
    told: list[dict[str, str]] = []
    hears = Listening(lambda _, body: (told.append(json.loads(body)), (200, b"", {}))[1])
    limit = office.file("limit.toml", '[payouts.one_approval_above]\nUSDT_TRC20 = "1"\n')
    statement = office.file("statement.csv", "order_no,currency,amount\nX1,USDT,5\n")
    sheet = office.sheet(("a", "12", "12345670009"))
    url = f"http://127.0.0.1:{port}/api"
    here = {"PREFECT_API_URL": url}

    def subjects() -> Counter[str]:
        return Counter(each["subject"].removeprefix("treasury: ") for each in told)

    unknown_order(office)
    with office.running("serve", "--port", port) as process, closing(hears):
        assert process.stdout is not None
        while "serving;" not in (line := process.stdout.readline()):
            assert line, "it ended"
        user, _, password = (office.home / "prefect.auth").read_text().strip().partition(":")
        save_webhook(office, url, (user, password), hears.base_url)
        assert "7 changed" in office.process("alarms", TREASURY_ALARM_BLOCK="custom-webhook/alarms", **here).out
        with httpx.Client(base_url=url, auth=(user, password), timeout=30) as api:
            silent = crash_fail_be_late_and_silent(api)
        assert office.process("pay", sheet, "--run-key", "waits", "--policy", limit, "--yes", **here).code == 3
        assert office.process("pay", sheet, "--run-key", "decided", "--policy", limit, "--yes", **here).code == 3
        assert office.process("cancel", "decided", "--by", "Ana", "--why", "a test", **here).code == 0
        office.process("reconcile", **here)  # tells that it was decided; from here on nobody reports for a minute
        eventually(lambda: subjects()["the night was not reported"] > 0, PATIENCE, "no night")
        for _ in range(2):  # the second finds nothing new
            office.process("reconcile", "--statement", statement, **here)
        wanted = {
            *("the night was not reported", "a run did not start", "a run crashed", "a run failed"),
            *("a run waits for approval", "breaks were found", "an outcome is unknown for long"),
        }
        eventually(lambda: subjects().keys() >= wanted, PATIENCE, "not every alarm was told")
        time.sleep(50)  # what would be told again, or of the run that was decided, is told by then
        state = httpx.get(f"{url}/flow_runs/{silent}", auth=(user, password), timeout=60).json()["state"]
    once = subjects()
    assert once.pop("the night was not reported") >= 1  # again each time as long as none is made
    assert once.pop("breaks were found") == 2, told  # of two nights with new ones, of three
    assert once.pop("a run crashed") == 2, told  # of the one that did, and of the one that gave no sign of life
    several = {"the night was not reported", "breaks were found", "a run crashed"}
    assert once == dict.fromkeys(wanted - several, 1), told
    assert (state["type"], state["name"]) == ("CRASHED", "Crashed")
    assert "it gave no sign of life" in state["message"]
    [waits] = [each["body"] for each in told if "approval" in each["subject"]]
    assert "The run waits has waited" in waits
    assert [each for each in told if "Example Person" in str(each) or "12345670009" in str(each)] == []


def crash_fail_be_late_and_silent(api: httpx.Client) -> str:
    """Runs of a deployment that nobody serves: one crashes, one needs a person, one is late; the id of one that runs
    and gives one sign of life."""

    def asked(path: str, body: Any) -> Any:
        until = time.monotonic() + PATIENCE
        while not (answer := api.post(path, json=body)).is_success:  # on a busy machine its database may be locked
            assert time.monotonic() < until, answer.text
            time.sleep(0.5)
        return answer.json() if answer.content else None

    flow = asked("/flows/", {"name": "served-by-nobody"})["id"]
    deployment = asked("/deployments/", {"name": "nobody", "flow_id": flow, "tags": ["treasury"]})["id"]
    late = {"type": "SCHEDULED", "state_details": {"scheduled_time": "2026-01-01T00:00:00Z"}}
    asked(f"/deployments/{deployment}/create_flow_run", {"state": late})
    for state in ({"type": "CRASHED", "name": "Crashed"}, {"type": "FAILED", "name": "NeedsAttention"}):
        number = asked(f"/deployments/{deployment}/create_flow_run", {"state": {"type": "PENDING"}})["id"]
        asked(f"/flow_runs/{number}/set_state", {"state": state, "force": True})
    silent = asked(f"/deployments/{deployment}/create_flow_run", {"state": {"type": "PENDING"}})["id"]
    asked(f"/flow_runs/{silent}/set_state", {"state": {"type": "RUNNING", "name": "Running"}, "force": True})
    related = {f"prefect.deployment.{deployment}": "deployment", "prefect.tag.treasury": "tag"}
    sign = {
        "id": str(uuid4()),
        "occurred": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        "event": "prefect.flow-run.heartbeat",
        "resource": {"prefect.resource.id": f"prefect.flow-run.{silent}", "prefect.resource.name": "silent"},
        "related": [{"prefect.resource.id": each, "prefect.resource.role": role} for each, role in related.items()],
    }
    asked("/events", [sign])
    return str(silent)
