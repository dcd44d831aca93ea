"""Fund and pay: what was agreed to is converted and paid, and nothing else; nobody is asked twice or left stuck."""

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.funded import (
    BTC,
    HELD,
    PAYOUTS,
    ROWS,
    above,
    adopted,
    approve,
    convert,
    fund_and_pay,
    propose,
    record,
    rules_of_a_day,
)
from tests.engine.rounds import available, kinds, policy
from tests.engine.rounds import start as rebalance
from tests.engine.runs import results, sheet
from tests.moved_clock import clock_of
from treasury.errors import ApprovalNeeded, InputError, RunKeyConflict
from treasury.ledger import obligations
from treasury.ledger.approvals import reject_plan, waiting_plan
from treasury.orders.states import State
from treasury.pay import agreeing
from treasury.pay.payout_plans import PayRequest, make_plan
from treasury.payments import approving
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.rebalance.trade_costs import trades_made

D = Decimal
OpenDesk = Callable[..., Desk]
APPROVED = above("payouts", "USDT_TRC20", "1000")
CONVERSIONS = above("conversions", "USDT", "100")


def approved_and_recorded(desk: Desk, folder: Path, rules: Path) -> Path:
    """A run that waited for its approval, has it, and is recorded."""
    file = sheet(folder, *ROWS)
    with pytest.raises(ApprovalNeeded):
        propose(desk, file, rules)
    approve(desk)
    record(desk, file, rules)
    return file


def recorded_and_larger(desk: Desk, sandbox: Any, folder: Path, rules: Path) -> Path:
    """Return the same; then money went, and its larger plan waits."""
    file = approved_and_recorded(desk, folder, rules)
    sandbox.deposit("USDT_TRC20", "-150")
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, folder / "out")
    return file


def short_lived(desk: Desk, folder: Path) -> Path:
    """A policy in force whose approvals count for an hour."""
    file = rules_of_a_day(folder, APPROVED)
    file.write_text("approval_hours = 1\n" + file.read_text())
    return adopted(desk, file)


# --- nothing more than was agreed to -------------------------------------------------------------------------------


def test_more_than_was_said_yes_to_is_not_converted_in_that_start(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    plan = record(desk, file, rules)
    sandbox.deposit("USDT_TRC20", "-200")
    why = convert(desk, file, rules)
    assert why is not None
    assert "more has to be converted than was agreed to" in why
    assert (plan.conversions[0].at_most < 1100, sandbox.orders()) == (True, [])
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_a_hash_of_another_plan_agrees_to_nothing(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    shown = propose(desk, sheet(tmp_path, *ROWS), rules)
    changed = sheet(tmp_path, *ROWS[:2], ("c", "501", ROWS[2][2]))
    for sha256 in (shown.sha256, "0" * 64):
        with pytest.raises(InputError, match="another one than was shown; nothing was sent"):
            paying.commit(desk, changed, "run", rules, shown=sha256)
        with pytest.raises(InputError, match="another one than was shown; nothing was sent"):
            paying.propose(desk, paying.plan_of(desk, changed, "run", rules), rules, shown=sha256)
    assert desk.ledger.run("run") is None


def test_parts_of_a_sheet_do_not_get_round_an_approval(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC))
    file = sheet(tmp_path, *ROWS)
    with pytest.raises(ApprovalNeeded):
        propose(desk, file, rules)
    approve(desk)
    [agreed] = record(desk, file, rules).conversions
    sandbox.deposit("USDT_TRC20", "-200")
    assert convert(desk, file, rules) is not None  # the whole sheet asks for an approval again
    for number, rows in enumerate((ROWS[:2], ROWS[2:])):
        part = sheet(tmp_path, *rows, name=f"part-{number}.csv")
        with suppress(ApprovalNeeded):
            fund_and_pay(desk, part, rules, tmp_path / f"part-{number}")
    assert sum(made.value for made in trades_made(desk)) <= agreed.at_most
    assert kinds(sandbox).count("payout") == 2


def test_more_conversions_are_agreed_to_for_the_whole_run(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(0)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    paying.commit(desk, sheet(tmp_path, *ROWS), "run", rules)  # recorded without --fund
    part = sheet(tmp_path, ROWS[0], name="part.csv")
    with pytest.raises(InputError, match=r"rows that wait and are not in this sheet \(b, c\)"):
        fund_and_pay(desk, part, rules, tmp_path / "part")
    assert sandbox.orders() == []


def test_bounds_that_were_not_used_are_not_spent_for_rows_that_were_added(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=CONVERSIONS, BTC=BTC))
    first, file = sheet(tmp_path, *ROWS[:2], name="first.csv"), sheet(tmp_path, *ROWS)
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, first, rules, tmp_path / "out")
    approve(desk)  # 500 may be converted for a and b
    sandbox.deposit("USDT_TRC20", "500")
    assert fund_and_pay(desk, first, rules, tmp_path / "out")["counts"] == {"settled": 2}
    assert kinds(sandbox).count("conversion_execute") == 0
    paying.commit(desk, file, "run", rules, add=True)  # c, without --fund
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")


