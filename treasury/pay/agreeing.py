"""The part of a payout run that is to be agreed to, shown and proposed: all of it, added rows, conversions that fund
it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from treasury.approving.tokens import read_token
from treasury.errors import InputError, InvalidSheet, LimitExceeded, PolicyChanged
from treasury.ledger.approvals import check_no_rejection
from treasury.ledger.approved_plans import lapsed_plan, propose_again, why_lapsed
from treasury.ledger.debits import check_day, recorded_debits
from treasury.ledger.intents import check_bound
from treasury.ledger.obligations import ADDS
from treasury.ledger.plans import is_made_now, kept_plan
from treasury.ledger.proposals import WaitingPlan
from treasury.orders.rows import PayoutRow
from treasury.orders.states import State
from treasury.pay.funding_plans import (
    agreed_of,
    check_whole,
    more_conversions,
    named_by,
    plan_with_conversions,
    shown_before,
    was_shown,
    whole_run,
    with_recorded,
)
from treasury.pay.preview import look
from treasury.payments.approving import is_recorded, marks_of, propose
from treasury.payments.desk import Desk
from treasury.payments.governing import Governing, govern_plan
from treasury.planning.payout_planner import MadePlan, PayoutPlan, plan_payouts
from treasury.policy.judge import judge_rows, judge_unbounded
from treasury.sheets.reading import Sheet


def check_limits(file: Path | str, plan: PayoutPlan, *, is_estimated: bool = True) -> None:
    """Raise `InvalidSheet` for rows over the limits, and `LimitExceeded` when the sums are.

    `is_estimated`: the service was asked for estimates, and a row whose debit nothing bounds is refused.
    """
    over = judge_rows(plan.rows, plan.limits)
    known = {each.row_ref for each in over}
    if is_estimated:
        over += [each for each in judge_unbounded(plan.rows, plan.limits) if each.row_ref not in known]
    if over:
        raise InvalidSheet(str(file), over)
    if plan.over is not None:
        raise LimitExceeded(f"run {plan.run_key}: {plan.over}; nothing was sent")


def check_today(desk: Desk, plan: PayoutPlan) -> None:
    """Raise `LimitExceeded` where what of a plan is not recorded yet does not fit into the limits of today."""
    if plan.policy is None:
        return
    recorded, most = recorded_debits(desk.ledger, plan.run_key).rows, plan.policy.table(plan.table).max_per_day
    new, day = [each for each in plan.intents if each.row_ref not in recorded], plan.policy.day_of(desk.ledger.now())
    desk.ledger.look(lambda connection: check_day(connection, day, most, new))


def added_plan(desk: Desk, plan: PayoutPlan) -> PayoutPlan | None:
    """The plan of those rows that a run which began does not have; None when there are none, or it did not begin.

    Limits and approvals count what the run has recorded, too. Raises `InvalidSheet` and `LimitExceeded`.
    """
    if desk.ledger.run(plan.run_key) is None:
        return None
    recorded = recorded_debits(desk.ledger, plan.run_key)
    rows = Sheet[PayoutRow]()
    rows.notes = plan.rows.notes if isinstance(plan.rows, Sheet) else ()
    for row in plan.rows:
        if row.row_ref not in recorded.rows:
            rows.append(row)
    if not rows:
        return None
    about = (plan.policy, recorded.sums, plan.left_out, plan.mapped)
    added = plan_payouts(plan.run_key, rows, *about, partly=plan.partly)
    check_limits(plan.run_key, added)
    return added


def plan_to_execute(
    desk: Desk, plan: PayoutPlan, *, add: bool, fund: bool = False, keep: bool = True
) -> PayoutPlan | None:
    """Return what of a plan is still to be agreed to: all of it, or the rows to be added; None of a run that began.

    `fund`: together with the conversions that its gap needs now; of a run that began, those that nobody agreed to.
    `keep`: so that it can be proposed, by its hash.
    """
    found = plan if desk.ledger.run(plan.run_key) is None else added_plan(desk, plan) if add else None
    if not fund:
        return found
    if found is None:
        return more_conversions(desk, plan, keep=keep)
    return plan_with_conversions(desk, found, plan, keep=keep)


def plan_as_shown(desk: Desk, plan: PayoutPlan, sha256: str, *, add: bool) -> PayoutPlan | None:
    """Return what was shown under a hash, and is to be agreed to now: those payments with those conversions, and no
    other.

    None where nothing is to be agreed to any more. Raises `InputError` for the hash of another plan.
    """
    began, added = desk.ledger.run(plan.run_key) is not None, added_plan(desk, plan) if add else None
    if not began or added is not None:
        shown = shown_before(desk, added or plan, sha256)
        if shown is None:
            raise InputError(
                f"run {plan.run_key}: its plan is another one than was shown; nothing was sent: start it again"
            )
        return shown
    agreed, shown = agreed_of(desk, plan), shown_before(desk, plan, sha256)
    if shown is None and not was_shown(desk, plan, sha256):
        raise InputError(
            f"run {plan.run_key}: no plan {sha256[:12]} was shown for it; nothing was sent: start it again"
        )
    if shown is None or not shown.conversions or (agreed is not None and agreed.sha256 == sha256):
        return None
    return replace(shown, recorded=whole_run(desk, plan).recorded)


def shown_and_signed(desk: Desk, plan: PayoutPlan, proposal: str, *, add: bool) -> str | None:
    """The hash of the plan that its maker signed, among those that were shown for these payments; None for none."""
    return named_by(desk, (added_plan(desk, plan) if add else None) or plan, proposal)


def _shown_again(desk: Desk, plan: PayoutPlan, lapsed: WaitingPlan) -> dict[str, Any]:
    """Return what approvers see of a recorded plan whose approvals count no more, from the sheet of this start.

    Its payments are recorded, and count as such: it adds none. Raises `InputError` for a part of the sheet: the rest
    would leave by what nobody was shown.
    """
    check_whole(desk, plan, "it is approved again", State.PREPARED, State.HELD)
    why, agreed = [why_lapsed(desk.ledger, lapsed)], agreed_of(desk, plan)
    if agreed is not None and agreed.sha256 == lapsed.sha256:
        plan = replace(plan, conversions=agreed.conversions)
    elif lapsed.sha256 != plan.sha256:
        why.append("the payments shown are those of the sheet that was given now: the plan is of the recorded ones")
    return {**look(desk, plan), "plan_sha256": lapsed.sha256, "why": why, ADDS: False}


def governed_plan(desk: Desk, made: MadePlan) -> Governing:
    """The policy that a plan was made under, while it is in force.

    Raises `PolicyChanged` where another one is or was since, or the ledger was restored, and as `govern_plan`.
    """
    governed = govern_plan(desk, made.payments.policy)
    if not made.id or not is_made_now(desk.ledger, kept_plan(desk.ledger, made.id)):
        raise PolicyChanged(
            f"run {made.payments.run_key}: another policy came into force, or this ledger was found to be restored, "
            "since the plan was made; nothing was sent: start it again"
        )
    return governed


def check_partly(desk: Desk, plan: PayoutPlan) -> None:
    """Raise `InputError` where a part of a run that began would leave, and its approvals are for all of it."""
    run = desk.ledger.run(plan.run_key)
    if run is not None and plan.partly and not run.plan.get("partly") and with_recorded(desk, plan).approvals:
        raise InputError(
            f"run {plan.run_key} was approved as a whole: what is funded of it does not leave alone; nothing was sent: "
            "see to its money, or cancel what waits and pay it under another run key with --partly"
        )


def propose_payouts(desk: Desk, made: MadePlan, signed: str | None = None) -> list[str]:
    """Record a plan that needs approvals; returns who approved it. `signed`: the token that its maker signed.

    Raises `ApprovalNeeded` while it has too few, and `RunKeyConflict`.
    """
    governed, plan = governed_plan(desk, made), made.payments
    check_partly(desk, plan)
    added = added_plan(desk, plan) if made.add else None
    proposed = added or plan
    if made.agreed is not None:
        proposed = plan_as_shown(desk, plan, made.agreed, add=made.add) or proposed
    if added is None and not proposed.conversions and is_recorded(desk, governed, plan.run_key):
        rules = governed.rules(desk, plan.table, {}, {})
        lapsed = lapsed_plan(desk.ledger, plan.run_key, governed.version, rules.approving)
        if lapsed is not None:
            propose_again(desk.ledger, lapsed, _shown_again(desk, plan, lapsed))
        return list(marks_of(desk, plan.run_key).approved_by)
    if added is None and desk.ledger.run(plan.run_key) is not None:
        check_bound(desk.ledger, plan.run_key, plan.intents)  # another plan of it could never be paid
    else:
        hashes = {proposed.sha256, (added or plan).sha256}
        check_no_rejection(desk.ledger, plan.run_key, hashes, governed.version, proposed.approvals)
    token = None if signed is None else read_token(signed)
    seen = {**look(desk, proposed), ADDS: added is not None} if proposed.approvals else None
    return propose(desk, governed, plan.run_key, proposed.sha256, proposed.approvals, shown=seen, token=token)
