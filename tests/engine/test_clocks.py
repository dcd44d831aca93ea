"""Three clocks, kept apart: days go by the wall, pauses by the monotonic one, the age of a signature by the uptime."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.engine.answers import PAYOUT, QUERY, OpenDesk, accepted, ok, payout, plan, shown, steps
from tests.moved_clock import START, MovedClock
from treasury.clock import MACHINE
from treasury.concurrency import crash_points
from treasury.errors import NotSentInTime
from treasury.orders.states import State
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.provider.client import MAX_AGE_SECONDS
from treasury.provider.conversion import ConversionRate
from treasury.provider.engine import EngineName
from treasury.provider.funds import PartnerBalance
from treasury.sandbox.currencies import STEP_SECONDS

DAY = 86_400
SET = [-DAY, -3600, 0, DAY]
"""How far somebody sets the wall clock meanwhile, seconds."""
BALANCE = PartnerBalance(currency="USDT")


@pytest.fixture(params=["pyreqwest", "httpx"])
def desk(request: pytest.FixtureRequest, open_desk: OpenDesk, service: Any) -> Desk:
    engine: EngineName = request.param
    return open_desk(service.base_url, http_engine=engine)


@pytest.mark.parametrize("seconds", SET)
def test_an_old_request_does_not_leave_however_the_wall_clock_is_set(
    desk: Desk, service: Any, clock: MovedClock, seconds: float
) -> None:
    signed = desk.client.sign(BALANCE)
    clock.move(MAX_AGE_SECONDS + 0.1)
    clock.set_wall(seconds)
    with pytest.raises(NotSentInTime):
        desk.client.transmit(signed)
    assert service.requests == []


@pytest.mark.parametrize("seconds", SET)
def test_a_young_request_leaves_however_the_wall_clock_is_set(
    desk: Desk, service: Any, clock: MovedClock, seconds: float
) -> None:
    service.plan(BALANCE.path, ok(currency="USDT", available="1"))
    signed = desk.client.sign(BALANCE)
    clock.set_wall(seconds)
    desk.client.transmit(signed)
    assert [path for path, _ in service.requests] == [BALANCE.path]


@pytest.mark.parametrize("point", ["send.marked", "client.before"])
def test_a_payment_that_was_frozen_leaves_only_when_it_is_signed_anew(
    desk: Desk, service: Any, clock: MovedClock, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The process is thawed by a machine whose wall clock was set back to when it was frozen."""
    order, sign, nonces = plan(desk, payout()), desk.client.signed_body, []

    def noted(operation: Any) -> dict[str, Any]:
        body = sign(operation)
        nonces.append(body["nonce"])
        return body

    def freeze() -> None:
        monkeypatch.setattr(crash_points, "_armed", None)
        clock.move(MAX_AGE_SECONDS + 600)
        clock.set_wall(-MAX_AGE_SECONDS - 600)

    service.plan(PAYOUT, accepted)
    monkeypatch.setattr(desk.client, "signed_body", noted)
    monkeypatch.setattr(crash_points, "_armed", point)
    monkeypatch.setattr(crash_points, "_pass", freeze)
    order = desk.submission.submit(order)
    assert (order.state, steps(desk, order)[:2]) == (State.ACCEPTED, ["send", "not sent in time"])
    assert clock.wall() == START
    assert [body["nonce"] for body in service.sent_to(PAYOUT)] == nonces[1:]


@pytest.mark.parametrize("seconds", SET)
def test_a_pause_is_as_long_however_the_wall_clock_is_set(
    desk: Desk, service: Any, clock: MovedClock, seconds: float
) -> None:
    service.plan(BALANCE.path, ok(currency="USDT", available="1"))
    desk.client.pace.too_many(7.0, clock.monotonic())
    clock.set_wall(seconds)
    desk.client.send(BALANCE)
    assert clock.slept == [7.0]


@pytest.mark.parametrize("seconds", SET)
def test_orders_are_followed_for_as_long_however_the_wall_clock_is_set(
    open_desk: OpenDesk, service: Any, clock: MovedClock, seconds: float
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    order = desk.submission.submit(plan(desk, payout()))

    def is_on_its_way(body: Mapping[str, Any]) -> Any:
        clock.set_wall(seconds)
        return shown(11)(body)

    service.plan(QUERY, is_on_its_way)
    began = clock.monotonic()
    assert execution.follow_orders(desk, "run", [order.id], 20) == 1
    assert clock.monotonic() - began == sum(clock.slept) == pytest.approx(20)


def test_days_go_by_the_wall_alone(open_desk: OpenDesk, service: Any, clock: MovedClock) -> None:
    desk = open_desk(service.base_url)
    pauses, uptime = clock.monotonic(), clock.uptime()
    for seconds in (DAY, -3 * DAY):
        before = desk.ledger.now()
        clock.set_wall(seconds)
        assert desk.ledger.now() - before == seconds * 1000
    assert (clock.monotonic(), clock.uptime()) == (pauses, uptime)


def test_the_sandboxs_rates_move_with_its_clock(open_desk: OpenDesk, start_sandbox: Any, clock: MovedClock) -> None:
    sandbox = start_sandbox()
    client = open_desk(sandbox.base_url).client

    def rates() -> set[Any]:
        return {client.read(ConversionRate(symbol="BTC-USDT", side="BUY")).rate for _ in range(5)}

    first = rates()
    clock.sleep(STEP_SECONDS)
    second = rates()
    sandbox.advance(STEP_SECONDS)
    assert (len(first), len(second), len(first | second | rates())) == (1, 1, 3)
    assert client.read_clock() == 0


def test_what_tasks_and_commands_work_at_goes_by_the_machine(treasury_desk: Desk) -> None:
    clocks = treasury_desk.clock, treasury_desk.ledger.clock, treasury_desk.client.clock
    assert all(clock is MACHINE for clock in clocks)