def test_a_plan_that_was_answered_with_no_is_not_proposed_later(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT": D(9000)})
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=CONVERSIONS, BTC=BTC))
    payments = paying.plan_of(desk, sheet(tmp_path, *ROWS), "run", rules)
    agreeing.plan_to_execute(desk, payments, add=False, fund=True)  # 1000 are lacking; answered with no
    sandbox.deposit("USDT_TRC20", "900")
    plan = agreeing.plan_to_execute(desk, payments, add=False, fund=True)
    assert plan is not None
    assert plan.conversions[0].at_most < 150, str(plan.conversions[0])
    sandbox.deposit("USDT_TRC20", "100")
    plan = agreeing.plan_to_execute(desk, payments, add=False, fund=True)
    assert plan is not None
    assert (plan.conversions, plan.approvals) == ((), 0)


# --- dead ends and needless approvals ------------------------------------------------------------------------------


def test_a_run_whose_first_approval_expired_goes_on_under_a_newer_one(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = short_lived(desk, tmp_path)
    file = approved_and_recorded(desk, tmp_path, rules)
    sandbox.deposit("USDT_TRC20", "-150")
    assert convert(desk, file, rules) is not None
    clock_of(desk).move(2 * 3600)  # an approval counts for one
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    approve(desk)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_an_approval_that_expires_between_the_rounds_is_given_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = short_lived(desk, tmp_path)
    file = approved_and_recorded(desk, tmp_path, rules)
    assert convert(desk, file, rules) is None
    clock_of(desk).move(2 * 3600)
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    approving.approve(desk, "run", name="Checker")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_whoever_approves_again_sees_what_is_converted(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    desk = open_desk(start_sandbox(balances=HELD).base_url)
    rules = short_lived(desk, tmp_path)
    file = approved_and_recorded(desk, tmp_path, rules)
    clock_of(desk).move(2 * 3600)
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    waiting = waiting_plan(desk.ledger, "run")
    assert waiting is not None
    assert waiting.shown is not None
    assert [each.split(":")[0] for each in waiting.shown["conversions"]] == ["BUY USDT_TRC20-USDT"]
    assert waiting.shown["why"] == ["its approvals ended before anything was sent"]
    approve(desk)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_a_rejected_larger_plan_does_not_end_what_was_approved_before(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC))
    file = recorded_and_larger(desk, sandbox, tmp_path, rules)
    reject_plan(desk.ledger, "run", by="Checker", why="150 are on their way", os_user="somebody-else")
    sandbox.deposit("USDT_TRC20", "150")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_a_hash_that_was_never_shown_is_no_plan_of_a_run_that_began(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    shown = record(desk, file, rules)
    with pytest.raises(InputError, match="no plan abababababab was shown"):
        paying.commit(desk, file, "run", rules, shown="ab" * 32)
    assert paying.commit(desk, file, "run", rules, shown=shown.sha256)


def test_a_hash_that_was_agreed_to_counts_without_conversions_too(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(balances=HELD).base_url)
    rules, file = policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    request, payments = PayRequest(file, "run", rules), paying.plan_of(desk, file, "run", rules)
    with pytest.raises(InputError, match="its plan is another one than was shown; nothing was sent"):
        make_plan(desk, request, agreed="ab" * 32)
    assert make_plan(desk, request, agreed=payments.sha256).shown.sha256 == payments.sha256
    with_conversions = propose(desk, file, rules)
    assert with_conversions.conversions
    with pytest.raises(InputError, match="what was agreed to converts first; nothing was sent"):
        make_plan(desk, request, agreed=with_conversions.sha256)
    paying.commit(desk, file, "run", rules)
    assert make_plan(desk, request, agreed=payments.sha256).proposed is None
    with pytest.raises(InputError, match="no plan abababababab was shown"):
        make_plan(desk, request, agreed="ab" * 32)


def test_what_was_lost_exactly_is_converted_again(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), rules_of_a_day(tmp_path)
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    assert convert(desk, file, rules) is None
    sandbox.deposit("USDT_TRC20", str(D(200) - available(sandbox, "USDT_TRC20")))  # as it was before
    clock_of(desk).move(660)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_another_policy_file_of_a_rehearsal_plans_anew(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)  # and killed
    rules = policy(tmp_path, tail=PAYOUTS + '[conversions.max_per_trade]\nUSDT = "4000"\n', BTC=BTC)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_rows_that_are_added_and_their_conversions_need_one_approval(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC))
    assert fund_and_pay(desk, sheet(tmp_path, *ROWS[:2]), rules, tmp_path / "out")["counts"] == {"settled": 2}
    file = sheet(tmp_path, *ROWS)
    with pytest.raises(ApprovalNeeded):
        propose(desk, file, rules, add=True)
    approve(desk)
    shown = record(desk, file, rules, add=True)  # as the command does it, and killed; then its flow:
    paying.propose(desk, paying.plan_of(desk, file, "run", rules), rules, add=True, shown=shown.sha256)
    paying.commit(desk, file, "run", rules, add=True, shown=shown.sha256)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_a_larger_plan_needs_one_approval(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC))
    file = recorded_and_larger(desk, sandbox, tmp_path, rules)
    approve(desk)
    shown = record(desk, file, rules)  # as the command does it; then its flow:
    for _ in range(2):
        paying.propose(desk, paying.plan_of(desk, file, "run", rules), rules, shown=shown.sha256)
        paying.commit(desk, file, "run", rules, shown=shown.sha256)
    assert convert(desk, file, rules) is None
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


