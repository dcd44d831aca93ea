"""Shards: child processes that do a part of a sweep, each with a desk of its own.

Python runs one thread of a process at a time, and a sweep has work for every core. A shard ends with the process that
started it, however that ends. Only queries are sharded: a payment is sent by the process that holds its run, and by no
other.

`python -m treasury.runs.shards DESCRIPTOR` starts a shard, which receives its work over that socket.
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
"""How long a shard may take to be ready; after that the sweep goes without it."""


class Shard:
    """A shard, seen from the process that started it."""

    def __init__(self, account: Account, settings: Settings) -> None:
        from multiprocessing.connection import Connection

        ours, theirs = socket.socketpair()
        with theirs:
            self._exit = ExitStack()
            process = child("treasury.runs.shards", [str(theirs.fileno())], pass_fds=[theirs.fileno()])
            self._process = self._exit.enter_context(process)
        self._line = Connection(ours.detach())
        # Sent over a socket, because arguments and environment are no place for a key. A copy, without the parsed key.
        self._line.send((dataclasses.replace(account), settings))
        self._is_busy = False

    def is_ready(self) -> bool:
        """Wait until the shard is ready, or its start has failed or timed out; whether it is ready."""
        try:
            return self._line.poll(START_SECONDS) and bool(self._line.recv())
        except (EOFError, OSError):
            return False

    def begin(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Let the shard call `function(desk, *arguments)`, a module's function, with its own desk."""
        self._is_busy = True
        with suppress(OSError):  # `result` raises when the process is gone
            self._line.send((function, arguments))

    def result(self) -> Any:
        """The result of the call. Raises what the call raised, and `EOFError` or `OSError` when the process ended."""
        result, error = self._line.recv()
        self._is_busy = False
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the shard: queries on their way are finished, no further ones are begun."""
        self._line.close()
        if not self._is_busy:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)  # it ends by itself
        self._exit.close()


class Shards:
    """The shards of a desk; none until `call`."""

    def __init__(self, account: Account, settings: Settings) -> None:
        self._account = account
        self._settings = settings
        self._started: list[Shard] = []
        self._ready: list[Shard] | None = None
        self._guard = threading.Lock()

    def call(self) -> None:
        """Start the shards: one less than the allowed processes, because this process is one of them."""
        with self._guard:
            while len(self._started) < self._settings.processes - 1:
                self._started.append(Shard(self._account, self._settings))

    def ready(self) -> list[Shard]:
        """The shards that are ready; waits for those that were started."""
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
    """Run as a shard until the other end closes."""
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

    # A terminal interrupts the shard together with its parent. The parent alone decides, and closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("stamina").setLevel(logging.ERROR)  # as in the command that started this process
    serve(Connection(int(sys.argv[1])))
