"""How much is tried: a few of each in `make test`, many in `make proofs` (PROOFS=all), or what a variable says."""

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

ALL = os.environ.get("PROOFS") == "all"


def tries(name: str, few: int, many: int) -> int:
    """Return the number in the environment variable `name`; without it `few`, in the proofs `many`."""
    return int(os.environ.get(name) or (many if ALL else few))


def halves(values: Iterable[T]) -> tuple[list[T], list[T]]:
    """Split cases between two tests that try each in two ways: one half each, all for both in the proofs."""
    every = list(values)
    return (every, every) if ALL else (every[::2], every[1::2])
