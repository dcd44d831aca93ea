"""Pay the beneficiaries of a spreadsheet: every row at most once, whatever happens in between."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from flows.forms import Account, File, Folder, FollowSeconds, PlanHash, Policy, RunKey, SheetName, Token
from flows.paying import pay_sheet
from tasks.ended import ENDINGS
from tasks.outcomes import ends_in_a_named_state


@flow(name="pay-beneficiaries", flow_run_name="pay {run_key}", **ENDINGS)
@ends_in_a_named_state
def pay_beneficiaries(
    file: File,
    run_key: RunKey,
    out: Folder | None = None,
    follow_seconds: FollowSeconds = 30,
    account: Account | None = None,
    policy: Policy | None = None,
    proposal: Token | None = None,
    sheet: SheetName | None = None,
    add: bool = False,
    valid_rows_only: bool = False,
    fund: bool = False,
    agreed: PlanHash | None = None,
    plan: PlanHash | None = None,
    partly: bool = False,
) -> Mapping[str, Any]:
    """Plan the payment of every row, ask for approvals, record, send, follow, and write a result for each row.

    The run ends in a state that is named for what came of it: `Settled`, `PartlySettled`, `NeedsAttention`,
    `InputRejected` or `RunHeld`. One that lacks approvals is suspended until it has them; called from Python it ends
    `WaitingForApproval`.

    Args:
        file: the beneficiaries spreadsheet, CSV or XLSX (columns: `data/README.md`).
        run_key: the name of this payment run, for example payroll-2026-11. The same key resumes the same run.
        out: folder for the results, or for the corrected copy of a wrong sheet; one named by the run key when left out.
        follow_seconds: how long to wait for final statuses; what is open then is followed every night.
        account: the Partner Account block, where no account is configured otherwise.
        policy: the policy in force applies; this may name it, a TOML file or block:NAME.
        proposal: the maker's token of `treasury pay FILE --run-key KEY --key FILE --print`, where people are listed.
        sheet: the name of the sheet that is meant, where a workbook has several.
        add: rows that the run does not have are added to it, under a plan of their own.
        valid_rows_only: the valid rows are paid, and the others left out: they are in `remaining.xlsx` and `.csv`.
        fund: what the run lacks is converted first, as the plan says; nothing is paid before everything is there.
        agreed: the hash of the plan that was shown and agreed to; no other is paid. Left out, the run is planned now.
        plan: the id of the plan that is carried out, made of this file; left out, the run is planned now.
        partly: where the balance does not reach for all rows, those that it reaches for are paid, in their order.

    """
    rows: dict[str, Any] = {"kind": "payout", "sheet": sheet, "add": add, "valid_rows_only": valid_rows_only}
    rows |= {"fund": fund, "partly": partly}
    return pay_sheet(file, run_key, out, follow_seconds, account, policy, proposal, agreed, plan, rows)


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("pay")
