"""Field types of replies: each is bounded and clean, so that whatever an answer holds fits the ledger and a terminal.

What identifies is kept as it came or the answer cannot be read; what says something to people is cleaned and cut.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, StringConstraints, ValidationInfo

from treasury.money import format_amount, parse_reply_amount, parse_reply_rate
from treasury.provider.fields import WORDS
from treasury.texts import MAX_CODE, MAX_TEXT, cut_text, is_clean

MAX_ID = 200
"""Characters of an identifier: what the ledger's columns hold."""

MAX_ADDRESS = 2_000
"""Characters of a web address."""

MAX_QR_CODE = 8_000

MAX_TIME = 10**14
"""A time in milliseconds, some 3,000 years from 1970."""

UNREADABLE = "unreadable"
"""The name in a validation's context under which fields that could not be read, and may be absent, are listed."""


def _exactly(most: int) -> BeforeValidator:
    def check(value: object) -> object:
        if isinstance(value, str) and len(value) <= most and value.isascii() and value.isprintable():
            return value
        text = str(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value
        if isinstance(text, str) and (len(text) > most or not is_clean(text)):
            raise ValueError(f"must be at most {most} characters, none of them a control character")
        return text

    return BeforeValidator(check)


def _about(most: int) -> BeforeValidator:
    def cut(value: object) -> object:
        if isinstance(value, str) and len(value) <= most and value.isascii() and value.isprintable():
            return value
        text = str(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value
        return cut_text(text, most) if isinstance(text, str) else text

    return BeforeValidator(cut)


ReplyId = Annotated[str | None, _exactly(MAX_ID)]
"""An identifier: at most 200 characters, kept as it came; anything else makes the answer unreadable."""

ReplyCode = Annotated[Annotated[str, StringConstraints(to_upper=True)] | None, _exactly(MAX_CODE)]
"""A currency: at most 40 characters, in the capitals of the document, whatever letters it came in."""

ReplyMark = Annotated[str | None, _exactly(20)]
"""A code of at most 20 characters, kept as it came."""

ReplyAddress = Annotated[str | None, _exactly(MAX_ADDRESS)]
"""A web address: at most 2,000 characters, kept as it came."""

ReplyQrCode = Annotated[str | None, _exactly(MAX_QR_CODE)]
"""The content of a QR code: at most 8,000 characters, kept as it came."""

ReplyText = Annotated[str | None, _about(MAX_TEXT), WORDS]
"""A text for people: cleaned, and cut to 500 characters."""

ReplyLabel = Annotated[str | None, _about(MAX_CODE), WORDS]
"""A word that nothing is decided by: cleaned, and cut to 40 characters."""


def _amount(value: object) -> Decimal | None:
    return None if value is None else parse_reply_amount(value)


def _rate(value: object) -> Decimal | None:
    return None if value is None else parse_reply_rate(value)


def _time(value: object) -> int | None:
    time = _amount(value)
    if time is not None and not 0 <= time <= MAX_TIME:
        raise ValueError("must be Unix milliseconds")
    return None if time is None else int(time)


def _as_text(value: Decimal | None) -> str | None:
    return None if value is None else format_amount(value)


def or_unread(read: Callable[[object], object]) -> BeforeValidator:
    """Read a value, or leave it out and list its field in the context: an answer that says what became of a payment is
    not thrown away for a detail."""

    def attempt(value: object, info: ValidationInfo) -> object:
        try:
            return read(value)
        except ValueError:
            if info.context is not None:
                info.context[UNREADABLE].append(info.field_name)
            return None

    return BeforeValidator(attempt)


_TEXT = PlainSerializer(_as_text, return_type=str | None)

ReplyAmount = Annotated[Decimal | None, BeforeValidator(_amount), _TEXT]
"""An amount that is compared with what was asked: decimal text, tolerated as a number; None when absent. At
most 30 digits before the point and 18 after it; anything else makes the answer unreadable."""

ReplyDetail = Annotated[Decimal | None, or_unread(_amount), _TEXT]
"""A secondary amount, such as a fee: None, and reported as unreadable, when it cannot be read."""

ReplyRate = Annotated[Decimal | None, BeforeValidator(_rate), _TEXT]
"""A rate: as an amount, but of what a division leaves (1/15800) only 18 digits after the point are kept."""

ReplyRateDetail = Annotated[Decimal | None, or_unread(_rate), _TEXT]
"""A rate of what was done already: None, and reported as unreadable, when it cannot be read."""

ReplyTime = Annotated[int | None, Field(ge=0, le=MAX_TIME)]
"""Unix milliseconds."""

ReplyTimeDetail = Annotated[int | None, or_unread(_time)]
"""Unix milliseconds that nothing is decided by: None, and reported as unreadable, when they cannot be read."""
