"""The HTTP engine, in one place: it makes exactly one transmission for each request, and says whether it left.

Two are offered, and `tests/http_engine` holds both to the same contract. httpx (`httpx_engine`) is always there.
pyreqwest (`pyreqwest_engine`, in Rust) comes with the extra `[fast]` and takes a twentieth of the time of the other; it
is used where it is installed, unless `TREASURY_HTTP_ENGINE` says otherwise.

Neither follows redirects, repeats a request that was written, or takes a proxy from the environment: who sees payments
is said on purpose.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

CONNECT_SECONDS = 10.0

MAX_BYTES = 1_000_000
"""Bytes of an answer's body."""

EXCHANGE_SECONDS = 90.0
"""How long a whole exchange may take: to connect, to write, to wait and to read all of the answer."""

IDLE_SECONDS = 30.0
"""How long a connection is kept open without a request."""

HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


READ_HEADERS = ("date", "retry-after", "content-length")
"""Headers of an answer that are read; others are ignored."""

MAX_HEADER = 200
"""Characters of such a header; a longer one counts as absent."""


@dataclass(frozen=True)
class EngineLimits:
    """How much of an answer is taken. Beyond it the connection is dropped, and the answer is `NoResponse`."""

    max_bytes: int = MAX_BYTES
    """Bytes of its body."""
    exchange_seconds: float = EXCHANGE_SECONDS
    """Seconds of the whole exchange, from the first packet to the last byte of the answer."""


LIMITS = EngineLimits()


@dataclass(frozen=True)
class HttpAnswer:
    """An answer over HTTP: the status, those of `READ_HEADERS` that it has, the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoResponse(Exception):
    """The request left, or may have, and no whole answer came; the message says how that showed."""


TOO_LATE = "no answer came in time"
NOT_WHOLE = "the connection ended before a whole answer came"
NO_AUTHORITIES = (
    "the certificate authorities that vouch for the service cannot be read ({why}): mend SSL_CERT_FILE and "
    "SSL_CERT_DIR, or install the machine's (ca-certificates); nothing was sent"
)


class Engine(Protocol):
    """Sends requests. Safe to use from several threads.

    Both calls raise `NotConnected` when there never was a connection, so that nothing can have left; `NoResponse` for
    everything else that is no whole answer within the limits; and `ConfigurationError` for a URL that cannot be used.
    """

    def post(self, url: str, content: bytes) -> HttpAnswer:
        """Send a JSON body in one transmission."""

    def get(self, url: str, timeout_seconds: float) -> HttpAnswer:
        """Ask for a page."""

    def close(self) -> None:
        """Close the connections."""


def read_headers(get: Callable[[str], str | None]) -> dict[str, str]:
    """The headers of an answer that are read; one that is too long, or not text, counts as absent."""
    found = {}
    for name in READ_HEADERS:
        try:
            value = get(name)
        except ValueError:
            continue
        if value is not None and len(value) <= MAX_HEADER and value.isascii():
            found[name] = value
    return found


def check_announced(headers: Mapping[str, str], max_bytes: int) -> None:
    """Raise `NoResponse` for an answer that says itself that it is too long."""
    announced = headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > max_bytes:
        raise NoResponse(too_long(max_bytes))


def too_long(max_bytes: int) -> str:
    """The error for an answer that is too long."""
    return f"an answer of more than {max_bytes:,} bytes"


EngineName = Literal["pyreqwest", "httpx"]
