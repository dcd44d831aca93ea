"""Kinds of values on the wire: what the service takes a field for, and the rule it names when the value breaks it."""

import base64
import binascii
import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class Kind:
    """How one kind of value is read: `read` returns what a handler gets, or raises `ValueError` with the rule."""

    name: str
    read: Callable[[Any], Any]
    choices: tuple[str, ...] = ()
    """The values of an enumeration."""
    bounds: tuple[int, int | None] = (0, None)
    """Least and most characters of a text."""
    inside: type | None = None
    """The form of the members, where the value is an object."""


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("must be a text")
    if not value.isascii():
        try:
            value.encode()  # half of a surrogate pair is no character, and no answer could hold it
        except UnicodeEncodeError:
            raise ValueError("must be a text of whole Unicode characters") from None
    return value


TEXT = Kind("text", _text)


def sized(least: int, most: int | None = None) -> Kind:
    """A text with so many characters (document, Limits)."""

    def read(value: Any) -> str:
        text = _text(value)
        if len(text) < least or (most is not None and len(text) > most):
            raise ValueError(f"must have {least} to {most} characters" if least else f"has at most {most} characters")
        return text

    return Kind("text", read, bounds=(least, most))


def shaped(name: str, pattern: str, rule: str) -> Kind:
    """A text of one shape."""
    fits = re.compile(pattern).fullmatch

    def read(value: Any) -> str:
        if type(value) is not str or fits(value) is None:
            raise ValueError(rule)
        return value

    return Kind(name, read)


SYMBOL = shaped("symbol", r"[A-Za-z0-9_]+-[A-Za-z0-9_]+", "must be base and quote joined by a hyphen")
PURPOSE = shaped("purpose", r"[0-9]{2}", "must be a remittance purpose of two digits")

_AMOUNT = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,18})?").fullmatch


def _number(value: Any) -> Decimal:
    """Decimal text with at most 18 digits after the point; a JSON number that was read exactly is as good."""
    if type(value) is str:
        text = value.strip()
    elif isinstance(value, Decimal):
        text = format(value, "f")
    elif isinstance(value, int) and not isinstance(value, bool):
        text = str(value)
    else:
        raise ValueError("must be a decimal number, written as a text")
    if _AMOUNT(text) is None:
        raise ValueError("must be a decimal number with at most 18 digits after the point")
    return Decimal(text)


def _amount(value: Any) -> Decimal:
    amount = _number(value)
    if amount <= 0:
        raise ValueError("must be greater than zero")
    return amount


AMOUNT = Kind("amount", _amount)
ANY_AMOUNT = Kind("amount", _number)
"""An amount that is to be above zero only where a condition requires it (document, Limits)."""


def one_of(*values: str) -> Kind:
    """One of the listed values, whatever their letter case; handlers get it as it is listed."""
    listed = {value: value for value in values} | {value.casefold(): value for value in values}

    def read(value: Any) -> str:
        if type(value) is str:
            found = listed.get(value) or listed.get(value.casefold())
            if found is not None:
                return found
        raise ValueError(f"must be one of {', '.join(values)}")

    return Kind("enumeration", read, choices=values)


SIDE = one_of("BUY", "SELL")


@functools.cache
def _countries() -> frozenset[str]:
    import pycountry

    return frozenset(country.alpha_2 for country in pycountry.countries)


@functools.cache
def _currencies() -> frozenset[str]:
    import pycountry

    return frozenset(currency.alpha_3 for currency in pycountry.currencies)


def _listed(name: str, codes: Callable[[], frozenset[str]], rule: str) -> Kind:
    def read(value: Any) -> str:
        if type(value) is not str or value not in codes():
            raise ValueError(rule)
        return value

    return Kind(name, read)


COUNTRY = _listed("country", _countries, "must be an ISO 3166-1 alpha-2 code")
FIAT = _listed("fiat currency", _currencies, "must be an ISO 4217 code")

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch


def _date(value: Any) -> str:
    if type(value) is not str or _DATE(value) is None:
        raise ValueError("must be a date in the format YYYY-MM-DD")
    try:
        date.fromisoformat(value)
    except ValueError:
        raise ValueError("must be a date that exists") from None
    return value


DATE = Kind("date", _date)


def image(*types: str) -> Kind:
    """A data-URI base64 image of these MIME types; of any image type when none is named."""
    named = "|".join(map(re.escape, types)) or r"image/[A-Za-z0-9.+-]+"
    head = re.compile(rf"data:(?:{named});base64,").match

    def read(value: Any) -> str:
        found = head(value) if type(value) is str else None
        if found is None:
            raise ValueError(f"must be a data-URI base64 image ({', '.join(types) or 'image/*'})")
        try:
            content = base64.b64decode(value[found.end() :], validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("must be a data-URI image with base64 content") from None
        if not content:
            raise ValueError("must be a data-URI image that is not empty")
        return str(value)

    return Kind("image", read, choices=types)


def _texts(value: Any) -> dict[str, str]:
    """Texts by names of the bank's own; blank ones count as absent."""
    if not isinstance(value, Mapping):
        raise ValueError("must be an object")  # noqa: TRY004
    return {_text(name): _text(text) for name, text in value.items() if not is_absent(text)}


TEXTS = Kind("object of texts", _texts)


def is_absent(value: Any) -> bool:
    """Tell whether a member counts as not given: null, blank, the word `null`, or empty (public fact 1.2, steps 2 and
    9)."""
    if type(value) is str:
        return not value or value.isspace() or value == "null"
    return value is None or (not value and isinstance(value, dict | list))


def from_json_text(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Reads an object that travels as JSON text, and takes the object itself, too (document, endpoint 5)."""

    def read_text(value: Any) -> Any:
        if type(value) is str:
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                raise ValueError("must be a text that holds a JSON object") from None
        return read(value)

    return read_text
