"""Parts of a sweep: each is claimed by one process at a time, and asked twice it is evidence once."""

from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.answers import ABSENT, PAYOUT, QUERY, WINDOW, OpenDesk, payout, plan, refused, shown
from tests.moved_clock import clock_of
from tests.parts import sheet
from treasury.errors import IllegalTransition, RunHeld
from treasury.ledger import sweeps
from treasury.nights import sweep
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.scope import Scope

pytestmark = pytest.mark.both_databases


@pytest.fixture
def paid(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk that paid 25 rows; ten questions are a part."""
    monkeypatch.setattr(sweep, "PART", 10)
    desk = open_desk(start_sandbox().base_url)
    for ids in paying.commit(desk, sheet(tmp_path, 25), "run"):
        execution.send_orders(desk, "run", ids)
    return desk


def other_than(desk: Desk, open_desk: OpenDesk) -> Desk:
    """A desk at the same ledger, as another process has one."""
    return open_desk(desk.account.base_url, service=desk.account.rules, resend_after=desk.settings.resend_after_seconds)


def asked(desk: Desk) -> int:
    return sum(order.asked_at is not None for order in desk.ledger.orders())


def test_a_part_that_another_process_asks_is_left_to_it_and_taken_over_when_it_is_let_go(
    paid: Desk, open_desk: OpenDesk
) -> None:
    other = other_than(paid, open_desk)
    sweep_id = sweep.start_or_resume_sweep(paid, Scope("run"))
    parts = sweep.open_parts(paid, sweep_id)
    assert [len(ids) for ids in parts.values()] == [10, 10, 5]
    assert sweep.start_or_resume_sweep(other, Scope("run")) == sweep_id
    with other.ledger.hold("sweep part 1"):
        assert sweep.ask_parts(paid, parts, 1) == 15
        assert sweep.has_open(paid, parts, 1)
        assert {number: len(ids) for number, ids in sweep.open_parts(paid, sweep_id).items()} == {1: 10}
        began = paid.clock.monotonic()
        with pytest.raises(RunHeld, match=r"^sweep part 1 is held by "):
            sweep.ask_parts(paid, parts, 1, 5)
        assert paid.clock.monotonic() - began == pytest.approx(5, abs=0.3)
        clock_of(paid).meanwhile = lambda: sweep.ask_orders(other, parts[1])  # it goes on while we wait
        with pytest.raises(RunHeld):
            sweep.ask_parts(paid, parts, 1, 0.1)
    clock_of(paid).meanwhile = lambda: None
    before = paid.client.pace._answered.copy()
    assert not sweep.has_open(paid, parts, 1)
    assert sweep.ask_parts(paid, parts, 1, 0) == 25
    assert paid.client.pace._answered == before  # there was nothing left to ask
    assert sweep.open_parts(paid, sweep_id) == {}


def test_parts_are_the_same_whoever_makes_them_and_however_much_is_answered(paid: Desk, open_desk: OpenDesk) -> None:
    sweep_id = sweep.start_or_resume_sweep(paid, Scope("run"))
    parts = sweep.open_parts(paid, sweep_id)
    sweep.ask_orders(paid, [*parts[0][3:], *parts[2]])
    assert sweep.open_parts(other_than(paid, open_desk), sweep_id) == {0: parts[0][:3], 1: parts[1]}


def test_what_could_not_be_asked_is_tried_once_in_a_start(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    plan(desk, payout())
    sweep_id = sweep.start_or_resume_sweep(desk, Scope("run"))
    parts, start = sweep.open_parts(desk, sweep_id), desk.ledger.now()
    service.plan(QUERY, refused(401), refused(401), shown(22))
    for _ in range(2):  # the second is a worker that takes over what was answered already
        assert sweep.ask_parts(desk, parts, start, 0) == 0
    assert len(service.sent_to(QUERY)) == 1
    clock_of(desk).move(1)
    assert sweep.ask_parts(desk, parts, desk.ledger.now(), 0) == 0
    assert len(service.sent_to(QUERY)) == 2


def refused_and_absent(open_desk: OpenDesk, service: Any) -> tuple[Desk, Desk, Order]:
    """Two desks at one order that was refused for a reason that two absences confirm; no query shows it."""
    desk = open_desk(service.base_url, resend_after=WINDOW, service=ServiceRules(asked_first=frozenset({"400"})))
    order = plan(desk, payout())
    service.plan(PAYOUT, refused(400))
    service.plan(QUERY, ABSENT)
    order = desk.submission.submit(order)
    assert order.state is State.UNKNOWN
    return desk, other_than(desk, open_desk), order


def test_a_part_that_is_asked_twice_is_one_absence(open_desk: OpenDesk, service: Any) -> None:
    desk, other, _ = refused_and_absent(open_desk, service)
    ids = sweeps.open_questions(desk.ledger, sweep.start_or_resume_sweep(desk, Scope("run")))
    sweep.ask_orders(desk, ids)
    counted = desk.ledger.orders()[0].absent_since
    assert counted == desk.ledger.now()
    clock_of(desk).move(2)
    sweep.ask_orders(other, ids)
    [order] = desk.ledger.orders()
    assert (order.state, order.absent_since, order.asked_at) == (State.UNKNOWN, counted, desk.ledger.now())


def test_an_absence_is_evidence_of_when_it_was_asked_not_of_when_it_was_written(
    open_desk: OpenDesk, service: Any
) -> None:
    """Two processes ask within seconds; one of them is stopped before it writes, and goes on after the wait is over."""
    desk, other, _ = refused_and_absent(open_desk, service)
    other.submission.ask(other.ledger.orders()[0])
    [order] = desk.ledger.orders()
    assert order.absent_since is not None
    clock_of(desk).move(2)
    began, seen = desk.ledger.now(), desk.submission.query(order)
    clock_of(desk).move(WINDOW)
    after, _ = desk.submission.apply(order, seen, began)
    assert after.state is State.UNKNOWN
    after, _ = desk.submission.apply(after, desk.submission.query(after), desk.ledger.now())
    assert after.state is State.REJECTED


def test_an_answer_is_refused_when_somebody_else_counted_an_absence_since(open_desk: OpenDesk, service: Any) -> None:
    desk, other, _ = refused_and_absent(open_desk, service)
    [stale] = desk.ledger.orders()
    counted = other.submission.ask(stale)
    assert (stale.absent_since, counted.absent_since) == (None, desk.ledger.now())
    clock_of(desk).move(2)
    for step in (lambda: desk.submission.apply(stale, None), lambda: desk.submission.reject(stale)):
        with pytest.raises(IllegalTransition):
            step()
    assert desk.ledger.orders() == [counted]
