"""Rows that are added to a run that began: planned, approved and paid under a plan of their own."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.runs import results, sheet
from tests.moved_clock import clock_of
from treasury.errors import ApprovalNeeded, InputError, LimitExceeded, Overtaken, PlanRejected, RunKeyConflict
from treasury.ledger.approvals import reject_plan, waiting_plan, waiting_plans
from treasury.ledger.approved_plans import approved_by
from treasury.ledger.policies import adopt_policy
from treasury.pay import agreeing
from treasury.payments import approving, execution
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.policy.model import parse_policy

OpenDesk = Callable[..., Desk]

FIRST = (("a", "10", "12345670001"), ("b", "20", "12345670002"))
LATE = ("c", "30", "12345670003")


def start(desk: Desk, file: Path, out: Path, *, add: bool) -> dict[str, Any]:
    paying.propose(desk, paying.plan_of(desk, file, "run"), add=add)
    chunks = paying.commit(desk, file, "run", add=add)
    for ids in chunks:
        execution.send_orders(desk, "run", ids)
    execution.follow_orders(desk, "run", [each for ids in chunks for each in ids], 10)
    return dict(paying.write(desk, "run", out))


@pytest.mark.parametrize("rows", [(*FIRST, LATE), (LATE,)], ids=["with the recorded rows", "alone"])
def test_added_rows_are_paid_beside_the_recorded_ones(
    rows: tuple[tuple[str, str, str], ...], open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    start(desk, sheet(tmp_path, *FIRST), tmp_path / "out", add=False)
    more = sheet(tmp_path, *rows, name="more.csv")
    with pytest.raises(RunKeyConflict, match="or --add: c"):
        start(desk, more, tmp_path / "out", add=False)
    for _ in range(2):
        start(desk, more, tmp_path / "out", add=True)
    start(desk, more, tmp_path / "out", add=False)
    assert {ref: row["outcome"] for ref, row in results(tmp_path / "out").items()} == dict.fromkeys("abc", "settled")
    assert len(sandbox.orders()) == 3


def test_a_changed_row_is_not_smuggled_in_with_added_ones(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    start(desk, sheet(tmp_path, *FIRST), tmp_path / "out", add=False)
    other = sheet(tmp_path, FIRST[0], ("b", "21", "12345670002"), LATE, name="other.csv")
    with pytest.raises(RunKeyConflict, match=r"these rows changed since the run began; .*: b"):
        start(desk, other, tmp_path / "out", add=True)
    assert {order.row_ref for order in desk.ledger.orders()} == {"a", "b"}


def adopt(desk: Desk, **limits: Any) -> None:
    policy = parse_policy({"payouts": limits}, "policy")
    adopt_policy(desk.ledger, policy, "policy", by="Ada Example", os_user="ada")


def test_limits_and_approvals_count_the_whole_run(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, one_approval_above={"USDT_TRC20": "50"}, max_per_run={"USDT_TRC20": "100"})
    start(desk, sheet(tmp_path, *FIRST), tmp_path / "out", add=False)
    more = sheet(tmp_path, *FIRST, LATE, name="more.csv")
    with pytest.raises(ApprovalNeeded) as raised:
        start(desk, more, tmp_path / "out", add=True)
    assert raised.value.needed == 1
    added = agreeing.added_plan(desk, paying.plan_of(desk, more, "run"))
    assert added is not None
    assert [row.row_ref for row in added.rows] == ["c"]
    waiting = approving.newest(desk, "run")
    assert waiting.sha256 == added.sha256 != paying.plan_of(desk, more, "run").sha256
    assert {order.row_ref for order in desk.ledger.orders()} == {"a", "b"}
    approving.approve(desk, "run", name="Ben Example")
    assert start(desk, more, tmp_path / "out", add=True)["counts"] == {"settled": 3}
    too_much = sheet(tmp_path, ("d", "41", "12345670004"), name="d.csv")
    with pytest.raises(LimitExceeded, match="101"):
        start(desk, too_much, tmp_path / "out", add=True)


def waits(desk: Desk, tmp_path: Path) -> Path:
    """A run of two rows was approved and recorded, nothing of it left; a late row of it waits for its approval."""
    adopt(desk, one_approval_above={"USDT_TRC20": "5"})
    file = sheet(tmp_path, *FIRST)
    with pytest.raises(ApprovalNeeded):
        paying.propose(desk, paying.plan_of(desk, file, "run"))
    approving.approve(desk, "run", name="Ben Example")
    paying.commit(desk, file, "run")
    late = sheet(tmp_path, *FIRST, LATE, name="late.csv")
    with pytest.raises(ApprovalNeeded):
        paying.propose(desk, paying.plan_of(desk, late, "run"), add=True)
    plan = waiting_plan(desk.ledger, "run")
    assert plan is not None
    assert plan.shown is not None
    assert [row["row_ref"] for row in plan.shown["rows"]] == ["c"]
    return file


def test_an_added_plan_that_waits_holds_nothing_back(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = waits(desk, tmp_path)
    assert start(desk, file, tmp_path / "out", add=False)["counts"] == {"settled": 2}
    assert [each.name for each in approved_by(desk.ledger, "run")] == ["Ben Example"]
    clock_of(desk).move(60)
    approving.approve(desk, "run", name="Cleo Example")
    late = tmp_path / "late.csv"
    assert start(desk, late, tmp_path / "out", add=True)["counts"] == {"settled": 3}
    with (tmp_path / "out" / "results.csv").open(newline="") as results:
        said = {row["row_ref"]: row["approved_by"] for row in csv.DictReader(results)}
    assert said == {"a": "Ben Example", "b": "Ben Example", "c": "Cleo Example"}
    assert [each.name for each in approved_by(desk.ledger, "run")] == ["Ben Example", "Cleo Example"]


def test_an_added_plan_is_rejected_and_the_run_goes_on_without_it(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = waits(desk, tmp_path)
    reject_plan(desk.ledger, "run", by="Cleo Example", why="not this month", os_user="cleo")
    assert waiting_plan(desk.ledger, "run") is None
    with pytest.raises(PlanRejected):
        start(desk, tmp_path / "late.csv", tmp_path / "out", add=True)
    assert start(desk, file, tmp_path / "out", add=False)["counts"] == {"settled": 2}
    with pytest.raises(InputError, match=r"rejected by Cleo"):
        reject_plan(desk.ledger, "run", by="Cleo Example", why="again", os_user="cleo")


def test_a_cancelled_run_pays_no_added_row(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    waits(desk, tmp_path)
    done = cancel(desk, "run", by="Cleo Example", why="the month is closed")
    assert done.plan is not None
    assert {each.done for each in done.decisions} == {True}
    assert waiting_plan(desk.ledger, "run") is None
    with pytest.raises(InputError, match="run run was cancelled by Cleo Example"):
        start(desk, tmp_path / "late.csv", tmp_path / "out", add=True)
    assert sandbox.orders() == []


def test_approvals_of_both_plans_are_checked_again_before_the_first_payment(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """Both are recorded, nothing left; then the first one's approvals grow old."""
    desk = open_desk(start_sandbox().base_url)
    waits(desk, tmp_path)
    clock_of(desk).move(48 * 3600)
    approving.approve(desk, "run", name="Cleo Example")
    late = tmp_path / "late.csv"
    paying.commit(desk, late, "run", add=True)
    clock_of(desk).move(25 * 3600)
    for ids in paying.commit(desk, late, "run"):
        with pytest.raises(ApprovalNeeded, match="expired"):
            execution.send_orders(desk, "run", ids)
    assert all(not order.sends for order in desk.ledger.orders())


