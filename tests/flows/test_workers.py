"""Several machines as in `deploy/`, in plain processes: PostgreSQL, Prefect's server, two workers, one is killed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from flows.commands.prefect_server import free_port
from tests.commands.office import PATIENCE, Office, eventually, processes_with
from treasury.sandbox import RunningSandbox

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
WORD = "made-up-word"
AUTH = ("admin", WORD)
RUNS, ROWS = 6, 60


def postgresql() -> Path | None:
    """The folder of a PostgreSQL of this machine that has pg_trgm, which Prefect wants; None without one."""
    found = shutil.which("postgres")
    if found is None:
        return None
    programs = Path(found).resolve().parent
    shared = subprocess.run([programs / "pg_config", "--sharedir"], capture_output=True, text=True, check=False).stdout
    there = shared.strip() and (Path(shared.strip()) / "extension" / "pg_trgm.control").exists()
    usual = Path("/usr/share/postgresql") / programs.parent.name / "extension" / "pg_trgm.control"
    return programs if there or usual.exists() else None


@contextmanager
def database(programs: Path, folder: Path) -> Iterator[tuple[int, Path]]:
    """A PostgreSQL server made as `deploy/compose.yaml` makes it; its port, and the file of its passwords."""
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    place = Path(tempfile.mkdtemp(prefix="treasury-postgresql-"))
    (place / "word").write_text(WORD)
    place.chmod(0o755)
    if user:
        shutil.chown(place, "postgres")
    data, port = place / "data", free_port()
    first = ["--username", "treasury", "--auth", "scram-sha-256", "--pwfile", str(place / "word")]
    subprocess.run([*user, programs / "initdb", "--pgdata", data, *first], check=True, capture_output=True, cwd="/")
    passwords = folder / "passwords"
    passwords.write_text(f"*:*:*:treasury:{WORD}\n")
    passwords.chmod(0o600)
    options = f"-p {port} -k {place} -c listen_addresses=127.0.0.1"
    subprocess.run(
        [*user, programs / "pg_ctl", "-D", data, "-o", options, "-l", place / "log", "-w", "start"], check=True, cwd="/"
    )
    try:
        psql = ["psql", "--host", "127.0.0.1", "--port", str(port), "--username", "treasury", "--dbname", "postgres"]
        for words in (["--command", "CREATE DATABASE treasury"], ["--file", str(DEPLOY / "databases.sql")]):
            told = [*psql, "--quiet", "--set", "ON_ERROR_STOP=1", *words]
            subprocess.run(told, env=os.environ | {"PGPASSFILE": str(passwords)}, check=True)
        yield port, passwords
    finally:
        subprocess.run([*user, programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], check=True, cwd="/")
    shutil.rmtree(place, ignore_errors=True)


@contextmanager
def running(words: list[str], environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A program of ours until the block ends, with all that it started."""
    program = str(Path(sys.executable).parent / words[0])
    with subprocess.Popen([program, *words[1:]], env=environ, cwd=ROOT, start_new_session=True) as process:
        try:
            yield process
        finally:
            kill_all(environ["MACHINE"])


def kill_all(machine: str) -> None:
    for number in processes_with(f"MACHINE={machine}"):
        os.kill(number, signal.SIGKILL)


class Runs:
    """The runs of a deployment, through Prefect's API."""

    def __init__(self, api: str) -> None:
        self.client = httpx.Client(base_url=api, auth=AUTH, timeout=30)

    def start(self, deployment: str, **parameters: str) -> str:
        found = self.client.get(f"/deployments/name/{deployment}").raise_for_status().json()
        made = self.client.post(f"/deployments/{found['id']}/create_flow_run", json={"parameters": parameters})
        return str(made.raise_for_status().json()["id"])

    def state(self, run: str) -> str:
        return str(self.client.get(f"/flow_runs/{run}").raise_for_status().json()["state"]["name"])


