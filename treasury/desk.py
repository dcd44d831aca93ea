"""The treasury desk: one account with its client, its ledger and the one way out; what every run works at."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from treasury.interface.client import Account, Client
from treasury.ledger.ledger import Ledger
from treasury.settings import Settings
from treasury.submission import Submission

IN_FLIGHT = 32
"""Requests on their way at once: the rate times the latency, 300 a second at 100 ms."""


class Desk:
    """An account, ready to work with. Safe to use from several threads."""

    def __init__(self, account: Account, settings: Settings, *, in_flight: int = IN_FLIGHT) -> None:
        self.account = account
        self.settings = settings
        self.in_flight = in_flight
        self.client = Client(account, connections=in_flight)
        self.ledger = Ledger(settings.ledger_url, account.identity, settings.ledger_key_file)
        self.submission = Submission(self.client, self.ledger, resend_after_seconds=settings.resend_after_seconds)

    @contextmanager
    def hold(self, run_key: str) -> Iterator[None]:
        """Hold a run; what a dead process left on its way is unknown from here on. Raises `RunHeld`."""
        with self.ledger.hold(run_key) as fresh:
            if fresh:
                self.ledger.recover(run_key)
            yield

    def close(self) -> None:
        """Close connections and ledger."""
        self.client.close()
        self.ledger.close()


_desks: dict[tuple[str, str], Desk] = {}
_guard = threading.Lock()


def open_desk(account: Account, settings: Settings) -> Desk:
    """The desk of an account: one per process, so that its runs are held once and its key is parsed once."""
    with _guard:
        name = (account.identity, settings.ledger_url)
        if name not in _desks:
            _desks[name] = Desk(account, settings)
        return _desks[name]
