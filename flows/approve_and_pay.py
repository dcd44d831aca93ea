"""Approve a plan that waits, and pay it: a deployment whose parameters are the form."""

from collections.abc import Mapping
from typing import Any, cast

from prefect import flow

from blocks.desk import open_desk
from flows.pay_beneficiaries import pay_beneficiaries
from flows.pay_qr_codes import pay_qr_codes
from flows.withdraw_assets import withdraw_assets
from tasks.ended import ENDINGS
from tasks.outcomes import ends_in_a_named_state
from tasks.payouts import approve_plan
from treasury.runs.payouts import kind_of_run

FLOWS = {"payout": pay_beneficiaries, "withdrawal": withdraw_assets, "scan-to-pay": pay_qr_codes}
"""Kind of a run -> the flow that carries out its plan."""


@flow(name="approve-and-pay", flow_run_name="approve and pay {run_key}", **ENDINGS)
@ends_in_a_named_state
def approve_and_pay(
    run_key: str,
    file: str,
    approved_by: str | None = None,
    policy: str | None = None,
    out: str | None = None,
    follow_seconds: float = 30,
    account: str | None = None,
    token: str | None = None,
    sheet: str | None = None,
    add: bool = False,
    valid_rows_only: bool = False,
    fund: bool = False,
    partly: bool = False,
) -> Mapping[str, Any]:
    """Approve the newest plan of a run, and pay it once it has the approvals it needs.

    Args:
        run_key: the run that waits.
        file: the spreadsheet that was planned; a changed one has no approval.
        approved_by: your name; whoever made the plan cannot approve it. Empty with a token, which says it.
        policy: the policy in force applies; this may name it, a TOML file or block:NAME.
        out: folder for `results.csv` and `run.json`; one named by the run key when left out.
        follow_seconds: how long to wait for final statuses.
        account: name of the Partner Account block, where no account is configured otherwise.
        token: your approval, where the policy in force lists people: what `treasury approve KEY --plan CODE --key FILE
            --print` printed on your machine.
        sheet: the name of the sheet that is meant, where a workbook has several.
        add: rows that the run does not have are added to it, under the plan that is approved.
        valid_rows_only: the plan was made of the valid rows.
        fund: the plan converts first what the run lacks.
        partly: the plan lets those rows leave that are funded.

    """
    approved = approve_plan(run_key, approved_by, account, token)
    rows: dict[str, Any] = {"sheet": sheet, "add": add, "valid_rows_only": valid_rows_only, "fund": fund}
    rows["partly"] = partly
    pay = FLOWS[kind_of_run(open_desk(account), run_key)]
    paid: Any = pay(file, run_key, out, follow_seconds, account, policy, **rows, wait_for=[approved])
    return cast(Mapping[str, Any], paid)


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("approve")
