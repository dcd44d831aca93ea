"""Tasks of a payout run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from blocks.policy import policy_file
from treasury.ledger import approvals
from treasury.runs import payouts
from treasury.settings import os_user


@task(cache_policy=NO_CACHE)
def propose_payouts(file: str, run_key: str, policy: str | None, account: str | None = None) -> str | None:
    """Let the plan wait for the approvals that its policy asks for; says what it waits for, or None."""
    limits = None if policy is None else policy_file(policy)
    return payouts.wait_for_approvals(open_desk(account), Path(file), run_key, limits, os_user())


@task(cache_policy=NO_CACHE)
def approve_plan(run_key: str, approved_by: str, account: str | None = None) -> list[str]:
    """Approve the newest plan of a run; who approved it."""
    return approvals.approve_plan(open_desk(account).ledger, run_key, approved_by, os_user())[2]


@task(cache_policy=NO_CACHE)
def commit_payouts(file: str, run_key: str, account: str | None = None, policy: str | None = None) -> list[list[int]]:
    """Validate a beneficiaries file and record the intent to pay each row; ids of what is to be sent, in chunks."""
    limits = None if policy is None else policy_file(policy)
    return payouts.commit_payouts(open_desk(account), Path(file), run_key, limits)


@task(cache_policy=NO_CACHE)
def write_payout_results(
    file: str, run_key: str, out: str | None, account: str | None = None, policy: str | None = None
) -> Mapping[str, Any]:
    """Write `results.csv` and `run.json`; their summary."""
    folder = None if out is None else Path(out)
    limits = None if policy is None else policy_file(policy)
    return payouts.write_payout_results(open_desk(account), Path(file), run_key, folder, limits)
