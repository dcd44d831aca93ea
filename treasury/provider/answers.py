"""Answers as a caller gets them: read within bounds, and without the personal values of what was asked."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from treasury.errors import OutcomeUnknown, Refused
from treasury.masking import known, mask_text
from treasury.money import family_of
from treasury.provider.card_users import CardUserRecord
from treasury.provider.envelope import read_reply
from treasury.provider.operation import Effect, Operation, Reply, personal_values

R = TypeVar("R", bound=Reply)


def read_answer(operation: Operation[R], http_status: int, body: bytes) -> R:
    """Read the answer to an operation.

    Raises as `read_reply` does; no error names a personal value of this operation, an e-mail address or an account.
    """
    try:
        return _about(operation, read_reply(type(operation), http_status, body), http_status)
    except Refused as error:
        said = _masked(operation, error.message)
        raise Refused(error.operation, error.http_status, _masked_code(operation, error.code), said) from None
    except OutcomeUnknown as error:
        why, code = _masked(operation, error.why), _masked_code(operation, error.code)
        raise OutcomeUnknown(error.operation, why, error.http_status, code) from None


SUBJECTS = ("currency", "symbol")
"""Fields that say what is asked about, and that the answer may repeat (document, conversion rate; public fact 5.10)."""


def _about(operation: Operation[R], reply: R, http_status: int) -> R:
    """The reply. Raises `OutcomeUnknown` where a question about one asset or pair is answered about another one, and
    anything asked of one card user by another one's record: a link in it lets a stranger prove their identity."""
    if isinstance(reply, CardUserRecord):
        ours, there = (getattr(each, "user_xid", None) or "" for each in (operation, reply))
        if ours and there and ours.strip().casefold() != there.strip().casefold():
            raise OutcomeUnknown(operation.operation_name(), "the answer is about another card user", http_status)
    named = SUBJECTS if operation.effect is Effect.READS else ()  # of any other operation its caller compares
    for name in named:
        ours, there = getattr(operation, name, None), getattr(reply, name, None)
        if name in reply.listed() and ours and there and not names_the_same(str(ours), str(there)):
            why = f"the answer is about {there}, not {ours}"
            raise OutcomeUnknown(operation.operation_name(), why, http_status)
    return reply


def names_the_same(ours: str, there: str) -> bool:
    """Tell whether an answer names what was asked about: in any letters, with or without the chain of a pooled asset,
    and a pair with any sign between its two."""
    mine, its = (re.sub(r"[^A-Z0-9_]", "", each.upper()) for each in (ours, there))
    return its in (mine, family_of(mine))


MAX_PLAIN_CODE = 8
"""Most characters of a code that is kept unmasked, because the kind of a refusal depends on it."""


def _masked(operation: Operation[Any], text: str) -> str:
    return mask_text(text, known(list(personal_values(type(operation), operation.body()))), _own(operation))


def _masked_code(operation: Operation[Any], code: str | None) -> str | None:
    return code if code is None or len(code) <= MAX_PLAIN_CODE else _masked(operation, code)


def _own(operation: Operation[Any]) -> tuple[str | None, ...]:
    named = (getattr(operation, name, None) for name in ("request_id", "order_no", "user_xid", "customer_ref_id"))
    reference = operation.reference_value if operation.reference else None
    return (reference, *(None if name is None else str(name) for name in named))


def seconds_ahead(headers: Mapping[str, str], now: float) -> float | None:
    """How far a service's clock is ahead, by the `Date` of its answer; None when that shows no time."""
    try:
        return parsedate_to_datetime(headers["date"]).timestamp() - now
    except (KeyError, ValueError, TypeError, OverflowError, OSError):
        return None
