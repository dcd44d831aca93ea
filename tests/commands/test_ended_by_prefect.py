"""Runs that Prefect ends, or whose server is killed: their logs say what left, and what lives is not called dead."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.commands.prefect_server import free_port
from tests.commands.office import PATIENCE, Office, eventually
from treasury.sandbox import RunningSandbox

pytestmark = [
    pytest.mark.prefect,
    pytest.mark.proof,
    pytest.mark.costly("servers of their own, and flows in processes of their own"),
]

ROWS = 30
OVER = {"FAILED", "COMPLETED", "CRASHED", "CANCELLED"}


class Api:
    """A Prefect server of `treasury serve`, as its dashboard asks it."""

    def __init__(self, office: Office, port: int) -> None:
        user, _, password = (office.home / "prefect.auth").read_text().strip().partition(":")
        self._url, self._auth = f"http://127.0.0.1:{port}/api", (user, password)

    def ask(self, path: str, body: Any = None) -> Any:
        until = time.monotonic() + PATIENCE
        while True:  # on a busy machine its database may be locked
            with suppress(httpx.TransportError):
                method = "GET" if body is None else "POST"
                answer = httpx.request(method, self._url + path, json=body, auth=self._auth, timeout=30)
                if answer.is_success:
                    return answer.json()
            assert time.monotonic() < until, path
            time.sleep(0.5)

    def start(self, **parameters: Any) -> str:
        found = self.ask("/deployments/filter", {})
        [pays] = [each["id"] for each in found if each["entrypoint"].endswith("pay_beneficiaries")]
        return str(self.ask(f"/deployments/{pays}/create_flow_run", {"parameters": parameters})["id"])

    def state(self, run: str) -> str:
        return str(self.ask(f"/flow_runs/{run}")["state"]["type"])

    def log(self, run: str) -> str:
        said = self.ask("/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC"})
        return "\n".join(each["message"] for each in said)


@pytest.fixture
def office(open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]) -> Office:
    """An office at a service that takes a second to answer."""
    sandbox = open_sandbox(faults={"slow": 1.0}, slow_seconds=1.0)
    return open_office(sandbox.base_url, own_prefect=True)


@contextmanager
def serving(office: Office, port: int) -> "Iterator[subprocess.Popen[str]]":
    """Serve, and end with the block; nobody reads what it prints."""
    with office.running("serve", "--port", str(port)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if line.startswith("serving"):
                break
        process.stdout.close()
        process.stderr.close()
        yield process


def sheet(office: Office) -> Path:
    return office.sheet(*((f"r{number}", "5", f"1234567{number:04d}") for number in range(ROWS)))


def sent(office: Office) -> int:
    desk = office.desk()
    try:
        return sum(order.sends > 0 for order in desk.ledger.orders(run_key="long"))
    finally:
        desk.close()


def test_a_run_outlives_the_killed_serve_and_is_not_called_crashed(office: Office) -> None:
    port = free_port()
    with serving(office, port) as first:
        api = Api(office, port)
        run = api.start(file=str(sheet(office)), run_key="long", follow_seconds=120)
        eventually(lambda: sent(office) > 0, PATIENCE)
        os.kill(first.pid, signal.SIGKILL)
        first.wait(timeout=30)
        with serving(office, port):  # the server of the first one ended with it
            assert api.state(run) == "RUNNING"
            eventually(lambda: api.state(run) in OVER, PATIENCE)
            assert api.state(run) in ("COMPLETED", "FAILED")  # a payee of the sheet may refuse
            eventually(lambda: "run long: " in api.log(run), 60)
            assert {row["outcome"] for row in office.results("long").values()} <= {"settled", "in_progress", "failed"}


def test_a_cancelled_run_says_what_left_and_what_did_not(office: Office) -> None:
    port = free_port()
    with serving(office, port):
        api = Api(office, port)
        run = api.start(file=str(sheet(office)), run_key="long", follow_seconds=120)
        eventually(lambda: sent(office) > 0, PATIENCE)
        api.ask(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}, "force": True})
        eventually(lambda: api.state(run) == "CANCELLED", PATIENCE)
        eventually(lambda: "results.csv" in api.log(run), 60)
        [said] = [line for line in api.log(run).splitlines() if "results.csv" in line]
        left = sent(office)
        assert left > 0
        assert "not sent" in said or left == ROWS
        assert len(office.results("long")) == ROWS
