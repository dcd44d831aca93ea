"""Many items, a few at a time."""

import pickle
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")

BLOCK = 500
"""Items of a packed list that are objects at once."""


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """So many of them at a time; they are looked at when it is their turn."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


class Packed(Generic[T]):
    """A list to be gone through, however often: its items are bytes until they are looked at, a block at a time.

    For values that equal their copies: each time, other objects of the same content come out. Those of a row of text
    take a sixth of the memory that way. Never written anywhere, so what is unpacked is what was packed here.
    """

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._last: list[T] = []

    def append(self, item: T) -> None:
        """Add an item at the end."""
        self._last.append(item)
        if len(self._last) == BLOCK:
            self._blocks.append(pickle.dumps(self._last, pickle.HIGHEST_PROTOCOL))
            self._last = []

    def __len__(self) -> int:
        return len(self._blocks) * BLOCK + len(self._last)

    def __iter__(self) -> Iterator[T]:
        for block in self._blocks:
            yield from pickle.loads(block)  # noqa: S301 - packed above, by this process
        yield from self._last
