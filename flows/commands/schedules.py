"""What lasts over restarts of `treasury serve`: schedules that a person paused stay paused, no run is left unended."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from flows.commands.prefect_access import prefect_home
from treasury.errors import AlreadyServed


@contextmanager
def serve_alone(address: str) -> Iterator[None]:
    """Be the one who serves on this Prefect home. Raises `AlreadyServed` that says where the other one is."""
    descriptor = os.open(prefect_home() / "treasury-serve.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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


def paused_slugs(client: Any) -> set[str]:
    """Slugs of the schedules of deployments that somebody paused."""
    return {
        schedule.slug
        for deployment in client.read_deployments()
        for schedule in deployment.schedules
        if schedule.slug is not None and (deployment.paused or not schedule.active)
    }


def end_left_runs(client: Any) -> tuple[int, int]:
    """End what nobody carries out: runs of a process that ended, and those whose time passed while nobody served.

    Returns how many of each. What a run did is in the ledger; started again, it sends nothing twice.
    """
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
    from prefect.client.schemas.objects import StateType
    from prefect.states import Cancelled, Crashed

    def runs(*types: StateType) -> list[Any]:
        wanted = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(types))))
        return [run for run in client.read_flow_runs(flow_run_filter=wanted) if run.deployment_id is not None]

    left = runs(StateType.RUNNING, StateType.PENDING, StateType.CANCELLING)
    for run in left:
        said = "its process ended before it did; what it sent is in the ledger, and it can be started again"
        client.set_flow_run_state(run.id, Crashed(message=said), force=True)
    now = datetime.now(UTC)
    missed = [run for run in runs(StateType.SCHEDULED) if run.auto_scheduled and run.expected_start_time < now]
    for run in missed:
        said = "nobody served at its time; start it by hand if it is wanted"
        client.set_flow_run_state(run.id, Cancelled(name="Missed", message=said), force=True)
    return len(left), len(missed)