def commands_of(service: str) -> Any:
    """Return the command of a service of the compose file."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"][service]["command"]


@pytest.mark.prefect
@pytest.mark.proof
@pytest.mark.costly("a Prefect server on PostgreSQL, two workers, a process for each run")
def test_runs_of_several_workers_are_paid_once_though_one_is_killed(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], tmp_path: Path
) -> None:
    programs = postgresql()
    if programs is None:
        pytest.skip("a PostgreSQL with pg_trgm is not installed")
    sandbox = open_sandbox(faults={"slow": 0.5}, slow_seconds=1.5)
    began = time.monotonic()
    with ExitStack() as machines:
        port, passwords = machines.enter_context(database(programs, tmp_path))
        api = f"http://127.0.0.1:{(prefect := free_port())}/api"
        one, two = (open_office(sandbox.base_url, prefect=False) for _ in range(2))
        common = {
            "PGPASSFILE": str(passwords),
            "PREFECT_API_URL": api,
            "PREFECT_API_AUTH_STRING": ":".join(AUTH),
            "PREFECT_SERVER_API_AUTH_STRING": ":".join(AUTH),
            "PREFECT_API_DATABASE_CONNECTION_URL": f"postgresql+asyncpg://treasury@127.0.0.1:{port}/prefect",
            "PREFECT_WORKER_QUERY_SECONDS": "1",
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
            "TREASURY_ALARM_SILENT_HOURS": f"{50 / 3600:f}",
            "TREASURY_IN_FLIGHT": "4",  # half a minute for each run
            "TREASURY_RESEND_AFTER_SECONDS": "0",  # what was marked and did not leave is sent by the next start
            "TREASURY_LEDGER_URL": f"postgresql://treasury@127.0.0.1:{port}/treasury",
            "TREASURY_LEDGER_KEY_FILE": str(tmp_path / "ledger.key"),
        }
        places = {"server": one.environ, "one": one.environ, "two": two.environ}
        environs = {
            name: {**there, **common, "MACHINE": f"{name}-{tmp_path.name}", "PREFECT_HOME": str(tmp_path / name)}
            for name, there in places.items()
        }
        serve = [*commands_of("prefect"), "--port", str(prefect)]
        machines.enter_context(running([each.replace("0.0.0.0", "127.0.0.1") for each in serve], environs["server"]))
        runs = Runs(api)
        machines.callback(runs.client.close)

        def answers() -> bool:
            try:
                return runs.client.get("/health").is_success
            except httpx.HTTPError:
                return False

        eventually(answers, PATIENCE)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        told = environs["server"] | {"PATH": path}
        subprocess.run(commands_of("deployments"), env=told, cwd=ROOT, check=True)
        for name in ("one", "two"):
            machines.enter_context(running([*commands_of("worker"), "--limit", str(RUNS // 2)], environs[name]))

        def pay(key: str) -> str:
            return runs.start("pay-beneficiaries/pay-a-sheet", file=str(sheets[key]), run_key=key)

        sheets = {
            f"payroll-{run}": one.sheet(
                *((f"r{row}", "1.00", f"{run}1234567{row:03d}") for row in range(ROWS)), name=f"{run}.csv"
            )
            for run in range(RUNS)
        }
        started = {key: pay(key) for key in sheets}
        machine = environs["two"]["MACHINE"]
        eventually(lambda: len(sandbox.orders()) > ROWS and len(processes_with(f"MACHINE={machine}")) > 1, PATIENCE)
        kill_all(machine)
        killed_at = len(sandbox.orders())
        last = dict(started)

        def all_settled() -> bool:
            """Start again what the killed worker had, and what ended with a payment unknown, as its operator does."""
            states = {key: runs.state(run) for key, run in last.items()}
            for key, state in states.items():
                is_lost = state in ("Running", "Pending") and not processes_with(f"PREFECT__FLOW_RUN_ID={last[key]}")
                if is_lost or state == "NeedsAttention":
                    last[key] = pay(key)
            return set(states.values()) == {"Settled"}

        eventually(all_settled, PATIENCE, every=3)
        dead = [run for key, run in started.items() if run != last[key]]
        eventually(lambda: {runs.state(run) for run in dead} == {"Crashed"}, PATIENCE, every=3)
        assert {runs.state(run) for run in last.values()} == {"Settled"}
    orders = sandbox.orders()
    again = sum(run != last[key] for key, run in started.items())
    print(
        f"{RUNS} runs of {ROWS} rows, a worker killed at {killed_at} orders, {again} runs started again: "
        f"{len(orders)} orders, {time.monotonic() - began:.0f} s"
    )
    assert again
    assert len(orders) == RUNS * ROWS
    assert {order["effects"] for order in orders} == {1}
