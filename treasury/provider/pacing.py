"""How fast an account's requests leave: free connections, and the pace that a service with 429 asks for."""

import threading
from collections import deque
from collections.abc import Callable

from treasury.clock import Clock
from treasury.concurrency.turns import Deliver, await_result
from treasury.errors import Stopped
from treasury.provider.retries import MAX_ASKED_PAUSE, TOO_MANY, Retry

CALM_SECONDS = 10.0
FASTER = 1.1
"""After so long without a 429 the rate goes up by so much."""
MIN_RATE = 0.5
"""Requests a second that are always allowed."""


class Connections:
    """The connections that may be in use at once. Whoever waits for one gives way to other work meanwhile."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._used = 0
        self._guard = threading.Lock()
        self._waiting: deque[Deliver] = deque()

    def take(self) -> None:
        """Take a free connection, waiting until there is one."""
        with self._guard:
            if self._used < self._most:
                self._used += 1
                return
        await_result(self._queue)

    def give_back(self) -> None:
        """Let the next one have it."""
        with self._guard:
            self._used -= 1
            waiting = self._next()
        if waiting is not None:
            waiting(None, None)

    def halve(self) -> None:
        """Use half as many from here on, one at least."""
        with self._guard:
            self._most = max(1, self._most // 2)

    def _queue(self, deliver: Deliver) -> None:
        with self._guard:
            self._waiting.append(deliver)
            waiting = self._next()
        if waiting is not None:
            waiting(None, None)

    def _next(self) -> Deliver | None:
        if not self._waiting or self._used >= self._most:
            return None
        self._used += 1
        return self._waiting.popleft()


class Pace:
    """When the next request may leave. Free until the first 429; after it everything waits, then goes half as fast."""

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
        self._guard = threading.Lock()
        self.rate: float | None = None
        """Requests a second; None while nothing limits them."""
        self._held_until = self._next_at = self._changed_at = 0.0
        self._pause = self._retry.first_pause
        self._recent: deque[float] = deque(maxlen=512)
        self._too_long: str | None = None
        self._in_a_row = 0

    @property
    def is_free(self) -> bool:
        """Whether nothing has to wait."""
        return self.rate is None

    def wait(self, sleep: Callable[[float], None]) -> None:
        """Wait for one's turn. Raises `Stopped` when the service asked for a pause that is too long to wait for."""
        now = self._clock.monotonic()
        self._recent.append(now)
        if self.rate is None:
            return
        while (pause := self._reserve()) > 0:
            sleep(pause)

    def _reserve(self) -> float:
        """Seconds until this request may leave; zero when it leaves now."""
        with self._guard:
            if self._too_long is not None:
                raise Stopped(self._too_long)
            now = self._clock.monotonic()
            if self._held_until > now:
                return self._held_until - now
            if self._next_at > now:
                return self._next_at - now
            if self.rate is not None:
                if now - self._changed_at > CALM_SECONDS:
                    self.rate *= FASTER
                    self._changed_at = now
                    self._pause = self._retry.first_pause
                self._next_at = max(now, self._next_at) + 1 / self.rate
            return 0.0

    def went_well(self) -> None:
        """Take note of a request that was answered."""
        self._in_a_row = 0

    def too_many(self, asked_seconds: float | None, began: float) -> None:
        """Take note of a 429 to a request that began at `began`, monotonic seconds.

        Those that were on their way together count once: one pause, one halving.
        """
        with self._guard:
            now = self._clock.monotonic()
            together = began < self._changed_at or began < self._held_until
            if asked_seconds is not None and asked_seconds > MAX_ASKED_PAUSE:
                self._too_long = (
                    f"the service asks to wait {asked_seconds:.0f} s (429); start again after that, nothing is lost"
                )
            pause = self._pause if asked_seconds is None else min(asked_seconds, MAX_ASKED_PAUSE)
            self._held_until = max(self._held_until, now + pause)
            if together and self.rate is not None:
                return
            self._in_a_row += 1
            if self._in_a_row > self._retry.attempts:
                self._too_long = (
                    f"the service refused with 429 after each of {self._retry.attempts} pauses; start again later"
                )
            second = sum(1 for each in self._recent if each > now - 1)
            self.rate = max(self._min_rate, min(self.rate or float(second), float(second or 1)) / 2)
            self._changed_at = now
            if asked_seconds is None:
                self._pause = min(self._pause * 2, self._retry.max_pause)
            self._connections.halve()
