"""The sandbox's clock: real time plus what was advanced, or a time that stands still until it is advanced."""

import time


class Clock:
    """Unix seconds of the sandbox. `Clock()` runs with the machine; `Clock(start)` stands still at `start`."""

    def __init__(self, start: float | None = None) -> None:
        self._start = start
        self.advanced = 0.0
        """Seconds it was put forward by; kept in the state file, so that time never runs back over a restart."""

    def now(self) -> float:
        """The sandbox's time, Unix seconds."""
        return (time.time() if self._start is None else self._start) + self.advanced

    def wall(self) -> float:
        """The machine's own time: a client's `timestamp` is judged by it, for no client follows our advances."""
        return time.time()

    def advance(self, seconds: float) -> None:
        """Put the clock forward. Raises `ValueError` for a negative number."""
        if not 0 <= seconds < 10**9:
            raise ValueError("the clock moves forward only, by at most 10**9 seconds")
        self.advanced += seconds
