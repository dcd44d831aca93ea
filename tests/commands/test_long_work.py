"""Long work: how far it has come is shown, and Ctrl-C ends it with nothing lost and nothing half known."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from flows.commands import progress
from tests.commands.office import PATIENCE, Office, eventually, quoted_sheet
from tests.listening import Answer, Listening
from treasury.orders.states import State
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

ROWS = 200
SLOW_SECONDS = 0.4


class SlowService:
    """Accepts every payout, each after a while; counts those that came and those that were answered."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.slow = True
        self.listening = Listening(self._reply)

    def _reply(self, path: str, content: bytes) -> Answer:
        request_id = json.loads(content).get("request_id", "")
        if path == "/v1/order/payout":
            self.came.append(request_id)
            time.sleep(SLOW_SECONDS if self.slow else 0)
        elif path == "/v1/order/query" and request_id not in self.came:
            return 200, b'{"code": 7000, "message": "ORDER_NOT_EXIST"}', {}
        data = {"request_id": request_id, "order_no": f"P-{request_id}", "status": 11}
        return 200, json.dumps({"code": 200, "data": data}).encode(), {}


@pytest.fixture
def service() -> Iterator[SlowService]:
    slow = SlowService()
    yield slow
    slow.listening.close()


@pytest.mark.costly("a long run, twice, and an embedded Prefect")
def test_an_interrupted_run_finishes_what_is_on_its_way_and_goes_on_where_it_was(
    open_office: Callable[..., Office], service: SlowService, prefect_url: str
) -> None:
    """The keys Ctrl and C interrupt all processes of a terminal, an embedded server too."""
    office = open_office(service.listening.base_url, own_prefect=True)
    sheet = office.sheet(*((f"r{number}", "5", f"123456{number:04d}7") for number in range(ROWS)))
    command = ["pay", sheet, "--run-key", "run", "--yes", "--follow", "0"]
    with office.running(*command) as process:
        eventually(lambda: len(service.came) > 70 or process.poll() is not None, PATIENCE, "it sent nothing")
        assert process.poll() is None, process.communicate()
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(1.0)
        came = len(service.came)
        _, err = process.communicate(timeout=120)  # Prefect may take its time to end
    assert came == len(service.came) < ROWS
    assert process.returncode == 1
    assert err.splitlines()[-1].endswith(f"To go on: treasury pay {sheet} --run-key run --yes --follow 0")
    assert "Traceback" not in err
    states = [order.state for order in office.desk().ledger.orders()]
    assert (states.count(State.ACCEPTED), states.count(State.PREPARED)) == (came, ROWS - came)
    service.slow = False
    again = office.run(*command, PREFECT_HOME=os.environ["PREFECT_HOME"], PREFECT_API_URL=prefect_url)
    assert again.last == f"0 settled, {ROWS} in progress"
    assert sorted(service.came) == sorted(set(service.came))
    assert len(service.came) == ROWS


@pytest.mark.costly("a long run, twice")
def test_an_interrupted_run_of_quotes_sends_nothing_more_and_goes_on_where_it_was(
    open_office: Callable[..., Office], open_sandbox: Callable[..., RunningSandbox], tmp_path: Path
) -> None:
    """Quotes are fetched while earlier payouts are created in another thread: both end with the interruption."""
    slow = open_sandbox(faults={"slow": 1.0}, slow_seconds=SLOW_SECONDS)
    office = open_office(slow.base_url)
    sheet = quoted_sheet(tmp_path, ROWS)
    command = ["pay", str(sheet), "--run-key", "quoted", "--yes", "--follow", "0"]

    def paid() -> int:
        return sum(order["effects"] for order in slow.orders())

    with office.running(*command) as process:
        eventually(lambda: paid() > 70 or process.poll() is not None, PATIENCE, "it paid nothing")
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGTERM)
        time.sleep(4 * SLOW_SECONDS)
        there = paid()
        _, err = process.communicate(timeout=120)
    assert there == paid() < ROWS
    assert (process.returncode, "Traceback" in err) == (1, False)
    assert err.splitlines()[-1].endswith(f"To go on: treasury {' '.join(command)}")
    again = office.run(*command)
    assert again.last.endswith(f"{ROWS} in progress") or again.last.startswith(f"{ROWS} settled")
    assert {order["effects"] for order in slow.orders() if order["effects"]} == {1}
    assert paid() == ROWS


@pytest.mark.costly("a long run at a terminal")
def test_long_work_shows_a_bar_with_rate_and_time_left_on_a_terminal(
    open_office: Callable[..., Office], service: SlowService
) -> None:
    office = open_office(service.listening.base_url)
    sheet = office.sheet(*((f"r{number}", "5", f"123456{number:04d}7") for number in range(ROWS)))
    shown = on_a_terminal(office, "pay", str(sheet), "--run-key", "run", "--yes", "--follow", "0")
    assert f"/{ROWS}" in shown
    assert "a second" in shown
    assert shown.rstrip().endswith(f"0 settled, {ROWS} in progress")


def on_a_terminal(office: Office, *arguments: str) -> str:
    """Return what a command shows where its output is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "flows", *arguments]
    environ = {**office.environ, "TERM": "xterm", "COLUMNS": "160"}
    with subprocess.Popen(command, cwd=office.home, env=environ, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the terminal is gone when its last user is
            while data := os.read(ours, 65536):
                shown += data
        os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode()


def test_elsewhere_it_says_so_in_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.02)
    counts = iter([(0, 0), (0, 0), *((done, 100) for done in range(10, 101, 10)), *[(100, 100)] * 1000])
    with progress.showing("sent", lambda: next(counts)):
        time.sleep(0.4)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == [f"sent {done} of 100" for done in range(10, 100, 10)]
    assert all(line.endswith("s left") and "a second" in line for line in lines)
