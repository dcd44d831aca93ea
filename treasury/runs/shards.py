"""Shards: processes beside this one that do a part of its work, each with a desk of its own.

One process never has more than one thread in Python at a time; a sweep has work for every core. A shard lives no
longer than the process that started it, however that ends. Only what sends nothing that moves money is sharded: a
payment leaves from the process that holds its run, and from no other.

`python -m treasury.runs.shards DESCRIPTOR` is a shard; it is told over that socket what to do.
"""

import dataclasses
import logging
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from treasury.concurrency.children import STOP_SECONDS, child
from treasury.errors import TreasuryError
from treasury.provider.client import Account
from treasury.settings import Settings

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from treasury.runs.desk import Desk

START_SECONDS = 30.0
"""How long a shard may take to be ready before it is done without."""


class Shard:
    """One process, as seen from here."""

    def __init__(self, account: Account, settings: Settings) -> None:
        from multiprocessing.connection import Connection

        ours, theirs = socket.socketpair()
        with theirs:
            self._exit = ExitStack()
            process = child("treasury.runs.shards", [str(theirs.fileno())], pass_fds=[theirs.fileno()])
            self._process = self._exit.enter_context(process)
        self._line = Connection(ours.detach())
        # Over a socket: a key has no place among arguments or in the environment. A copy: the parsed key stays here.
        self._line.send((dataclasses.replace(account), settings))
        self._is_busy = False

    def is_ready(self) -> bool:
        """Whether it has come up, after a while at most."""
        try:
            return self._line.poll(START_SECONDS) and bool(self._line.recv())
        except (EOFError, OSError):
            return False

    def begin(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have it do `function(desk, *arguments)`, a function of a module, with its own desk."""
        self._is_busy = True
        with suppress(OSError):  # a process that is gone is told by `result`
            self._line.send((function, arguments))

    def result(self) -> Any:
        """What came of it. Raises what it raised, and `EOFError` or `OSError` when the process ended meanwhile."""
        result, error = self._line.recv()
        self._is_busy = False
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End it: what is on its way is finished, nothing more is begun."""
        self._line.close()
        if not self._is_busy:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)  # it goes by itself
        self._exit.close()


class Shards:
    """The shards of a desk; none until they are called for."""

    def __init__(self, account: Account, settings: Settings) -> None:
        self._account = account
        self._settings = settings
        self._started: list[Shard] = []
        self._ready: list[Shard] | None = None
        self._guard = threading.Lock()

    def call(self) -> None:
        """Let them come up, one less than the processes that may work at once; this one is another."""
        with self._guard:
            while len(self._started) < self._settings.processes - 1:
                self._started.append(Shard(self._account, self._settings))

    def ready(self) -> list[Shard]:
        """Those that are up; waits for those that were called."""
        with self._guard:
            if self._ready is None:
                self._ready = [shard for shard in self._started if shard.is_ready()]
            return self._ready

    def close(self) -> None:
        """End them all."""
        with self._guard:
            for shard in self._started:
                shard.close()
            self._started, self._ready = [], None


def serve(line: "Connection") -> None:
    """Be a shard until the other end closes."""
    from treasury.runs.desk import Desk

    account, settings = line.recv()
    desk = Desk(account, settings)
    line.send(True)
    try:
        while True:
            function, arguments = line.recv()
            line.send(_do(desk, function, arguments))
    except (EOFError, OSError, KeyboardInterrupt):
        pass
    finally:
        desk.close()


def _do(desk: "Desk", function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, TreasuryError | None]:
    try:
        return function(desk, *arguments), None
    except TreasuryError as error:
        return None, error


if __name__ == "__main__":
    from multiprocessing.connection import Connection

    # A terminal interrupts us with our parent, who tells us what that means: to end what is on its way, and go.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("stamina").setLevel(logging.ERROR)  # as in the command that started us
    serve(Connection(int(sys.argv[1])))
