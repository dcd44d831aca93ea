"""Parts that the outer tests share: keys, sandboxes, one Prefect server, and the `treasury` command as a real
process."""

import gc
import importlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import certifi
import pytest
from hypothesis import settings

import flows
from tests.commands.office import Office
from tests.moved_clock import MovedClock
from tests.parts import new_database
from tests.proofs import ALL
from tests.servers import Servers, await_server, use_memory
from treasury.clock import MACHINE, Clock
from treasury.sandbox import RunningSandbox

pytest_plugins = ["treasury.testing", "tests.costs"]

gc.disable()  # until all is collected: next to nothing that is imported becomes garbage

settings.register_profile("no deadline", deadline=None)  # of a busy machine each example takes as long as it takes
settings.load_profile("no deadline")

END = "-----END CERTIFICATE-----\n"

_servers: Servers | None = None
"""Held by the process that was started first; workers of pytest-xdist ask it."""

# Before anybody imports Prefect: it reads these once, and must neither find nor touch a developer's own.
if "PYTEST_XDIST_WORKER" not in os.environ:
    use_memory()
    for name in [name for name in os.environ if name.startswith(("PREFECT_", "TREASURY_"))]:
        del os.environ[name]
    # Known from the start: Prefect's threads keep what was set at its import, else start a server of their own.
    _servers = Servers()
    os.environ.update(_servers.environ)
HOME = Path(tempfile.mkdtemp(prefix="treasury-tests-prefect-"))
# Every HTTP client reads all authorities that it trusts, for 10 to 30 ms; the tests open thousands, and one is enough
# for addresses without TLS.
(HOME / "authority.pem").write_text("".join(Path(certifi.where()).read_text("utf-8").partition(END)[:2]))
(HOME / "authorities").mkdir()
os.environ.update(
    {
        "PREFECT_HOME": str(HOME),
        "SSL_CERT_FILE": str(HOME / "authority.pem"),
        "SSL_CERT_DIR": str(HOME / "authorities"),  # pyreqwest reads both
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",  # each flow run asks for a token that the server does not want
    }
)

SLOW = ("browser", "commands", "crash", "fuzz", "matrix", "packaging")
"""Folders of tests that start processes of their own; `make quick` leaves them out."""

THOROUGH = (
    # Folders: many examples, the sandbox itself, or both HTTP engines.
    *("http_engine/", "machine/", "sandbox/"),
    # Drawn pages, thousands of random ledgers, and what starts an interpreter for one assertion.
    *("reports/test_page.py", "reconciliation/test_naive.py"),
    "planning/test_conversions.py",
    "reconciliation/test_reconciliation.py::test_every_pair_of_both_sides_has_a_class",
)
"""Folders of tests that take seconds each and fail seldom while one works; `make quick` leaves them out too."""

CORE = tuple(
    f"engine/test_{name}.py"
    for name in ("clocks", "doubts", "known_quotes", "quoted", "sending", "states", "submission", "witnesses")
)
"""Of the engine, with its ledgers and services, `make quick` runs these: one payment, sent and asked about."""

MISSING = ("is not installed", "could not import")
"""In reasons of skipped tests that say what a machine lacks; with ALL_TESTS set they fail the run, as in `.ci/run`."""


def _proof(item: pytest.Item) -> bool:
    """Return True for a test that only `make proofs` runs; on PostgreSQL, all but those marked `both_databases`."""
    return item.get_closest_marker("proof") is not None or (
        _is_on_postgresql(item) and item.get_closest_marker("both_databases") is None
    )


def _is_on_postgresql(item: pytest.Item) -> bool:
    return hasattr(item, "callspec") and item.callspec.params.get("ledger_url") == "postgresql"


