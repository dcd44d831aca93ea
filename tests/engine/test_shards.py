"""A large sweep is shared among processes, which end with the one that started them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import parts
from tests.engine import paying
from treasury.ledger import sweeps
from treasury.orders.states import State
from treasury.reconciliation.scope import Scope
from treasury.runs import execution, sweep
from treasury.runs.desk import Desk

ROWS = 400


@pytest.fixture
def paid(keys: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk that may use two processes, with orders that are enough for both."""
    monkeypatch.setattr(sweep, "SHARED_FROM", ROWS)
    with parts.service() as url, parts.desk(url, keys[0], processes=2) as (desk, home):
        for ids in paying.commit(desk, parts.sheet(home, ROWS), "run"):
            execution.send_orders(desk, "run", ids)
        yield desk


def started(desk: Desk) -> list[int]:
    return [shard._process.pid for shard in desk.shards._started]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.costly("two processes and many orders")
def test_both_processes_ask_and_every_order_is_answered_once(paid: Desk) -> None:
    sweep_id = sweep.start_or_resume_sweep(paid, Scope("run"))
    [pid] = started(paid)
    [chunk] = sweep.open_chunks(paid, sweep_id)
    assert sweep.ask_orders(paid, chunk) == len(chunk) == ROWS
    assert sweep.open_chunks(paid, sweep_id) == []
    assert {order.state for order in paid.ledger.orders(run_key="run")} == {State.SETTLED}
    by = {entry.process for order in paid.ledger.orders() for entry in paid.ledger.journal(order)[-1:]}
    assert len(by) == 2  # both have taken steps
    sweep.end_sweep(paid, sweep_id)
    assert not alive(pid)
    few_questions_need_no_other_process(paid)


@pytest.mark.costly("two processes and many orders")
def test_a_shard_that_dies_leaves_its_part_to_us(paid: Desk) -> None:
    sweep_id = sweep.start_or_resume_sweep(paid, Scope("run"))
    [pid] = started(paid)
    assert len(paid.shards.ready()) == 1
    os.kill(pid, signal.SIGKILL)
    [chunk] = sweep.open_chunks(paid, sweep_id)
    assert sweep.ask_orders(paid, chunk) == ROWS
    assert sweep.open_chunks(paid, sweep_id) == []
    sweep.end_sweep(paid, sweep_id)


def few_questions_need_no_other_process(paid: Desk) -> None:
    """In the next sweep, of orders that are final."""
    orders = paid.ledger.orders(run_key="run")
    sweep_id = sweep.start_or_resume_sweep(paid, Scope("run"))
    paid.shards.close()
    ids = sweeps.open_questions(paid.ledger, sweep_id)[:100]
    assert sweep.ask_orders(paid, ids) == 100
    assert started(paid) == []
    assert len(orders) == ROWS


def test_shards_end_with_a_process_that_is_killed(tmp_path: Path, keys: tuple[str, str]) -> None:
    """A process of its own calls shards and is killed: they are gone soon after."""
    code = (
        "import sys, dataclasses, time\n"
        "from treasury.runs.shards import Shards\n"
        "from treasury.settings import read_settings\n"
        "settings = dataclasses.replace(read_settings(), processes=3)\n"
        "shards = Shards(settings.account(), settings)\n"
        "shards.call()\n"
        "print(*[shard._process.pid for shard in shards.ready()], flush=True)\n"
        "time.sleep(60)\n"
    )
    (tmp_path / "key.pem").touch(mode=0o600)
    (tmp_path / "key.pem").write_text(keys[0])
    environ = os.environ | {
        "TREASURY_HOME": str(tmp_path / "other"),
        "TREASURY_BASE_URL": "http://127.0.0.1:9",
        "TREASURY_PARTNER_ID": "900001",
        "TREASURY_PRIVATE_KEY_FILE": str(tmp_path / "key.pem"),
    }
    with subprocess.Popen([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
        process.kill()
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)
