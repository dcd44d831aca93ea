"""The sandbox's clock: a clock's time plus what was advanced, or a time that stands still until it is advanced."""

from treasury.clock import MACHINE, Clock


class SandboxClock:
    """Unix seconds of the sandbox, which its orders, quotes and rates move with.

    `SandboxClock()` runs with the machine, `SandboxClock(clock)` with that clock, and with `start` it stands still.
    """

    def __init__(self, clock: Clock = MACHINE, *, start: float | None = None) -> None:
        self._clock = clock
        self._start = start
        self.advanced = 0.0
        """Seconds it was put forward by; kept in the state file, so that time never runs back over a restart."""

    def now(self) -> float:
        """The sandbox's time, Unix seconds."""
        return (self.wall() if self._start is None else self._start) + self.advanced

    def wall(self) -> float:
        """The time without what was advanced, Unix seconds: a client's `timestamp` is judged by it."""
        return self._clock.wall()

    def advance(self, seconds: float) -> None:
        """Put the clock forward. Raises `ValueError` for a negative number."""
        if not 0 <= seconds < 10**9:
            raise ValueError("the clock moves forward only, by at most 10**9 seconds")
        self.advanced += seconds
