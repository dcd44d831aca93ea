"""A sweep whose parts are asked by processes beside the run, or by a Dask cluster: results are those of one process."""

import hashlib
import importlib.util
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from blocks.desk import open_desk
from tasks import runners
from tasks.runners import WorkerProcesses, runner_for
from tests.commands.office import eventually
from tests.engine import paying
from tests.flows.graph import Graph
from tests.flows.shown import asked
from tests.parts import sheet
from treasury.errors import ConfigurationError
from treasury.ledger.ledger import Ledger
from treasury.ledger.sweeps import open_questions
from treasury.nights import sweep
from treasury.orders.states import State
from treasury.payments import execution
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

ROWS, PART = 48, 6
SECONDS = 60


def pay(home: Path) -> None:
    for ids in paying.commit(open_desk(), sheet(home, ROWS), "run"):
        execution.send_orders(open_desk(), "run", ids)


def answered_by(ledger: Ledger) -> set[int]:
    """The processes that recorded what was shown of an order."""
    return {int(ledger.journal(order)[-1].process.rpartition(":")[2]) for order in ledger.orders()}


def who_asks(number: int) -> int | None:
    """The process that is asking a part, as its lock's file says: to try the lock would keep others from it."""
    name = hashlib.sha256(f"sweep part {number}".encode()).hexdigest()[:32]
    try:
        return int(json.loads((open_desk().settings.home / "ledger.db.locks" / f"{name}.lock").read_text())["process"])
    except (OSError, ValueError):  # nobody, or somebody who has not written it yet
        return None


def kill_when_at_work(killed: list[int]) -> None:
    """Kill the worker while it asks its first part; the run itself waits in the last one meanwhile."""
    desk, last = open_desk(), ROWS // PART - 1
    try:
        eventually(lambda: who_asks(last) == os.getpid(), SECONDS)
        [worker] = multiprocessing.active_children()
        eventually(lambda: any(who_asks(number) == worker.pid for number in range(last)), SECONDS, every=0.001)
        os.kill(worker.pid or 0, signal.SIGKILL)
        killed.append(worker.pid or 0)
    finally:
        for _ in range(desk.settings.in_flight):
            desk.client.give_back()


def lost_runs(graph: Graph) -> list[dict[str, Any]]:
    """Task runs that did not complete."""
    runs = asked("task_runs", flow_runs={"id": {"any_": [graph.id]}}, limit=200)
    return [each for each in runs if each["state_type"] != "COMPLETED"]


@pytest.mark.costly("Prefect once more, in a process beside the run")
def test_a_worker_that_is_killed_leaves_its_parts_to_the_run(
    home: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from flows.reconcile_transactions import reconcile_transactions

    pay(home)
    monkeypatch.setattr(sweep, "PART", PART)
    monkeypatch.setenv("TREASURY_RUNNER", "processes")
    monkeypatch.setenv("TREASURY_PROCESSES", "2")
    desk, killed = open_desk(), list[int]()
    for _ in range(desk.settings.in_flight):
        desk.client.take_connection()
    killer = threading.Thread(target=kill_when_at_work, args=(killed,))
    killer.start()
    graph = Graph(reconcile_transactions(run_key="run", return_state=True))
    killer.join()
    assert len(killed) == 1
    assert multiprocessing.active_children() == []
    assert open_questions(desk.ledger, 1) == []
    for order in desk.ledger.orders():
        sent, *shown = [entry for entry in desk.ledger.journal(order) if entry.event != "send"]
        assert (sent.event, len(shown)) == ("accept", order.state is not State.ACCEPTED), shown
    assert os.getpid() in answered_by(desk.ledger) <= {os.getpid(), *killed}
    # Not by its name: a busy server may not have heard of that before it is told of the end.
    assert {each["state_name"] for each in lost_runs(graph)} == {"Crashed"}
    assert "Traceback" not in graph.log() + capfd.readouterr().err


@pytest.mark.proof
@pytest.mark.costly("a Dask cluster of two processes")
def test_the_workers_of_a_dask_cluster_ask(
    home: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("prefect_dask", reason="the extra [dask] is not there")
    from flows.reconcile_transactions import reconcile_transactions

    pay(home)
    monkeypatch.setattr(sweep, "PART", PART)
    monkeypatch.setenv("TREASURY_RUNNER", "dask")
    monkeypatch.setenv("TREASURY_PROCESSES", "2")
    graph = Graph(reconcile_transactions(run_key="run", return_state=True))
    desk = open_desk()
    assert graph.run["state_type"] == "COMPLETED", graph.run["state"]
    assert open_questions(desk.ledger, 1) == []
    assert os.getpid() not in answered_by(desk.ledger)
    assert {("start sweep", "ask 1-24"), ("ask 25-48", "end sweep")} <= graph.edges()
    assert "Traceback" not in graph.log() + capfd.readouterr().err


def test_processes_beside_a_run_end_with_it_even_when_it_is_killed() -> None:
    code = (
        "import multiprocessing, time\n"
        "from tasks.runners import WorkerProcesses\n"
        "with WorkerProcesses(1) as processes:\n"
        "    processes.start('tasks.reconciliation')\n"
        "    print(*[each.pid for each in multiprocessing.active_children()], flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        [worker] = process.stdout.readline().split()
        process.kill()
        assert process.stdout.read() == ""  # it ends when the last process that has it does
    stat = Path(f"/proc/{worker}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_who_asks_is_what_the_settings_say_else_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREASURY_PROCESSES", "3")
    assert type(runner_for(runners.LARGE - 1)).__name__ == "ThreadPoolTaskRunner"
    assert (large := runner_for(runners.LARGE)) == WorkerProcesses(2)
    assert large.duplicate()._initializer is large._initializer  # type: ignore[attr-defined]
    monkeypatch.setenv("TREASURY_PROCESSES", "1")
    assert type(runner_for(runners.LARGE)).__name__ == "ThreadPoolTaskRunner"
    monkeypatch.setenv("TREASURY_RUNNER", "processes")
    assert runner_for(1) == WorkerProcesses(1)
    monkeypatch.setenv("TREASURY_RUNNER", "dask")
    if importlib.util.find_spec("prefect_dask") is None:
        with pytest.raises(ConfigurationError, match=r"pip install 'treasury-flows\[dask\]'; nothing was sent"):
            runner_for(1)
    monkeypatch.setenv("TREASURY_RUNNER", "ray")
    with pytest.raises(ConfigurationError, match="TREASURY_RUNNER must be threads, processes or dask"):
        runner_for(1)
