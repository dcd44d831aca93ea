"""JSON from outside, read within bounds of depth, digits and characters: what is beyond them costs only its bytes."""

import json
import re
from decimal import Decimal
from typing import Any, NoReturn

from treasury.texts import STAND_IN, UNSAFE, clean_members

MAX_DEPTH = 32
"""Objects and lists inside one another."""

MAX_DIGITS = 60
"""Characters of a number that is read as one; a longer one stays text, which no amount and no status is."""

_SUSPECT = re.compile(r"\\[ubf]|" + UNSAFE.pattern)
"""Finds each unsafe character: written as it is, or as an escape; JSON has short ones for two of them."""
_BRACKET = re.compile(r'[\[{\]}]|"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_EXPONENT = re.compile(r"[eE][+-]?0*[0-9]{3,}$")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _integer(text: str) -> int | str:
    return int(text) if len(text) <= MAX_DIGITS else text[:MAX_DIGITS] + STAND_IN


def _decimal(text: str) -> Decimal | str:
    if len(text) > MAX_DIGITS:
        return text[:MAX_DIGITS] + STAND_IN
    return text if _EXPONENT.search(text) else Decimal(text)


class WrittenNumber(Decimal):
    """A number with a point or an exponent that remembers how it was written: 12.50 is signed as 12.50."""

    written: str

    @classmethod
    def of(cls, text: str) -> "WrittenNumber | str":
        """The number of this text; a text that is too long to be one stays text."""
        value = _decimal(text)
        if isinstance(value, str):
            return value
        number = cls(value)
        number.written = text
        return number


_decode = json.JSONDecoder(parse_float=_decimal, parse_int=_integer, parse_constant=_no_constant).decode
_decode_as_it_is = json.JSONDecoder(
    parse_float=WrittenNumber.of, parse_int=_integer, parse_constant=_no_constant
).decode


def read_json(body: bytes) -> Any:
    """Read JSON exactly: numbers with a point or an exponent become `Decimal`, texts hold no unsafe character.

    A number of more than `MAX_DIGITS` characters, or with an exponent of three digits, stays text. Raises
    `ValueError`, also for what is nested deeper than `MAX_DEPTH` or is not UTF-8.
    """
    text = _text_of(body)
    read = _decode(text)
    if text.isascii() and "\\" not in text and "\x7f" not in text:
        return read  # most answers; JSON itself allows no other control character but as an escape
    return clean_members(read) if _SUSPECT.search(text) else read


def read_json_as_it_is(body: bytes) -> Any:
    """Read JSON with every character as it came, of numbers too: for what is signed. Raises `ValueError`."""
    return _decode_as_it_is(_text_of(body))


def read_json_text(text: str) -> Any:
    """Read JSON as `read_json` does, of a text. Raises `ValueError`."""
    return read_json(text.encode("utf-8", "surrogatepass"))


def _text_of(body: bytes) -> str:
    text = body.decode(json.detect_encoding(body), "surrogatepass")
    check_depth(text)
    return text


def check_depth(text: str) -> None:
    """Raise `ValueError` when a JSON text is nested too deep, before anything is built from it."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return  # most answers: two counts in C
    depth = 0
    for found in _BRACKET.finditer(text):
        mark = found[0]
        if mark in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"nested deeper than {MAX_DEPTH}")
        elif mark in "]}":
            depth -= 1
