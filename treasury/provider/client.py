"""The client: signs an operation, sends it exactly once, reads the answer."""

import copy
import json
import os
import random
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import cached_property
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import stamina
from cryptography.hazmat.primitives.asymmetric import rsa

from treasury.clock import MACHINE, Clock
from treasury.concurrency.crash_points import crash_point
from treasury.concurrency.turns import WorkerThreads
from treasury.errors import NotConnected, NotSentInTime, OutcomeUnknown, Refused
from treasury.provider import pacing
from treasury.provider.address import canonical_url, check_transport, is_loopback
from treasury.provider.answers import read_answer, seconds_ahead
from treasury.provider.engine import LIMITS, EngineLimits, EngineName, NoResponse
from treasury.provider.engine_choice import open_engine
from treasury.provider.operation import Effect, Operation, Reply
from treasury.provider.pacing import Connections, Pace
from treasury.provider.refusals import says_too_many
from treasury.provider.service_rules import ServiceRules
from treasury.provider.signing import clean, load_private_key, sign

R = TypeVar("R", bound=Reply)


@dataclass(frozen=True)
class Account:
    """An account at the service: where it is, who we are, how we sign.

    Raises `ConfigurationError` for a base URL that cannot be one, or has no TLS and leads to another machine.
    """

    base_url: str
    """In its one form (`canonical_url`), however it was written."""
    partner_id: str
    private_key: str = field(repr=False)
    """PEM, or bare base64 of PKCS#8."""
    platform_key: str | None = field(default=None, repr=False)
    """The platform's public key, for notifications."""
    rules: ServiceRules = ServiceRules()
    """How this account's service does what the interface document leaves open."""

    def __post_init__(self) -> None:
        url = canonical_url(self.base_url)
        check_transport(url)
        object.__setattr__(self, "base_url", url)

    @property
    def identity(self) -> str:
        """Return what a ledger is bound to: the base URL and the partner."""
        return f"{self.base_url}|{self.partner_id}"

    @property
    def is_loopback(self) -> bool:
        """Tell whether the service is on this very machine: a rehearsal or a test."""
        return is_loopback(self.base_url)

    @cached_property
    def signing_key(self) -> rsa.RSAPrivateKey:
        """The private key, parsed once: its checks take 37 ms, a signature 0.3 ms."""
        return load_private_key(self.private_key)


encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""The JSON text of a body as it travels."""


def common_parameters(account: Account, now: float, nonce: str) -> dict[str, str]:
    """Return what every request carries beside its own fields (document, Authentication), unsigned; `now` in Unix
    seconds."""
    return {
        "partner_id": account.partner_id,
        "sign_type": account.rules.sign_type,
        "timestamp": str(int(now * (1000 if account.rules.timestamp_unit == "ms" else 1))),
        "nonce": nonce,
    }


CLOCK_SECONDS = 5.0
"""How long the service may take to show its clock."""

MAX_AGE_SECONDS = 5.0
"""How old a signature may be when its request leaves, counted by a clock that goes on while the machine sleeps."""


def may_pass(error: Exception) -> bool:
    """Tell whether a read that failed so may succeed when repeated."""
    if isinstance(error, Refused):
        return error.http_status >= 500 or error.http_status == 429 or error.code in ("412", "429")
    return isinstance(error, NotConnected | OutcomeUnknown)


def _asked_seconds(header: str, now: float) -> float | None:
    """Return what a `Retry-After` header asks for, in seconds: it holds a number or a date."""
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class Signed(Generic[R]):
    """A request as it leaves: the very bytes, and when they were signed (`Clock.uptime`)."""

    operation: Operation[R]
    content: bytes = field(repr=False)
    at: float


class Client:
    """Sends operations of one account. Safe to use from several threads."""

    def __init__(
        self,
        account: Account,
        *,
        connections: int = 32,
        timeout_seconds: float = 30.0,
        limits: EngineLimits = LIMITS,
        engine: EngineName | None = None,
        clock: Clock = MACHINE,
    ) -> None:
        self.account = account
        self.clock = clock
        self._key = account.signing_key
        self._seconds_old = 0.0
        self._engine = open_engine(connections, timeout_seconds, limits, name=engine)
        self._limits = limits
        self._nonces = random.Random()  # noqa: S311 - never the same twice is all they must be; seeded by the system
        self._signers = WorkerThreads(os.cpu_count() or 1)
        self._waiters = WorkerThreads(connections)
        # Not the waiters: who repeats a question there waits for a connection, and its holder would wait for them.
        self._pacers = WorkerThreads(connections)
        self._connections = Connections(connections)
        self.pace = Pace(self._connections, clock)
        self._date = "", 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._engine.close()
        self._signers.close()
        self._waiters.close()
        self._pacers.close()

    def signing_as(self, rules: ServiceRules, *, seconds_old: float = 0.0) -> "Client":
        """Return a client of these connections whose requests are signed by other rules and dated so long ago."""
        other = copy.copy(self)
        other.account = replace(self.account, rules=rules)
        other._seconds_old = seconds_old
        return other

    def signed_body(self, operation: Operation[Any]) -> dict[str, Any]:
        """The body as it travels: own fields, common parameters, signature (document, Authentication)."""
        rules = self.account.rules
        dated, nonce = self.clock.wall() - self._seconds_old, f"{self._nonces.getrandbits(128):032x}"
        common = common_parameters(self.account, dated, nonce)
        fields: dict[str, Any] = clean({**rules.as_sent(operation), **common}, rules)
        fields["sign"] = self._signers.do(sign, fields, self._key, rules)
        return fields

    def take_connection(self) -> None:
        """Wait for a free connection and for the pace, so that what is marked now leaves now; then `give_back`.

        Raises `Stopped` when the service asked for a pause that is too long to wait for.
        """
        self._connections.take()
        try:
            self.pace.wait(self._pacers.do)
        except BaseException:
            self._connections.give_back()
            raise

    def give_back(self) -> None:
        """Let another request have the connection."""
        self._connections.give_back()

    def sign(self, operation: Operation[R]) -> Signed[R]:
        """Build and sign a request; nothing leaves."""
        at = self.clock.uptime()
        return Signed(operation, encode(self.signed_body(operation)).encode(), at)

    def transmit(self, signed: Signed[R]) -> R:
        """Send what was signed in exactly one transmission and read its answer. The caller holds a connection.

        Raises `NotSentInTime` when it was signed too long ago: then nothing left. Else as `send`.
        """
        name = signed.operation.operation_name()
        crash_point("client.before")
        age = self._age(signed)
        if age > MAX_AGE_SECONDS:
            raise NotSentInTime(f"{name}: signed {age:.0f} s ago, so it was not sent")
        began = self.clock.monotonic() - age  # when the pace let it go: marking it on disk takes time
        try:
            answer = self._engine.post(self.account.base_url + signed.operation.path, signed.content)
        except NotConnected as error:
            raise NotConnected(f"{name}: no connection to {self.account.base_url}: {error}") from None
        except NoResponse as error:
            raise OutcomeUnknown(name, f"the request left; {error}") from None
        crash_point("client.answered")
        self._date = answer.headers.get("date", ""), self.clock.uptime()
        try:
            reply = read_answer(signed.operation, answer.status, answer.body)
        except Refused as refusal:
            refusal.retry_after_seconds = _asked_seconds(answer.headers.get("retry-after", ""), self.clock.wall())
            if says_too_many(refusal):
                self.pace.too_many(refusal.retry_after_seconds, began)
            else:
                self.pace.went_well()
            raise
        self.pace.went_well()
        return reply

    def _age(self, signed: Signed[Any]) -> float:
        return self.clock.uptime() - signed.at

    def send(self, operation: Operation[R]) -> R:
        """Send an operation in exactly one transmission and read its answer.

        Raises `NotConnected` (it never left), `Refused` (the service answered something other than success) or
        `OutcomeUnknown` (it left, and no readable answer came).
        """
        signed = self.sign(operation) if self.pace.is_free else None
        self.take_connection()
        try:
            if signed is None or self._age(signed) > MAX_AGE_SECONDS / 2:  # it waited, and its signature grew old
                signed = self.sign(operation)
            return self.transmit(signed)
        finally:
            self.give_back()

    def service_now(self) -> int | None:
        """The service's time by its last answer, Unix ms; None when it shows none."""
        date, at = self._date
        try:
            return int((parsedate_to_datetime(date).timestamp() + self.clock.uptime() - at) * 1000)
        except (ValueError, OverflowError):
            return None

    def read_clock(self) -> float | None:
        """How far the service's clock is ahead of ours, in seconds, by its `Date`; None when it shows none.

        Raises `NotConnected` when there is no answer.
        """
        try:
            answer = self._engine.get(self.account.base_url + "/", CLOCK_SECONDS)
            return seconds_ahead(answer.headers, self.clock.wall())
        except (NotConnected, NoResponse) as error:
            raise NotConnected(f"{self.account.base_url} does not answer: {error}") from None

    def read(self, operation: Operation[R]) -> R:
        """Send an operation that only reads, again if need be. Raises as `send` does, after the last attempt.

        No attempt begins later than one exchange may take: an interruption waits for what is on its way.
        """
        if operation.effect is not Effect.READS:
            raise AssertionError(f"{operation.operation_name()} does more than read")
        began = self.clock.monotonic()
        try:
            return self.send(operation)
        except (Refused, NotConnected, OutcomeUnknown) as error:
            first = error
        left = self._limits.exchange_seconds - (self.clock.monotonic() - began)
        if left <= 0 or not may_pass(first):
            raise first
        reply: R = self._waiters.do(self._read_again, operation, first, left)
        return reply

    def _read_again(self, operation: Operation[R], first: Exception | None, seconds: float) -> R:
        """Return what is set up only after a failure, which counts as the first attempt: it costs as much as a
        request."""
        until = self.clock.monotonic() + seconds

        def passes(error: Exception) -> bool:
            return may_pass(error) and self.clock.monotonic() < until

        # The pauses are the clock's, so stamina makes none.
        for attempt in stamina.retry_context(
            on=passes, attempts=pacing.READ.attempts, timeout=None, wait_initial=0, wait_max=0, wait_jitter=0
        ):
            with attempt:
                if first is not None:
                    failed, first = first, None
                    raise failed
                self.clock.sleep(pacing.READ.pause_after(attempt.num - 1))
                return self.send(operation)
        raise AssertionError("unreachable")
