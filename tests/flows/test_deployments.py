"""prefect.yaml: what it names exists, what it schedules parses, and `treasury serve` serves it."""

import importlib
import inspect
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
import yaml

import data
from flows.commands.deployments import build_deployments, read_deployments
from flows.commands.prefect_server import free_port
from flows.commands.schedules import end_abandoned_runs, end_missed_runs, our_deployments
from tests.commands.office import Office, eventually, processes_with
from treasury.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
DEPLOYMENTS = read_deployments()


def flow_of(declared: dict[str, Any]) -> Any:
    module, _, name = declared["entrypoint"].rpartition(".")
    return getattr(importlib.import_module(module), name)


def flow_files() -> set[str]:
    """The modules of flows/ that define a flow."""
    return {file.stem for file in (ROOT / "flows").glob("*.py") if "\n@flow(" in file.read_text(encoding="utf-8")}


def test_every_flow_has_a_deployment() -> None:
    assert {declared["entrypoint"].split(".")[1] for declared in DEPLOYMENTS} == flow_files()
    assert yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"] == DEPLOYMENTS


@pytest.mark.parametrize("declared", DEPLOYMENTS, ids=lambda declared: declared["entrypoint"])
def test_a_deployment_names_a_flow_and_parameters_it_takes(declared: dict[str, Any]) -> None:
    from prefect import Flow

    flow = flow_of(declared)
    assert isinstance(flow, Flow)
    accepted = inspect.signature(flow.fn).parameters
    assert set(declared["parameters"]) <= set(accepted)
    needed = {name for name, each in accepted.items() if each.default is inspect.Parameter.empty}
    if declared["schedules"]:
        assert needed <= set(declared["parameters"])
    for value in declared["parameters"].values():
        if isinstance(value, str) and value.startswith("data/"):
            assert data.path(value.removeprefix("data/")).is_file()
    assert declared["description"]