def test_an_approval_that_ended_is_given_again_though_a_newer_plan_waits_or_was_used(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """Approvals go to the newest proposal: the next start proposes again what was recorded under ended ones."""
    desk = open_desk(start_sandbox().base_url)
    file, late = waits(desk, tmp_path), tmp_path / "late.csv"
    clock_of(desk).move(73 * 3600)
    with pytest.raises(ApprovalNeeded, match="ended before anything was sent"):  # the added plan waits
        start(desk, file, tmp_path / "out", add=False)
    [listed] = waiting_plans(desk.ledger)  # as `treasury approvals` lists it, with its payments
    assert listed.shown is not None
    assert [row["row_ref"] for row in listed.shown["rows"]] == ["a", "b"]
    assert "its approvals ended before anything was sent" in listed.shown["why"]
    approving.approve(desk, "run", name="Ben Example")
    with pytest.raises(ApprovalNeeded):  # the added rows are proposed again
        start(desk, late, tmp_path / "out", add=True)
    approving.approve(desk, "run", name="Cleo Example")
    paying.commit(desk, late, "run", add=True)
    clock_of(desk).move(73 * 3600)  # both ended, the newer one is used
    for name in ("Ben Example", "Cleo Example"):
        with pytest.raises(ApprovalNeeded):
            start(desk, late, tmp_path / "out", add=False)
        approving.approve(desk, "run", name=name)
    assert start(desk, late, tmp_path / "out", add=False)["counts"] == {"settled": 3}
    assert waiting_plans(desk.ledger) == []


@pytest.mark.both_databases
def test_two_starts_that_add_rows_at_once_keep_to_the_limits_together(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, max_per_run={"USDT_TRC20": "100"})
    start(desk, sheet(tmp_path, *FIRST), tmp_path / "out", add=False)
    one = sheet(tmp_path, ("c", "60", "12345670003"), name="one.csv")
    other = sheet(tmp_path, ("d", "60", "12345670004"), name="other.csv")
    added: list[str] = []

    def and_then_add(*given: Any) -> Any:
        found = agreeing.added_plan(*given)
        if not added:
            added.append("d")
            paying.commit(desk, other, "run", add=True)
        return found

    monkeypatch.setattr("treasury.pay.payouts.added_plan", and_then_add)
    with pytest.raises(Overtaken, match="at the same moment"):
        paying.commit(desk, one, "run", add=True)
    with pytest.raises(LimitExceeded):
        paying.commit(desk, one, "run", add=True)
    assert {order.row_ref for order in desk.ledger.orders()} == {"a", "b", "d"}
