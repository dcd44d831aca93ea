"""An `httpx.Client` that signs, for paths that are not in the catalogue; it refuses those that move money.

What moves money has one way out (`treasury.sending`): through `treasury call`, a task of `tasks.operations`, or a flow.
"""

import json
import random
import re
from collections.abc import Generator
from urllib.parse import urlsplit

import httpx

from treasury.clock import MACHINE, Clock
from treasury.errors import ConfigurationError
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.client import Account, common_parameters, encode
from treasury.provider.engine import CONNECT_SECONDS, HEADERS
from treasury.provider.operation import Effect
from treasury.provider.signing import SIGN, clean, sign

_PLAIN_PATH = re.compile(r"(/[A-Za-z0-9_-]+)+")
"""A path that every server reads alike: nothing encoded, doubled, relative or left empty."""

_MONEY = {
    operation.path.lower(): name for name, operation in CATALOGUE.items() if operation.effect is Effect.MOVES_MONEY
}


class MovesMoney(ConfigurationError):
    """A path that moves money was asked for outside ledger and submission; nothing was sent."""


class RequestSignature(httpx.Auth):
    """Adds the common parameters and the signature to a POST of a JSON object (document, Authentication).

    Raises `MovesMoney`, and `ConfigurationError` for a request that it cannot sign; then nothing leaves.
    """

    requires_request_body = True

    def __init__(self, account: Account, clock: Clock = MACHINE) -> None:
        self._account = account
        self._clock = clock
        self._nonces = random.Random()  # noqa: S311 - never the same twice is all they must be; seeded by the system

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Replace the request by the signed one."""
        self._check(request)
        account, rules = self._account, self._account.rules
        nonce = f"{self._nonces.getrandbits(128):032x}"
        fields = clean({**_object(request), **common_parameters(account, self._clock.wall(), nonce)}, rules)
        fields[SIGN] = sign(fields, account.signing_key, rules)
        yield httpx.Request(
            "POST",
            request.url,
            headers={**dict(HEADERS), "host": request.headers["host"]},
            content=encode(fields).encode(),
            extensions=request.extensions,
        )

    def _check(self, request: httpx.Request) -> None:
        base = urlsplit(self._account.base_url)
        path = request.url.raw_path.decode("ascii").removeprefix(base.path)
        if not str(request.url).startswith(f"{self._account.base_url}/"):
            raise ConfigurationError(f"only requests to {self._account.base_url} are signed; nothing was sent")
        if request.method != "POST" or not _PLAIN_PATH.fullmatch(path):
            raise ConfigurationError(
                f"only a POST to a plain path is signed, not {request.method} {path}; nothing was sent"
            )
        name = _MONEY.get(path.lower())
        if name is not None:
            raise MovesMoney(
                f"{path} moves money: use `tasks.operations.{name}` or `treasury call {name}`; nothing was sent"
            )


def _object(request: httpx.Request) -> dict[str, object]:
    try:
        fields = json.loads(request.content)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ConfigurationError(
            f"the body of {request.url.path} must be a JSON object: pass `json={{...}}`; nothing was sent"
        )
    return fields


def signing_client(account: Account, *, timeout_seconds: float = 30.0, clock: Clock = MACHINE) -> httpx.Client:
    """An HTTP client of this account whose requests are signed; paths are relative to the base URL.

    One transmission for each call: no retry, no redirect.
    """
    return httpx.Client(
        base_url=account.base_url,
        auth=RequestSignature(account, clock),
        timeout=httpx.Timeout(timeout_seconds, connect=CONNECT_SECONDS),
        follow_redirects=False,
        transport=httpx.HTTPTransport(retries=0, http2=False),
    )
