"""A Prefect API for the flows of one command: the one that is configured, else one of our own that dies with us."""

import fcntl
import importlib
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from flows.commands.prefect_access import (
    CLIENT_AUTH,
    access_of,
    changed_environment,
    configured,
    identification,
    new_password,
    pages_folder,
    prefect_home,
    use_kept_password,
)
from treasury.clock import MACHINE
from treasury.concurrency.children import child
from treasury.errors import ConfigurationError, TreasuryError
from treasury.private_files import close_to_others, make_folder

START_SECONDS = 120
"""Four first starts at once on one fresh home wait for each other's migration."""

SILENT_SECONDS = 60
"""How long a configured server that takes a question may be silent; where none is, a connection is refused at once."""

QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # A failed flow reaches the person as one line of ours, not as Prefect's traceback; so does what the embedded server
    # could not write in time ("Error flushing 1 events"), which its own retry writes later.
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    # Else each event is printed whole that a server which ended did not get.
    "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    # Of commands that run beside each other on a slow disk one waits for the other, and longer than Prefect's 10 s.
    "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
}


class PrefectDidNotStart(TreasuryError):
    """The embedded server did not answer; nothing was sent."""


class PrefectEnded(TreasuryError):
    """The server ended while a flow ran; what the flow did stands in the ledger."""


def configured_api() -> str | None:
    """The Prefect API that environment or active profile name."""
    return configured("PREFECT_API_URL")


def prepare_environment() -> None:
    """Return what must be set before Prefect is imported. What the operator set stays."""
    home = prefect_home()
    make_folder(home)
    close_to_others([home, *home.iterdir()])  # others cannot go deeper then
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    # Prefect would copy its pages beside its own code, where the next user of this installation could not read them.
    os.environ.setdefault("PREFECT_UI_STATIC_DIRECTORY", str(pages_folder()))
    use_kept_password()


@contextmanager
def prefect_api(*meanwhile: str) -> Iterator[None]:
    """Run flows of this block against a Prefect API. An embedded one needs no service and leaves none behind.

    `meanwhile`: modules that the flow needs, imported while an embedded one starts; both take seconds.
    """
    prepare_environment()
    api = configured_api()
    if api is not None:
        if not answers(f"{api}/health", SILENT_SECONDS):
            raise ConfigurationError(f"no Prefect server answers at {api}; nothing was sent")
        _check_password(api)
        with _told_if_it_ends():
            yield
        return
    print("starting Prefect ...", flush=True)
    port = free_port()
    # Set before Prefect is imported: it reads this once, and without it would start a server of its own beside ours.
    changes = {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api", **access_of(port, new_password())}
    with changed_environment(changes), _first_start(), _embedded_server(port, meanwhile), _told_if_it_ends():
        yield


@contextmanager
def _told_if_it_ends() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        from httpx import TransportError  # Prefect's own; the service's are errors of ours

        if not isinstance(error, TransportError):
            raise
        raise PrefectEnded(
            f"Prefect's server does not answer any more ({type(error).__name__}): start the same command again; what "
            "was sent stands in the ledger, and nothing is sent twice"
        ) from None


@contextmanager
def _embedded_server(port: int, meanwhile: Iterable[str]) -> Iterator[None]:
    arguments = ["--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1", "--port", str(port)]
    environ = os.environ | {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    with child("uvicorn", [*arguments, "--log-level", "critical", "--lifespan", "on"], environ) as process:
        for module in ("prefect", *meanwhile):
            importlib.import_module(module)
        url = os.environ["PREFECT_API_URL"]
        deadline = MACHINE.monotonic() + START_SECONDS
        while not (answers(f"{url}/health") and _is_ready()):
            if process.poll() is not None or MACHINE.monotonic() > deadline:
                raise PrefectDidNotStart(
                    f"Prefect's embedded server did not start within {START_SECONDS} s; nothing was sent: start again"
                )
            MACHINE.sleep(0.05)
        _release_first_start()
        try:
            yield
        finally:
            from tasks.run_log import flush_run_log

            flush_run_log()


def _is_ready() -> bool:
    """Tell whether Prefect's own client reaches the server: it asks once a process, and gives up for good if it does
    not."""
    from prefect.client.orchestration import get_client

    try:
        with get_client(sync_client=True) as client:
            client.raise_for_api_version_mismatch_once()
    except (RuntimeError, OSError):
        return False
    return True


def _check_password(api: str) -> None:
    """Raise `ConfigurationError` when a server wants a password that is not the one we have."""
    if configured("PREFECT_API_KEY") is not None:
        return
    request = urllib.request.Request(f"{api}/version", headers=identification(api))  # noqa: S310 - of ours, or the operator's
    try:
        with urllib.request.urlopen(request, timeout=5):  # noqa: S310 - the same
            return
    except urllib.error.HTTPError as error:
        if error.code == 401:
            raise ConfigurationError(
                f"the Prefect server at {api} asks for a password: set {CLIENT_AUTH}; nothing was sent"
            ) from None
    except (urllib.error.URLError, OSError, ValueError):
        return


def answers(url: str, seconds: float = 5) -> bool:
    """Tell whether a server is there and answers in time; one that asks who we are is."""
    try:
        with urllib.request.urlopen(url, timeout=seconds):  # noqa: S310 - a server of ours, or one the operator named
            return True
    except urllib.error.HTTPError:
        return True
    except (urllib.error.URLError, OSError, ValueError):
        return False


_starting: list[int] = []


@contextmanager
def _first_start() -> Iterator[None]:
    """Let one server at a time start on this Prefect home: two first starts race in its migration."""
    descriptor = os.open(prefect_home() / "treasury-start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    _starting.append(descriptor)
    try:
        yield
    finally:
        _release_first_start()


def _release_first_start() -> None:
    while _starting:
        os.close(_starting.pop())


def free_port() -> int:
    """A free loopback port outside 8000-8999, where Prefect picks its own."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if not 8000 <= port <= 8999:
            return port
