"""How often each kind of request is tried, and how long the pauses between the tries are: the one table of both."""

import random
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Retry:
    """Tries, and the pauses between them; each pause is longer than the one before, up to `max_pause`."""

    attempts: int
    """Tries in all; no pause follows the last."""
    first_pause: float = 0.0
    """Seconds."""
    max_pause: float = 0.0
    """Seconds."""

    def pause_after(self, attempt: int) -> float:
        """Seconds to wait after this try, the first is 1: twice as long each time, and up to a second by chance."""
        by_chance = random.random()  # noqa: S311 - it spreads requests out, and keeps no secret
        return min(self.max_pause, self.first_pause * 2.0 ** (attempt - 1) + by_chance)


READ = Retry(attempts=4, first_pause=0.2, max_pause=3.0)
"""A question that found no connection, no readable answer, a 5xx or a 429. The pauses vary, so that many spread out."""

SEND = Retry(attempts=3)
"""Transmissions of one order in one start while the service certainly did not read it."""

QUOTE = Retry(attempts=6)
"""Quotes of one payment, one after the other's end, ever: each has a request id of its own."""

TOO_MANY = Retry(attempts=8, first_pause=1.0, max_pause=30.0)
"""All requests of an account, after a 429 that names no time. After so many pauses without an answer the run stops."""

MAX_ASKED_PAUSE = 120.0
"""Seconds. A service that asks for a longer pause (`Retry-After`) is not waited for: the run stops."""

FOLLOW = Retry(attempts=sys.maxsize, first_pause=0.5, max_pause=10.0)
"""Questions about the orders of a run that are still open, for as long as the caller wants to wait."""

TASK = Retry(attempts=3, first_pause=2.0, max_pause=2.0)
"""A Prefect task of one operation that only reads, after `READ` gave up."""
