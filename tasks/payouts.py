"""Tasks of a payout run: plan, ask for approvals, record, fetch fiat quotes, create payouts, write results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from blocks.files import file_at_hand
from blocks.policy import policy_file
from tasks.artifacts import show_preview, show_run, shown_while_it_waits
from tasks.outcomes import unless_rejected
from tasks.stated import own, state_of_orders, task
from treasury.approving.tokens import read_token
from treasury.errors import ApprovedAlready
from treasury.pay import agreeing, payouts
from treasury.pay.payout_plans import PayRequest, make_plan, take_plan
from treasury.pay.preview import look
from treasury.payments import approving, execution
from treasury.payments.desk import Desk
from treasury.payments.execution import Part, split_run
from treasury.rebalance.round_results import Done
from treasury.reports.plan import MAX_ROWS

SHOWN_AS = {"payout": "pay-beneficiaries", "withdrawal": "withdraw-assets", "scan-to-pay": "pay-qr-codes"}
"""Kind of a run -> the key of its artifacts."""


@task(cache_policy=NO_CACHE, retries=1, retry_condition_fn=unless_rejected, task_run_name="plan {run_key}")
def plan_payouts(
    run_key: str,
    file: str,
    policy: str | None,
    rows: Mapping[str, Any],
    out: str | None = None,
    account: str | None = None,
    agreed: str | None = None,
    proposal: str | None = None,
) -> str:
    """Judge every row of a sheet, plan its payment, and show the plan; returns its id.

    `rows`: which of them are taken, and whether the run is funded (`PayRequest`). Raises `InvalidSheet` for rows that
    interface, limits or service do not take; the sheet then comes back corrected.
    """
    desk = open_desk(account)
    folder = Path(out) if out is not None else desk.settings.run_folder(run_key)
    named = None if policy is None else policy_file(policy)
    with file_at_hand(file) as sheet:
        return _plan(desk, PayRequest(sheet, run_key, named, **rows), folder, agreed, proposal)


def _plan(desk: Desk, request: PayRequest, folder: Path, agreed: str | None, proposal: str | None) -> str:
    with payouts.corrected_copy(request, folder):
        made = make_plan(desk, request, agreed=agreed, signed=proposal)
        payouts.log_plan(made.payments)
        payouts.keep_left_out(folder, request, made.payments)
        payouts.check_payees(desk, made.payments)
        if made.proposed is not None:
            in_full = len(made.proposed.rows) <= MAX_ROWS
            show_preview(desk, look(desk, made.proposed, request.file, in_full=in_full))
    return made.id


@task(cache_policy=NO_CACHE, task_run_name="ask for approvals of {run_key}")
def ask_approvals(run_key: str, plan: str, account: str | None = None, proposal: str | None = None) -> list[str]:
    """Record the plan if its policy asks for approvals, and show it; returns who approved it.

    Raises `ApprovalNeeded` while it has too few.
    """
    desk = open_desk(account)
    with shown_while_it_waits(desk, run_key):
        return agreeing.propose_payouts(desk, take_plan(desk, plan, run_key), proposal)


@task(cache_policy=NO_CACHE, task_run_name="approve {run_key}")
def approve_plan(
    run_key: str, token: str | None = None, name: str | None = None, account: str | None = None
) -> dict[str, Any]:
    """Approve the plan of a run that waits, by a token or a typed name; returns its id, and whether it is funded.

    A start that ended after it approved, and is started again, goes on: what it recorded stands.
    """
    desk = open_desk(account)
    try:
        done = approving.approve(desk, run_key, name=name or "", token=read_token(token) if token else None)
        sha256 = done.plan.sha256
    except ApprovedAlready as found:
        sha256 = found.plan_sha256
    made = payouts.proposed_plan(desk, run_key, sha256)
    return {"plan": made.id, "fund": made.fund}


@task(cache_policy=NO_CACHE, task_run_name="record {run_key}")
def record_payouts(run_key: str, plan: str, account: str | None = None) -> list[Part]:
    """Record the intent to pay each row of a plan; returns the orders to send or follow, in parts."""
    desk = open_desk(account)
    chunks = payouts.commit_payouts(desk, take_plan(desk, plan, run_key))
    return own(split_run(desk, run_key, [each for ids in chunks for each in ids]))


@task(cache_policy=NO_CACHE, task_run_name="send payouts {part[rows]}")
def send_payouts(part: Part, account: str | None = None) -> dict[str, Any]:
    """Send these payouts, each at most once; its state counts what came of them."""
    return _sent(open_desk(account), part)


@task(cache_policy=NO_CACHE, task_run_name="fetch fiat quotes {part[rows]}")
def fetch_fiat_quotes(part: Part, account: str | None = None) -> dict[str, Any]:
    """Fetch quotes for these payouts and confirm none; says how many came before the first grew old."""
    asked = execution.fetch_quotes(open_desk(account), part["run_key"], part["ids"])
    return {"quotes": f"{asked} fetched"}


@task(cache_policy=NO_CACHE, task_run_name="create payouts {part[rows]}")
def create_payouts(part: Part, account: str | None = None) -> dict[str, Any]:
    """Judge each quote and confirm it inside the bounds, each payout at most once; asks for new quotes if needed.

    Its state counts what came of them.
    """
    return _sent(open_desk(account), part)


@task(cache_policy=NO_CACHE, task_run_name="write results {run_key}")
def write_payout_results(
    run_key: str,
    plan: str,
    out: str | None = None,
    account: str | None = None,
    converted: Sequence[Done] = (),
) -> Mapping[str, Any]:
    """Write `results.csv` and `run.json`, and show them in Prefect; returns their summary.

    `converted`: the rounds of conversions that this start made.
    """
    desk = open_desk(account)
    folder = None if out is None else Path(out)
    summary = payouts.write_payout_results(desk, take_plan(desk, plan, run_key), folder, converted)
    show_run(desk, SHOWN_AS[summary["kind"]], summary)
    return summary


def _sent(desk: Desk, part: Part) -> dict[str, Any]:
    execution.send_orders(desk, part["run_key"], part["ids"])
    return state_of_orders(desk, part["ids"], {"ids": list(part["ids"])})
