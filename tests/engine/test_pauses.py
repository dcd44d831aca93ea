"""Processes of one ledger make the pause that the service asked one of them for."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine.answers import OpenDesk, ok
from tests.moved_clock import MovedClock
from treasury.errors import ConfigurationError, Refused, Stopped
from treasury.ledger import schema
from treasury.ledger.pauses import KEY
from treasury.payments.desk import Desk
from treasury.provider.funds import PartnerBalance
from treasury.provider.pacing import CALM_SECONDS, HEAR_SECONDS, LESS

pytestmark = pytest.mark.both_databases

BALANCE = PartnerBalance(currency="USDT")
SHOWN = ok(currency="USDT", available="1")


def too_many(seconds: str | None) -> tuple[int, bytes, dict[str, str]]:
    return 429, b"", {} if seconds is None else {"Retry-After": seconds}


def refused(desk: Desk) -> None:
    with pytest.raises(Refused):
        desk.client.send(BALANCE)


def busy(desk: Desk, clock: MovedClock) -> None:
    """Let a process have had 500 answers within a second."""
    for _ in range(500):
        clock.move(1 / 512)
        desk.client.pace.went_well()


@pytest.mark.parametrize("is_new", [True, False])
def test_a_pause_that_one_process_is_asked_for_is_made_by_the_others(
    is_new: bool, open_desk: OpenDesk, service: Any, clock: MovedClock
) -> None:
    one, other = open_desk(service.base_url), open_desk(service.base_url)
    service.plan(BALANCE.path, *[SHOWN] * (not is_new), too_many("7"), SHOWN)
    if not is_new:
        other.client.send(BALANCE)
        clock.move(HEAR_SECONDS)
    refused(one)
    clock.move(2)
    other.client.send(BALANCE)
    assert clock.slept == [5.0]


def test_who_is_at_work_goes_on_at_its_own_rate_after_the_pause(
    open_desk: OpenDesk, service: Any, clock: MovedClock
) -> None:
    one, other = open_desk(service.base_url), open_desk(service.base_url)
    service.plan(BALANCE.path, too_many("7"), SHOWN, too_many("1"), SHOWN)
    refused(one)
    busy(other, clock)
    other.client.send(BALANCE)
    assert other.client.pace.is_free
    busy(other, clock)
    refused(other)
    assert other.client.pace.rate == pytest.approx(500 * LESS, rel=0.05)


def test_a_pause_that_nobody_waits_for_stops_who_is_at_work_and_is_asked_about_by_who_begins(
    open_desk: OpenDesk, service: Any, clock: MovedClock
) -> None:
    one, other, new = (open_desk(service.base_url) for _ in range(3))
    service.plan(BALANCE.path, too_many("3600"), SHOWN)
    busy(other, clock)
    refused(one)
    with pytest.raises(Stopped, match=r"3600 s \(429\): nothing is lost; start again after 2027-01-15 09:00"):
        other.client.send(BALANCE)
    for _ in range(2):
        new.client.send(BALANCE)
        clock.move(HEAR_SECONDS)
    assert clock.slept == []


def test_what_others_were_asked_for_long_ago_limits_nothing_any_more(
    open_desk: OpenDesk, service: Any, clock: MovedClock
) -> None:
    one, other = open_desk(service.base_url), open_desk(service.base_url)
    service.plan(BALANCE.path, too_many("7"), too_many("1"), SHOWN)
    refused(one)
    refused(other)
    for _ in range(int(CALM_SECONDS) + 2):
        clock.move(1)
        other.client.send(BALANCE)
    assert other.client.pace.is_free


@pytest.mark.parametrize("said", ["", "[]", '{"at": 1}', "[1, 2, 0]", "future"])
def test_what_is_of_another_clock_or_cannot_be_read_stops_nobody(
    said: str, open_desk: OpenDesk, service: Any, clock: MovedClock
) -> None:
    one, other = open_desk(service.base_url), open_desk(service.base_url)
    service.plan(BALANCE.path, too_many("100"), SHOWN)
    busy(one, clock)
    refused(one)
    if said == "future":
        clock.set_wall(-3600)
    else:
        line = update(schema.meta).where(schema.meta.c.key == KEY).values(value=said)
        one.ledger.write(lambda connection: connection.execute(line))
    other.client.send(BALANCE)
    assert other.client.pace.is_free
    assert clock.slept == []


@pytest.mark.sqlite_alone
def test_a_ledger_that_is_away_ends_no_look_for_pauses(
    open_desk: OpenDesk, service: Any, clock: MovedClock, tmp_path: Path
) -> None:
    """An answer is read and recorded where it can be; the next step of an order says what is wrong."""
    desk = open_desk(service.base_url)
    service.plan(BALANCE.path, too_many("1"), SHOWN)
    (tmp_path / "ledger.db").rename(tmp_path / "elsewhere.db")
    refused(desk)
    desk.client.send(BALANCE)
    assert clock.slept == [1.0]
    with pytest.raises(ConfigurationError):
        desk.ledger.run("any")
