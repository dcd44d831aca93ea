"""Errors of one value of a model, in plain words: pydantic's own are for programmers."""

from collections.abc import Mapping
from typing import Any

_RULES: Mapping[str, str] = {
    "missing": "is required",
    "string_too_short": "has at least {min_length} characters",
    "string_too_long": "has at most {max_length} characters",
    "less_than": "is less than {lt}",
    "less_than_equal": "is at most {le}",
    "greater_than": "is more than {gt}",
    "greater_than_equal": "is at least {ge}",
    "literal_error": "is one of {expected}",
    "enum": "is one of {expected}",
    "too_long": "has at most {max_length} entries",
    "too_short": "has at least {min_length} entries",
    "finite_number": "is a number",
    "none_required": "is to be left out",
}
"""Kind of an error -> the rule, in the present tense: "day is at most 31"."""

_PATTERNS: Mapping[str, str] = {
    r"^[A-Za-z0-9_]+-[A-Za-z0-9_]+$": "is a pair of currencies, as BTC-USDT",
    r"^[0-9]{2}$": "is two digits",
}
"""Pattern -> what is written like it."""

_TYPES: Mapping[str, str] = {
    "int": "is a whole number",
    "float": "is a number",
    "bool": "is true or false",
    "string": "is a text",
    "decimal": "is a number, written as text",
    "dict": "is a table",
    "model": "is a table",
    "mapping": "is a table",
    "list": "is a list",
    "tuple": "is a list",
    "set": "is a list",
    "date": "is a date, as 2026-11-30",
    "url": "is an address, as https://example.com",
}
"""Beginning of the kind of an error -> what the value has to be."""


def rule_of(detail: Mapping[str, Any]) -> str:
    """The rule that a value breaks, from one entry of `ValidationError.errors()`; rules of our own stay as they are."""
    kind, limits = str(detail["type"]), detail.get("ctx", {})
    if kind in _RULES:
        return _RULES[kind].format_map(limits)
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(limits["pattern"], f"is not written as it has to be (pattern {limits['pattern']})")
    by_type = next((said for name, said in _TYPES.items() if kind.startswith(f"{name}_")), None)
    return by_type or str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input ")
