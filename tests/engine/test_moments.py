"""On PostgreSQL each statement sees another moment, and others write meanwhile: what belongs together is of one
moment."""

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine import paying
from tests.engine.approvers import adopt, approve, waits
from tests.engine.intents import commit, intent
from tests.engine.meanwhile import about_to_commit, at_statement, meanwhile
from tests.engine.runs import sheet
from treasury.errors import IllegalTransition
from treasury.ledger import closing, moments, schema, sweeps
from treasury.ledger.changed_by_hand import hold_changed
from treasury.ledger.continuity import LedgerToken
from treasury.ledger.epoch import begin_epoch
from treasury.ledger.intents import commit_plan
from treasury.ledger.known_payees import beside_last
from treasury.ledger.ledger import Ledger
from treasury.ledger.obligations import payments_that_wait
from treasury.ledger.seals import is_sealed_order
from treasury.orders.states import Event, State
from treasury.payments.desk import Desk
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.scope import Scope

pytestmark = [pytest.mark.both_databases, pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)]

OpenLedger = Callable[..., Ledger]


def report(ledger: Ledger) -> closing.Closing:
    """A report of everything, made now; nobody is asked."""
    sweep_id = sweeps.record_sweep(ledger, Scope(), [], since=ledger.now() + 1)
    closing.close_sweep(ledger, sweep_id, Scope(), ServiceRules())
    return closing.closing_of(ledger, sweep_id, Scope())


@pytest.mark.parametrize("looks", [1, 3])
def test_a_step_that_is_committed_while_a_report_is_made_is_in_it_or_in_the_next_one(
    open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """Its number in the journal may be lower than that of a step which was committed before it.

    Who waits for it long lets others step in between, and looks again.
    """
    monkeypatch.setattr(moments, "LOCK_SECONDS", 0.05 if looks > 1 else moments.LOCK_SECONDS)
    one, other = open_ledger(), open_ledger()
    first, second = commit(one, "a", "b")
    first, second = one.step(first, Event.SEND), one.step(second, Event.SEND)
    report(other)
    with about_to_commit(one, lambda: one.step(first, Event.SETTLE), monkeypatch) as go_on:
        other.step(second, Event.SETTLE)
        with at_statement("LOCK TABLE", go_on.set, number=looks):
            reports = [report(other)]
    reports.append(report(other))
    lines = [line for each in reports for line in each.statement]
    assert sum(line.arrived for line in lines) == Decimal("20.00")
    assert [line.residual for line in lines if line.residual] == []


def test_what_leaves_while_an_epoch_begins_has_left_or_is_held(open_ledger: OpenLedger, tmp_path: Path) -> None:
    one, other = open_ledger(), open_ledger()
    [order] = commit(one, "a")

    def send() -> None:
        with suppress(IllegalTransition):
            one.step(order, Event.SEND)

    with meanwhile("FROM orders", send):
        begin_epoch(other, LedgerToken(tmp_path / "tokens", other.account), "a test")
    [now] = one.orders(ids=[order.id])
    [line] = one.journal(order)
    assert (line.target, line.event) in {("sending", "send"), ("held", "hold")}
    assert (now.state, now.sends) == (State(line.target), int(line.event == "send"))
    assert is_sealed_order(one.key, now)


def test_what_a_person_ends_while_it_is_found_to_be_changed_by_hand_has_ended(open_ledger: OpenLedger) -> None:
    one, other = open_ledger(), open_ledger()
    commit(one, "a")
    one.write(lambda connection: connection.execute(update(schema.orders).values(amount="1000")).rowcount)
    [order] = one.orders()
    with meanwhile("FROM orders", lambda: one.step(order, Event.CANCEL)):
        hold_changed(other, "run")
    [now] = one.orders()
    assert now.state is State.CANCELLED
    assert [line.event for line in one.journal(order)] == ["cancel"]


def test_a_run_whose_only_payment_ends_while_another_one_is_compared_with_it_is_passed_over(
    open_ledger: OpenLedger,
) -> None:
    one, other = open_ledger(), open_ledger()
    commit_plan(one, "one", "payout", {}, "1" * 64, [intent("a", payee="somebody")])
    commit_plan(one, "two", "payout", {}, "2" * 64, [intent("a", payee="somebody")])
    sent = one.step(one.orders(run_key="one")[0], Event.SEND)
    with at_statement("GROUP BY orders.run_key", lambda: one.step(sent, Event.REJECT), before=False):
        beside = other.look(lambda connection: beside_last(connection, "two", Decimal(10)))
    assert beside is None or beside.run_key == "one"


@pytest.mark.parametrize("table", ["plans", "runs", "orders"])
def test_a_plan_that_is_recorded_while_it_is_looked_for_is_owed_once(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path, table: str
) -> None:
    url = start_sandbox().base_url
    desk, other = open_desk(url), open_desk(url)
    adopt(desk)
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    with at_statement(f"FROM {table}", lambda: paying.commit(other, file, "run")):
        found = payments_that_wait(desk.ledger)
    assert [each.amount for each in found] == [20]
    assert other.ledger.run("run") is not None