@pytest.mark.parametrize(
    ("there", "typed", "said"),
    [
        ('"0 3 * * *"', '"0 3 * *"', "nightly: cron '0 3 * *': Wrong number of fields"),
        ('"0 3 * * *"', "3", "nightly: cron '3': Wrong number of fields"),
        ("Asia/Singapore", "Asia/Singapur", "daily: the time zone 'Asia/Singapur' is not known"),
        ("Asia/Singapore", "Asia", "daily: the time zone 'Asia' is not known"),
        ("deployments:", "deployments", "prefect.yaml cannot be read: while scanning a simple key"),
        ("        timezone:", "        zone:", "prefect.yaml cannot be read: lacks 'timezone'"),
    ],
)
def test_a_slip_in_a_schedule_is_told_in_words(
    there: str, typed: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The README says to edit the times; `treasury status` and `treasury serve` ended with a traceback, code 1."""
    text = (ROOT / "prefect.yaml").read_text(encoding="utf-8")
    (tmp_path / "prefect.yaml").write_text(text.replace(there, typed), encoding="utf-8")
    monkeypatch.setattr("flows.__file__", str(tmp_path / "flows" / "__init__.py"))
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        read_deployments()


def test_schedules_parse_and_their_slugs_are_unique() -> None:
    from cronsim import CronSim

    schedules = [schedule for declared in DEPLOYMENTS for schedule in declared["schedules"]]
    assert len(schedules) >= 2
    for schedule in schedules:
        from datetime import datetime

        zone = ZoneInfo(schedule["timezone"])
        assert next(CronSim(schedule["cron"], datetime.now(zone)))
    slugs = [schedule["slug"] for schedule in schedules]
    assert len(set(slugs)) == len(slugs)
    names = [(flow_of(declared).name, declared["name"]) for declared in DEPLOYMENTS]
    assert len(set(names)) == len(names)


@pytest.mark.prefect
def test_the_deployments_build_by_module_path(prefect_url: str) -> None:
    built = build_deployments()
    assert [deployment.name for deployment in built] == [declared["name"] for declared in DEPLOYMENTS]
    for deployment, declared in zip(built, DEPLOYMENTS, strict=True):
        assert deployment.entrypoint == declared["entrypoint"]
        assert len(deployment.schedules or []) == len(declared["schedules"])
        for name, value in deployment.parameters.items():
            if name == "policy":
                assert Path(value).is_absolute()


def password_of(office: Office) -> tuple[str, str]:
    """User and password of the server that this home serves; none that works before it is there."""
    file = office.home / "prefect.auth"
    user, _, password = (file.read_text().strip() if file.exists() else "").partition(":")
    return user, password


@pytest.mark.proof
@pytest.mark.prefect
def test_serving_registers_everything_and_ends_without_a_trace(
    open_office: Callable[..., Office], tmp_path: Path
) -> None:
    office = open_office("http://127.0.0.1:9", prefect=False)
    port = free_port()
    office.environ["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = f"sqlite+aiosqlite:///{tmp_path / 'serve.db'}"
    url, mark = f"http://127.0.0.1:{port}/api", f"TREASURY_HOME={office.home}"

    def registered() -> dict[str, Any]:
        try:
            answer = httpx.post(f"{url}/deployments/filter", json={}, timeout=5, auth=password_of(office))
        except httpx.HTTPError:
            return {}
        return {each["entrypoint"]: each for each in answer.json()} if answer.status_code == 200 else {}

    with office.running("serve", "--port", str(port)) as process:
        try:
            expected = {declared["entrypoint"] for declared in DEPLOYMENTS}
            eventually(lambda: set(registered()) == expected or process.poll() is not None, 60)
            assert process.poll() is None, process.communicate()
            found = registered()
            for declared in DEPLOYMENTS:
                schedules = found[declared["entrypoint"]]["schedules"]
                assert [(each["schedule"]["cron"], each["schedule"]["timezone"]) for each in schedules] == [
                    (each["cron"], each["timezone"]) for each in declared["schedules"]
                ]
            assert httpx.get(f"http://127.0.0.1:{port}/", follow_redirects=True).status_code == 200
        finally:
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        # A server that is stopped in the middle of its housekeeping logs that; nothing of ours may fail.
        assert "/flows/commands/" not in err, err
        assert f"dashboard at http://127.0.0.1:{port}" in out
    eventually(lambda: not processes_with(mark), 15, "something went on running after `treasury serve` ended")
    assert os.getpid() not in processes_with(mark)


class Served:
    """`treasury serve` of a home, and what its Prefect server shows."""

    def __init__(self, office: Office, database: Path) -> None:
        self.office, self.port = office, free_port()
        office.environ["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = f"sqlite+aiosqlite:///{database}"
        office.environ["PREFECT_HOME"] = str(office.home / "prefect")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return what its API answers; None while it does not. A server whose database is busy (5xx) is asked again."""
        url = f"http://127.0.0.1:{self.port}/api/{path}"
        for _ in range(20):
            try:
                answer = httpx.request(method, url, json=body, timeout=10, auth=password_of(self.office))
            except httpx.HTTPError:
                return None
            if answer.status_code < 500:
                break
            time.sleep(0.5)
        return answer.json() if answer.status_code in (200, 201) and answer.content else answer.status_code

    def deployments(self) -> dict[str, dict[str, Any]]:
        """Entrypoint -> deployment."""
        found = self.ask("POST", "deployments/filter", {})
        return {each["entrypoint"]: each for each in found} if isinstance(found, list) else {}

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Serve for as long as the block lasts."""
        with self.office.running("serve", "--port", str(self.port)) as process:
            eventually(lambda: len(self.deployments()) >= len(DEPLOYMENTS) or process.poll() is not None, 90)
            assert process.poll() is None, process.communicate()
            yield process
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)


@pytest.mark.prefect
@pytest.mark.proof
def test_a_paused_schedule_stays_paused_a_left_run_crashes_and_a_second_one_ends(
    open_office: Callable[..., Office], tmp_path: Path
) -> None:
    served = Served(open_office("http://127.0.0.1:9", prefect=False), tmp_path / "serve.db")

    def schedules() -> dict[str, bool]:
        return {
            schedule["slug"]: schedule["active"]
            for deployment in served.deployments().values()
            for schedule in deployment["schedules"]
        }

    with served.running():
        before = schedules()
        slug, deployment, schedule = next(
            (each["slug"], one["id"], each["id"])
            for one in served.deployments().values()
            for each in one["schedules"]
            if each["active"]
        )
        assert served.ask("PATCH", f"deployments/{deployment}/schedules/{schedule}", {"active": False}) == 204
        run = served.ask("POST", f"deployments/{deployment}/create_flow_run", {})["id"]
        state = {"state": {"type": "RUNNING", "name": "Running"}, "force": True}
        assert served.ask("POST", f"flow_runs/{run}/set_state", state)
        other = served.office.run("serve", "--port", str(free_port()))
        assert other.code == 6
        assert f"http://127.0.0.1:{served.port}" in other.err
        assert schedules() == {**before, slug: False}
    with served.running() as process:
        assert process.stdout is not None
        while "serving;" not in (line := process.stdout.readline()):
            assert line, "it ended"
        assert served.ask("GET", f"flow_runs/{run}")["state"]["type"] == "CRASHED"
        eventually(lambda: schedules() == {**before, slug: False}, 30)


@pytest.mark.prefect
def test_runs_that_nobody_carried_out_are_missed_and_those_of_others_are_left_alone(prefect_url: str) -> None:
    from datetime import UTC, datetime, timedelta

    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import State
    from prefect.states import Running, Scheduled

    hour = timedelta(hours=1)
    with get_client(sync_client=True) as client:
        flow = client.create_flow_from_name("scheduled-somewhere")
        for entrypoint in ("ours.flow", "theirs.flow"):
            client.create_deployment(flow, entrypoint, entrypoint=entrypoint)
        [ours] = our_deployments(client, {"ours.flow"})
        [theirs] = our_deployments(client, {"theirs.flow"})
        late: State[Any] = Scheduled(scheduled_time=datetime.now(UTC) - hour)
        many = [client.create_flow_run_from_deployment(ours.id, state=late).id for _ in range(210)]
        assert end_missed_runs(client, [ours]) == 210
        now = datetime.now(UTC)  # after the many, for a busy machine makes and ends them slowly
        states: dict[str, State[Any]] = {
            "late": Scheduled(scheduled_time=now - hour),
            "resumed": Scheduled(name="Resuming", scheduled_time=now - hour),
            "just due": Scheduled(scheduled_time=now - timedelta(seconds=5)),
            "to come": Scheduled(scheduled_time=now + hour),
            "running": Running(),
        }
        runs = {
            (deployment.name, name): client.create_flow_run_from_deployment(deployment.id, state=state).id
            for deployment in (ours, theirs)
            for name, state in states.items()
        }

        def state_of(run: Any) -> str | None:
            state = client.read_flow_run(run).state
            return None if state is None else state.name

        for found in (1, 0):
            assert (end_missed_runs(client, [ours]), end_abandoned_runs(client, [ours])) == (found, found)
        ends = {name: state_of(run) for name, run in runs.items()}
        assert ends == {
            ("ours.flow", "late"): "Missed",
            ("ours.flow", "resumed"): "Resuming",
            ("ours.flow", "just due"): "Scheduled",
            ("ours.flow", "to come"): "Scheduled",
            ("ours.flow", "running"): "Crashed",
            ("theirs.flow", "late"): "Scheduled",
            ("theirs.flow", "resumed"): "Resuming",
            ("theirs.flow", "just due"): "Scheduled",
            ("theirs.flow", "to come"): "Scheduled",
            ("theirs.flow", "running"): "Running",
        }
        assert {state_of(run) for run in many} == {"Missed"}
        assert end_missed_runs(client, []) == end_abandoned_runs(client, []) == 0
