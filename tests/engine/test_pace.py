"""The pace after a 429: how much slower, how soon as fast again, which pauses are made, and when the run ends."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.answers import PAYOUT, OpenDesk, accepted, ok, payout, plan
from tests.engine.runs import sheet
from tests.moved_clock import MovedClock
from tests.proofs import ALL
from treasury.errors import Refused, Stopped
from treasury.orders.states import State
from treasury.payments import execution
from treasury.provider.funds import PartnerBalance
from treasury.provider.pacing import (
    CALM_SECONDS,
    LESS,
    MAX_ASKED_PAUSE,
    MIN_RATE,
    STEPS,
    TOO_MANY,
    TRIAL,
    Connections,
    Pace,
    Speed,
)

pytestmark = pytest.mark.sqlite_alone

BARE = (429, b"Too Many Requests")
BALANCE = PartnerBalance(currency="USDT")


@pytest.fixture
def connections() -> Connections:
    return Connections(64)


@pytest.fixture
def pace(connections: Connections, clock: MovedClock) -> Pace:
    """The pace of an account of which 500 requests were just answered, within a second."""
    pace = Pace(connections, clock)
    for _ in range(500):
        clock.move(1 / 512)
        pace.went_well()
    return pace


def wait(pace: Pace) -> None:
    pace.wait(lambda work: work())


def answer(pace: Pace, clock: MovedClock, seconds: float) -> int:
    """Send one request after the other for so long, each answered at once; returns how many."""
    until = clock.monotonic() + seconds
    for count in itertools.count(1):
        wait(pace)
        clock.move(0.001)
        pace.went_well()
        if clock.monotonic() >= until:
            return count
    raise AssertionError


def test_one_answer_in_fifty_that_is_429_costs_no_minutes(
    open_desk: OpenDesk, service: Any, clock: MovedClock, tmp_path: Path
) -> None:
    """The measurement of `bench/pace.py` in small: before, seven of them left one connection, each with its pause."""
    desk, sent = open_desk(service.base_url), itertools.count(1)

    def some_refused(body: Mapping[str, Any]) -> Any:
        return BARE if next(sent) % 50 == 0 else accepted(body)

    service.plan(PAYOUT, some_refused)
    file = sheet(tmp_path, *((f"r{number}", "5", f"123456{number:05d}7") for number in range(600)))
    ids = [order for chunk in paying.commit(desk, file, "run") for order in chunk]
    began = clock.monotonic()
    execution.send_orders(desk, "run", ids)
    assert {order.sends for order in desk.ledger.orders(run_key="run")} == {1}
    assert len(desk.ledger.order_ids("run", (State.UNKNOWN,))) == 600 // 50
    assert clock.monotonic() - began < 3
    assert desk.client._connections.allowed > 32


def test_429s_of_requests_that_were_on_their_way_together_count_once(
    pace: Pace, connections: Connections, clock: MovedClock
) -> None:
    began = clock.monotonic()
    clock.move(0.05)
    pace.too_many(None, began)
    once = pace.rate, connections.allowed
    for _ in range(20):
        clock.move(0.001)
        pace.too_many(None, began)
    assert (pace.rate, connections.allowed) == once
    pace.too_many(None, clock.monotonic())
    assert float(pace.rate or 0) < float(once[0] or 0) * 0.6
    assert connections.allowed < once[1] * 0.6


def test_rate_and_connections_are_back_within_a_minute_of_calm(
    pace: Pace, connections: Connections, clock: MovedClock
) -> None:
    for _ in range(40):
        pace.too_many(0.0, clock.monotonic())
        pace.went_well()
    assert (pace.rate, connections.allowed) == (pytest.approx(MIN_RATE, rel=0.1), 1)
    more = [answer(pace, clock, 10) for _ in range(5)]
    assert more[0] < 10 < more[-1]
    answer(pace, clock, CALM_SECONDS - 50)
    assert (pace.is_free, connections.allowed) == (True, 64)


def test_each_answer_after_a_trial_adds_the_same_and_a_decrease_takes_a_part() -> None:
    speed = Speed(400, 200, 300)
    once = speed.raised(10, 0)
    assert once.raised(10, 0).rate - once.rate == once.rate - speed.rate == pytest.approx(300 / STEPS)
    lower = speed.refused_once().lowered(MIN_RATE)
    assert (lower.rate, lower.peak) == (200 * LESS, 200)
    assert lower.raised(10, 0).rate == lower.rate, "it is on trial"
    assert speed.refused_once().refused_once().refused_once().lowered(MIN_RATE).rate == 100


@pytest.mark.parametrize(("also", "rate"), [(1, 140), (0, 140), (12, 70)])
def test_a_trial_says_whether_the_rate_is_the_reason(also: int, rate: float) -> None:
    """As many 429 as before it: they come at any rate. None: it was too high. Many: it is too high still."""
    speed = Speed(400, 200, 200).refused_once().lowered(MIN_RATE)
    for number in range(TRIAL):
        refused = number % 5 == 0 and number < 5 * also
        speed = speed.refused_once() if refused else speed.raised(10, 0)
    assert speed.rate == pytest.approx(rate, rel=0.5 if also == 12 else 0.01)
    assert speed.refused_once().is_too_high == (also == 0)


def served(pace: Pace, clock: MovedClock, rows: int, limit: float, asked: float | None) -> int:
    """Send rows to a service that answers so many a second and refuses the others; returns how many it refused."""
    left, at, count = limit, clock.monotonic(), 0
    for _ in range(rows):
        wait(pace)
        began = clock.monotonic()
        clock.move(0.002)
        left, at = min(limit, left + (clock.monotonic() - at) * limit), clock.monotonic()
        if left < 1:
            count += 1
            pace.too_many(asked, began)
        else:
            left -= 1
            pace.went_well()
    return count


@pytest.mark.parametrize("asked", [None, 1.0])
@pytest.mark.parametrize("limit", [20, 50, 200])
def test_a_service_with_a_limit_is_kept_busy_and_refuses_few(
    limit: float, asked: float | None, clock: MovedClock
) -> None:
    pace, began = Pace(Connections(4), clock), clock.monotonic()
    assert served(pace, clock, 10_000, limit, asked) < 100
    assert clock.monotonic() - began < 10_000 / limit * 1.25


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        *((1_500, share) for share in (0.01, 0.02, 0.04)),
        *((20_000, share) for share in ((0.01, 0.02, 0.04) if ALL else (0.02,))),
    ],
)
def test_429s_that_come_at_any_rate_cost_at_most_three_times_the_time(
    share: float, rows: int, clock: MovedClock
) -> None:
    for seed in range(10):
        pace, dice, began = Pace(Connections(64), clock), Random(seed), clock.monotonic()
        for _ in range(rows):
            wait(pace)
            sent = clock.monotonic()
            clock.move(1 / 450)
            if dice.random() < share:
                pace.too_many(None, sent)
            else:
                pace.went_well()
        assert clock.monotonic() - began < 3 * rows / 450, seed


@pytest.mark.parametrize("asked", [0.25, 7.0, MAX_ASKED_PAUSE])
def test_a_pause_that_is_asked_for_is_made_exactly(pace: Pace, clock: MovedClock, asked: float) -> None:
    began = clock.monotonic()
    pace.too_many(asked, began)
    clock.move(asked / 2)
    pace.too_many(asked, began)  # another one that was on its way
    wait(pace)
    assert clock.slept == [asked]


def test_a_service_that_answers_nothing_else_is_waited_for_longer_each_time(
    open_desk: OpenDesk, service: Any, clock: MovedClock
) -> None:
    client = open_desk(service.base_url).client
    service.plan(BALANCE.path, BARE)
    for _ in range(TOO_MANY.attempts + 1):
        with pytest.raises(Refused):
            client.send(BALANCE)
    pauses = [seconds for seconds in clock.slept if seconds >= TOO_MANY.first_pause]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    with pytest.raises(Stopped, match=r"after each of 8 pauses: nothing is lost; start again after 2027-01-15 08:0\d"):
        client.send(BALANCE)


def test_a_longer_pause_than_is_waited_for_ends_the_run_and_says_when_to_come_back(
    open_desk: OpenDesk, service: Any, clock: MovedClock
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, (429, b"", {"Retry-After": "3600"}), accepted)
    service.plan(BALANCE.path, ok(currency="USDT", available="1"))
    assert desk.submission.submit(plan(desk, payout())).state is State.UNKNOWN
    with pytest.raises(Stopped, match=r"3600 s \(429\): nothing is lost; start again after 2027-01-15 09:00:0\d UTC"):
        desk.client.send(BALANCE)
    assert clock.slept == []
    clock.move(3601)
    assert str(desk.client.send(BALANCE).available) == "1"


def test_an_absurd_pause_ends_the_run_too(pace: Pace, clock: MovedClock) -> None:
    pace.too_many(float("9" * 200), clock.monotonic())
    with pytest.raises(Stopped, match="start again after 2028"):
        wait(pace)
