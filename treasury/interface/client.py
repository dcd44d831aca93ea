"""The client: signs an operation, sends it exactly once, reads the answer."""

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cached_property
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import stamina
from cryptography.hazmat.primitives.asymmetric import rsa

from treasury.crashpoints import point
from treasury.errors import ConfigurationError, NotConnected, OutcomeUnknown, Refused
from treasury.interface.engine import open_engine
from treasury.interface.envelope import read_reply
from treasury.interface.operation import Effect, Operation, Reply
from treasury.interface.signing import SigningRules, clean, load_private_key, sign

# Only the last failure is news; stamina would log every attempt before it.
stamina.instrumentation.set_on_retry_hooks([])

R = TypeVar("R", bound=Reply)

HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


@dataclass(frozen=True)
class Account:
    """An account at the service: where it is, who we are, how we sign."""

    base_url: str
    partner_id: str
    private_key: str = field(repr=False)
    """PEM, or bare base64 of PKCS#8."""
    platform_key: str | None = field(default=None, repr=False)
    """The platform's public key, for notifications."""
    rules: SigningRules = SigningRules()

    def __post_init__(self) -> None:
        url = httpx.URL(self.base_url)
        if url.scheme not in ("http", "https") or not url.host:
            raise ConfigurationError(f"the base URL must start with https:// (got {self.base_url!r})")
        object.__setattr__(self, "base_url", self.base_url.rstrip("/"))

    @property
    def identity(self) -> str:
        """What a ledger is bound to: the base URL and the partner."""
        return f"{self.base_url}|{self.partner_id}"

    @cached_property
    def signing_key(self) -> rsa.RSAPrivateKey:
        """The private key, parsed once: its checks take 37 ms, a signature 0.3 ms."""
        return load_private_key(self.private_key)


CLOCK_SECONDS = 5.0
"""How long the service may take to show its clock."""

READ_ATTEMPTS = 4
"""How often a question is asked before its failure is reported; only operations that read are repeated."""


def _passes(error: Exception) -> bool:
    """Whether a read that failed so may succeed when repeated."""
    if isinstance(error, Refused):
        return error.http_status >= 500 or error.http_status == 429 or error.code in ("412", "429")
    return isinstance(error, NotConnected | OutcomeUnknown)


class Client:
    """Sends operations of one account. Safe to use from several threads."""

    def __init__(
        self,
        account: Account,
        *,
        connections: int = 32,
        timeout_seconds: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.account = account
        self._key = account.signing_key
        self._clock = clock
        self._http = httpx.Client(
            transport=open_engine(connections),
            timeout=httpx.Timeout(timeout_seconds, connect=10.0, pool=None),
            follow_redirects=False,  # a followed 307 would be a second transmission
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def signed_body(self, operation: Operation[Any]) -> dict[str, Any]:
        """The body as it travels: own fields, common parameters, signature (document, Authentication)."""
        rules = self.account.rules
        unit = 1000 if rules.timestamp_unit == "ms" else 1
        raw = {
            **operation.body(),
            "partner_id": self.account.partner_id,
            "sign_type": rules.sign_type,
            "timestamp": str(int(self._clock() * unit)),
            "nonce": uuid.uuid4().hex,
        }
        fields: dict[str, Any] = clean(raw, rules)
        fields["sign"] = sign(fields, self._key, rules)
        return fields

    def send(self, operation: Operation[R]) -> R:
        """Send an operation in exactly one transmission and read its answer.

        Raises `NotConnected` (it never left), `Refused` (the service answered something other than success) or
        `OutcomeUnknown` (it left, and no readable answer came).
        """
        content = json.dumps(self.signed_body(operation), ensure_ascii=False, separators=(",", ":")).encode()
        name = operation.operation_name()
        point("client.before")
        try:
            answer = self._http.post(self.account.base_url + operation.path, content=content, headers=HEADERS)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotConnected(f"{name}: no connection to {self.account.base_url}: {error}") from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise ConfigurationError(f"the base URL cannot be used: {error}") from None
        except httpx.HTTPError as error:
            raise OutcomeUnknown(name, f"{type(error).__name__} after the request left") from None
        point("client.answered")
        try:
            return read_reply(type(operation), answer.status_code, answer.content)
        except Refused as refusal:
            wait = answer.headers.get("Retry-After", "")
            refusal.retry_after_seconds = float(wait) if wait.isascii() and wait.isdigit() else None
            raise

    def read_clock(self) -> float | None:
        """How far the service's clock is ahead of ours, in seconds, by its `Date`; None when it shows none.

        Raises `NotConnected` when there is no answer.
        """
        try:
            answer = self._http.get(self.account.base_url + "/", timeout=CLOCK_SECONDS)
            return parsedate_to_datetime(answer.headers["Date"]).timestamp() - self._clock()
        except (KeyError, ValueError):
            return None
        except httpx.HTTPError as error:
            raise NotConnected(f"{self.account.base_url} does not answer: {type(error).__name__}") from None

    def read(self, operation: Operation[R]) -> R:
        """Send an operation that only reads, again if need be. Raises as `send` does, after the last attempt."""
        if operation.effect is not Effect.READS:
            raise AssertionError(f"{operation.operation_name()} does more than read")
        for attempt in stamina.retry_context(on=_passes, attempts=READ_ATTEMPTS, wait_initial=0.2, wait_max=3.0):
            with attempt:
                return self.send(operation)
        raise AssertionError("unreachable")
