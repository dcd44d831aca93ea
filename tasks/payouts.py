"""Tasks of a payout run: check, record, fetch fiat quotes, create payouts, write results."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from blocks.policy import policy_file
from tasks.artifacts import show_run
from treasury.ledger import approvals
from treasury.runs import execution, payouts
from treasury.runs.parts import Part, split_run
from treasury.settings import os_user


@task(cache_policy=NO_CACHE, task_run_name="check sheet {run_key}")
def check_sheet(file: str, run_key: str, policy: str | None, account: str | None = None) -> dict[str, Any]:
    """Validate every row against the interface, the limits and the account; returns the plan without its rows."""
    desk = open_desk(account)
    return payouts.check_sheet(desk, Path(file), run_key, _limits(policy))


@task(cache_policy=NO_CACHE, task_run_name="propose {run_key}")
def propose_payouts(
    plan: Mapping[str, Any], file: str, run_key: str, policy: str | None, account: str | None = None
) -> dict[str, Any]:
    """Record the plan if its policy asks for approvals. Raises `ApprovalNeeded` while it has too few."""
    desk = open_desk(account)
    payouts.propose_payouts(desk, payouts.plan_of(desk, Path(file), run_key, _limits(policy)), os_user())
    return {"run_key": run_key, "plan_sha256": plan["plan_sha256"]}


@task(cache_policy=NO_CACHE, task_run_name="approve {run_key}")
def approve_plan(run_key: str, approved_by: str, account: str | None = None) -> list[str]:
    """Approve the newest plan of a run; returns who approved it."""
    return approvals.approve_plan(open_desk(account).ledger, run_key, approved_by, os_user())[2]


@task(cache_policy=NO_CACHE, task_run_name="record {proposed[run_key]}")
def record_payouts(
    proposed: Mapping[str, Any], file: str, policy: str | None, account: str | None = None
) -> list[Part]:
    """Record the intent to pay each row of a file; returns the orders to send or follow, in parts."""
    desk, run_key = open_desk(account), str(proposed["run_key"])
    chunks = payouts.commit_payouts(desk, Path(file), run_key, _limits(policy))
    return split_run(desk, run_key, [each for ids in chunks for each in ids])


@task(cache_policy=NO_CACHE, task_run_name="send payouts {part[rows]}")
def send_payouts(part: Part, account: str | None = None) -> dict[str, Any]:
    """Send these payouts, each at most once; returns how many the service has now."""
    sent = execution.send_orders(open_desk(account), part["run_key"], part["ids"])
    return {"rows": part["rows"], "sent": sent, "ids": part["ids"]}


@task(cache_policy=NO_CACHE, task_run_name="fetch fiat quotes {part[rows]}")
def fetch_fiat_quotes(part: Part, account: str | None = None) -> dict[str, Any]:
    """Fetch quotes for these payouts and confirm none; returns how many came before the first grew old."""
    asked = execution.fetch_quotes(open_desk(account), part["run_key"], part["ids"])
    return {"rows": part["rows"], "quotes": asked}


@task(cache_policy=NO_CACHE, task_run_name="create payouts {part[rows]}")
def create_payouts(part: Part, quotes: Mapping[str, Any], account: str | None = None) -> dict[str, Any]:  # noqa: ARG001 - an edge
    """Judge each quote and confirm it inside the bounds, each payout at most once; asks for new quotes if needed."""
    sent = execution.send_orders(open_desk(account), part["run_key"], part["ids"])
    return {"rows": part["rows"], "sent": sent, "ids": part["ids"]}


@task(cache_policy=NO_CACHE, task_run_name="write results {run_key}")
def write_payout_results(
    followed: Mapping[str, Any],  # noqa: ARG001 - an edge
    file: str,
    run_key: str,
    out: str | None,
    account: str | None = None,
) -> Mapping[str, Any]:
    """Write `results.csv` and `run.json`, and show them in Prefect; returns their summary."""
    folder = None if out is None else Path(out)
    desk = open_desk(account)
    summary = payouts.write_payout_results(desk, Path(file), run_key, folder)
    show_run(desk, "pay-beneficiaries", summary)
    return summary


def _limits(policy: str | None) -> Path | None:
    return None if policy is None else policy_file(policy)
