"""`treasury serve` and whoever reads what it prints."""

import signal
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from flows.commands.prefect_server import free_port
from tests.commands.office import PATIENCE, Office
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect


@pytest.mark.costly("a server that serves, and a run in a process of its own")
def test_it_outlives_the_reader_of_its_output(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    office, port = open_office(open_sandbox().base_url, prefect=False), free_port()
    office.environ["PREFECT_HOME"] = str(office.home / "prefect")
    with office.running("serve", "--port", str(port)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert any(line.startswith("serving") for line in process.stdout)
        process.stdout.close()
        process.stderr.close()
        user, _, secret = (office.home / "prefect.auth").read_text().strip().partition(":")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/api", auth=(user, secret)) as api:
            found = api.post("/deployments/filter", json={}).json()
            for _ in range(2):
                [asked] = [each["id"] for each in found if "reconcile" in each["entrypoint"]]
                until, run = time.monotonic() + PATIENCE, dict[str, Any]()
                while "state" not in run:  # on a busy machine Prefect's database may be locked
                    assert time.monotonic() < until, run
                    asking = {"state": {"type": "SCHEDULED"}}
                    run = api.post(f"/deployments/{asked}/create_flow_run", json=asking).json()
                    time.sleep(0.5)
                state = run["state"]
                while state["type"] in ("SCHEDULED", "PENDING", "RUNNING") and time.monotonic() < until:
                    assert process.poll() is None
                    time.sleep(0.5)
                    state = api.get(f"/flow_runs/{run['id']}").json()["state"]
                assert state["type"] == "COMPLETED", state
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