def test_a_plan_of_added_rows_that_waits_leaves_the_run_its_approval(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=above("payouts", "USDT_TRC20", "600"), BTC=BTC))
    first = sheet(tmp_path, *ROWS[:2], name="first.csv")
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, first, rules, tmp_path / "out")
    approve(desk)
    record(desk, first, rules)  # and the process ended
    with pytest.raises(ApprovalNeeded):
        propose(desk, sheet(tmp_path, *ROWS), rules, add=True)
    assert fund_and_pay(desk, first, rules, tmp_path / "out")["counts"] == {"settled": 2}


def test_nobody_is_asked_to_approve_a_plan_that_can_never_be_recorded(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC))
    first = sheet(tmp_path, *ROWS[:2], name="first.csv")
    assert fund_and_pay(desk, first, rules, tmp_path / "out")["counts"] == {"settled": 2}
    for file in (sheet(tmp_path, *ROWS), sheet(tmp_path, ROWS[0], ("b", "410", ROWS[1][2]))):
        with pytest.raises(RunKeyConflict):  # as without --fund
            fund_and_pay(desk, file, rules, tmp_path / "out")


def test_a_policy_that_was_changed_asks_again_and_counts_once(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    file = approved_and_recorded(desk, tmp_path, adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC)))
    rules = adopted(desk, policy(tmp_path, tail=above("payouts", "USDT_TRC20", "900"), BTC=BTC))
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")
    assert sum(each.amount for each in obligations.payments_that_wait(desk.ledger)) == 1200
    approve(desk)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}


# --- one obligation ------------------------------------------------------------------------------------------------


