"""Payout runs at a desk, without Prefect: plan a sheet, propose it, record it, write its results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from treasury.ledger.plans import newest_kept
from treasury.pay import agreeing, payouts
from treasury.pay.payout_plans import PayRequest, keep_made, make_plan, take_plan
from treasury.payments.desk import Desk
from treasury.planning.payout_planner import MadePlan, PayoutPlan
from treasury.rebalance.round_results import Done
from treasury.sheets.payments import PAYOUTS


def plan_of(
    desk: Desk, file: Path, run_key: str, rules: Path | None = None, *, valid_rows_only: bool = False
) -> PayoutPlan:
    """The payments of a sheet, whether a run that began has all of them or not; nothing of it is kept."""
    request = PayRequest(file, run_key, rules, add=not valid_rows_only, valid_rows_only=valid_rows_only)
    return make_plan(desk, request, keep=False).payments


def made(
    desk: Desk, plan: PayoutPlan, rules: Path | None = None, *, add: bool = False, shown: str | None = None
) -> MadePlan:
    """The plan of a start that pays these payments; `shown`: the hash of what was shown with their conversions."""
    if shown is None:
        proposed = agreeing.plan_to_execute(desk, plan, add=add)
    else:
        proposed = agreeing.plan_as_shown(desk, plan, shown, add=add)
    return keep_made(
        desk, MadePlan("", plan, proposed, None if rules is None else str(rules), add=add, fund=shown is not None)
    )


def propose(
    desk: Desk,
    plan: PayoutPlan,
    rules: Path | None = None,
    proposal: str | None = None,
    *,
    add: bool = False,
    shown: str | None = None,
) -> None:
    agreeing.propose_payouts(desk, made(desk, plan, rules, add=add, shown=shown), proposal)


def commit(
    desk: Desk,
    file: Path,
    run_key: str,
    rules: Path | None = None,
    *,
    add: bool = False,
    valid_rows_only: bool = False,
    shown: str | None = None,
    kind: str = PAYOUTS.way.kind,
) -> list[list[int]]:
    """Plan a sheet and record it: a start after its proposal."""
    request = PayRequest(file, run_key, rules, None, add, valid_rows_only, fund=shown is not None, kind=kind)
    return payouts.commit_payouts(desk, make_plan(desk, request, agreed=shown))


def write(desk: Desk, run_key: str, out: Path, converted: Sequence[Done] = ()) -> Mapping[str, Any]:
    """The results of the newest plan of a run."""
    kept = newest_kept(desk.ledger, run_key)
    assert kept is not None
    return payouts.write_payout_results(desk, take_plan(desk, kept.id, run_key), out, converted)
