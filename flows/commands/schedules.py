"""The start of `treasury serve`: locks the home, keeps paused schedules paused, ends abandoned runs."""

import fcntl
import importlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from flows.commands.prefect_server import prefect_home
from treasury.clock import MACHINE
from treasury.errors import AlreadyServed
from treasury.files import write_text


@contextmanager
def serve_alone(address: str) -> Iterator[None]:
    """Take the lock for serving on this Prefect home. Raises `AlreadyServed` with the address of the other server."""
    descriptor = os.open(prefect_home() / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyServed(os.read(descriptor, 500).decode(errors="replace").strip()) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{address} (process {os.getpid()})\n".encode())
        yield
    finally:
        os.close(descriptor)


def served_api() -> str | None:
    """The API of the Prefect server that a `treasury serve` of this Prefect home uses now; None where none is at work.

    Nobody else can be listening there meanwhile.
    """
    with suppress(OSError), (prefect_home() / LOCK).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            address = lock.read(500).partition(" ")[0]
            return address if address.endswith("/api") else f"{address}/api"
    return None


LOCK = "treasury-serve.lock"
"""The file of a Prefect home that `treasury serve` holds: its address and process."""


def our_deployments(client: Any, entrypoints: Collection[str]) -> list[Any]:
    """The server's deployments of these entrypoints. A shared server has deployments of others, too."""
    return [each for each in client.read_deployments() if each.entrypoint in entrypoints]


def paused_slugs(deployments: Iterable[Any]) -> set[str]:
    """Slugs of the paused schedules of these deployments."""
    return {
        schedule.slug
        for deployment in deployments
        for schedule in deployment.schedules
        if schedule.slug is not None and (deployment.paused or not schedule.active)
    }


def paused_by_people(paused: set[str]) -> set[str]:
    """Of the schedules that are paused, those that a person paused: not those that were installed so."""
    return paused - _installed_inactive()


def install_inactive(slugs: Collection[str]) -> None:
    """Remember which schedules are installed inactive because no policy is in force."""
    write_text(prefect_home() / INACTIVE, "\n".join(sorted(slugs)))


def _installed_inactive() -> set[str]:
    try:
        return set((prefect_home() / INACTIVE).read_text(encoding="utf-8").split())
    except FileNotFoundError:
        return set()


INACTIVE = "treasury-inactive"
"""A file of the Prefect home: the schedules that `treasury serve` installed inactive."""


def end_abandoned_runs(
    client: Any, deployments: Sequence[Any], then: Callable[[Any, Any], None] = lambda *_: None
) -> int:
    """Mark runs of these deployments as crashed that are still shown as running, and whose process is gone; returns how
    many. `then`: called with each of them and its new state.

    Only for a server whose runs are executed on this machine. What such a run did is in the ledger, so that a new start
    sends nothing twice.
    """
    from prefect.client.schemas.filters import FlowRunFilterStateType
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed

    wanted = FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING, StateType.CANCELLING])
    said = "its process ended before it did; what it sent is in the ledger, and it can be started again"
    return _end_all(client, deployments, wanted, Crashed(message=said), but=_living_runs(), then=then)


def hooks_of_crashed(deployments: Sequence[Any]) -> Callable[[Any, Any], None]:
    """Return what calls the hooks of a crashed run of these deployments, as the process that is gone would have."""
    places = {each.id: each.entrypoint for each in deployments}

    def call(run: Any, state: Any) -> None:
        module, _, name = places[run.deployment_id].rpartition(".")
        flow = getattr(importlib.import_module(module), name)
        for hook in flow.on_crashed_hooks:
            hook(flow, run, state)

    return call


def _living_runs() -> set[str]:
    """The flow runs that a process of this machine is executing: it outlives the `treasury serve` that started it."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # of somebody else, or gone
            for entry in file.read_bytes().split(b"\0"):
                name, _, run = entry.partition(b"=")
                if name == b"PREFECT__FLOW_RUN_ID":
                    found.add(run.decode(errors="replace"))
    return found


def end_missed_runs(client: Any, deployments: Sequence[Any]) -> int:
    """Cancel scheduled runs of these deployments whose time passed while nobody served; returns how many.

    A suspended run that was resumed meanwhile was approved: it goes on.
    """
    from prefect.client.schemas.filters import FlowRunFilterStateType
    from prefect.client.schemas.objects import StateType
    from prefect.states import Cancelled

    before = MACHINE.now() - timedelta(seconds=LATE_SECONDS)
    said = "nobody served at its time; start it by hand if it is wanted"
    wanted = FlowRunFilterStateType(any_=[StateType.SCHEDULED])
    return _end_all(
        client, deployments, wanted, Cancelled(name="Missed", message=said), before, names=("Scheduled", "Late")
    )


LATE_SECONDS = 60
"""A scheduled run that is later than this is not started any more: the runner polls every ten seconds."""


def _end_all(
    client: Any,
    deployments: Sequence[Any],
    states: Any,
    ending: Any,
    before: datetime | None = None,
    but: Collection[str] = (),
    names: Collection[str] = (),
    then: Callable[[Any, Any], None] = lambda *_: None,
) -> int:
    """Set every run of these deployments in these states, expected before this time, to another state; `but`: the ids
    of those that are left as they are; `names`: of the states, where not all of a type are meant; `then`: called with
    each run that was, and its new state."""
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterDeploymentId,
        FlowRunFilterExpectedStartTime,
        FlowRunFilterState,
        FlowRunFilterStateName,
    )

    wanted = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[deployment.id for deployment in deployments]),
        state=FlowRunFilterState(type=states, name=FlowRunFilterStateName(any_=[*names]) if names else None),
        expected_start_time=None if before is None else FlowRunFilterExpectedStartTime(before_=before),
    )
    ended = 0
    if not deployments:
        return ended
    left = 0
    while found := client.read_flow_runs(flow_run_filter=wanted, offset=left):  # some hundred at a time
        for run in found:
            if str(run.id) in but:
                left += 1
                continue
            client.set_flow_run_state(run.id, ending, force=True)
            then(run, ending)
            ended += 1
    return ended
