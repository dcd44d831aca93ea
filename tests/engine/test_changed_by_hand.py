"""Orders that somebody changes in the database: each is held by name before anything of its run leaves."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from tests.engine import paying
from tests.engine.nights import DAY, balance
from tests.engine.runs import night, sheet
from tests.moved_clock import clock_of
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.intents import commit_plan
from treasury.ledger.seals import is_sealed_order
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.orders.records import Intent
from treasury.orders.states import Hold, State
from treasury.pay.remaining import NOT_KEPT, remaining_of
from treasury.payments import execution
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders, resolve_as_ended, resolve_as_not_sent, resolve_as_sent
from treasury.reconciliation.classes import BALANCE_CLASSES

OpenDesk = Callable[..., Desk]
PERSON = {"by": "Ada Example", "why": "looked at the portal"}
ORDERS = schema.orders


def start(desk: Desk, file: Path) -> dict[str, str]:
    for ids in paying.commit(desk, file, "run"):
        execution.send_orders(desk, "run", ids)
        execution.follow_orders(desk, "run", ids, 5)
    return {order.row_ref: order.state.outcome for order in desk.ledger.orders(run_key="run")}


def change(desk: Desk, row_ref: str, **values: Any) -> None:
    """Somebody with the database writes into it."""
    statement = update(ORDERS).where(ORDERS.c.row_ref == row_ref).values(**values)
    desk.ledger.write(lambda connection: connection.execute(statement).rowcount)


def column(desk: Desk, row_ref: str, name: str) -> Any:
    return desk.ledger.read(select(ORDERS.c[name]).where(ORDERS.c.row_ref == row_ref))[0][0]


@pytest.fixture
def sandbox(start_sandbox: Any) -> Any:
    return start_sandbox()


@pytest.fixture
def desk(open_desk: OpenDesk, sandbox: Any) -> Desk:
    return open_desk(sandbox.base_url)


@pytest.fixture
def recorded(desk: Desk, tmp_path: Path) -> Path:
    """A sheet whose three rows are recorded, and wait."""
    file = sheet(tmp_path, ("a", "10", "12345670001"), ("b", "20", "12345670002"), ("c", "30", "12345670003"))
    stop_sending(desk.ledger, stopped_by="Ada Example", why="a look first")
    assert set(start(desk, file).values()) == {"not_sent"}
    lift_stop(desk.ledger, "Ada Example")
    return file


@pytest.mark.parametrize(
    "changed",
    [
        *({"amount": "99"}, {"currency": "USDT"}, {"request_id": "x" * 20}, {"checksum": None}, {"state": "settled"}),
        *({"replaces": "tf-another"}, {"order_no": "1"}, {"status": 99}, {"first_answer": "400"}, {"sent_at": 1}),
        *({"absent_since": 1}, {"absences_needed": 2}),
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_was_changed_is_held_by_name_and_the_others_are_paid(
    desk: Desk, recorded: Path, sandbox: Any, changed: dict[str, Any]
) -> None:
    change(desk, "b", **changed)
    assert start(desk, recorded) == {"a": "settled", "b": "held", "c": "settled"}
    [order] = desk.ledger.orders(reference="b")
    assert (order.hold_kind, "by hand" in str(order.reason)) == (Hold.CHANGED, True)
    assert len(sandbox.orders()) == 2
    assert start(desk, recorded)["b"] == "held"
    with pytest.raises(InputError, match="by hand"):
        release_orders(desk, "b", None, **PERSON)
    with pytest.raises(InputError, match="by hand"):
        resolve_as_not_sent(desk, "b", **PERSON)
    [ended] = cancel(desk, "b", **PERSON).decisions
    assert (ended.done, ended.order.state) == (True, State.CANCELLED)
    assert start(desk, recorded)["b"] == "cancelled"
    assert len(sandbox.orders()) == 2


@pytest.mark.both_databases
def test_a_payment_that_was_swapped_with_another_one_is_held(desk: Desk, recorded: Path, sandbox: Any) -> None:
    change(desk, "a", payload=column(desk, "b", "payload"))
    assert start(desk, recorded) == {"a": "held", "b": "settled", "c": "settled"}
    assert len(sandbox.orders()) == 2


@pytest.mark.both_databases
def test_a_settled_payment_that_was_put_back_is_not_sent_again(desk: Desk, recorded: Path, sandbox: Any) -> None:
    payload = column(desk, "b", "payload")
    assert set(start(desk, recorded).values()) == {"settled"}
    change(desk, "b", state="prepared", payload=payload, sends=0, sent_at=None, final_at=None)
    assert start(desk, recorded) == {"a": "settled", "b": "held", "c": "settled"}
    assert sum(order["effects"] for order in sandbox.orders()) == 3
    [refused] = cancel(desk, "b", **PERSON).decisions
    assert (refused.done, "it left" in refused.says) == (False, True)
    [taken] = resolve_as_sent(desk, "b", **PERSON)
    assert (taken.done, taken.order.state) == (True, State.SETTLED)
    assert set(start(desk, recorded).values()) == {"settled"}
    assert sum(order["effects"] for order in sandbox.orders()) == 3


def test_a_person_says_how_a_changed_payment_ended(desk: Desk, recorded: Path) -> None:
    assert set(start(desk, recorded).values()) == {"settled"}
    change(desk, "b", amount="2000")
    assert start(desk, recorded)["b"] == "held"
    [ended] = resolve_as_ended(desk, "b", State.SETTLED, None, **PERSON)
    assert (ended.done, start(desk, recorded)["b"]) == (True, "settled")


@pytest.mark.parametrize("state", ["accepted", "prepared", "unknown"])
def test_what_settled_is_booked_once_whoever_changed_its_state_and_says_that_it_settled(
    desk: Desk, sandbox: Any, tmp_path: Path, state: str
) -> None:
    file = sheet(tmp_path, ("a", "10", "12345670001"), ("b", "20", "12345670002"))
    payload = None
    for ids in paying.commit(desk, file, "run"):
        payload = column(desk, "b", "payload")
        execution.send_orders(desk, "run", ids)
        execution.follow_orders(desk, "run", ids, 5)
    opening = balance(night(desk, tmp_path / "1"))["unexplained"]
    change(desk, "b", state=state, payload=payload, final_at=None)
    if state == "prepared":
        assert start(desk, file)["b"] == "held"
        [ended] = resolve_as_ended(desk, "b", State.SETTLED, None, **PERSON)
        assert ended.done
    for number in (2, 3, 4):
        clock_of(desk).move(DAY)
        report = night(desk, tmp_path / f"{number}")
    assert (balance(report)["unexplained"], opening) == ("0", "0")
    assert [each for each in report["breaks"] if each["class"] in BALANCE_CLASSES] == []
    assert sum(Decimal(each["effects"]) for each in sandbox.orders()) == 2


def test_what_was_changed_stays_recognizable_when_the_service_reports_it(
    desk: Desk, tmp_path: Path, start_sandbox: Any, open_desk: OpenDesk
) -> None:
    slow = open_desk(start_sandbox(settle_seconds=2.0).base_url, ledger=f"sqlite:///{tmp_path / 'slow.db'}")
    file = sheet(tmp_path, ("a", "10", "12345670001"))
    for ids in paying.commit(slow, file, "run"):
        execution.send_orders(slow, "run", ids)
    change(slow, "a", receive_currency="USD")
    [order] = slow.ledger.orders(run_key="run")
    assert order.state is State.ACCEPTED
    execution.follow_orders(slow, "run", [order.id], 10)
    assert start(slow, file) == {"a": "held"}


@pytest.mark.parametrize("payload", ["of another row", b"cut"])
def test_a_payload_that_cannot_be_read_is_one_rows_trouble(desk: Desk, tmp_path: Path, payload: str | bytes) -> None:
    """Two withdrawals on their way, one of whose payloads was changed: the night is written, and names it."""
    address = {"address": "TDBaAMzsQ3d7xqqgw8CWCzbAZGPdARHsMa", "currency": "USDT_TRC20", "customer_ref_id": "c"}
    sent = [(name, {**address, "amount": amount}, Decimal(amount)) for name, amount in (("a", "10"), ("b", "20"))]
    intents = [Intent(ref, "withdraw", each, each, currency="USDT_TRC20", amount=amount) for ref, each, amount in sent]
    commit_plan(desk.ledger, "run", "test", {}, "0" * 64, intents)
    assert {desk.submission.submit(order).state for order in desk.ledger.orders()} == {State.ACCEPTED}
    change(desk, "a", payload=column(desk, "b", "payload") if isinstance(payload, str) else payload)
    clock_of(desk).move(DAY)
    report = night(desk, tmp_path / "night")
    assert (report["counts"]["matched"], report["counts"]["changed_in_ledger"]) == (1, 1)
    changed, other = sorted(desk.ledger.orders(), key=lambda order: order.row_ref)
    assert (changed.state, other.state) == (State.SETTLED, State.SETTLED)
    assert (is_sealed_order(desk.ledger.key, changed), is_sealed_order(desk.ledger.key, other)) == (False, True)


@pytest.mark.parametrize("payload", ["of another row", b"cut"])
def test_what_ended_unpaid_is_not_paid_again_with_the_content_of_another_row(
    desk: Desk, tmp_path: Path, payload: str | bytes
) -> None:
    file = sheet(tmp_path, ("a", "10", "12345670044"), ("b", "20", "12345670088"))
    assert start(desk, file) == {"a": "failed", "b": "closed"}
    change(desk, "a", payload=column(desk, "b", "payload") if isinstance(payload, str) else payload)
    changed, other = remaining_of(desk, "run")
    assert (changed.row_ref, changed.payload, changed.reason) == ("a", None, NOT_KEPT)
    assert (other.payload or {})["amount"] == "20"
