"""The HTTP engine under httpx, in one place: it must make exactly one transmission for each request.

httpcore (httpx's own) checks a pooled connection for closure before it writes, opens another one if so, never
repeats a request that was written, and tells "never connected" apart; `tests/http_engine` holds it to that. Retries of
connection attempts are off: they would be safe, but they hide an outage from the caller, who decides.
"""

import httpx


def open_engine(connections: int, proxy: str | None = None) -> httpx.BaseTransport:
    """A transport that keeps up to `connections` connections alive.

    `proxy`: URL of an HTTP proxy. One that stands in the environment is not used: who sees payments is said on purpose.
    """
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=30.0)
    return httpx.HTTPTransport(limits=limits, retries=0, http2=False, proxy=proxy)
