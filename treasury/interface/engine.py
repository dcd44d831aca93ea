"""The HTTP engine, in one place: it makes exactly one transmission for each request, and says whether it left.

Two are offered, and `tests/http_engine` holds both to the same contract. `Reqwest` (pyreqwest, in Rust) is used: it
costs a twentieth of the other's time. `Httpx` is there for machines without it, and to compare with.

Neither follows redirects, repeats a request that was written, or takes a proxy from the environment: who sees payments
is said on purpose.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import httpx

from treasury.errors import ConfigurationError, NotConnected

CONNECT_SECONDS = 10.0

IDLE_SECONDS = 30.0
"""How long a connection is kept open without a request."""

HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


@dataclass(frozen=True)
class Answer:
    """What came back: the status, the headers by lower-case name, the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Lost(Exception):
    """The request left, or may have, and no whole answer came; the message says how that showed."""


class Engine(Protocol):
    """Sends requests. Safe to use from several threads.

    Both calls raise `NotConnected` when there never was a connection, so that nothing can have left; `Lost` for
    everything else that is no whole answer; and `ConfigurationError` for a URL that cannot be used.
    """

    def post(self, url: str, content: bytes) -> Answer:
        """Send a JSON body in one transmission."""

    def get(self, url: str, timeout_seconds: float) -> Answer:
        """Ask for a page."""

    def close(self) -> None:
        """Close the connections."""


class Httpx:
    """httpx over httpcore: checks a kept connection for closure before it writes, and opens another one if so."""

    def __init__(self, connections: int, timeout_seconds: float, proxy: str | None = None) -> None:
        limits = httpx.Limits(
            max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=IDLE_SECONDS
        )
        self._http = httpx.Client(
            # Retries of connection attempts would be safe, but they hide an outage from the caller, who decides.
            transport=httpx.HTTPTransport(limits=limits, retries=0, http2=False, proxy=proxy),
            timeout=httpx.Timeout(timeout_seconds, connect=CONNECT_SECONDS, pool=None),
            follow_redirects=False,  # a followed 307 would be a second transmission
        )

    def post(self, url: str, content: bytes) -> Answer:
        """Send a JSON body in one transmission."""
        return self._send("POST", url, content=content, headers=HEADERS)

    def get(self, url: str, timeout_seconds: float) -> Answer:
        """Ask for a page."""
        return self._send("GET", url, timeout=timeout_seconds)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, method: str, url: str, **options: Any) -> Answer:
        try:
            found = self._http.request(method, url, **options)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotConnected(str(error) or type(error).__name__) from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise ConfigurationError(f"the base URL cannot be used: {error}") from None
        except httpx.HTTPError as error:
            raise Lost(type(error).__name__) from None
        return Answer(found.status_code, {name.lower(): value for name, value in found.headers.items()}, found.content)


NEVER_CONNECTED = "client error (Connect)"
"""What pyreqwest's causes say when a connection could not be made: the name of the one kind of error that hyper, below
it, has for that. The class of the exception says less: pyreqwest 0.15 calls a reset after the request left a
`ConnectError` too. Should a later version use other words, everything is `Lost`: asked about, never sent again blindly.
"""


class Reqwest:
    """pyreqwest: one transmission over HTTP/1.1, outside the interpreter's lock."""

    def __init__(self, connections: int, timeout_seconds: float, proxy: str | None = None) -> None:
        from pyreqwest.client import SyncClientBuilder
        from pyreqwest.proxy import ProxyBuilder

        builder = (
            SyncClientBuilder()
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
            .default_headers(HEADERS)
        )
        if proxy is not None:
            builder = builder.proxy(ProxyBuilder.all(proxy))
        self._http = builder.build()

    def post(self, url: str, content: bytes) -> Answer:
        """Send a JSON body in one transmission."""
        return self._send(lambda: self._http.post(url).body_bytes(content))

    def get(self, url: str, timeout_seconds: float) -> Answer:
        """Ask for a page."""
        return self._send(lambda: self._http.get(url).timeout(timedelta(seconds=timeout_seconds)))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, prepare: Any) -> Answer:
        from pyreqwest.exceptions import BuilderError, DetailedPyreqwestError

        try:
            found = prepare().build().send()
            return Answer(
                found.status, {name.lower(): value for name, value in found.headers.items()}, bytes(found.bytes())
            )
        except (BuilderError, ValueError) as error:
            raise ConfigurationError(f"the base URL cannot be used: {error}") from None
        except DetailedPyreqwestError as error:
            causes = [cause["message"] for cause in error.details["causes"] or ()]
            if NEVER_CONNECTED in causes:
                raise NotConnected(causes[-1]) from None
            raise Lost(type(error).__name__) from None


def open_engine(connections: int, timeout_seconds: float, proxy: str | None = None) -> Engine:
    """The engine that is used. `timeout_seconds`: how long to wait for the next bytes of an answer."""
    return Reqwest(connections, timeout_seconds, proxy)
