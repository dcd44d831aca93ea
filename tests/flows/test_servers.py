"""The Prefect server that all test processes share is one, and it ends with the process that holds it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.office import eventually, processes_with
from tests.servers import answers

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import os, time
from concurrent.futures import ThreadPoolExecutor
from tests.servers import Servers, await_server
os.environ.update(Servers().environ)
with ThreadPoolExecutor(3) as three:
    print(*three.map(lambda _: await_server("prefect"), range(3)), flush=True)
time.sleep(600)
"""


@pytest.mark.prefect
@pytest.mark.proof
@pytest.mark.costly("starts a Prefect server of its own")
def test_it_is_started_once_and_ends_with_its_holder_that_is_killed(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "DO_NOT_TRACK": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            [url] = set(holder.stdout.readline().split())
            assert answers(f"{url}/health")
            servers = [each for each in processes_with(f"TMPDIR={tmp_path}") if each != holder.pid]
            assert len(servers) == 1
        finally:
            holder.kill()
    eventually(lambda: not processes_with(f"TMPDIR={tmp_path}"), 10, "the server outlived its holder")
    assert not answers(f"{url}/health")
