"""How fast an account's requests leave: free connections, and the pace that a service with 429 asks for."""

import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from treasury.clock import Clock
from treasury.concurrency.turns import Deliver, await_result
from treasury.errors import Stopped
from treasury.provider.retries import MAX_ASKED_PAUSE, TOO_MANY, Retry

YEAR_SECONDS = 365 * 86_400.0
"""A longer pause than this is not remembered: who asks for one is asked again."""
MIN_RATE = 0.5
"""Requests a second that are always allowed."""
CALM_SECONDS = 60.0
"""After so long without a 429 nothing is limited any more."""
LATE_SECONDS = 0.05
"""A sleep that ends so much too late is made up for."""
ANSWERS = 64
"""Answers over which the share of 429 among them is counted, about."""
FULL_STEPS = 50
"""Answers after which the rate is higher by all of the earlier one."""
PROBE = 1.5
"""Times the highest rate that went well that is tried."""
LOW_STEPS = 20
"""Answers after which a low rate has doubled, about: a step never adds more than one part of so many."""


@dataclass(frozen=True)
class Speed:
    """Requests a second: additive increase with each answer, multiplicative decrease with each 429. Pure.

    A 429 among hundreds of answers takes little off; those of a service whose limit is reached come with many others,
    and take half. Each answer adds the same part of the earlier rate, or of its own where that is far below.
    """

    earlier: float
    """The highest that went well: the rate comes back to it."""
    rate: float
    share: float
    """429 among the last answers, 0 to 1."""

    def raised(self, measured: float) -> "Speed":
        """The speed after an answer; `measured`: how many came in the last second."""
        rate = self.rate + min(self.earlier / FULL_STEPS, self.rate / LOW_STEPS)
        return Speed(max(self.earlier, measured), min(rate, PROBE * self.earlier), self.share * (1 - 1 / ANSWERS))

    def lowered(self, measured: float, min_rate: float) -> "Speed":
        """The speed after a 429, or after several to requests that were on their way together."""
        rate = min(self.rate, measured) * max(0.5, 1 - 4 * self.share)
        return replace(self, rate=max(min_rate, rate))


class Connections:
    """The connections that may be in use at once. Whoever waits for one gives way to other work meanwhile."""

    def __init__(self, most: int) -> None:
        self.most = most
        """All of them."""
        self.allowed = most
        """How many may be in use now."""
        self._used = 0
        self._guard = threading.Lock()
        self._waiting: deque[Deliver] = deque()

    def take(self) -> None:
        """Take a free connection, waiting until there is one."""
        with self._guard:
            if self._used < self.allowed:
                self._used += 1
                return
        await_result(self._queue)

    def give_back(self) -> None:
        """Let the next one have it."""
        with self._guard:
            self._used -= 1
        self._hand_on()

    def allow(self, share: float) -> None:
        """Use this share of all from here on, one at least."""
        allowed = max(1, math.ceil(self.most * min(1.0, share)))
        if allowed != self.allowed:
            with self._guard:
                self.allowed = allowed
            self._hand_on()

    def _queue(self, deliver: Deliver) -> None:
        with self._guard:
            self._waiting.append(deliver)
        self._hand_on()

    def _hand_on(self) -> None:
        """Hand what is free to those who wait."""
        while (waiting := self._next()) is not None:
            waiting(None, None)

    def _next(self) -> Deliver | None:
        with self._guard:
            if not self._waiting or self._used >= self.allowed:
                return None
            self._used += 1
            return self._waiting.popleft()


