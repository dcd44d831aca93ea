"""Tests of what ends an approval, or a rejection, and what does not: other policies, newer plans, hands in the
ledger."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine.approvers import KEYS, adopt, approve, change, later, propose, start, token_of, waits
from tests.engine.runs import sheet
from treasury.call.calls import preview_operation, submit_operation
from treasury.errors import ApprovalNeeded, InputError, NotConnected, RunKeyConflict
from treasury.ledger import schema
from treasury.ledger.approvals import reject_plan, waiting_plan
from treasury.ledger.approved_plans import approved_by
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.orders.states import State
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders
from treasury.provider.client import Signed
from treasury.provider.orders import Payout

STRICT = {"payouts": {"one_approval_above": {"USDT_TRC20": "1"}, "two_approvals_above": {"USDT_TRC20": "100"}}}


@pytest.fixture
def desk(open_desk: Callable[..., Desk], start_sandbox: Any) -> Desk:
    opened = open_desk(start_sandbox().base_url)
    adopt(opened)
    return opened


def stopped(desk: Desk, file: Path, run_key: str = "run") -> None:
    """A run is recorded, and nothing of it leaves."""
    stop_sending(desk.ledger, "Ada Example", "a look first")
    assert set(start(desk, file, run_key).values()) == {"not_sent"}
    lift_stop(desk.ledger, proof=KEYS["ben"])


@pytest.mark.parametrize("values", [{"verb": "approve"}, {"why": "no"}], ids=str)
def test_a_rejection_that_was_changed_by_hand_lets_nothing_leave(desk: Desk, tmp_path: Path, values: Any) -> None:
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    reject_plan(desk.ledger, "run", why="wrong amount", os_user="cleo", proof=KEYS["cleo"])
    change(desk, update(schema.decisions).where(schema.decisions.c.verb == "reject").values(**values))
    desk.seen.file.unlink()  # as on a machine that never saw it; who did is stopped
    with pytest.raises(ApprovalNeeded, match="by hand"):
        start(desk, file)
    with pytest.raises(InputError, match="by hand"):
        approve(desk, "cleo")
    assert waits(desk, file).number == 2
    approve(desk, "cleo")
    assert start(desk, file) == {"a": "settled"}


def test_a_newer_plan_that_is_hidden_by_hand_brings_no_older_one_back(desk: Desk, tmp_path: Path) -> None:
    first = sheet(tmp_path, ("a", "20", "12345670001"), name="first.csv")
    waits(desk, first)
    approve(desk, "ben")
    waits(desk, sheet(tmp_path, ("a", "30", "12345670001"), name="second.csv"))
    change(desk, update(schema.plans).where(schema.plans.c.number == 2).values(needed=0))
    with pytest.raises(ApprovalNeeded):
        start(desk, first)


def test_a_token_that_is_pasted_again_counts_no_longer_than_the_policy_says(desk: Desk, tmp_path: Path) -> None:
    plan = waits(desk, sheet(tmp_path, ("a", "20", "12345670001")))
    token = token_of(plan, "ben", hours=700)
    approve(desk, "ben", token=token)
    later(desk, 73)
    with pytest.raises(InputError, match="this token was recorded before, and its approval is expired"):
        approve(desk, "ben", token=token)
    assert approve(desk, "ben").lacks == 0


def test_an_approval_ends_though_another_policy_was_in_force_meanwhile(desk: Desk, tmp_path: Path) -> None:
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    stopped(desk, file)
    adopt(desk, key="ada", **STRICT)
    waits(desk, file)
    adopt(desk, key="ada")
    later(desk, 73)
    with pytest.raises(ApprovalNeeded):
        start(desk, file)
    assert waits(desk, file).number == 3
    approve(desk, "cleo")
    propose(desk, file)
    assert start(desk, file) == {"a": "settled"}
    assert [each.name for each in approved_by(desk.ledger, "run")] == ["cleo"]
    assert waiting_plan(desk.ledger, "run") is None


def test_approvals_end_until_something_left_and_what_made_no_connection_did_not(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    transmit = desk.client.transmit

    def breaks(signed: Signed[Any]) -> Any:
        if isinstance(signed.operation, Payout):
            raise NotConnected("nobody listens")
        return transmit(signed)

    with monkeypatch.context() as broken:
        broken.setattr(desk.client, "transmit", breaks)
        assert start(desk, file) == {"a": "not_sent"}
    [order] = desk.ledger.orders()
    assert order.sends > 0
    later(desk, 73)
    with pytest.raises(ApprovalNeeded, match="expired"):
        start(desk, file)
    approve(desk, "ben")
    assert start(desk, file) == {"a": "settled"}


def test_approvals_of_what_is_recorded_end_when_the_ledger_is_found_to_be_older(desk: Desk, tmp_path: Path) -> None:
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    stopped(desk, file)
    desk.begin_epoch("a test")
    release_orders(desk, "run", None, KEYS["ben"], why="the portal does not show it")
    with pytest.raises(ApprovalNeeded, match="before this ledger was restored"):
        start(desk, file)
    with pytest.raises(ApprovalNeeded, match="what does not count: the plan was made before this ledger was restored"):
        propose(desk, file)
    assert (plan := waiting_plan(desk.ledger, "run")) is not None
    assert plan.number == 2
    approve(desk, "cleo")
    assert start(desk, file) == {"a": "settled"}


def test_what_waits_again_under_another_policy_is_shown_and_can_be_cancelled(desk: Desk, tmp_path: Path) -> None:
    file = sheet(tmp_path, ("a", "5", "12345670001"))
    stopped(desk, file)
    adopt(desk, key="ada", **STRICT)
    plan = waits(desk, file)
    assert plan.shown is not None
    assert plan.shown["rows"][0]["account"] == "12345670001"
    assert [each.done for each in cancel(desk, "run", KEYS["ada"], why="not needed").decisions] == [True]
    assert start(desk, file) == {"a": "cancelled"}


def test_a_run_that_began_takes_no_plan_with_other_rows(desk: Desk, tmp_path: Path) -> None:
    file = sheet(tmp_path, ("a", "5", "12345670001"))
    stopped(desk, file)
    adopt(desk, key="ada", **STRICT)
    with pytest.raises(RunKeyConflict, match="changed since the run began"):
        propose(desk, sheet(tmp_path, ("a", "6", "12345670001"), name="other.csv"))
    assert waiting_plan(desk.ledger, "run") is None


def test_what_was_held_takes_the_approvals_of_the_policy_in_force_when_it_is_released(
    desk: Desk, tmp_path: Path
) -> None:
    assert start(desk, sheet(tmp_path, ("a", "5", "12345670001")), "first") == {"a": "settled"}
    file = sheet(tmp_path, ("b", "5", "12345670001"), name="again.csv")
    assert start(desk, file) == {"b": "held"}
    adopt(desk, key="ada", **STRICT)
    with pytest.raises(ApprovalNeeded):  # a task that records, without one that proposes
        start(desk, file)
    release_orders(desk, "run", None, KEYS["ben"], why="it is meant")
    with pytest.raises(ApprovalNeeded):
        start(desk, file)
    waits(desk, file)
    approve(desk, "ben")
    assert start(desk, file) == {"b": "settled"}


def test_a_plan_that_is_proposed_anew_is_whoevers_who_starts_it(desk: Desk, tmp_path: Path) -> None:
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    change(desk, update(schema.decisions).values(name="cleo"))
    plan = waits(desk, file, maker=None)
    assert (plan.number, plan.maker.is_listed, plan.needed) == (2, False, 2)


def test_whoever_approves_again_sees_all_that_leaves_by_it(desk: Desk, tmp_path: Path) -> None:
    rows = ("a", "20", "12345670001"), ("b", "70", "12345670002")
    file, part = sheet(tmp_path, *rows), sheet(tmp_path, rows[0], name="part.csv")
    waits(desk, file)
    approve(desk, "ben")
    stopped(desk, file)
    later(desk, 73)
    with pytest.raises(InputError, match=r"not in this sheet \(b\)"):
        propose(desk, part, maker=None)
    assert waiting_plan(desk.ledger, "run") is None
    shown = waits(desk, file, maker=None).shown
    assert shown is not None
    assert [row["row_ref"] for row in shown["rows"]] == ["a", "b"]


def test_nobody_is_shown_another_payment_than_the_call_that_was_recorded(desk: Desk) -> None:
    call = payout("20")
    with pytest.raises(ApprovalNeeded):
        submit_operation(desk, call)
    approve(desk, "ben", "call-c")
    approve(desk, "cleo", "call-c")  # nobody lists its maker, so it needs one more
    stop_sending(desk.ledger, "Ada Example", "a look first")
    assert submit_operation(desk, call).state is State.PREPARED
    lift_stop(desk.ledger, proof=KEYS["ben"])
    later(desk, 73)
    for other in (payout("11"), payout("20", "12345670002")):
        with pytest.raises(InputError, match="request_id c already stands for something else here"):
            submit_operation(desk, other)
        with pytest.raises(InputError, match="already stands for something else here"):
            preview_operation(desk, other)
    with pytest.raises(ApprovalNeeded):
        submit_operation(desk, call)
    waiting = waiting_plan(desk.ledger, "call-c")
    assert waiting is not None
    assert waiting.shown is not None
    assert [row["amount"] for row in waiting.shown["rows"]] == ["20"]


def payout(amount: str, account: str = "12345670001") -> Payout:
    fields = {"account_name": "Example Person", "country": "ID", "bank_code": "1000120", "settle_currency": "IDR"}
    more = {"payout_method": "bank_transfer", "currency": "USDT_TRC20", "phone": "0812000", "email": "p@b.example"}
    return Payout(request_id="c", account_no=account, amount=amount, **fields, **more)
