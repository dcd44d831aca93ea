"""Real parts for the engine's tests: SQLite and PostgreSQL ledgers, the sandbox, and a service that answers to plan."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench import parts
from tests import listening
from tests.listening import Listening
from treasury.ledger.ledger import Ledger
from treasury.provider.client import Account
from treasury.provider.service_rules import ServiceRules
from treasury.runs.desk import Desk
from treasury.sandbox import RunningSandbox, SandboxSettings, running_sandbox
from treasury.settings import Settings

PARTNER_ID = "900001"


@pytest.fixture(scope="session")
def keys(treasury_keys: tuple[str, str]) -> tuple[str, str]:
    return treasury_keys


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """A real PostgreSQL server; gives the URL of a new database at each call."""
    with parts.postgresql() as new_database:
        yield new_database


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return str(request.getfixturevalue("postgres")())


@pytest.fixture
def open_ledger(ledger_url: str, tmp_path: Path) -> Iterator[Callable[..., Ledger]]:
    """Opens the ledger of this test, as often as asked, as another process would."""
    with ExitStack() as opened:

        def open_one(account: str = "http://one|1", key: str = "ledger.key", **options: Any) -> Ledger:
            ledger = Ledger(ledger_url, account, tmp_path / key, **options)
            opened.callback(ledger.close)
            return ledger

        yield open_one


@pytest.fixture
def open_desk(ledger_url: str, tmp_path: Path, keys: tuple[str, str]) -> Iterator[Callable[..., Desk]]:
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
            desk = Desk(Account(base_url, PARTNER_ID, keys[0], rules=rules), settings)
            opened.callback(desk.close)
            return desk

        yield open_one


@pytest.fixture
def start_sandbox(keys: tuple[str, str]) -> Iterator[Callable[..., RunningSandbox]]:
    with ExitStack() as running:

        def start(**settings: Any) -> RunningSandbox:
            settings = {"partner_id": PARTNER_ID, "public_key": keys[1], "settle_seconds": 0.2, **settings}
            return running.enter_context(running_sandbox(SandboxSettings(**settings)))

        yield start


Answer = tuple[Any, ...] | str
"""HTTP status, body (bytes or JSON) and perhaps headers, or `drop`: close the connection without an answer."""


def _names(body: Mapping[str, Any]) -> set[Any]:
    """The references in a request."""
    return {body[name] for name in ("request_id", "xid", "order_no", "quoteId") if name in body}


class PlannedService:
    """A real HTTP service whose answers the test decides: path -> list of answers, the last one repeats."""

    def __init__(self) -> None:
        self.plans: dict[str, list[Answer | Callable[[Mapping[str, Any]], Answer]]] = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.knows_only_what_was_sent = False
        """Whether a query about a reference that nothing was sent under is answered with "no such order"."""
        self._guard = threading.Lock()
        self._listening = Listening(self._reply)
        self.base_url = self._listening.base_url

    def _reply(self, path: str, content: bytes) -> listening.Answer:
        answer = self.answer(path, json.loads(content))
        if isinstance(answer, str):  # drop
            return None
        status, body, *more = answer
        headers = {name: str(value) for name, value in (more[0] if more else {}).items()}
        return int(status), body if isinstance(body, bytes) else json.dumps(body).encode(), headers

    def plan(self, path: str, *answers: Answer | Callable[[Mapping[str, Any]], Answer]) -> None:
        self.plans[path] = list(answers)

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        with self._guard:
            asks = path.endswith(("order/query", "payouts/query"))
            if asks and self.knows_only_what_was_sent and not self._was_sent(body):
                return 200, {"code": 7000, "message": "ORDER_NOT_EXIST"}
            self.requests.append((path, body))
            plan = self.plans.get(path, [(200, {"code": 7000, "message": "ORDER_NOT_EXIST"})])
            answer = plan.pop(0) if len(plan) > 1 else plan[0]
        return answer(body) if callable(answer) else answer

    def _was_sent(self, asked: Mapping[str, Any]) -> bool:
        return any(_names(sent) & _names(asked) for path, sent in self.requests if not path.endswith("/query"))

    def sent_to(self, path: str) -> list[dict[str, Any]]:
        return [body for where, body in self.requests if where == path]

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def service() -> Iterator[PlannedService]:
    planned = PlannedService()
    yield planned
    planned.close()