class Pace:
    """When the next request may leave. Free until the first 429, and again after a minute without one."""

    def __init__(
        self,
        connections: Connections,
        clock: Clock,
        *,
        retry: Retry = TOO_MANY,
        min_rate: float = MIN_RATE,
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._retry, self._min_rate = retry, min_rate
        self._guard, self._turnstile = threading.Lock(), threading.Lock()
        self._speed: Speed | None = None
        self._answered: deque[float] = deque(maxlen=4096)
        self._held_until = self._next_at = self._changed_at = 0.0
        self._pauses = 0
        """429 after each other, with no other answer between them; those that count once are one."""
        self._stopped = 0.0, ""

    @property
    def is_free(self) -> bool:
        """Whether nothing has to wait."""
        return self._speed is None

    @property
    def rate(self) -> float | None:
        """Requests a second; None while nothing limits them."""
        return None if self._speed is None else self._speed.rate

    def wait(self, in_thread: Callable[[Callable[[], None]], None]) -> None:
        """Wait for one's turn. `in_thread`: calls what blocks.

        Raises `Stopped` when the service asked for a pause that is too long to wait for.
        """
        if self._speed is not None and self._reserve() > 0:
            in_thread(self._sleep)

    def _sleep(self) -> None:
        with self._turnstile:  # one at a time sleeps until the next may leave, by the speed of that moment
            while (pause := self._reserve()) > 0:
                self._clock.sleep(pause)

    def _reserve(self) -> float:
        """Seconds until this request may leave; zero when it leaves now."""
        with self._guard:
            now = self._clock.monotonic()
            until, why = self._stopped
            if now < until:
                raise Stopped(why)
            self._forget(now)
            if self._speed is None:
                return 0.0
            pause = max(self._held_until, self._next_at) - now
            if pause <= 0:
                self._next_at = max(self._next_at, now - LATE_SECONDS) + 1 / self._speed.rate
            return pause

    def went_well(self) -> None:
        """Take note of an answer that is no 429."""
        now, self._pauses = self._clock.monotonic(), 0
        self._answered.append(now)
        if self._speed is None:
            return
        with self._guard:
            if self._speed is None:
                return
            self._speed = self._speed.raised(self._measured(now))
            self._forget(now)
            self._adjust()

    def too_many(self, asked_seconds: float | None, began: float) -> None:
        """Take note of a 429 to a request that began at `began`, monotonic seconds.

        Those that were on their way together count once. A pause that was asked for is made, of all requests; another
        only where nothing else is answered, twice as long each time.
        """
        with self._guard:
            now = self._clock.monotonic()
            measured = self._measured(now)
            highest = max(float(measured), self._connections.most)
            speed = self._speed or Speed(highest, highest, share=0.0)
            speed = replace(speed, share=speed.share + (1 - speed.share) / ANSWERS)
            if asked_seconds is not None:
                self._hold(now, asked_seconds)
            if self._speed is None or began >= self._changed_at:
                speed = speed.lowered(highest, self._min_rate)
                self._changed_at = now
                if asked_seconds is None and (self._pauses or (self._speed is None and not measured)):
                    self._hold(now, min(self._retry.max_pause, self._retry.first_pause * 2.0**self._pauses))
                self._pauses += 1
                if self._pauses > self._retry.attempts:
                    self._stop(now, MAX_ASKED_PAUSE, f"answered 429 after each of {self._retry.attempts} pauses")
            self._speed = speed
            self._adjust()

    def _hold(self, now: float, seconds: float) -> None:
        if seconds > MAX_ASKED_PAUSE:
            self._stop(now, seconds, f"asks to wait {seconds:.0f} s (429)")
        self._held_until = max(self._held_until, now + seconds)

    def _stop(self, now: float, seconds: float, why: str) -> None:
        seconds = min(seconds, YEAR_SECONDS)
        back = datetime.fromtimestamp(math.ceil(self._clock.wall() + seconds), UTC)
        said = f"the service {why}: nothing is lost; start again after {back:%Y-%m-%d %H:%M:%S} UTC"
        self._stopped = max(self._stopped, (now + seconds, said))

    def _measured(self, now: float) -> int:
        """How many answers came in the last second."""
        while self._answered and self._answered[0] <= now - 1:
            self._answered.popleft()
        return len(self._answered)

    def _forget(self, now: float) -> None:
        """Limit nothing any more after a minute of calm."""
        if self._speed is not None and now - max(self._changed_at, self._held_until) >= CALM_SECONDS:
            self._speed, self._pauses = None, 0
            self._adjust()

    def _adjust(self) -> None:
        self._connections.allow(1.0 if self._speed is None else self._speed.rate / self._speed.earlier)
