"""The treasury desk: one account with its client, its ledger and the one way out; what every run works at."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from treasury.errors import ConfigurationError, NotConnected
from treasury.interface.client import Account, Client
from treasury.ledger.database import sqlite_file
from treasury.ledger.epoch import begin_epoch_if_restored
from treasury.ledger.ledger import Ledger
from treasury.settings import Settings
from treasury.shards import Shards
from treasury.stop_loss import StopLoss
from treasury.submission import Submission
from treasury.turns import take_turns

T = TypeVar("T")
U = TypeVar("U")


class Desk:
    """An account, ready to work with. Safe to use from several threads."""

    def __init__(self, account: Account, settings: Settings) -> None:
        self.account = account
        self.settings = settings
        self.in_flight = settings.in_flight
        self.client = Client(account, connections=settings.in_flight, limits=settings.limits)
        self.ledger = Ledger(settings.ledger_url, account.identity, settings.ledger_key_file)
        self._clock_checked = False
        self.shards = Shards(account, settings)
        self.stop_losses: dict[str, StopLoss] = {}
        self.submission = Submission(self.client, self.ledger, resend_after_seconds=settings.resend_after_seconds)

    @contextmanager
    def hold(self, run_key: str) -> Iterator[None]:
        """Hold a run; what a dead process left on its way is unknown from here on. Raises `RunHeld`."""
        with self.ledger.hold(run_key) as fresh:
            if fresh:
                self.stop_losses.pop(run_key, None)
                begin_epoch_if_restored(
                    self.ledger, self.settings.ledger_key_file, sqlite_file(self.settings.ledger_url)
                )
                self.ledger.recover(run_key)
            yield

    def at_once(self, work: Callable[[T], U], items: Iterable[T], *, ahead: bool = False) -> list[U]:
        """Do `work` for each item, as many at once as the desk allows; results in the order of the items.

        `ahead`: half as many more are made ready meanwhile, and leave when a connection is free. Only for questions:
        a payment is marked when it leaves, and waits for nothing then.
        """
        return take_turns(work, items, self.in_flight * 3 // 2 if ahead else self.in_flight)

    def check_clock(self) -> None:
        """Raise `ConfigurationError` when our clock is off the service's by more than the setting allows.

        Timestamps are signed, waits are measured and days are counted by it. A service that cannot be reached, or
        does not say its time, is no reason.
        """
        if self._clock_checked:
            return
        with suppress(NotConnected):
            skew = self.client.read_clock()
            if skew is not None and abs(skew) > self.settings.most_clock_skew_seconds:
                raise ConfigurationError(
                    f"this machine's clock is {skew:+.0f} s off the service's; nothing was sent: set it right"
                )
            self._clock_checked = True

    def close(self) -> None:
        """Close connections and ledger."""
        self.shards.close()
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
