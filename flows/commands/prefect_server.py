"""A Prefect API for the flows of one command: the one that is configured, else one of our own that dies with us."""

import fcntl
import importlib
import os
import socket
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from treasury.children import child
from treasury.errors import ConfigurationError, TreasuryError

START_SECONDS = 120
"""Four first starts at once on one fresh home wait for each other's migration."""

QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # A failed flow reaches the person as one line of ours, not as Prefect's traceback.
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
}


class PrefectDidNotStart(TreasuryError):
    """The embedded server did not answer; nothing was sent."""


def prefect_home() -> Path:
    """Prefect's own folder."""
    return Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()


def configured_api() -> str | None:
    """The Prefect API that environment or active profile name."""
    if os.environ.get("PREFECT_API_URL"):
        return os.environ["PREFECT_API_URL"]
    try:
        profiles = tomllib.loads((prefect_home() / "profiles.toml").read_text(encoding="utf-8"))
        name = os.environ.get("PREFECT_PROFILE") or profiles.get("active", "")
        url = profiles.get("profiles", {}).get(name, {}).get("PREFECT_API_URL")
    except (OSError, tomllib.TOMLDecodeError):
        return None
    return str(url) if url else None


def prepare_environment() -> None:
    """What must be set before Prefect is imported. What the operator set stays."""
    prefect_home().mkdir(parents=True, exist_ok=True)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


@contextmanager
def prefect_api(*meanwhile: str) -> Iterator[None]:
    """Run flows of this block against a Prefect API. An embedded one needs no service and leaves none behind.

    `meanwhile`: modules that the flow needs, imported while an embedded one starts; both take seconds.
    """
    prepare_environment()
    configured = configured_api()
    if configured is not None:
        if not answers(f"{configured}/health"):
            raise ConfigurationError(f"no Prefect server answers at {configured}; nothing was sent")
        yield
        return
    print("starting Prefect ...", flush=True)
    port = free_port()
    # Set before Prefect is imported: it reads this once, and without it would start a server of its own beside ours.
    os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{port}/api"
    try:
        with _first_start(), _embedded_server(port, meanwhile):
            yield
    finally:
        del os.environ["PREFECT_API_URL"]


@contextmanager
def _embedded_server(port: int, meanwhile: Iterable[str]) -> Iterator[None]:
    arguments = ["--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1", "--port", str(port)]
    environ = os.environ | {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    with child("uvicorn", [*arguments, "--log-level", "critical", "--lifespan", "on"], environ) as process:
        for module in ("prefect", *meanwhile):
            importlib.import_module(module)
        url = os.environ["PREFECT_API_URL"]
        deadline = time.monotonic() + START_SECONDS
        while not answers(f"{url}/health"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise PrefectDidNotStart("Prefect's embedded server did not start; nothing was sent")
            time.sleep(0.05)
        _release_first_start()
        yield


def answers(url: str) -> bool:
    """Whether a server is there; one that asks who we are is."""
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - a server of ours, or one the operator named
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
