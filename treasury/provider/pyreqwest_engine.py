"""The HTTP engine that pyreqwest makes, with uvloop's event loop: the extra `[fast]`."""

import asyncio
import atexit
import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any

import uvloop
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import BuilderError, DetailedPyreqwestError, RequestTimeoutError
from pyreqwest.proxy import ProxyBuilder

from treasury.clock import MACHINE
from treasury.concurrency.turns import Deliver, await_result
from treasury.errors import ConfigurationError, NotConnected
from treasury.provider.engine import (
    CONNECT_SECONDS,
    HEADERS,
    IDLE_SECONDS,
    LIMITS,
    NO_AUTHORITIES,
    NOT_WHOLE,
    TOO_LATE,
    EngineLimits,
    HttpAnswer,
    NoResponse,
    check_announced,
    read_headers,
    too_long,
)

NEVER_CONNECTED = "client error (Connect)"
"""The text of pyreqwest's cause when a connection could not be made: the name of the one kind of error that hyper,
below it, has for that. The class of the exception says less: pyreqwest 0.15 calls a reset after the request left a
`ConnectError` too. Should a later version use other words, everything is `NoResponse`: asked about, never sent again
blindly.
"""


class Reqwest:
    """pyreqwest: one transmission over HTTP/1.1, outside the interpreter's lock, from an event loop of its own.

    Its asynchronous client costs half of its synchronous one when many requests are on their way, and no thread each.
    """

    def __init__(
        self, connections: int, timeout_seconds: float, limits: EngineLimits = LIMITS, proxy: str | None = None
    ) -> None:
        builder = (
            ClientBuilder()
            .http1_only()
            .follow_redirects(False)
            .error_for_status(False)
            .no_proxy()
            .gzip(False)
            .brotli(False)
            .zstd(False)
            .deflate(False)
            .tcp_nodelay(True)
            .max_connections(connections)
            .pool_max_idle_per_host(connections)
            .pool_idle_timeout(timedelta(seconds=IDLE_SECONDS))
            .connect_timeout(timedelta(seconds=CONNECT_SECONDS))
            .read_timeout(timedelta(seconds=timeout_seconds))
            .timeout(timedelta(seconds=limits.exchange_seconds))
            .default_headers(HEADERS)
        )
        if proxy is not None:
            builder = builder.proxy(ProxyBuilder.all(proxy))
        try:
            self._http = builder.build()
        except DetailedPyreqwestError as error:
            why = [cause["message"] for cause in error.details["causes"] or ()]
            raise ConfigurationError(NO_AUTHORITIES.format(why=why[-1] if why else error)) from None
        self._most_bytes = limits.max_bytes
        self._loop = _Loop()

    def post(self, url: str, content: bytes) -> HttpAnswer:
        """Send a JSON body in one transmission."""
        return self._send(lambda: self._http.post(url).body_bytes(content))

    def get(self, url: str, timeout_seconds: float) -> HttpAnswer:
        """Ask for a page."""
        return self._send(lambda: self._http.get(url).timeout(timedelta(seconds=timeout_seconds)))

    def close(self) -> None:
        """Close the connections."""
        self._loop.close(self._http.close)

    def _send(self, prepare: Callable[[], Any]) -> HttpAnswer:
        try:
            request = prepare().build_streamed()
        except (BuilderError, ValueError) as error:
            raise ConfigurationError(f"the base URL cannot be used: {error}") from None

        async def send() -> HttpAnswer:
            async with request as found:
                headers = read_headers(found.get_header)
                return HttpAnswer(found.status, headers, await self._read(found.body_reader, headers))

        try:
            answer: HttpAnswer = await_result(lambda deliver: self._loop.begin(send, deliver))
        except BuilderError as error:
            raise ConfigurationError(f"the base URL cannot be used: {error}") from None
        except DetailedPyreqwestError as error:
            causes = [cause["message"] for cause in error.details["causes"] or ()]
            if NEVER_CONNECTED in causes:
                raise NotConnected(causes[-1]) from None
            raise NoResponse(TOO_LATE if isinstance(error, RequestTimeoutError) else NOT_WHOLE) from None
        return answer

    async def _read(self, reader: Any, headers: Mapping[str, str]) -> bytes:
        """The body, or as much of it as shows that it is too long."""
        check_announced(headers, self._most_bytes)
        chunks, size = [], 0
        while (chunk := await reader.read_chunk()) is not None:
            size += len(chunk)
            if size > self._most_bytes:
                raise NoResponse(too_long(self._most_bytes))
            chunks.append(bytes(chunk))
        return b"".join(chunks)


class _Loop:
    """An event loop in a thread of its own, there from the first request on.

    uvloop's: pyreqwest tells it of every answer from another thread, and that costs a system call with asyncio's own.
    """

    def __init__(self) -> None:
        self._begun: deque[tuple[Callable[[], Coroutine[Any, Any, Any]], Deliver]] = deque()
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._others = _strangers()
        """Threads of others, such as a test runner's main thread, that stay inside Python."""

    def begin(self, make: Callable[[], Coroutine[Any, Any, Any]], deliver: Deliver) -> None:
        """Run a coroutine; those begun before the loop wakes share its waking."""
        loop = self._loop or self._start()
        self._begun.append((make, deliver))
        if not self._woken:
            self._woken = True
            loop.call_soon_threadsafe(self._take)

    def close(self, last: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Run one more coroutine, and end."""
        loop = self._loop
        if loop is not None:
            asyncio.run_coroutine_threadsafe(last(), loop).result()
            self._stop()
            atexit.unregister(self._stop)
            self._loop = None
            loop.close()

    def _stop(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            _await_strangers(self._others)

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._guard:
            if self._loop is None:
                self._loop = uvloop.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="treasury-requests", daemon=True)
                self._thread.start()
                atexit.register(self._stop)
            return self._loop

    def _take(self) -> None:
        self._woken = False  # before they are taken: who comes later wakes the loop again
        while self._begun:
            task = asyncio.get_running_loop().create_task(self._run(*self._begun.popleft()))
            self._tasks.add(task)  # the loop itself holds them weakly
            task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _run(make: Callable[[], Coroutine[Any, Any, Any]], deliver: Deliver) -> None:
        try:
            result = await make()
        except BaseException as error:  # raised again where it is waited for
            deliver(None, error)
        else:
            deliver(result, None)


def _strangers() -> set[int]:
    """Threads inside Python that it does not know."""
    with _without_collection:
        collects = gc.isenabled()
        gc.disable()  # Deadlock: a collection in the next call waits for threads that wait for its lock (gh-106883)
        try:
            inside = sys._current_frames().keys()
        finally:
            if collects:
                gc.enable()
    return inside - {thread.ident for thread in threading.enumerate()}


_without_collection = threading.Lock()
"""One at a time: the second of two would find collections switched off, and leave them off."""


def _await_strangers(others: set[int], seconds: float = 1.0) -> None:
    """Wait until no thread that Python does not know is inside it, but those that were there before.

    pyreqwest's thread tells the loop of an answer from inside Python, and gives the interpreter's lock away on the way
    back. An interpreter that ends just then aborts, and the exit code is lost.
    """
    deadline = MACHINE.monotonic() + seconds
    while MACHINE.monotonic() < deadline:
        MACHINE.sleep(0.002)  # without the lock: whoever waits for it gets it
        if not _strangers() - others:
            return
