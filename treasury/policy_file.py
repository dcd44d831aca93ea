"""Reads policy files: TOML into the policy model; every mistake is reported with its line."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from treasury.errors import InputError
from treasury.policy.model import Policy, parse_policy
from treasury.private_files import read_bounded


def read_policy(path: Path) -> Policy:
    """The policy of a file. Raises `InputError` that names the file, and each line and setting that is wrong."""
    try:
        text = read_bounded(path).decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: the policy cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: the policy is not UTF-8") from None
    return policy_of(text, str(path))


def policy_of(text: str, name: str) -> Policy:
    """The policy of a TOML text. Raises `InputError` that says `name`, and each line and setting that is wrong."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: the policy is not valid TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{name}: the policy is not valid TOML: it is nested too deep") from None
    return parse_policy(content, name, line_of=lambda place: line_of(text, place))


def line_of(text: str, path: Sequence[str]) -> int | None:
    """The line of a setting in a TOML text, or of the table that should hold it; None when there is neither.

    Found by reading the text up to each line's end: the first one after which the setting is there.
    """
    lines = text.splitlines(keepends=True)
    for length in range(len(path), 0, -1):
        for number in range(1, len(lines) + 1):
            try:
                content = tomllib.loads("".join(lines[:number]))
            except tomllib.TOMLDecodeError:
                continue  # in the middle of a value of several lines
            if _has(content, path[:length]):
                return number
    return None


def _has(content: object, path: Sequence[str]) -> bool:
    for part in path:
        if not isinstance(content, dict) or part not in content:
            return False
        content = content[part]
    return True