def _repeated(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield what `make proofs` alone runs of tests marked `every(n)`: all but each n-th case, on each database."""
    seen: Counter[tuple[str, bool]] = Counter()
    for item in items:
        if (marker := item.get_closest_marker("every")) is not None and hasattr(item, "callspec"):
            test = item.nodeid.partition("[")[0], _is_on_postgresql(item)
            if seen[test] % marker.args[0]:
                yield item
            seen[test] += 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for `make proofs`; mark what takes long by where it stands, and begin with it."""
    left_out = {
        item
        for item in items
        if (_proof(item) and not ALL) or (_is_on_postgresql(item) and item.get_closest_marker("sqlite_alone"))
    }
    if not ALL:
        left_out |= set(_repeated([item for item in items if item not in left_out]))
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
    here = Path(__file__).parent
    lost = [place for place in (*THOROUGH, *CORE) if not (here / place.partition("::")[0]).exists()]
    assert not lost, f"tests/conftest.py names what is no more: {lost}"
    for item in items:
        place = item.path.relative_to(here)
        if place.parts[0] in SLOW:
            item.add_marker("slow")
        name = f"{place}::{item.name}"
        if name.startswith(THOROUGH) or (place.parts[0] == "engine" and not name.startswith(CORE)):
            item.add_marker("thorough")
    _mix(items, here)


def _mix(items: list[pytest.Item], here: Path) -> None:
    """Alternate between files that wait for other processes and files that compute, from the first to the last.

    The processors are then busy from the start to the end.
    """
    files = dict.fromkeys(item.path for item in items)
    waiting = [file for file in files if file.relative_to(here).parts[0] in (*SLOW, "flows")]
    computing = [file for file in files if file not in waiting]
    places = {file: place / len(group) for group in (waiting, computing) for place, file in enumerate(group)}
    items.sort(key=lambda item: (places[item.path], str(item.path)))


def pytest_collection_finish() -> None:
    """Look for garbage less often, and not in what stays until the end: that took a quarter of all time."""
    gc.enable()
    gc.set_threshold(10_000, 20, 20)
    gc.collect()
    gc.freeze()


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


def pytest_unconfigure() -> None:
    """End the servers, and remove Prefect's homes."""
    if _servers is not None:
        _servers.close()
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def key_pair(treasury_keys: tuple[str, str]) -> tuple[str, str]:
    """The partner's private and public key."""
    return treasury_keys


@pytest.fixture(scope="session")
def key_file(treasury_key_file: Path) -> Path:
    """The private key, where commands find it."""
    return treasury_key_file


@pytest.fixture(scope="module")
def shared_clock(request: pytest.FixtureRequest) -> Clock:
    """The clock of a module's sandboxes, and of the commands that run in the tests' own process."""
    return MACHINE if request.node.get_closest_marker("no_real_pauses") is None else MovedClock(None, skips=True)


@pytest.fixture(scope="module")
def open_sandbox(
    open_treasury_sandbox: Callable[..., RunningSandbox], shared_clock: Clock
) -> Callable[..., RunningSandbox]:
    """Starts sandboxes in this process, which end with the module."""
    return partial(open_treasury_sandbox, clock=shared_clock)


@pytest.fixture(scope="session")
def prefect_url() -> str:
    """The address of the one Prefect server of all tests of all processes."""
    from tests.costs import once  # pytest imports it first, as a plugin

    with once():
        for module in ("pandas", *(f"flows.{file.stem}" for file in Path(flows.__file__).parent.glob("[a-z]*.py"))):
            importlib.import_module(module)
        gc.freeze()
    # A flow run in this process ends as much as a second later for them; no variable turns them off.
    importlib.import_module("prefect.settings").get_current_settings().flows.heartbeat_frequency = None
    # Each flow run asks the server three times, each time with a client of its own, where results are kept: nowhere.
    vars(importlib.import_module("prefect.results"))["_read_server_default_result_storage_block_id"] = lambda: None
    return await_server("prefect")


@pytest.fixture(scope="session")
def postgres() -> Callable[..., str]:
    """Makes a database on the one PostgreSQL server of all processes; `empty=True`: without a ledger's tables."""
    return partial(new_database, await_server("postgresql"))


@pytest.fixture(scope="module")
def open_office(
    key_file: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, shared_clock: Clock
) -> Callable[..., Office]:
    """Opens homes of `treasury`, each with an account at the sandbox it is given.

    `prefect`: it uses the shared server. `own_prefect`: its servers have a folder to themselves, with empty tables.
    """

    def open_one(base_url: str, *, prefect: bool = True, own_prefect: bool = False, **environ: str) -> Office:
        home = tmp_path_factory.mktemp("office")
        if own_prefect:
            (home / "prefect").mkdir(mode=0o700)
            shutil.copy(await_server("prefect.db"), home / "prefect")
            environ = {"PREFECT_HOME": str(home / "prefect"), **environ}
            prefect = False
        url = request.getfixturevalue("prefect_url") if prefect else None
        return Office(home, base_url, key_file, url, environ, shared_clock)

    return open_one
