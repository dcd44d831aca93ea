"""The clock: the one place that asks the machine for the time. It holds three clocks, which are kept apart."""

import time
from datetime import UTC, datetime

_UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock:
    """The machine's clocks. Ledger, desk and sandbox are handed one in code; no setting or file moves it."""

    def wall(self) -> float:
        """The time of day, Unix seconds; people and time servers set it. For days, waits of days, timestamps."""
        return time.time()

    def now(self) -> datetime:
        """The time of day, UTC."""
        return datetime.fromtimestamp(self.wall(), UTC)

    def monotonic(self) -> float:
        """Seconds that never run back and stand still while the machine sleeps. For pauses and deadlines."""
        return time.monotonic()

    def uptime(self) -> float:
        """Seconds since the machine started, its sleep included; nobody sets them. For the age of a signature."""
        return time.clock_gettime(_UPTIME)

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds."""
        time.sleep(seconds)


MACHINE = Clock()
"""The clock of everything that is not handed another."""
