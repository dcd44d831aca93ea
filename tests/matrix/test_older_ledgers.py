"""A ledger that knows less than the service: at most one effect a row, and no paid row is called anything else.

Every way in which a ledger comes to be older, against every kind of payment, at three kinds of service: one that
refuses a repeated reference, one that answers it with the first order, one that acts again.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests import parts
from tests.crash.oracle import judge
from tests.crash.payments import KINDS, PARTNER_ID, Kind, ask_quotes, make_kind
from tests.matrix.faulty import open_short_desk
from tests.moved_clock import MovedClock
from tests.proofs import ALL
from treasury.errors import InputError
from treasury.orders.states import Hold, State
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders, resolve_as_sent
from treasury.provider.client import Account, Client
from treasury.sandbox import RunningSandbox, SandboxClock, SandboxSettings, running_sandbox

pytestmark = pytest.mark.every(2)

NAMES = (*KINDS, "confirmation") if ALL else ("payout", "fiat_payout")
SERVICES = {"refuses": {}, "answers first": {"repeat_answers_first": 1.0}, "acts again": {"repeat_acts": 1.0}}
ACCIDENTS = ("home restored", "ledger copied back", "ledger lost", "home lost", "another home")
WITHOUT_A_SECOND_EFFECT = {"refuses": ACCIDENTS[::2], "answers first": ACCIDENTS[1::2]}
"""The accidents of `make test` at services that would not show a second payment; the third would, and has them all."""
ON_SQLITE = [
    (name, service, accident)
    for name in NAMES
    for service in SERVICES
    for accident in ACCIDENTS
    if ALL or service == "acts again" or (name == "payout" and accident in WITHOUT_A_SECOND_EFFECT[service])
]
ON_POSTGRESQL = ("database restored", "database recreated")
PERSON = {"by": "Ada Example", "why": "looked at the portal"}


class Trial:
    """One kind of payment: a start that sends nothing, a start that pays, an accident, starts after it."""

    def __init__(
        self, name: str, sandbox: RunningSandbox, clock: MovedClock, folder: Path, key: str, ledger_url: str | None
    ) -> None:
        self.sandbox, self.key, self.clock = sandbox, key, clock
        self.home, self.copies = folder / "home", folder / "copies"
        self.home.mkdir()
        self.ledger_url = ledger_url
        numbers: list[str] = []
        if name == "confirmation":
            with Client(Account(sandbox.base_url, PARTNER_ID, key), clock=clock) as client:
                numbers = ask_quotes(client)
        self.kind: Kind = make_kind(name, numbers)

    def open_desk(self) -> Desk:
        return open_short_desk(self.sandbox.base_url, self.home, self.key, ledger_url=self.ledger_url, clock=self.clock)

    def start(self, *, sends: bool = True) -> None:
        """Start the run, or every call of it; without `sends` its rows are recorded and nothing leaves."""
        desk = self.open_desk()
        if not sends:
            desk.client.account = Account("http://127.0.0.1:9", PARTNER_ID, self.key)  # nobody listens there
        try:
            self.kind.start(desk, self.home)
        finally:
            desk.close()

    def decide(self) -> None:
        """A person looks, releases what is held and says of what the service knows that it was sent."""
        desk = self.open_desk()
        try:
            for run_key in {order.run_key for order in desk.ledger.orders(states=(State.HELD,))}:
                for decide in (
                    lambda key: release_orders(desk, key, "older", **PERSON),
                    lambda key: resolve_as_sent(desk, key, **PERSON),
                ):
                    with suppress(InputError):
                        decide(run_key)
        finally:
            desk.close()

    def held(self) -> list[str | None]:
        desk = self.open_desk()
        try:
            return [order.hold_kind for order in desk.ledger.orders() if order.state is State.HELD]
        finally:
            desk.close()

    @property
    def url(self) -> str:
        return self.ledger_url or f"sqlite:///{self.home / 'ledger.db'}"

    def faults(self) -> list[str]:
        """Return what breaks the promise; a row that is held because the service knows it is told as what it is."""
        verdict = judge(self.url, self.sandbox.orders(), self.kind.rows)
        return [fault for fault in verdict.faults if "the ledger says held" not in fault]


def run_trial(trial: Trial, before: Callable[[], None], accident: Callable[[], None]) -> None:
    """The run pays, the accident happens, it is started again; then a person decides, and it is started to its end."""
    trial.start(sends=False)
    before()
    trial.start()
    rows = len(trial.kind.rows)
    assert sum(order["effects"] for order in trial.sandbox.orders()) == rows
    accident()
    trial.start()
    assert sum(order["effects"] for order in trial.sandbox.orders()) == rows
    assert trial.faults() == []
    assert set(trial.held()) <= set(Hold)
    for _ in range(3):
        trial.decide()
        trial.start()
    verdict = judge(trial.url, trial.sandbox.orders(), trial.kind.rows)
    assert (verdict.faults, verdict.states, verdict.effects) == ([], {"settled": rows}, rows)


@contextmanager
def open_trial(
    name: str, service: str, folder: Path, keys: tuple[str, str], ledger_url: str | None = None
) -> Iterator[Trial]:
    clock = MovedClock()
    settings = SandboxSettings(
        partner_id=PARTNER_ID, public_key=keys[1], settle_seconds=0.0, faults=dict(SERVICES[service])
    )
    with running_sandbox(settings, SandboxClock(clock)) as sandbox:
        yield Trial(name, sandbox, clock, folder, keys[0], ledger_url)


@pytest.mark.parametrize(("name", "service", "accident"), ON_SQLITE)
def test_a_sqlite_ledger_that_is_older_pays_nobody_twice(
    name: str, service: str, accident: str, tmp_path: Path, keys: tuple[str, str]
) -> None:
    with open_trial(name, service, tmp_path, keys) as trial:
        home, copy = trial.home, trial.copies / "home"

        def before() -> None:
            shutil.copytree(home, copy)

        def happens() -> None:
            if accident == "home restored":
                shutil.rmtree(home)
                shutil.copytree(copy, home)
            elif accident == "ledger copied back":
                copy_over(copy / "ledger.db", home / "ledger.db")
            elif accident == "ledger lost":
                for file in home.glob("ledger.db*"):
                    shutil.rmtree(file) if file.is_dir() else file.unlink()
            elif accident == "home lost":
                shutil.rmtree(home)
                home.mkdir()
            else:
                trial.home = tmp_path / "another"
                trial.home.mkdir()

        run_trial(trial, before, happens)


def copy_over(source: Path, target: Path) -> None:
    """A hot backup, copied back over the file that it was made of: the same file, with older content."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


@pytest.mark.parametrize("accident", ON_POSTGRESQL)
@pytest.mark.parametrize("service", SERVICES if ALL else ["acts again"])
@pytest.mark.parametrize("name", NAMES if ALL else ["fiat_payout"])
def test_a_postgresql_ledger_that_is_older_pays_nobody_twice(
    name: str, service: str, accident: str, tmp_path: Path, keys: tuple[str, str], postgres: Callable[..., str]
) -> None:
    url = postgres()
    with open_trial(name, service, tmp_path, keys, url) as trial:
        database = str(make_url(url).database)

        def before() -> None:
            parts.on_server(url, f"CREATE DATABASE {database}_copy TEMPLATE {database}")

        def happens() -> None:
            template = f"TEMPLATE {database}_copy" if accident == "database restored" else ""
            # Set aside, not dropped: dropping makes the server write all it has, which a busy machine may not survive.
            aside = f"ALTER DATABASE {database} RENAME TO {database}_before"
            parts.on_server(url, aside, f"CREATE DATABASE {database} {template}")

        run_trial(trial, before, happens)
