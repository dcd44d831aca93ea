"""A clock that tests move: nobody waits, and days, pauses and the age of a signature can be told apart."""

import threading
from collections.abc import Callable

import pytest

from treasury.clock import MACHINE, Clock
from treasury.payments.desk import Desk

START = 1_800_000_000.0
"""Friday, 2027-01-15, 8 o'clock UTC."""


RUNS = pytest.mark.parametrize("clock", ["runs"], indirect=True)
"""Marks a test whose threads or processes wait for each other: its clock runs with the machine's."""


class MovedClock(Clock):
    """Stands still at `start`, Unix seconds, until it is moved: `sleep` returns at once and moves all three clocks.

    With `start` None it runs with the machine, sleeps really and is moved besides: for threads and processes that wait
    for each other; with `skips` a sleep moves that one, too, and nobody waits. Safe to use from several threads.
    """

    def __init__(self, start: float | None = START, *, skips: bool = False) -> None:
        self._start = start
        self._waits = start is None and not skips
        self._guard = threading.Lock()
        self._moved = self._wall_alone = 0.0
        self.slept: list[float] = []
        """How long each sleep took, or would have taken, seconds."""
        self.meanwhile: Callable[[], object] = lambda: None
        """Called in each sleep, before it ends."""

    def wall(self) -> float:
        return (MACHINE.wall() if self._start is None else self._start) + self._moved + self._wall_alone

    def monotonic(self) -> float:
        return (MACHINE.monotonic() if self._start is None else 1_000.0) + self._moved

    def uptime(self) -> float:
        return (MACHINE.uptime() if self._start is None else 5_000.0) + self._moved

    def sleep(self, seconds: float) -> None:
        with self._guard:
            self.slept.append(seconds)
        self.meanwhile()
        if self._waits:
            MACHINE.sleep(seconds)
        else:
            self.move(seconds)

    def move(self, seconds: float) -> None:
        """Let so much time pass, by all three clocks."""
        assert seconds >= 0, "only a wall clock is set back"
        with self._guard:
            self._moved += seconds

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock forward by so much, or back; the other two go on as they were."""
        with self._guard:
            self._wall_alone += seconds


def clock_of(desk: Desk) -> MovedClock:
    """The clock that a desk was handed, to be moved."""
    assert isinstance(desk.clock, MovedClock)
    return desk.clock
