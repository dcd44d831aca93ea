"""How fast an account's requests leave, and how often each kind is tried."""

import math
import random
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from treasury.clock import Clock
from treasury.concurrency.turns import Deliver, await_result
from treasury.errors import Stopped


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


YEAR_SECONDS = 365 * 86_400.0
"""A longer pause than this is not remembered: who asks for one is asked again."""
MIN_RATE = 0.5
"""Requests a second that are always allowed."""
CALM_SECONDS = 60.0
"""After so long without a 429 nothing is limited any more."""
HEAR_SECONDS = 0.25
"""So often a process looks for a pause that another one was asked for."""
LATE_SECONDS = 0.05
"""A sleep that ends so much too late is made up for."""
MAX_MEASURED = 2_000.0
"""Requests a second that are believed of a moment."""
TRIAL = 64
"""Answers after a decrease by which it is judged whether it helped; the share of 429 is counted over about as many."""
OVERLOADED = 3
"""So many 429 after each other, with no other answer between them, take half at once."""
LESS = 0.7
"""Part of the rate that a 429 leaves."""
STEPS = 1_000
"""Answers after which the rate would be higher by all of the rate of the last decrease."""
STEADY_SECONDS, DOUBLED_SECONDS = 30.0, 2.0
"""After so long without a 429 a trial is over, and the steps double, each time after so many more."""
PROBE = 1.5
"""Times the highest rate that went well that is tried."""
NOISE, MOST_NOISE = 3.0, 0.12
"""Times the share of 429 that comes at any rate, up to this share, that takes nothing off."""


@dataclass(frozen=True)
class Speed:
    """Requests a second: additive increase with each answer, multiplicative decrease with a 429. Pure.

    A decrease is on trial for `TRIAL` answers. Where nearly as many of them are 429 as before, the rate is not the
    reason, and such a share takes nothing off any more; where fewer are, but some, it is lowered again.
    """

    best: float
    """The highest that went well: the rate comes back to it."""
    rate: float
    peak: float
    """The rate at the last decrease."""
    share: float = 0.0
    """429 among the last answers, 0 to 1."""
    before: float = 0.0
    """The share at the last decrease."""
    noise: float = 0.0
    """The share that comes at any rate."""
    answers: int = TRIAL
    """Answers since the last decrease."""
    refused: int = 0
    """429 among them."""
    in_a_row: int = 0
    """429 since the last other answer."""

    def raised(self, measured: float, calm: float) -> "Speed":
        """Return the speed after an answer; `measured`: answers a second, `calm`: seconds without a 429."""
        speed = replace(self._after(is_refused=False), best=max(self.best, measured), in_a_row=0)
        if speed.answers < TRIAL and calm < STEADY_SECONDS:
            return speed
        step = speed.peak / STEPS * 2 ** max(0.0, (calm - STEADY_SECONDS) / DOUBLED_SECONDS)
        return replace(speed, rate=min(speed.rate + step, PROBE * speed.best))

    def refused_once(self) -> "Speed":
        """Return the speed after a 429, before it is judged whether that lowers it."""
        return replace(self._after(is_refused=True), in_a_row=self.in_a_row + 1)

    @property
    def is_too_high(self) -> bool:
        """Tell whether the 429 say that the rate is too high."""
        if self.in_a_row >= OVERLOADED or self.share > 2 * MOST_NOISE:
            return True
        return self.answers >= TRIAL and self.share > NOISE * self.noise + 0.9 / TRIAL

    def lowered(self, min_rate: float) -> "Speed":
        """Return the speed after a decrease; several 429 to requests that were on their way together make one."""
        left = 0.5 if self.in_a_row >= OVERLOADED else LESS
        trial = {"before": self.share, "noise": 0.0, "answers": 0, "refused": 0, "in_a_row": 0}
        return replace(self, rate=max(min_rate, self.rate * left), peak=self.rate, **trial)  # type: ignore[arg-type]

    def _after(self, *, is_refused: bool) -> "Speed":
        """Count an answer; at the end of a trial judge it."""
        share = self.share + (is_refused - self.share) / TRIAL
        speed = replace(self, share=share, answers=self.answers + 1, refused=self.refused + is_refused)
        if speed.answers != TRIAL or not speed.refused:
            return speed
        found = speed.refused / TRIAL
        if self.before / 2 <= found <= MOST_NOISE:
            return replace(speed, noise=found)
        return speed.lowered(0.0)


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


class Relay(Protocol):
    """Carries a pause that the service asked for between the processes of an account."""

    def tell(self, seconds: float) -> None:
        """Tell the others that the service asked for a pause of so long from now on."""

    def hear(self) -> float:
        """Return the seconds that are left of a pause that another process was asked for; zero for none, and for one
        that was heard of before."""


