"""Runs the sandbox: in the foreground until it is told to stop, or in a thread of a test or demo."""

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from treasury.errors import ConfigurationError
from treasury.sandbox.clock import SandboxClock
from treasury.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from uvicorn import Server

    from treasury.sandbox.world import World

HOST = "127.0.0.1"
"""The only address it ever listens on."""
AVOIDED_PORTS = range(8000, 9000)
"""A free port is never taken from here, where people's own servers live."""


@dataclass(frozen=True)
class RunningSandbox:
    """A sandbox that runs in this process."""

    base_url: str
    clock: SandboxClock
    _world: "World"

    def books(self) -> dict[str, Any]:
        """`balances`: account -> currency -> `Decimal`; `sums`: currency -> sum over all accounts, zero."""
        from treasury.sandbox.app import show_books

        return show_books(self._world)

    def orders(self) -> list[dict[str, Any]]:
        """Every order, oldest first, amounts as `Decimal`."""
        from treasury.sandbox.app import show_orders

        return show_orders(self._world)

    def advance(self, seconds: float) -> None:
        """Put the sandbox's clock forward; everything that comes due happens before this returns."""
        from treasury.sandbox.app import advance

        advance(self._world, seconds)

    def deposit(self, currency: str, amount: Decimal | str) -> None:
        """Let an amount come in that no order explains, or, negative, let it go."""
        from treasury.sandbox.app import deposit

        deposit(self._world, currency, Decimal(amount))

    def charge(self, currency: str, amount: Decimal | str, **said: str | None) -> str:
        """Let a customer deposit a crypto asset, with its notification; returns the order's number."""
        from treasury.sandbox.app import charge

        return charge(self._world, currency, Decimal(amount), **said)

    def pay_invoice(self, request_id: str, amount: Decimal | str | None = None) -> None:
        """Let a customer pay a pay-in that waits: all of it, or another amount."""
        from treasury.sandbox.app import pay_invoice

        pay_invoice(self._world, request_id, None if amount is None else Decimal(amount))

    @property
    def platform_key(self) -> str:
        """The platform's public key, PEM."""
        with self._world.open():
            return self._world.show_platform_key()


def _listen(port: int) -> socket.socket:
    """A listening socket. Raises `ConfigurationError` when the port is taken."""
    while True:
        # Named as TCP: asyncio switches Nagle's delay off only then, and an answer would wait 40 ms for it.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            listener.close()
            raise ConfigurationError(f"port {port} cannot be used: {error.strerror}") from None
        if port or listener.getsockname()[1] not in AVOIDED_PORTS:
            listener.listen(2048)
            return listener
        listener.close()


def _prepare(settings: SandboxSettings, clock: SandboxClock) -> "tuple[World, Server, socket.socket]":
    import uvicorn

    from treasury.sandbox.app import build_app
    from treasury.sandbox.world import World

    listener = _listen(settings.port)
    world = World(settings, clock, f"http://{HOST}:{listener.getsockname()[1]}")
    try:
        app = build_app(world)
    except ConfigurationError:
        world.close()
        listener.close()
        raise
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,  # the logging of whoever runs us stays as it is
        log_level="error",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        date_header=False,  # the application says the time by the sandbox's clock
        timeout_keep_alive=60,
        timeout_graceful_shutdown=1,
    )
    return world, uvicorn.Server(config), listener


def serve(settings: SandboxSettings) -> None:
    """Run until SIGTERM or Ctrl-C; prints one line with the address once it answers."""
    world, server, listener = _prepare(settings, SandboxClock())
    url = f"http://{HOST}:{listener.getsockname()[1]}"

    def tell() -> None:
        while not server.started:
            stopped.wait(0.01)
        print(f"sandbox listening on {url}", flush=True)

    stopped = threading.Event()
    threading.Thread(target=tell, daemon=True).start()
    # uvicorn shuts down in order, restores this handler and raises the signal again.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):  # uvicorn has shut down in order, and raises it again
            server.run(sockets=[listener])
    finally:
        listener.close()
        world.close()


@contextmanager
def running_sandbox(settings: SandboxSettings, clock: SandboxClock | None = None) -> Iterator[RunningSandbox]:
    """Run in a thread of this process for as long as the block lasts."""
    clock = clock or SandboxClock()
    world, server, listener = _prepare(settings, clock)
    ended = _resting(server)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="sandbox", daemon=True)
    thread.start()
    try:
        _await_start(server, thread)
        yield RunningSandbox(f"http://{HOST}:{listener.getsockname()[1]}", clock, world)
    finally:
        server.should_exit = True
        ended()
        thread.join()
        listener.close()
        world.close()


def _resting(server: "Server") -> Callable[[], None]:
    """Let a server rest between requests: it looks ten times a second whether it shall end, and a test run has many.

    Returns what ends it, from any thread.
    """
    ended: list[Callable[[], object]] = []

    async def main_loop() -> None:
        asked, loop = asyncio.Event(), asyncio.get_running_loop()
        ended.append(lambda: loop.call_soon_threadsafe(asked.set))
        if not server.should_exit:
            await asked.wait()

    server.main_loop = main_loop  # type: ignore[method-assign]

    def end() -> None:
        for each in ended:
            with suppress(RuntimeError):  # the loop has ended already
                each()

    return end


def _await_start(server: "Server", thread: threading.Thread) -> None:
    waiting = threading.Event()
    while not server.started:
        if not thread.is_alive():
            raise ConfigurationError("the sandbox did not start")
        waiting.wait(0.005)
