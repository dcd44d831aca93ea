"""A request leaves only while its mark is young: a sender that was stopped and thawed sends nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.engine import paying
from tests.engine.answers import accepted, payout, plan, taken
from tests.engine.planned import PARTNER_ID
from tests.moved_clock import RUNS
from treasury.errors import ConfigurationError, NotSentInTime
from treasury.ledger.holder import MachineLock
from treasury.orders.states import State
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.provider import client as client_module
from treasury.provider.client import Account
from treasury.settings import Settings

OpenDesk = Callable[..., Desk]

SENDER = """
import json, os, signal, sys, time
from pathlib import Path
from treasury.concurrency import crash_points
from treasury.payments.desk import Desk
from treasury.provider.client import Account
from treasury.orders.states import State
from treasury.payments import execution
from treasury.settings import Settings

spec = json.load(sys.stdin)
home = Path(spec["home"])
settings = Settings(home, None, None, None, None, spec["ledger_url"], home / "ledger.key", resend_after_seconds=0)
desk = Desk(Account(spec["base_url"], spec["partner_id"], spec["key"]), settings)
crash_points._pass = lambda: (os.kill(os.getpid(), signal.SIGSTOP), time.sleep(0.5))  # all threads stop in a moment
crash_points._armed = "send.marked"
print("ready", flush=True)
execution.send_orders(desk, "run", desk.ledger.order_ids("run", (State.PREPARED,)))
"""


@pytest.fixture
def ledger_url(postgres: Callable[[], str]) -> str:
    """Hosts share a PostgreSQL ledger."""
    return postgres()


@RUNS
def test_a_sender_that_was_stopped_after_its_mark_sends_nothing_when_it_is_thawed(
    open_desk: OpenDesk, service: Any, ledger_url: str, keys: tuple[str, str], tmp_path: Path
) -> None:
    """Another host waits the window, asks twice and sends it again; the service acts on every transmission."""
    service.plan("/v1/order/payout", accepted)
    desk = open_desk(service.base_url)
    plan(desk, payout())
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "ledger.key", tmp_path / "other")
    spec = {"home": str(tmp_path / "other"), "ledger_url": ledger_url, "base_url": service.base_url}
    spec |= {"partner_id": PARTNER_ID, "key": keys[0]}
    command = [sys.executable, "-c", SENDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sender:
        try:
            assert sender.stdin is not None
            sender.stdin.write(json.dumps(spec))
            sender.stdin.close()
            until(lambda: is_stopped(sender.pid))
            marked = time.monotonic()
            [order] = desk.ledger.orders()
            assert (order.state, service.sent_to("/v1/order/payout")) == (State.SENDING, [])
            end_sessions(ledger_url, but=desk)
            desk.machine = MachineLock(desk.account.identity, tmp_path / "locks of another host")
            until(lambda: can_hold(desk))
            for _ in range(3):
                execution.follow_orders(desk, "run", [order.id], 0.001)
            assert len(service.sent_to("/v1/order/payout")) == 1
            time.sleep(max(0.0, marked + client_module.MAX_AGE_SECONDS + 0.2 - time.monotonic()))
        finally:
            os.kill(sender.pid, signal.SIGCONT)
        sender.wait(30)
    assert len(service.sent_to("/v1/order/payout")) == 1
    assert desk.ledger.orders()[0].state is State.ACCEPTED


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def can_hold(desk: Desk) -> bool:
    from treasury.errors import RunHeld

    try:
        with desk.hold("run"):
            return True
    except RunHeld:
        return False


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def end_sessions(url: str, but: Desk) -> None:
    """As a database server does with the sessions of a host that is not heard of any more."""
    mine = [but.ledger.write(lambda connection: connection.connection.driver_connection.info.backend_pid)]  # type: ignore[union-attr]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND NOT pid = ANY(%s) AND application_name LIKE 'treasury %%'",
            (mine,),
        )


def test_a_mark_that_grew_old_is_taken_back_and_the_request_signed_anew(
    open_desk: OpenDesk, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(service.base_url)
    service.plan("/v1/order/payout", accepted)
    order = plan(desk, payout())
    slept: list[float] = []
    sign = desk.client.sign

    def slow(operation: Any) -> Any:
        """The machine slept between signing and sending, the first time."""
        signed = sign(operation)
        if operation.operation_name() == "payout" and not slept:
            slept.append(6.0)
            return type(signed)(signed.operation, signed.content, signed.at - 6.0)
        return signed

    monkeypatch.setattr(desk.client, "sign", slow)
    order = desk.submission.submit(order)
    assert (order.state, order.sends, order.doubtful) == (State.ACCEPTED, 2, False)
    assert [entry.event for entry in desk.ledger.journal(order)][:2] == ["send", "not sent in time"]
    assert len(service.sent_to("/v1/order/payout")) == 1


def test_an_old_signature_does_not_leave(open_desk: OpenDesk, service: Any) -> None:
    from treasury.provider.funds import PartnerBalance

    desk = open_desk(service.base_url)
    signed = desk.client.sign(PartnerBalance(currency="USDT"))
    with pytest.raises(NotSentInTime, match="so it was not sent"):
        desk.client.transmit(type(signed)(signed.operation, signed.content, signed.at - 5.1))
    assert service.requests == []


def test_what_cannot_be_built_stays_prepared(open_desk: OpenDesk, service: Any) -> None:
    from dataclasses import replace as changed

    from treasury.ledger.intents import commit_plan

    desk = open_desk(service.base_url)
    commit_plan(desk.ledger, "run", "test", {}, "0" * 64, [changed(payout(), payload={"amount": "10.00"})])
    ids = desk.ledger.order_ids("run", (State.PREPARED,))
    execution.send_orders(desk, "run", ids)
    [order] = desk.ledger.orders()
    assert (order.state, order.sends) == (State.PREPARED, 0)
    assert "is required" in str(order.reason)


def test_windows_that_do_not_fit_send_nothing_elsewhere_and_warn_on_loopback(tmp_path: Path) -> None:
    settings = Settings(tmp_path, None, None, None, None, "sqlite:///x", tmp_path / "key", resend_after_seconds=420)
    elsewhere, here = Account("https://api.example.com", "1", "key"), Account("http://127.0.0.1:1", "1", "key")
    with pytest.raises(ConfigurationError, match="TREASURY_TIMESTAMP_WINDOW_SECONDS"):
        settings.check_windows(elsewhere)
    assert "TREASURY_RESEND_AFTER_SECONDS" in str(settings.check_windows(here))
    fitting = Settings(tmp_path, None, None, None, None, "sqlite:///x", tmp_path / "key", resend_after_seconds=421)
    assert fitting.check_windows(elsewhere) is None


def test_the_first_answer_that_does_not_know_us_stops_all_sends(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    from tests.engine.runs import sheet

    desk = open_desk(service.base_url)
    file = sheet(tmp_path, *((f"r{number}", "5", f"123456{number:04d}7") for number in range(300)))
    ids = [order for chunk in paying.commit(desk, file, "run") for order in chunk]
    refused = (200, {"code": 403, "message": "FORBIDDEN"})

    def forbids(_: Any) -> tuple[Any, ...]:
        service.plan("/v1/order/query", refused)
        return refused

    service.plan("/v1/order/payout", forbids)
    execution.send_orders(desk, "run", ids)
    states = [order.state for order in desk.ledger.orders()]
    assert states.count(State.UNKNOWN) <= desk.in_flight
    assert states.count(State.UNKNOWN) + states.count(State.PREPARED) == 300
    assert "the service refuses this account (403)" in str(desk.ledger.orders(states=(State.PREPARED,))[0].reason)
    service.plan("/v1/order/query", (200, {"code": 7000, "message": "ORDER_NOT_EXIST"}))
    service.plan("/v1/order/payout", taken)
    with desk.hold("run"):
        pass
    execution.send_orders(desk, "run", ids)
    assert {order.state for order in desk.ledger.orders()} <= {State.ACCEPTED, State.UNKNOWN, State.REJECTED}
