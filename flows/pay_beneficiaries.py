"""Pay the beneficiaries of a spreadsheet: every row at most once, whatever happens in between."""

from collections.abc import Mapping
from typing import Any

from prefect import flow
from prefect.states import Completed

from blocks.desk import open_desk
from tasks.orders import follow_orders, send_orders
from tasks.payouts import commit_payouts, propose_payouts, write_payout_results


@flow(name="pay-beneficiaries", flow_run_name="pay {run_key}")
def pay_beneficiaries(
    file: str,
    run_key: str,
    out: str | None = None,
    follow_seconds: float = 30,
    account: str | None = None,
    policy: str | None = None,
) -> Mapping[str, Any]:
    """Validate every row, record the intents, send them, follow them, write a result for each; returns the summary.

    A plan that needs approvals ends waiting for them; `approve-and-pay` goes on.

    Args:
        file: the beneficiaries spreadsheet, CSV or XLSX (columns: `data/README.md`).
        run_key: the name of this payment run, for example payroll-2026-11. The same key resumes the same run.
        out: folder for `results.csv` and `run.json`; one named by the run key when left out.
        follow_seconds: how long to wait for final statuses; what is open then is followed every night.
        account: name of the Partner Account block, where no account is configured otherwise.
        policy: the policy whose limits and approvals apply: a TOML file, or block:NAME.

    """
    waiting = propose_payouts(file, run_key, policy, account)
    if waiting is not None:
        return Completed(name="WaitingForApproval", message=waiting)  # type: ignore[return-value]
    with open_desk(account).hold(run_key):
        chunks = commit_payouts(file, run_key, account, policy)
        for ids in chunks:
            send_orders(run_key, ids, account)
        # Following starts when all have left: what was sent first has had the most time to settle.
        follow_orders(run_key, [order for ids in chunks for order in ids], follow_seconds, account)
        return write_payout_results(file, run_key, out, account, policy)


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("pay")
