"""Field types of the wire: amounts, codes, dates, images; each names its rule in the error it raises.

Those of replies are bounded and clean, so that whatever an answer holds fits the ledger.

What identifies is kept as it came or the answer cannot be read; what says something to people is cleaned and cut.
"""

import base64
import binascii
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, StringConstraints, ValidationInfo

from treasury.errors import Problem
from treasury.masking import MASKED, last_of, mask
from treasury.money import format_amount, parse_amount, parse_reply_amount, parse_reply_rate
from treasury.provider.bounded_json import check_depth
from treasury.texts import MAX_CODE, MAX_TEXT, cut_text, is_clean, is_whole

_UNSIGNABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that JSON libraries write in different ways, so that a signature over an object may not be the one that
the service makes (public fact 1.2, step 6)."""


def unsignable(value: object, place: str = "", depth: int = 0) -> Iterator[Problem]:
    """Yield the texts that cannot be signed at all, and those inside of objects that cannot be signed safely."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            if isinstance(member, str | None) and (text := f"{name}{member}").isascii() and text.isprintable():
                continue  # as nearly all are
            inside = f"{place}.{name}" if place else str(name)
            yield from unsignable(str(name), inside, depth + 1)
            yield from unsignable(member, inside, depth + 1)
    elif not is_whole(value):
        yield Problem(place, "must be a text of whole Unicode characters")
    elif depth > 1 and isinstance(value, str) and _UNSIGNABLE.search(value):
        yield Problem(place, "must not hold control characters or line separators: write it on one line")


@dataclass(frozen=True)
class Personal:
    """Marks a field whose value is personal: it is masked in errors, reports and what the ledger keeps."""

    account: Callable[[str], str] | None = None
    """Of a field that says whom a payment pays, the account in it: its last characters are shown, as in results."""

    def masked(self, value: object) -> str:
        """The value as people may see it."""
        return mask(value) if self.account is None else f"{MASKED}{last_of(self.account(str(value)))}"


PERSONAL = Personal()


WORDS = "words"
"""Marks a field of a reply that holds words: personal values in it are masked before it is kept."""


def is_blank(value: object) -> bool:
    """Tell whether the interface treats a value as absent: null, empty or white space (public fact 1.2, step 2).

    The literal text `null` counts too: the platform writes it for absent optional fields (public fact 1.2, step 9).
    """
    return value is None or (isinstance(value, str) and (not value.strip() or value == "null"))


def without_blanks(data: object) -> object:
    """An object without its blank members; anything else as it is."""
    if isinstance(data, Mapping):
        return {key: value for key, value in data.items() if not is_blank(value) and value not in ({}, [])}
    return data


def _positive(amount: Decimal) -> Decimal:
    if amount <= 0:
        raise ValueError("must be greater than zero")
    return amount


Amount = Annotated[
    Decimal, BeforeValidator(parse_amount), AfterValidator(_positive), PlainSerializer(format_amount, return_type=str)
]
"""An amount greater than zero; decimal text on the wire."""


@functools.cache
def country_codes() -> frozenset[str]:
    """ISO 3166-1 alpha-2 codes."""
    import pycountry

    return frozenset(country.alpha_2 for country in pycountry.countries)


def country_name(code: str) -> str | None:
    """The common name of a country; None for what is no ISO 3166-1 alpha-2 code."""
    import pycountry

    found = pycountry.countries.get(alpha_2=code)
    return None if found is None else str(getattr(found, "common_name", found.name))


def country_meant(text: str) -> str | None:
    """The ISO 3166-1 alpha-2 code of a country that is named in another way, such as IDN or Indonesia."""
    import pycountry

    try:
        return str(pycountry.countries.lookup(text).alpha_2)
    except LookupError:
        return None


@functools.cache
def fiat_codes() -> frozenset[str]:
    """ISO 4217 alphabetic codes."""
    import pycountry

    return frozenset(currency.alpha_3 for currency in pycountry.currencies)


def _country(value: str) -> str:
    if value not in country_codes():
        raise ValueError("must be an ISO 3166-1 alpha-2 country code, for example DE")
    return value


def _fiat(value: str) -> str:
    if value not in fiat_codes():
        raise ValueError("must be an ISO 4217 currency code, for example EUR")
    return value


