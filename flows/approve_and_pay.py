"""Approve a plan that waits, and pay it: a deployment whose parameters are the form."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from flows.pay_beneficiaries import pay_beneficiaries
from tasks.outcomes import ends_in_a_named_state
from tasks.payouts import approve_plan


@flow(name="approve-and-pay", flow_run_name="approve and pay {run_key}")
@ends_in_a_named_state
def approve_and_pay(
    run_key: str,
    approved_by: str,
    file: str,
    policy: str | None = None,
    out: str | None = None,
    follow_seconds: float = 30,
    account: str | None = None,
) -> Mapping[str, Any]:
    """Approve the newest plan of a run, and pay it once it has the approvals it needs.

    Args:
        run_key: the run that waits.
        approved_by: your name; whoever made the plan cannot approve it.
        file: the beneficiaries spreadsheet that was planned; a changed one has no approval.
        policy: the policy in force applies; this may name it, a TOML file or block:NAME.
        out: folder for `results.csv` and `run.json`; one named by the run key when left out.
        follow_seconds: how long to wait for final statuses.
        account: name of the Partner Account block, where no account is configured otherwise.

    """
    approve_plan(run_key, approved_by, account)
    return pay_beneficiaries(file, run_key, out, follow_seconds, account, policy)


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("approve")
