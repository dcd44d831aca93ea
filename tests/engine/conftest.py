"""Real parts for the engine's tests: SQLite and PostgreSQL ledgers, the sandbox, and a service that answers to plan."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import stamina

from tests.engine.planned import PARTNER_ID, PlannedService
from tests.moved_clock import START, MovedClock
from treasury.clock import Clock
from treasury.ledger.ledger import Ledger
from treasury.payments.desk import Desk
from treasury.provider.client import Account
from treasury.provider.service_rules import ServiceRules
from treasury.sandbox import RunningSandbox, SandboxClock, SandboxSettings, running_sandbox
from treasury.settings import Settings


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> MovedClock:
    """The clock of every desk, ledger and service of a test in this process. It stands still, and nobody really sleeps.

    Marked with `RUNS` it goes with the machine's.
    """
    return MovedClock(None if getattr(request, "param", "stands still") == "runs" else START)


@pytest.fixture(scope="session")
def keys(treasury_keys: tuple[str, str]) -> tuple[str, str]:
    return treasury_keys


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return str(request.getfixturevalue("postgres")())


@pytest.fixture
def one_attempt() -> Iterator[None]:
    """Each question is asked once, and not again after a failure."""
    stamina.set_testing(True, attempts=1)
    yield
    stamina.set_testing(False)


@pytest.fixture
def open_ledger(ledger_url: str, tmp_path: Path, clock: Clock) -> Iterator[Callable[..., Ledger]]:
    """Opens the ledger of this test, as often as asked, as another process would."""
    with ExitStack() as opened:

        def open_one(account: str = "http://127.0.0.1:1|1", key: str = "ledger.key", **options: Any) -> Ledger:
            ledger = Ledger(ledger_url, account, tmp_path / key, **{"clock": clock, **options})
            opened.callback(ledger.close)
            return ledger

        yield open_one


@pytest.fixture
def open_desk(ledger_url: str, tmp_path: Path, keys: tuple[str, str], clock: Clock) -> Iterator[Callable[..., Desk]]:
    """Opens a desk at a base URL; its waits are short."""
    with ExitStack() as opened:

        def open_one(
            base_url: str,
            *,
            resend_after: float = 0.0,
            ledger: str | None = None,
            unconfirmed: set[int] | None = None,
            service: ServiceRules = ServiceRules(),
            **more: Any,
        ) -> Desk:
            settings = Settings(
                home=tmp_path,
                base_url=base_url,
                partner_id=PARTNER_ID,
                private_key_file=None,
                platform_key_file=None,
                ledger_url=ledger or ledger_url,
                ledger_key_file=tmp_path / "ledger.key",
                resend_after_seconds=resend_after,
                **more,
            )
            rules = service.model_copy(update={"unconfirmed_statuses": frozenset(unconfirmed or ())})
            desk = Desk(Account(base_url, PARTNER_ID, keys[0], rules=rules), settings, clock=clock)
            opened.callback(desk.close)
            return desk

        yield open_one


@pytest.fixture
def start_sandbox(keys: tuple[str, str], clock: Clock) -> Iterator[Callable[..., RunningSandbox]]:
    with ExitStack() as running:

        def start(**settings: Any) -> RunningSandbox:
            settings = {"partner_id": PARTNER_ID, "public_key": keys[1], "settle_seconds": 0.2, **settings}
            return running.enter_context(running_sandbox(SandboxSettings(**settings), SandboxClock(clock)))

        yield start


@pytest.fixture
def service(clock: Clock) -> Iterator[PlannedService]:
    planned = PlannedService(clock)
    yield planned
    planned.close()