class Pace:
    """When the next request may leave. Free until the first 429, and again after a minute without one.

    Processes that share a `relay` make the pauses that the service asked any of them for. Each has a rate of its own,
    and lowers it after a 429 to one of its own requests: they come to a share each.
    """

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
        self.relay: Relay | None = None
        self._heard_at = -HEAR_SECONDS
        self._told_until = 0.0
        self._guard, self._turnstile = threading.Lock(), threading.Lock()
        self._speed: Speed | None = None
        self._answered: deque[float] = deque(maxlen=4096)
        self._held_until = self._next_at = self._changed_at = self._counted_at = 0.0
        self._pauses = 0
        """Pauses after each other, with no other answer between them."""
        self._stopped = 0.0, ""

    @property
    def is_free(self) -> bool:
        """Tell whether nothing has to wait."""
        return self._speed is None and self._held_until <= self._clock.monotonic()

    @property
    def rate(self) -> float | None:
        """Requests a second; None while nothing limits them."""
        return None if self._speed is None else self._speed.rate

    def wait(self, in_thread: Callable[[Callable[[], None]], None]) -> None:
        """Wait for one's turn. `in_thread`: calls what blocks.

        Raises `Stopped` when the service asked for a pause that is too long to wait for.
        """
        if self.relay is not None and self._clock.monotonic() - self._heard_at >= HEAR_SECONDS:
            in_thread(self._hear)
        if not self.is_free and self._reserve() > 0:
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
            pause = max(self._held_until, self._next_at) - now
            if pause <= 0 and self._speed is not None:
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
            self._speed = self._speed.raised(self._measured(now), now - max(self._counted_at, self._held_until))
            self._forget(now)
            self._adjust()

    def too_many(self, asked_seconds: float | None, began: float) -> None:
        """Take note of a 429 to a request that began at `began`, monotonic seconds.

        Those that were on their way together count once. A pause that was asked for is made, of all requests; another
        only where nothing else is answered, twice as long each time.
        """
        with self._guard:
            now = self._clock.monotonic()
            is_first, measured = self._speed is None, self._measured(now)
            highest = max(measured, 1.0)
            speed = (self._speed or Speed(highest, highest, highest)).refused_once()
            if asked_seconds is not None:
                self._hold(now, asked_seconds)
            says_limit = is_first or asked_seconds is not None
            if began >= self._changed_at and (says_limit or speed.is_too_high):
                speed = speed.lowered(self._min_rate)
                self._changed_at = now
            if is_first or began >= self._counted_at:
                self._counted_at = now
                if not measured:
                    self._pause(now, asked_seconds)
            self._speed = speed
            self._adjust()
        until = now + min(asked_seconds or 0.0, YEAR_SECONDS)
        if asked_seconds and self.relay is not None and until >= self._told_until + HEAR_SECONDS:
            self._told_until = until
            self.relay.tell(until - now)

    def _pause(self, now: float, asked_seconds: float | None) -> None:
        """Make a pause where nothing but 429 is answered, unless one was asked for; twice as long each time."""
        if asked_seconds is None:
            self._hold(now, min(self._retry.max_pause, self._retry.first_pause * 2.0**self._pauses))
        self._pauses += 1
        if self._pauses > self._retry.attempts:
            self._stop(now, MAX_ASKED_PAUSE, f"answered 429 after each of {self._retry.attempts} pauses")

    def _hold(self, now: float, seconds: float) -> None:
        if seconds > MAX_ASKED_PAUSE:
            self._stop(now, seconds, f"asks to wait {seconds:.0f} s (429)")
        self._held_until = max(self._held_until, now + seconds)

    def _stop(self, now: float, seconds: float, why: str) -> None:
        seconds = min(seconds, YEAR_SECONDS)
        back = datetime.fromtimestamp(math.ceil(self._clock.wall() + seconds), UTC)
        said = f"the service {why}: nothing is lost; start again after {back:%Y-%m-%d %H:%M:%S} UTC"
        self._stopped = max(self._stopped, (now + seconds, said))

    def _measured(self, now: float) -> float:
        """Return how many answers came a second, of the last second."""
        while self._answered and self._answered[0] <= now - 1:
            self._answered.popleft()
        seconds = now - self._answered[0] if self._answered else 1.0
        return len(self._answered) / max(seconds, len(self._answered) / MAX_MEASURED)

    def _forget(self, now: float) -> None:
        """Limit nothing any more after a minute of calm."""
        if self._speed is not None and now - max(self._counted_at, self._held_until) >= CALM_SECONDS:
            self._speed, self._pauses = None, 0
            self._adjust()

    def _adjust(self) -> None:
        self._connections.allow(1.0 if self._speed is None else self._speed.rate / self._speed.best)

    def _hear(self) -> None:
        """Pause as another process was asked to. One that just began asks itself whether a pause is so long."""
        with self._guard:
            now = self._clock.monotonic()
            if self.relay is None or now - self._heard_at < HEAR_SECONDS:
                return
            self._heard_at = now
        seconds = self.relay.hear()
        with self._guard:
            is_new = self._speed is None and not self._measured(now)
            if 0 < seconds <= MAX_ASKED_PAUSE or (seconds and not is_new):
                self._hold(self._clock.monotonic(), seconds)
