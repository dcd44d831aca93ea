"""`treasury pay` without any Prefect: an embedded server comes and goes with the command, even by SIGKILL.

It has a password of its own, tells pages of other origins nothing, and leaves nothing on the disk that others can read.
"""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.commands.office import PATIENCE, Office, eventually, processes_with
from treasury.private_files import openings
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

ROWS = [(f"r{number}", "1.00", f"1234567{number:04d}1") for number in range(300)]

FOREIGN = {"Origin": "https://page.example.com"}


def tells_others_nothing(mark: str) -> None:
    """Check the embedded server of a command: a password for all but its health, no page of another origin."""
    lines = [Path(f"/proc/{each}/cmdline").read_bytes().decode() for each in processes_with(mark)]
    [port] = [found[1] for line in lines if (found := re.search("--port\0([0-9]+)", line))]
    url = f"http://127.0.0.1:{port}/api"
    for path in ("flow_runs/", "deployments/filter", "flow_runs/filter"):
        answer = httpx.post(f"{url}/{path}", json={}, headers=FOREIGN)
        assert answer.status_code == 401
        assert "access-control-allow-origin" not in answer.headers
    asks = {**FOREIGN, "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in httpx.options(f"{url}/flow_runs/", headers=asks).headers
    assert httpx.get(f"{url}/health", headers=FOREIGN).status_code == 200


@pytest.mark.costly("an embedded Prefect, twice")
def test_a_killed_run_leaves_no_process_and_the_next_start_pays_each_row_once(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    sandbox = open_sandbox(faults={"slow": 0.5}, slow_seconds=0.3)
    office = open_office(sandbox.base_url, own_prefect=True, TREASURY_RESEND_AFTER_SECONDS="0")
    arguments = ["pay", office.sheet(*ROWS), "--run-key", "killed", "--yes", "--follow", "20"]
    mark = f"TREASURY_HOME={office.home}"
    with office.running(*arguments) as process:
        eventually(lambda: len(sandbox.orders()) > 5 or process.poll() is not None, PATIENCE)
        assert process.poll() is None, process.communicate()
        assert len(processes_with(mark)) >= 2  # the command, and Prefect's server
        tells_others_nothing(mark)
        process.kill()
        eventually(lambda: not processes_with(mark), 30, "the embedded server outlived its command")
    assert 5 < len(sandbox.orders()) < len(ROWS)
    (office.home / "prefect").chmod(0o755)
    (office.home / "prefect" / "prefect.db").chmod(0o644)
    ended = office.run(*arguments)
    assert (ended.code, ended.last) == (0, "300 settled"), ended.out + ended.err
    assert "starting Prefect" in ended.out
    assert processes_with(mark) == []
    orders = sandbox.orders()
    assert len(orders) == len(ROWS)
    assert {order["effects"] for order in orders} == {1}
    assert sum(order["amount"] for order in orders) == len(ROWS)
    assert len(office.results("killed")) == len(ROWS)
    assert not (office.home / "prefect.auth").exists()
    written = (office.home / "prefect", office.home / "runs", office.home / "ledger.db")
    assert [str(each) for each in openings(*written)] == []


@pytest.mark.proof
@pytest.mark.costly("an embedded Prefect that starts slowly")
def test_an_embedded_server_that_starts_slowly_is_waited_for(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    """The server gets the processor for a tenth of the time until it has answered; a busy machine does no more."""
    sandbox = open_sandbox()
    office = open_office(sandbox.base_url, prefect=False)
    office.environ["PREFECT_HOME"] = str(office.home / "prefect")
    mark = f"TREASURY_HOME={office.home}"
    with office.running("pay", office.sheet(*ROWS[:1]), "--run-key", "slow", "--yes", "--follow", "20") as process:
        eventually(lambda: len(processes_with(mark)) > 1 or process.poll() is not None, PATIENCE)
        until = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < until:
            for number in processes_with(mark):
                if number != process.pid:
                    os.kill(number, signal.SIGSTOP)
                    time.sleep(3)
                    os.kill(number, signal.SIGCONT)
            time.sleep(0.3)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out.splitlines()[-1]) == (0, "1 settled"), out + err
    assert "Traceback" not in err


def test_an_embedded_server_that_dies_at_its_start_is_told_in_one_line(open_office: Callable[..., Office]) -> None:
    office = open_office("http://127.0.0.1:9", prefect=False)
    office.environ["PREFECT_HOME"] = str(office.home / "prefect")
    mark = f"TREASURY_HOME={office.home}"
    with office.running("pay", office.sheet(*ROWS[:1]), "--run-key", "dead", "--yes") as process:
        eventually(lambda: len(processes_with(mark)) > 1 or process.poll() is not None, PATIENCE)
        for number in processes_with(mark):
            if number != process.pid:
                os.kill(number, signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "did not start" in err.splitlines()[-1], err
    assert "nothing was sent" in err.splitlines()[-1]
    assert len(err.splitlines()) == 1, out + err
