"""The HTTP engine that httpx makes; in a module of its own, for to import httpx takes as long as half a command."""

from collections.abc import Mapping

import httpx

from treasury.errors import ConfigurationError, NotConnected
from treasury.interface.engine import CONNECT_SECONDS, HEADERS, IDLE_SECONDS, Answer, Lost
from treasury.turns import Hands


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
        self._hands = Hands(connections)

    def post(self, url: str, content: bytes) -> Answer:
        """Send a JSON body in one transmission."""
        return self._hands.do(self._send, "POST", url, content, HEADERS)

    def get(self, url: str, timeout_seconds: float) -> Answer:
        """Ask for a page."""
        return self._send("GET", url, timeout_seconds=timeout_seconds)

    def close(self) -> None:
        """Close the connections."""
        self._hands.close()
        self._http.close()

    def _send(
        self,
        method: str,
        url: str,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Answer:
        timeout = httpx.USE_CLIENT_DEFAULT if timeout_seconds is None else timeout_seconds
        try:
            found = self._http.request(method, url, content=content, headers=headers, timeout=timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotConnected(str(error) or type(error).__name__) from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise ConfigurationError(f"the base URL cannot be used: {error}") from None
        except httpx.HTTPError as error:
            raise Lost(type(error).__name__) from None
        return Answer(found.status_code, {name.lower(): value for name, value in found.headers.items()}, found.content)
