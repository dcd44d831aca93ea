"""Prefect's own command line works beside ours: what people type to look at deployments, runs, logs and artifacts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.commands.office import eventually

ROOT = Path(__file__).resolve().parents[2]
PREFECT = str(Path(sys.executable).parent / "prefect")

pytestmark = [pytest.mark.prefect, pytest.mark.proof]


def prefect(url: str, home: Path, *words: str) -> str:
    """Return what a command of Prefect's prints; it has to succeed."""
    environ = {**os.environ, "PREFECT_API_URL": url, "PREFECT_HOME": str(home / "prefect"), "COLUMNS": "300"}
    environ |= {"PREFECT_CLI_WRAP_LINES": "false", "PREFECT_CLI_COLORS": "false"}
    done = subprocess.run(
        [PREFECT, "--no-prompt", *words], capture_output=True, text=True, check=False, env=environ, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def run_id(prefect_url: str) -> str:
    """A flow run with a log line and an artifact."""
    import logging

    from prefect import flow
    from prefect.artifacts import create_markdown_artifact
    from prefect.runtime import flow_run

    import tasks  # noqa: F401 - what `treasury` logs is shown in the run

    @flow(name="looked-at")
    def looked_at() -> str:
        log = logging.getLogger("treasury")
        assert log.isEnabledFor(logging.INFO), (log.level, log.disabled, log.manager.disable)
        assert log.handlers, "tasks.run_log adds one"
        log.info("a line of the log")
        create_markdown_artifact("# something", key="looked-at")
        return str(flow_run.id)

    return looked_at()


@pytest.mark.costly("starts Prefect's command line four times")
def test_runs_logs_and_artifacts_are_listed(prefect_url: str, run_id: str, tmp_path: Path) -> None:
    assert "looked-at" in prefect(prefect_url, tmp_path, "flow-run", "ls", "--limit", "200")
    eventually(lambda: "a line of the log" in prefect(prefect_url, tmp_path, "flow-run", "logs", run_id), 60)
    assert "looked-at" in prefect(prefect_url, tmp_path, "artifact", "ls")
    assert "looked-at" in prefect(prefect_url, tmp_path, "artifact", "inspect", "looked-at")


@pytest.mark.costly("starts Prefect's command line three times")
def test_every_deployment_is_deployed_to_a_work_pool_and_listed(prefect_url: str, tmp_path: Path) -> None:
    prefect(prefect_url, tmp_path, "work-pool", "create", "treasury", "--type", "process", "--overwrite")
    prefect(prefect_url, tmp_path, "deploy", "--all")
    listed = prefect(prefect_url, tmp_path, "deployment", "ls")
    names = set(re.findall(r"[a-z-]+/[a-z-]+", listed))
    assert {name for name in names if "payouts" in name or "reconcile" in name}
    assert len(names) >= 5
    ours = {"deployments": {"tags": {"all_": ["treasury"]}}}
    told = httpx.post(f"{prefect_url}/deployments/filter", json=ours).json()
    assert told
    assert not any(each["pull_steps"] for each in told), "a worker of another machine has no such folder"
