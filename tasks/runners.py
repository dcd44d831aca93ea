"""Who carries out the parts of a flow: threads, processes beside this one, or a Dask cluster, by the settings."""

import importlib
import logging
import multiprocessing
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from prefect import Task
from prefect.client.orchestration import get_client
from prefect.futures import PrefectFuture
from prefect.states import Crashed
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner, ThreadPoolTaskRunner
from prefect.utilities.engine import collect_task_run_inputs_sync

from treasury.clock import MACHINE
from treasury.concurrency.children import end_with_starter
from treasury.errors import ConfigurationError
from treasury.settings import read_settings

LARGE = 10_000
"""Items from which on processes are worth their start: two seconds of a core for each."""

THREADS = 2
"""Parts that threads of one process work on at once: while one ends, the other uses the connections."""


class WorkerProcesses(ProcessPoolTaskRunner):
    """Prefect's process pool. Its processes end with the one that started them, even when that is killed."""

    def __init__(self, max_workers: int | None = None) -> None:
        super().__init__(max_workers, initializer=_begin)

    def start(self, module: str) -> None:
        """Start the processes now, while the flow goes on, and import the module of its tasks; else a task does.

        Not when it is entered: each task enters the runner of its flow again, in its own process.
        """
        assert self._executor is not None
        for _ in range(self._max_workers):
            self._executor.submit(_import, module)


def _import(module: str) -> None:
    importlib.import_module(module)  # a process of the pool returns no module


def _begin() -> None:
    """Let a process of the pool end as it should."""
    end_with_starter()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts all processes; the starter alone decides
    logging.getLogger("stamina").setLevel(logging.ERROR)  # as in a command


@contextmanager
def running(items: int, module: str) -> Iterator[TaskRunner[Any]]:
    """Run the task runner for about so many items, of which any may be cut off: an error kills its processes.

    `module`: where its tasks stand.
    """
    others = multiprocessing.active_children()
    with runner_for(items) as runner:
        if isinstance(runner, WorkerProcesses):
            runner.start(module)
        try:
            yield runner
        except BaseException:
            for each in multiprocessing.active_children() if isinstance(runner, WorkerProcesses) else ():
                if each not in others:
                    each.kill()
            raise


def runner_for(items: int) -> TaskRunner[Any]:
    """Return the task runner for about so many items. Raises `ConfigurationError`."""
    settings = read_settings()
    by_size = "processes" if items >= LARGE and settings.processes > 1 else "threads"
    match settings.runner or by_size:
        case "threads":
            return ThreadPoolTaskRunner(THREADS)
        case "processes":
            return WorkerProcesses(max(1, settings.processes - 1))  # this process is one of them
    return _dask(settings.dask_scheduler, settings.processes)


def _dask(scheduler: str | None, workers: int) -> TaskRunner[Any]:
    try:
        from prefect_dask import DaskTaskRunner
    except ImportError:
        said = "TREASURY_RUNNER is dask, and prefect-dask is not there: pip install 'treasury-flows[dask]'"
        raise ConfigurationError(f"{said}; nothing was sent") from None
    here = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    given: dict[str, Any] = {"cluster_kwargs": here} if scheduler is None else {"address": scheduler}
    return cast(TaskRunner[Any], DaskTaskRunner(**given))


def submitted(runner: TaskRunner[Any], task: Task[..., Any], after: Any, **parameters: Any) -> PrefectFuture[Any]:
    """Submit a task whose first parameter follows from the result of another, which makes an edge of the graph."""
    first = next(iter(parameters))
    inputs: dict[str, Any] = {first: collect_task_run_inputs_sync(after)}
    return cast(PrefectFuture[Any], runner.submit(task, parameters, dependencies=inputs))


def is_lost(future: PrefectFuture[Any]) -> bool:
    """Wait for a task; True where its worker was lost. Raises the task's own error."""
    try:
        future.wait()
    except Exception:  # a task's own error is in its state; this is one of the runner
        return True
    if future.state.is_crashed():
        return True
    future.state.result()
    return False


SHOWN_SECONDS = 5.0
"""Prefect's server hears late of a task that began: how long it is waited for."""


def show_lost(futures: Iterable[PrefectFuture[Any]]) -> None:
    """Show tasks whose workers were lost as crashed: they would be shown as running for ever."""
    until = MACHINE.monotonic() + SHOWN_SECONDS
    for future in futures:
        while not _shown_as_crashed(future) and MACHINE.monotonic() < until:
            MACHINE.sleep(0.2)


def _shown_as_crashed(future: PrefectFuture[Any]) -> bool:
    try:
        with get_client(sync_client=True) as client:
            client.set_task_run_state(future.task_run_id, Crashed(message="its worker was lost"), force=True)
    except Exception:  # nothing of what is shown changes the run, whatever goes wrong
        return False
    return True
