"""Faults on purpose: one table of names, what each does to an answer, and dice that always fall the same way."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from treasury.errors import ConfigurationError
from treasury.money import format_amount
from treasury.sandbox.answers import Answer, envelope, json_bytes
from treasury.sandbox.dice import fraction
from treasury.sandbox.settings import SandboxSettings

UNLISTED_CODE = 209999
"""A code that no public list has."""
UNKNOWN_STATUS = 77
"""A status that no public list has."""
_AMOUNTS = ("order_amount", "pay_amount", "payAmt")

Change = Callable[[Answer, SandboxSettings], Answer]


@dataclass(frozen=True)
class Fault:
    """One fault: what it does in words, whether the request acts all the same, and what becomes of the answer."""

    tells: str
    acts: bool = True
    change: Change | None = None
    """None: no answer is bent; the place that acts asks for the fault by its name."""


def _drop(answer: Answer, _: SandboxSettings) -> Answer:
    return replace(answer, drop=True)


def _slow(answer: Answer, settings: SandboxSettings) -> Answer:
    return replace(answer, delay_seconds=settings.slow_seconds)


def _error_500(_: Answer, __: SandboxSettings) -> Answer:
    return Answer(envelope(500, "SYSTEM_ERROR"), http_status=500)


def _rate_limit(_: Answer, __: SandboxSettings) -> Answer:
    return Answer(envelope(429, "RATE_LIMIT_REACHED"), http_status=429, headers={"Retry-After": "1"})


def _rate_limit_bare(_: Answer, __: SandboxSettings) -> Answer:
    return Answer(b"Too Many Requests", http_status=429, media_type="text/plain")


def _truncate(answer: Answer, _: SandboxSettings) -> Answer:
    return replace(answer, body=answer.body[: len(answer.body) // 2])


def _html(_: Answer, __: SandboxSettings) -> Answer:
    return Answer(b"<!doctype html><title>Maintenance</title><p>Please come back later.", media_type="text/html")


def _wrong_length(answer: Answer, _: SandboxSettings) -> Answer:
    return replace(answer, missing_bytes=16)


def _other_amount(answer: Answer, _: SandboxSettings) -> Answer:
    content = json.loads(answer.body)
    data = content.get("data") or {}
    for name in _AMOUNTS:
        if data.get(name):
            data[name] = format_amount(Decimal(data[name]) + 1)
    return replace(answer, body=json_bytes(content))


def _unlisted_code(answer: Answer, _: SandboxSettings) -> Answer:
    return replace(answer, body=envelope(UNLISTED_CODE, "PLEASE_CONTACT_SUPPORT"))


def _unknown_status(answer: Answer, _: SandboxSettings) -> Answer:
    content = json.loads(answer.body)
    data = content.get("data") or {}
    if "status" in data:
        data["status"] = UNKNOWN_STATUS
    return replace(answer, body=json_bytes(content))


def _clock_skew(_: Answer, __: SandboxSettings) -> Answer:
    return Answer(envelope(412, "WRONG_TIMESTAMP_OR_NONCE: the clock of this server is 10 minutes ahead"))


FAULTS: Mapping[str, Fault] = {
    "drop_before": Fault("closes the connection before acting", acts=False, change=_drop),
    "error_500_before": Fault("answers HTTP 500 without acting", acts=False, change=_error_500),
    "rate_limit_429": Fault("answers 429 with `Retry-After: 1`, without acting", acts=False, change=_rate_limit),
    "rate_limit_429_bare": Fault(
        "answers 429 as plain text without `Retry-After`, without acting", acts=False, change=_rate_limit_bare
    ),
    "clock_skew": Fault("answers 412 as if the server's clock were 10 minutes ahead", acts=False, change=_clock_skew),
    "other_amount": Fault("acts, and answers success with an amount that is 1 higher", change=_other_amount),
    "unknown_status": Fault(f"acts, and answers success with status {UNKNOWN_STATUS}", change=_unknown_status),
    "truncated_json": Fault("acts, and answers the first half of the JSON", change=_truncate),
    "unlisted_code_after": Fault(f"acts, and answers code {UNLISTED_CODE}", change=_unlisted_code),
    "html": Fault("acts, and answers an HTML page under HTTP 200", change=_html),
    "error_500_after": Fault("acts, and answers HTTP 500", change=_error_500),
    "wrong_length": Fault("acts, announces 16 bytes more than it sends, and closes", change=_wrong_length),
    "slow": Fault("acts at once, and answers after `slow_seconds`", change=_slow),
    "drop_after": Fault("acts, and closes the connection without an answer", change=_drop),
    "repeat_acts": Fault("a repeated reference acts a second time, and is answered as the first"),
    "repeat_answers_first": Fault("a repeated reference is answered as the first, and does not act"),
    "read_lag": Fault("the order is not found by queries for `read_lag_seconds` after it was made"),
    "flip_final": Fault("a successful order fails `flip_seconds` later, and the money comes back"),
    "quote_expired": Fault("the quote expires at once"),
    "notice_lost": Fault("the notification is never sent"),
    "notice_repeated": Fault("the notification is sent once more after it was answered with 200"),
    "notice_reordered": Fault("a notification of an order on its way comes a minute late, after the one of its end"),
    "notice_forged": Fault(
        "another notification comes first, once, changed after it was signed: it says ten times as much"
    ),
}
"""Name -> behaviour. Of several that do not act the first answers; those that act bend the answer in this order."""


def check_faults(faults: Mapping[str, float]) -> None:
    """Raise `ConfigurationError` for an unknown fault or a rate outside 0 .. 1."""
    for name, rate in faults.items():
        if name not in FAULTS:
            raise ConfigurationError(f"no fault called {name}; there are {', '.join(FAULTS)}")
        if not 0 <= rate <= 1:
            raise ConfigurationError(f"the rate of fault {name} must lie between 0 and 1 (got {rate})")


def strikes_order(settings: SandboxSettings, name: str, reference: str) -> bool:
    """Tell whether this order or quote, whenever it is looked at, meets the fault."""
    rate = settings.faults.get(name, 0.0)
    return rate > 0 and fraction(settings.seed, "fault", name, reference) < rate


class FaultDice:
    """Throws for requests: by seed, reference and how often the reference was sent, never by order of arrival."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._sent: dict[tuple[str, str], int] = {}

    def throw(self, operation: str, reference: str) -> Sequence[str]:
        """Names of the faults that this request meets, in the order of the table."""
        if not self._settings.faults:
            return ()
        count = self._sent[operation, reference] = self._sent.get((operation, reference), 0) + 1
        return [name for name in FAULTS if strikes_order(self._settings, name, f"{operation} {reference} {count}")]
