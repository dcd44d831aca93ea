"""The switches of `Behaviour` as words of a command line: NAME=VALUE, lists by commas, pairs by colons."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from treasury.errors import InputError
from treasury.sandbox.behaviour import Behaviour, allowed, default_of


def read_switches(texts: Sequence[str]) -> Behaviour:
    """The behaviour that these switches make; a list that is given twice is one list.

    Raises `InputError`, which names what is allowed.
    """
    names = allowed()
    given: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in names or not equals:
            raise InputError(f"--behave is NAME=VALUE; names: {', '.join(names)} (got {text!r})")
        given[name] = f"{given[name]},{value}" if name in given else value
    return Behaviour(**{name: _value(name, text, names[name]) for name, text in given.items()})


def _value(name: str, text: str, takes: str) -> Any:
    try:
        return getattr(Behaviour.model_validate({name: _parts(name, text)}), name)
    except (ValidationError, ValueError):
        raise InputError(f"--behave {name} takes {takes} (got {text!r})") from None


def _parts(name: str, text: str) -> Any:
    """A list where the switch is one, pairs where it is a mapping; else the text itself."""
    default = default_of(name)
    words = [word.strip() for word in text.split(",") if word.strip()]
    if isinstance(default, frozenset):
        return words
    if isinstance(default, dict):
        return dict(_pair(word) for word in words)
    return None if default is None and text == "none" else text


def _pair(word: str) -> tuple[str, str]:
    left, colon, right = word.partition(":")
    if not colon:
        raise ValueError(word)
    return left.strip(), right.strip()
