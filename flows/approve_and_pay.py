"""Approve a plan that waits, and pay it: for scripts, which are asked for a run key and a token alone."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from flows.forms import Account, Folder, FollowSeconds, PersonName, RunKey, Token
from flows.paying import carry_out
from tasks.ended import ENDINGS
from tasks.outcomes import ends_in_a_named_state
from tasks.payouts import approve_plan


@flow(name="approve-and-pay", flow_run_name="approve and pay {run_key}", **ENDINGS)
@ends_in_a_named_state
def approve_and_pay(
    run_key: RunKey,
    token: Token | None = None,
    name: PersonName | None = None,
    out: Folder | None = None,
    follow_seconds: FollowSeconds = 30,
    account: Account | None = None,
) -> Mapping[str, Any]:
    """Approve the newest plan of a run, and pay it once it has the approvals it needs; its rows are in the ledger.

    In the dashboard a run that waits asks for its approvals itself.

    Args:
        run_key: the run that waits.
        token: your approval, where the policy in force lists people: what `treasury approve KEY --plan CODE --key FILE
            --print` printed on your machine.
        name: your name, where the policy lists nobody; whoever made the plan cannot approve it.
        out: folder for `results.csv` and `run.json`; one named by the run key when left out.
        follow_seconds: how long to wait for final statuses.
        account: the Partner Account block, where no account is configured otherwise.

    """
    approved = approve_plan(run_key, token, name, account)
    return carry_out(run_key, approved["plan"], out, follow_seconds, account, fund=approved["fund"])


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("approve")
