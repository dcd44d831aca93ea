"""The HTTP engine that httpx makes; in a module of its own, for to import httpx takes as long as half a command."""

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import httpcore
import httpx

from treasury.clock import MACHINE
from treasury.concurrency.turns import WorkerThreads
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


class Httpx:
    """httpx over httpcore: checks a kept connection for closure before it writes, and opens another one if so."""

    def __init__(
        self, connections: int, timeout_seconds: float, limits: EngineLimits = LIMITS, proxy: str | None = None
    ) -> None:
        pool = httpx.Limits(
            max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=IDLE_SECONDS
        )
        # Retries of connection attempts would be safe, but they hide an outage from the caller, who decides.
        try:
            transport = httpx.HTTPTransport(limits=pool, retries=0, http2=False, proxy=proxy)
        except OSError as error:  # an SSLError is one
            raise ConfigurationError(NO_AUTHORITIES.format(why=error.strerror or error)) from None
        self._deadline = _Deadline()
        network = _Network(transport._pool._network_backend, self._deadline)
        transport._pool._network_backend = network  # httpx knows a time for each read, and none for all of them
        self._http = httpx.Client(
            transport=transport,
            timeout=httpx.Timeout(timeout_seconds, connect=CONNECT_SECONDS, pool=None),
            follow_redirects=False,  # a followed 307 would be a second transmission
            headers={"Accept-Encoding": "identity"},
        )
        self._limits = limits
        self._workers = WorkerThreads(connections)

    def post(self, url: str, content: bytes) -> HttpAnswer:
        """Send a JSON body in one transmission."""
        return self._workers.do(self._send, "POST", url, content, HEADERS)

    def get(self, url: str, timeout_seconds: float) -> HttpAnswer:
        """Ask for a page."""
        return self._send("GET", url, timeout_seconds=timeout_seconds)

    def close(self) -> None:
        """Close the connections."""
        self._workers.close()
        self._http.close()

    def _send(
        self,
        method: str,
        url: str,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> HttpAnswer:
        timeout = httpx.USE_CLIENT_DEFAULT if timeout_seconds is None else timeout_seconds
        self._deadline.begin(min(self._limits.exchange_seconds, timeout_seconds or self._limits.exchange_seconds))
        try:
            with self._http.stream(method, url, content=content, headers=headers, timeout=timeout) as found:
                known = read_headers(found.headers.get)
                return HttpAnswer(found.status_code, known, self._read(found, known))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotConnected(str(error) or TOO_LATE) from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise ConfigurationError(f"the base URL cannot be used: {error}") from None
        except httpx.HTTPError as error:
            raise NoResponse(TOO_LATE if isinstance(error, httpx.TimeoutException) else NOT_WHOLE) from None

    def _read(self, found: httpx.Response, headers: Mapping[str, str]) -> bytes:
        """The body as it travelled: one that was packed without being asked to is no JSON."""
        check_announced(headers, self._limits.max_bytes)
        chunks, size = [], 0
        for chunk in found.iter_raw():
            size += len(chunk)
            if size > self._limits.max_bytes:
                raise NoResponse(too_long(self._limits.max_bytes))
            chunks.append(chunk)
        return b"".join(chunks)


class _Deadline(threading.local):
    """When the exchange of this thread has to be over."""

    at = float("inf")

    def begin(self, seconds: float) -> None:
        """Start the time of an exchange."""
        self.at = MACHINE.monotonic() + seconds

    def within(self, timeout: float | None, error: type[Exception]) -> float:
        """Return what is left for one step of the exchange. Raises this error when nothing is."""
        left = self.at - MACHINE.monotonic()
        if left <= 0:
            raise error("the exchange took too long")
        return left if timeout is None else min(timeout, left)


class _Network(httpcore.NetworkBackend):
    """Connections whose every step ends with the exchange."""

    def __init__(self, network: httpcore.NetworkBackend, deadline: _Deadline) -> None:
        self._network = network
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect."""
        timeout = self._deadline.within(timeout, httpcore.ConnectTimeout)
        stream = self._network.connect_tcp(host, port, timeout, local_address, socket_options)
        return _Stream(stream, self._deadline)


class _Stream(httpcore.NetworkStream):
    """A connection whose every step ends with the exchange."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: _Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what is there."""
        return self._stream.read(max_bytes, self._deadline.within(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all of it."""
        self._stream.write(buffer, self._deadline.within(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Go on in TLS."""
        timeout = self._deadline.within(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, timeout), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """Return what is known of the connection."""
        return self._stream.get_extra_info(info)