Country = Annotated[str, AfterValidator(_country)]
FiatCurrency = Annotated[str, AfterValidator(_fiat)]


def _date(value: str) -> str:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        raise ValueError("must be a date written YYYY-MM-DD")
    try:
        date.fromisoformat(value)
    except ValueError:
        raise ValueError("must be a date that exists, written YYYY-MM-DD") from None
    return value


WireDate = Annotated[str, AfterValidator(_date)]

_IMAGE = re.compile(r"data:image/(?:jpeg|png);base64,")
_ANY_IMAGE = re.compile(r"data:image/[A-Za-z0-9.+-]{1,40};base64,")


def _image(value: str) -> str:
    return _data_uri(value, _IMAGE, "must be a data-URI image: data:image/jpeg;base64,... or data:image/png;base64,...")


def _any_image(value: str) -> str:
    return _data_uri(value, _ANY_IMAGE, "must be a data-URI image: data:image/TYPE;base64,...")


def _data_uri(value: str, start: re.Pattern[str], rule: str) -> str:
    found = start.match(value)
    if not found:
        raise ValueError(rule)
    try:
        content = base64.b64decode(value[found.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be a data-URI image with valid base64 content") from None
    if not content:
        raise ValueError("must be a data-URI image that is not empty")
    return value


Image = Annotated[str, AfterValidator(_image), PERSONAL]
"""A data-URI base64 image, `image/jpeg` or `image/png` (document, endpoint 7)."""

AnyImage = Annotated[str, AfterValidator(_any_image), PERSONAL]
"""A data-URI base64 image of any type: the document names none for the back of a document (endpoint 7)."""


class OneOf:
    """Reads one of the listed values, letter case ignored on the way in, as listed on the wire."""

    def __init__(self, values: tuple[str, ...]) -> None:
        self.values = values
        self._by_case = {value.casefold(): value for value in values}

    def __call__(self, value: object) -> str:
        """The value as it is listed. Raises `ValueError` for another one."""
        found = self._by_case.get(value.casefold()) if isinstance(value, str) else None
        if found is None:
            raise ValueError(f"must be one of {', '.join(self.values)}")
        return found


def one_of(*values: str) -> BeforeValidator:
    """One of the listed values, letter case ignored on the way in, as listed on the wire."""
    return BeforeValidator(OneOf(values))


Side = Annotated[str, one_of("BUY", "SELL")]
"""The document's examples use upper case, its text lower case; sent as in the examples."""


def asset_code(value: str) -> str:
    """Return a currency, or a pair of them, as it is. Raises `ValueError` for another spelling than the service has."""
    if not re.fullmatch(r"[A-Z0-9][A-Z0-9_.-]*", value, re.ASCII):
        raise ValueError("must be written in capitals, as the service lists it, for example USDT_TRC20")
    if len(value) > MAX_CODE:
        raise ValueError(f"has {len(value)} characters, and no code has more than {MAX_CODE}")
    return value


def quoted_pair(value: str) -> str:
    """Return the pair of a payout's quote, as USDT-EUR, as it is. Raises `ValueError` for what no quote has."""
    _, _, receives = asset_code(value).partition("-")
    if receives not in fiat_codes():
        raise ValueError("must be the asset that is paid and the currency that is received, for example USDT-EUR")
    return value


AssetCode = Annotated[str, AfterValidator(asset_code)]
"""A currency that is debited or comes in: limits and accounts know it by this one spelling, however lenient the service
is."""

Symbol = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+-[A-Za-z0-9_]+$")]
"""A trading pair, base and quote joined by a hyphen."""

PersonalText = Annotated[str, PERSONAL]

AccountText = Annotated[str, Personal(account=str)]
"""The account or address that is paid."""


def json_text(model: Callable[[Mapping[str, Any]], Any]) -> BeforeValidator:
    """A field that is an object for people and a JSON string on the wire (document, endpoint 5, `customer`)."""

    def read(value: object) -> object:
        if isinstance(value, str):
            try:
                check_depth(value)
                value = json.loads(value)
            except ValueError:
                raise ValueError("must be a JSON object, or a string that holds one") from None
        if isinstance(value, Mapping):
            return model(value)
        return value

    return BeforeValidator(read)


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
