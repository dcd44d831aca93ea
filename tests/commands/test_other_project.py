"""`treasury` started in a project that has a `tasks` and a `flows` of its own: it and its children find ours."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.office import Office
from treasury.concurrency.children import importing_ours
from treasury.sandbox import RunningSandbox

COMMAND = Path(sys.executable).parent / "treasury"


@pytest.fixture
def office(open_office: Callable[..., Office], open_sandbox: Callable[..., RunningSandbox]) -> Office:
    """A home in which somebody keeps Python packages that are named like ours."""
    office = open_office(open_sandbox().base_url, own_prefect=True)
    for package in ("tasks", "flows", "blocks", "treasury", "data"):
        office.file(f"{package}.py", "raise AssertionError('this is theirs')")
    return office


def start(office: Office, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments],
        cwd=office.home,
        env=office.environ,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.prefect
@pytest.mark.proof
@pytest.mark.costly("an embedded Prefect")
def test_a_command_that_starts_processes_finds_our_packages(office: Office) -> None:
    sheet = office.sheet(("r1", "1.00", "12345678901"))
    paid = start(office, "pay", str(sheet), "--run-key", "theirs", "--yes", "--follow", "20")
    assert (paid.returncode, paid.stdout.splitlines()[-1]) == (0, "1 settled"), paid.stderr


def test_a_process_of_a_served_run_finds_our_packages(office: Office) -> None:
    """Prefect starts each served run with `python -m`, in the folder that `treasury serve` was started in."""
    office.file("own.py", '">>> import tasks.operations, flows.pay_beneficiaries"')
    found = subprocess.run(
        [sys.executable, "-m", "doctest", "own.py"],
        cwd=office.home,
        env=importing_ours({**office.environ, "PYTHONPATH": os.pathsep.join(["", "/nowhere"])}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
