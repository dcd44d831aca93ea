"""What the outer tests share: keys, sandboxes, one Prefect server, and the `treasury` command as a real process."""

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from flows.commands.prefect_server import free_port
from tests.commands.office import Office, eventually
from treasury.concurrency.children import child
from treasury.sandbox import RunningSandbox

pytest_plugins = ["treasury.testing"]

_reserved = socket.socket()
_reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
_reserved.bind(("127.0.0.1", free_port()))
"""The port of the Prefect server, which starts minutes later: bound and not listened at, so nobody else gets it."""

# Before anybody imports Prefect: it reads these once, and must neither find nor touch a developer's own.
for name in [name for name in os.environ if name.startswith(("PREFECT_", "TREASURY_"))]:
    del os.environ[name]
os.environ.update(
    {
        "PREFECT_HOME": tempfile.mkdtemp(prefix="treasury-tests-prefect-"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        # Known from the start: Prefect's threads keep what was set at its import, else start a server of their own.
        "PREFECT_API_URL": f"http://127.0.0.1:{_reserved.getsockname()[1]}/api",
    }
)


SLOW = ("browser", "commands", "crash", "fuzz", "matrix", "packaging")
"""Folders of tests that start processes of their own; `make quick` leaves them out."""

MISSING = ("strace is not installed", "chromium is not installed", "PostgreSQL")
"""Reasons of skipped tests that say what a machine lacks; with ALL_TESTS set they fail the run, as in `.ci/run`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes long by where it stands."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in SLOW:
            item.add_marker("slow")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that had to have all tests and could not."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("ALL_TESTS") or reporter is None:
        return
    reasons = [str(report.longrepr) for report in reporter.stats.get("skipped", [])]
    lacking = [reason for reason in reasons if any(missing in reason for missing in MISSING)]
    if lacking:
        print(f"\nALL_TESTS: {len(lacking)} tests were skipped for what this machine lacks")
        session.exitstatus = 1


@pytest.fixture(scope="session", autouse=True)
def _clean_up() -> Iterator[None]:
    """Prefect's home of these tests goes with them."""
    import shutil

    yield
    _reserved.close()
    shutil.rmtree(os.environ["PREFECT_HOME"], ignore_errors=True)


@pytest.fixture(scope="session")
def key_pair(treasury_keys: tuple[str, str]) -> tuple[str, str]:
    """The partner's private and public key."""
    return treasury_keys


@pytest.fixture(scope="session")
def key_file(treasury_key_file: Path) -> Path:
    """The private key, where commands find it."""
    return treasury_key_file


@pytest.fixture(scope="session")
def open_sandbox(open_treasury_sandbox: Callable[..., RunningSandbox]) -> Callable[..., RunningSandbox]:
    """Starts sandboxes in this process, which end with the session."""
    return open_treasury_sandbox


@pytest.fixture(scope="session")
def prefect_url() -> Iterator[str]:
    """One Prefect server for all tests: it takes seconds to start."""
    url = os.environ["PREFECT_API_URL"]
    port = url.removesuffix("/api").rpartition(":")[2]
    arguments = ["--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1", "--port", port]
    environ = os.environ | {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    with child("uvicorn", [*arguments, "--log-level", "critical", "--lifespan", "on"], environ) as process:
        eventually(lambda: answers(f"{url}/health") or process.poll() is not None, 120)
        assert process.poll() is None, "Prefect's server did not start"
        yield url


def answers(url: str) -> bool:
    """Whether something answers there."""
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="session")
def open_office(
    key_file: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[..., Office]:
    """Opens homes of `treasury`, each with an account at the sandbox it is given."""

    def open_one(base_url: str, *, prefect: bool = True, **environ: str) -> Office:
        home = tmp_path_factory.mktemp("office")
        url = request.getfixturevalue("prefect_url") if prefect else None
        return Office(home, base_url, key_file, url, environ)

    return open_one