def test_a_recorded_run_that_waits_for_more_conversions_is_one_obligation(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    recorded_and_larger(desk, sandbox, tmp_path, adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC)))
    assert sum(each.amount for each in obligations.payments_that_wait(desk.ledger)) == 1200
    cancel(desk, "run", by="Ada", why="another month")
    assert {order.state for order in desk.ledger.orders(run_key="run")} == {State.CANCELLED}
    assert obligations.payments_that_wait(desk.ledger) == []


def test_rows_to_be_added_are_an_obligation_beside_those_of_their_run(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC))
    paying.commit(desk, sheet(tmp_path, *ROWS[:2]), "run", rules)
    with pytest.raises(ApprovalNeeded):
        propose(desk, sheet(tmp_path, *ROWS), rules, add=True)
    assert sum(each.amount for each in obligations.payments_that_wait(desk.ledger)) == 1200


def test_the_rebalancing_converts_once_for_a_run_whose_larger_plan_waits(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=APPROVED, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    plain = paying.plan_of(desk, file, "run", rules)
    with pytest.raises(ApprovalNeeded):
        paying.propose(desk, plain, rules)
    approve(desk)
    paying.commit(desk, file, "run", rules)  # recorded without --fund
    with pytest.raises(ApprovalNeeded):
        fund_and_pay(desk, file, rules, tmp_path / "out")  # and with it later
    rebalance(desk, rules, tmp_path / "rebalanced")
    assert available(sandbox, "USDT_TRC20") < 1300


def test_the_reason_of_a_row_that_was_paid_in_the_end_says_nothing_of_funds(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": D(700), "BTC": D("0.2"), "USDT_TRC20": D(200)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    file = sheet(tmp_path, *ROWS)
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"not_sent": 3}
    sandbox.deposit("USDT", "2000")
    assert fund_and_pay(desk, file, rules, tmp_path / "out")["counts"] == {"settled": 3}
    assert {row["reason"] for row in results(tmp_path / "out").values()} <= {""}


def test_a_start_that_has_nothing_to_pay_replaces_no_plan_that_waits(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """Its own added rows wait, approved, and so does another run; what it paid before is final, one row failed."""
    sandbox = start_sandbox(balances={**HELD, "USDT_TRC20": D(800)})
    desk = open_desk(sandbox.base_url)
    rules = adopted(desk, policy(tmp_path, tail=APPROVED, BTC=BTC))
    first = sheet(tmp_path, ROWS[0], ("b", "400", "12345670044"), name="first.csv")
    assert fund_and_pay(desk, first, rules, tmp_path / "out")["counts"] == {"settled": 1, "failed": 1}
    added = sheet(tmp_path, ROWS[0], ("b", "400", "12345670044"), ("d", "900", "12345670901"), name="added.csv")
    for file, key, add in ((sheet(tmp_path, ("x", "1950", "12345670301")), "other", False), (added, "run", True)):
        with pytest.raises(ApprovalNeeded):
            propose(desk, file, rules, key, add=add)
    approve(desk)
    waits = approving.newest(desk, "run")
    assert fund_and_pay(desk, first, rules, tmp_path / "out")["counts"] == {"settled": 1, "failed": 1}
    assert approving.newest(desk, "run") == waits
    assert fund_and_pay(desk, added, rules, tmp_path / "out", add=True)["counts"] == {"settled": 2, "failed": 1}


@pytest.mark.parametrize("held", ["0", "100", "499"])
def test_a_run_is_funded_in_two_steps_through_an_asset_below_its_own_minimum(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, held: str
) -> None:
    """BTC is sold for USDT, of which less than its minimum of 500 is there, and USDT buys what is lacking."""
    sandbox = start_sandbox(balances={"USDT": D(held), "BTC": D("0.8"), "USDT_TRC20": D(0)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    done = fund_and_pay(desk, sheet(tmp_path, ROWS[0]), rules, tmp_path / "out")
    assert done["counts"] == {"settled": 1}, results(tmp_path / "out")
    assert kinds(sandbox).count("conversion_execute") == 2
    assert available(sandbox, "USDT") >= D(held)
