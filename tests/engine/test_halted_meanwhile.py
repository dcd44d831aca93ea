"""A policy or a stop that comes while something leaves ends it, whatever else this process or this commit does."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.intents import commit
from tests.engine.judged import adopt, at_submission, start
from tests.engine.runs import sheet
from tests.moved_clock import MovedClock
from treasury.errors import PolicyChanged, RecoveryRuns, Stopped
from treasury.ledger import halts
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger
from treasury.ledger.policies import adopt_policy, recover_policy
from treasury.ledger.quotes import open_quote
from treasury.ledger.stops import stop_sending
from treasury.orders.states import Event, State
from treasury.payments.desk import Desk
from treasury.payments.governing import govern
from treasury.policy.model import parse_policy

pytestmark = pytest.mark.both_databases

OpenDesk = Callable[..., Desk]
OpenLedger = Callable[..., Ledger]


def test_a_policy_ends_a_run_also_where_another_one_begins_under_it_in_the_same_process(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    adopt(desk, payouts={"max_per_payout": {"USDT_TRC20": "100"}})
    file = sheet(tmp_path, *((f"r{number}", "50", f"1234567{number:04d}") for number in range(30)))
    desk.in_flight = 2

    def adopt_and_begin() -> None:
        adopt(desk, payouts={"max_per_payout": {"USDT_TRC20": "10"}})
        govern(desk)  # as a start of another run does

    at_submission(desk, 5, adopt_and_begin)
    with pytest.raises(PolicyChanged, match="put another policy in force"):
        start(desk, file, "run")
    assert len(sandbox.orders()) < 10


def test_a_policy_ends_what_shares_a_commit_with_a_question_for_a_quote(
    open_ledger: OpenLedger, clock: MovedClock
) -> None:
    ledger, other = open_ledger(), open_ledger()
    quoted, order = commit(ledger, "a", "b")
    ledger.judged_since = 0
    clock.move(1)
    adopt_policy(other, parse_policy({"no_limits": "a test"}, "p.toml"), "p.toml", by="Ada Example", os_user="ada")
    with pytest.raises(PolicyChanged):
        ledger.write(lambda _: (open_quote(ledger, quoted), ledger.step(order, Event.SEND)))
    assert {each.state for each in ledger.orders()} == {State.PREPARED}


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
def test_a_stop_ends_what_was_about_to_leave_and_waited_for_another_process(
    open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, judging, person = open_ledger(), open_ledger(), open_ledger()
    [order] = commit(ledger, "a")
    monkeypatch.setattr(halts, "BELIEVED_SECONDS", 0.1)
    judges, go_on, ends = threading.Event(), threading.Event(), list[type]()
    judge = threading.Thread(target=judging.write, args=(lambda at: (serialize(at), judges.set(), go_on.wait(10)),))
    judge.start()
    judges.wait(10)

    def send() -> None:
        try:
            ledger.write(lambda at: (ledger.step(order, Event.SEND), serialize(at)))
        except Stopped:
            ends.append(Stopped)

    sender = threading.Thread(target=send)
    sender.start()
    time.sleep(0.3)  # it has looked for stops, and waits
    stop_sending(person, "Ada Example", "a look first")
    go_on.set()
    sender.join()
    judge.join()
    assert ends == [Stopped]
    assert ledger.orders(ids=[order.id])[0].state is State.PREPARED


def test_of_two_recoveries_that_are_asked_for_at_once_one_runs(
    open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, other = open_ledger(), open_ledger()
    policy, now = parse_policy({"no_limits": "a test"}, "p.toml"), ledger.now()
    looked: list[Any] = []

    def look_meanwhile(_: Ledger) -> None:
        if not looked:
            looked.append(None)
            recover_policy(other, policy, "p.toml", by="Ben Example", os_user="ben", now=now)

    monkeypatch.setattr("treasury.ledger.policies.running_recovery", look_meanwhile)
    with pytest.raises(RecoveryRuns):
        recover_policy(ledger, policy, "p.toml", by="Ada Example", os_user="ada", now=now)
