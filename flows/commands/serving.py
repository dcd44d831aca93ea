"""`treasury serve`: Prefect's server and dashboard, and the deployments of `prefect.yaml` with their schedules."""

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from flows.commands.alarms import serve_alarms, telling
from flows.commands.common import DONE, configured_desk
from flows.commands.deployments import build_deployments, read_deployments, without_policy
from flows.commands.metrics import serving_metrics
from flows.commands.prefect_server import (
    CLIENT_AUTH,
    SERVER_AUTH,
    START_SECONDS,
    access_of,
    answers,
    configured,
    configured_api,
    kept_password,
    pages_folder,
    password_file,
    prepare_environment,
    remember_server,
)
from flows.commands.schedules import (
    end_abandoned_runs,
    end_missed_runs,
    hooks_of_crashed,
    install_inactive,
    our_deployments,
    paused_by_people,
    paused_slugs,
    serve_alone,
)
from treasury.clock import MACHINE
from treasury.concurrency.children import child, importing_ours
from treasury.errors import ConfigurationError
from treasury.private_files import close_to_others
from treasury.settings import read_settings
from treasury.texts import count_of

DASHBOARD_PORT = 4200


def serve(*, port: int = DASHBOARD_PORT, metrics: str | None = None) -> int:
    """Serve the deployments with their schedules until Ctrl-C.

    Starts Prefect's server and dashboard too, unless PREFECT_API_URL names one.

    Parameters
    ----------
    port:
        The port of the dashboard.
    metrics:
        A port for Prometheus (`/metrics`), or HOST:PORT; 0 takes a free one. Left out: no metrics.

    """
    # A shell that starts this process in the background ignores interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    for name in ("stdout", "stderr"):
        setattr(sys, name, _Outliving(getattr(sys, name)))
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO")
    prepare_environment()
    os.environ.update(importing_ours(os.environ))  # for the processes of its runs
    is_own = configured_api() is None
    where = configured_api() or f"http://127.0.0.1:{port}"
    measured = serving_metrics(metrics, configured_desk)
    with serve_alone(where), measured, _server(port), _listener(), telling(), suppress(KeyboardInterrupt):
        from prefect.client.orchestration import get_client
        from prefect.runner import Runner

        from blocks import BLOCKS

        for block in BLOCKS:
            block.register_type_and_schema()
        with get_client(sync_client=True) as client:
            ours = our_deployments(client, {each["entrypoint"] for each in read_deployments()})
            # Race: on a shared server, another machine may be executing them.
            crashed = end_abandoned_runs(client, ours, hooks_of_crashed(ours)) if is_own else 0
            missed = end_missed_runs(client, ours)
            serve_alarms(client)
        if crashed or missed:
            print(
                f"  marked as crashed: {count_of(crashed, 'run')} of a process that ended; as missed: {missed}",
                flush=True,
            )
        # A schedule that is paused at shutdown would look as if a person had paused it.
        runner = Runner(pause_on_shutdown=False)
        # Prefect's own handler of SIGTERM leaves the runner half stopped; an interrupt ends it in order.
        setattr(runner, "handle_sigterm", _interrupt)  # noqa: B010
        waiting = without_policy()
        paused = paused_by_people(paused_slugs(ours))
        install_inactive(waiting - paused)
        if waiting:
            print("  no policy is in force: what moves money is not scheduled (treasury policy adopt FILE --by NAME)")
        for deployment in build_deployments(paused | waiting):
            runner.add_deployment(deployment)
            print(f"  {deployment.flow_name}/{deployment.name}", flush=True)
        print("serving; Ctrl-C ends it", flush=True)
        asyncio.run(runner.start())
    return DONE


class _Outliving:
    """A stream that goes on, into nothing, when its reader has gone; so do the processes that are started then."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or lose it."""
        return int(self._do(lambda: self._stream.write(text)) or len(text))

    def flush(self) -> None:
        """Flush what can be."""
        self._do(self._stream.flush)

    def _do(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except BrokenPipeError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self._stream.fileno())
            os.close(nothing)
            return None


def _interrupt(*_: object) -> None:
    signal.raise_signal(signal.SIGINT)


@contextmanager
def _server(port: int) -> Iterator[None]:
    """Keep a Prefect server with its dashboard running; it ends with this process."""
    if configured_api() is not None:
        yield
        return
    _check_free(port)
    url = f"http://127.0.0.1:{port}/api"
    is_kept = configured(SERVER_AUTH) is None and configured(CLIENT_AUTH) is None
    os.environ.update(access_of(port, kept_password() if is_kept else ""))
    # What it logs of a database that is busy is tried again, and ends it where the reader of its output has gone.
    arguments = ["server", "start", "--host", "127.0.0.1", "--port", str(port), "--log-level", "CRITICAL"]
    os.environ["PREFECT_API_URL"] = url  # before Prefect is imported, which reads it once
    with _kept("Prefect's server", "prefect", arguments) as ended:
        deadline = MACHINE.monotonic() + START_SECONDS
        while not answers(f"{url}/health"):
            if ended.is_set() or MACHINE.monotonic() > deadline:
                raise ConfigurationError(f"Prefect's server did not start on port {port}; is the port free?")
            MACHINE.sleep(0.2)
        if is_kept:
            remember_server(url)
        close_to_others(pages_folder().rglob("*"))  # Prefect copies them with the modes of the installation
        place = f"the one line of {password_file()}" if is_kept else f"what {SERVER_AUTH} says"
        print(f"dashboard at http://127.0.0.1:{port}; its password is {place}", flush=True)
        yield


RESTART_SECONDS = 10.0
"""A process that ended is started again after so long."""


@contextmanager
def _listener() -> Iterator[None]:
    """Receive notifications beside the runs, where payments name an address for them; ends with this process."""
    settings = read_settings()
    if settings.notify_url is None:
        yield
        return
    if settings.platform_key_file is None or not settings.has_account:
        print("  notifications are not received: no platform key is connected (treasury connect --platform-key FILE)")
        yield
        return
    with _kept("`treasury listen`", "flows", ["listen"]):
        yield


@contextmanager
def _kept(name: str, module: str, arguments: Sequence[str]) -> Iterator[threading.Event]:
    """Keep a process running until this block ends; yields an event that is set once it ended on its own."""
    over, ended = threading.Event(), threading.Event()

    def keep() -> None:
        while not over.is_set():
            with child(module, arguments) as process:
                while process.poll() is None and not over.wait(1):
                    pass
            if not over.is_set():
                ended.set()
                print(f"  {name} ended with code {process.returncode}, and is started again", flush=True)
                over.wait(RESTART_SECONDS)

    keeper = threading.Thread(target=keep, name=module)
    keeper.start()
    try:
        yield ended
    finally:
        over.set()
        keeper.join()


def _check_free(port: int) -> None:
    """Raise `ConfigurationError` when another process listens there: it would receive the password."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            raise ConfigurationError(f"port {port} is not free: another --port, or end what listens there") from None
