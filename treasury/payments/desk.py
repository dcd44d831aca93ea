"""The desk: one account with its client, its ledger and its submission. Every run uses one."""

import atexit
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from treasury.clock import MACHINE, Clock
from treasury.concurrency.turns import run_concurrently
from treasury.errors import ConfigurationError, NotConnected, RunHeld, Stopped
from treasury.ledger.changed_by_hand import hold_changed, hold_changed_elsewhere
from treasury.ledger.continuity import LedgerToken, SeenFile
from treasury.ledger.database import sqlite_file
from treasury.ledger.epoch import Standing, begin_epoch, check_standing, register_machine, why_older
from treasury.ledger.holder import MachineLock
from treasury.ledger.ledger import Ledger
from treasury.ledger.pauses import Pauses
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.planning.payout_planner import MadePlan
from treasury.provider.client import Account, Client
from treasury.sending.stop_loss import StopLoss
from treasury.sending.submission import Submission
from treasury.settings import Settings

T = TypeVar("T")
U = TypeVar("U")


class Desk:
    """An account with everything that a run needs. Safe to use from several threads."""

    def __init__(self, account: Account, settings: Settings, *, clock: Clock = MACHINE) -> None:
        self.account = account
        self.settings = settings
        self.clock = clock
        self.in_flight = settings.in_flight
        self.client = Client(
            account, connections=settings.in_flight, limits=settings.limits, engine=settings.http_engine, clock=clock
        )
        self.ledger = Ledger(settings.ledger_url, account.identity, settings.ledger_key_file, clock=clock)
        self.client.pace.relay = Pauses(self.ledger)
        self.machine = MachineLock(account.identity)
        self.token = LedgerToken(settings.token_folder, account.identity)
        seen = settings.home / "seen" / f"{self.token.file.stem}.json"
        self.seen = SeenFile(seen, sqlite_file(settings.ledger_url))
        self.ledger.remember_in(self.seen)
        self.standing = Standing.KNOWN
        """How far the ledger could be trusted when a run was last held."""
        self.plans: dict[str, MadePlan] = {}
        """Plans that this process made or read, by their ids: none of them ever changes."""
        self.checked_runs: set[str] = set()
        """Runs whose preflight questions were answered since they were held."""
        self.provisioned: dict[str, list[dict[str, Any]]] = {}
        """File -> results of provisioning it, links included, until they are written."""
        self.aborted_runs: set[str] = set()
        """Runs that an error or an interruption ended: nothing more of them is sent until they are started again."""
        self._clock_checked = False
        self.stop_losses: dict[str, StopLoss] = {}
        self.submission = Submission(
            self.client, self.ledger, settings.evidence(account.rules), found_known=self.begin_epoch
        )

    @contextmanager
    def hold(self, run_key: str) -> Iterator[None]:
        """Hold a run. Orders that a dead process left `sending` become unknown.

        Raises `RunHeld`, also when another home on this machine holds it.
        """
        with self.machine.hold(run_key), self.ledger.hold(run_key) as fresh:
            if fresh:
                self.stop_losses.pop(run_key, None)
                self.checked_runs.discard(run_key)
                self.ledger.judged.pop(run_key, None)
                self.submission.begin_start()
                self.standing = self.check_standing()
                self.ledger.recover(run_key)
                hold_changed(self.ledger, run_key)
                hold_changed_elsewhere(self.ledger, run_key)
                self.aborted_runs.discard(run_key)
            try:
                yield
            except BaseException:
                self.aborted_runs.add(
                    run_key
                )  # Race: another task of this run may be sending in another thread; it begins nothing new
                raise

    def recover(self, orders: Iterable[Order]) -> bool:
        """Make unknown what dead processes left `sending` of these orders, whose runs nobody may start again.

        Returns whether there was any; a run that a living process holds is left alone.
        """
        run_keys = sorted({order.run_key for order in orders if order.state is State.SENDING})
        for run_key in run_keys:
            with suppress(RunHeld), self.hold(run_key):
                pass  # holding it recovers it
        return bool(run_keys)

    def check_standing(self) -> Standing:
        """How far the ledger can be trusted now: an epoch begins if it may be older than the service."""
        return check_standing(self.ledger, self.token, self.seen, sqlite_file(self.settings.ledger_url))

    def why_older(self) -> str | None:
        """Why the next start holds what waits and asks about everything, in words; None when nothing says so."""
        return why_older(self.ledger, self.token, sqlite_file(self.settings.ledger_url))

    def check_not_aborted(self, run_key: str) -> None:
        """Raise `Stopped` when an error or an interruption ended this run, perhaps in another thread."""
        if run_key in self.aborted_runs:
            raise Stopped(f"run {run_key} was ended by an error or an interruption: start it again")

    def register_machine(self, run_key: str) -> None:
        """Register this machine in the ledger; each reference of its first run is queried before it is sent."""
        register_machine(self.ledger, self.token, run_key)
        self.standing = Standing.KNOWN

    def begin_epoch(self, why: str) -> None:
        """Begin an epoch: hold every order that was not sent, because the ledger is older than the service."""
        begin_epoch(self.ledger, self.token, why)

    def run_concurrently(self, work: Callable[[T], U], items: Iterable[T], *, prefetch: bool = False) -> list[U]:
        """Do `work` for each item, as many at once as the desk allows; results in the order of the items.

        `prefetch`: work on half as many more, so that they are ready when a connection becomes free. Only for queries:
        a payment must not wait once it is marked.
        """
        return run_concurrently(work, items, self.in_flight * 3 // 2 if prefetch else self.in_flight)

    def check_windows(self) -> None:
        """Raise `ConfigurationError` when the account's waits do not fit together; on loopback it is a warning."""
        warning = self.settings.check_windows(self.account)
        if warning is not None:
            logging.getLogger("treasury").warning(warning)

    def check_clock(self, *, waits_end: bool = False) -> None:
        """Raise `ConfigurationError` when our clock is off the service's by more than the setting allows.

        Signed timestamps, waits and business days depend on this clock. A service that does not send its time raises
        nothing; one that cannot be reached raises `Stopped` where a wait of the policy begins or ends by it
        (`waits_end`), else nothing.
        """
        if self._clock_checked:
            return
        try:
            skew = self.client.read_clock()
        except NotConnected as error:
            if waits_end:
                raise Stopped(
                    f"{error}: nothing was recorded or sent, for the policy's waits (a cooling time, a recovery) count "
                    "by a clock that the service's agrees with; start again once it answers"
                ) from None
            return
        if skew is not None and abs(skew) > self.settings.max_clock_skew_seconds:
            raise ConfigurationError(
                f"this machine's clock is {skew:+.0f} s off the service's; nothing was sent: set it right"
            )
        self._clock_checked = True

    def close(self) -> None:
        """Close connections and ledger."""
        self.client.close()
        self.ledger.close()
        self.token.close()


_desks: dict[tuple[str, str], Desk] = {}
_guard = threading.Lock()


def desk_of(account: Account, settings: Settings) -> Desk:
    """The desk of an account and ledger: one per process, so that runs are held once and the key is parsed once.

    One whose ledger was lost is followed by a new one, once nothing is held by it: the process may live for long.
    """
    with _guard:
        name = (account.identity, settings.ledger_url)
        known = _desks.get(name)
        if known is not None:
            known.ledger.look_for_put_back()
        if known is None or known.ledger.is_over:
            _desks[name] = Desk(account, settings)
            if known is not None:
                with suppress(Exception):
                    known.close()
        return _desks[name]


LEAVE_SECONDS = 5.0
"""How long the end of a process waits for what is being written."""


def _leave() -> None:
    # Runs at the end of every process, Prefect's included. Errors are suppressed, so that the exit code stays.
    for desk in _desks.values():
        with suppress(Exception, KeyboardInterrupt):
            desk.ledger.close(LEAVE_SECONDS)


atexit.register(_leave)
