"""Pay the beneficiaries of a spreadsheet: every row at most once, whatever happens in between."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from blocks.desk import open_desk
from tasks.funding import check_funds, plan_conversions, record_conversions
from tasks.orders import follow_orders
from tasks.outcomes import ends_in_a_named_state, told_after
from tasks.payouts import (
    ask_approvals,
    create_payouts,
    fetch_fiat_quotes,
    plan_payouts,
    record_payouts,
    send_payouts,
    write_payout_results,
)
from tasks.rebalancing import convert, prove_fills
from treasury.errors import TreasuryError
from treasury.runs.parts import Part


@flow(name="pay-beneficiaries", flow_run_name="pay {run_key}")
@ends_in_a_named_state
def pay_beneficiaries(
    file: str,
    run_key: str,
    out: str | None = None,
    follow_seconds: float = 30,
    account: str | None = None,
    policy: str | None = None,
    proposal: str | None = None,
    sheet: str | None = None,
    add: bool = False,
    valid_rows_only: bool = False,
    fund: bool = False,
    agreed: str | None = None,
    plan: str | None = None,
    partly: bool = False,
) -> Mapping[str, Any]:
    """Plan the payment of every row, ask for approvals, record, send, follow, and write a result for each row.

    The plan is made once and kept in the ledger; after the first task only its id is passed on. The run ends in a state
    that is named for what came of it: `Settled`, `PartlySettled`, `NeedsAttention`, `WaitingForApproval`
    (`approve-and-pay` continues it), `InputRejected` or `RunHeld`.

    Args:
        file: the beneficiaries spreadsheet, CSV or XLSX (columns: `data/README.md`).
        run_key: the name of this payment run, for example payroll-2026-11. The same key resumes the same run.
        out: folder for the results, or for the corrected copy of a wrong sheet; one named by the run key when left out.
        follow_seconds: how long to wait for final statuses; what is open then is followed every night.
        account: name of the Partner Account block, where no account is configured otherwise.
        policy: the policy in force applies; this may name it, a TOML file or block:NAME.
        proposal: the maker's token of `treasury pay FILE --run-key KEY --key FILE --print`, where people are listed.
        sheet: the name of the sheet that is meant, where a workbook has several.
        add: rows that the run does not have are added to it, under a plan of their own.
        valid_rows_only: the valid rows are paid, and the others left out: they are in `remaining.xlsx` and `.csv`.
        fund: what the run lacks is converted first, as the plan says; nothing is paid before everything is there.
        agreed: with fund, the hash of the plan that was shown and agreed to; left out, the run is planned now.
        plan: the id of the plan that is carried out, made of this file; left out, the run is planned now.
        partly: where the balance does not reach for all rows, those that it reaches for are paid, in their order.

    """
    if plan is None:
        rows = {"sheet": sheet, "add": add, "valid_rows_only": valid_rows_only, "fund": fund, "partly": partly}
        plan = plan_payouts(run_key, file, policy, rows, out, account, agreed, proposal)
    approvals = ask_approvals(run_key, plan, account, proposal)
    with open_desk(account).hold(run_key):
        parts = record_payouts(run_key, plan, account, wait_for=[approvals])
        converted: list[Any] = []
        try:
            if fund:
                parts = convert_what_it_lacks(run_key, plan, parts, converted, follow_seconds, account)
            else:
                parts = check_funds(run_key, plan, parts, (), account)
            # Following starts when all orders were sent: the first ones have had the most time to settle.
            sent = send_in_parts(run_key, plan, parts, account, fund=fund)
            followed = follow_orders(run_key, sent, follow_seconds, account)
        except TreasuryError as error:
            raise told_after(error, write_payout_results(run_key, plan, out, account, converted)) from error
        return write_payout_results(run_key, plan, out, account, converted, wait_for=[followed])


def send_in_parts(run_key: str, plan: str, parts: list[Part], account: str | None, *, fund: bool) -> list[Any]:
    """Send the parts of a run, one after the other; quotes of a part are fetched while the one before is created.

    Of a run that is funded no quote is confirmed before everything is there that the quotes ask for.
    """
    sent = [send_payouts(part, account) for part in parts if not part["quoted"]]
    creating: list[Any] = []
    try:
        for part in (part for part in parts if part["quoted"]):
            quotes = fetch_fiat_quotes(part, account)
            for before in creating[-1:]:
                before.wait()
            funded = check_funds(run_key, plan, [part], (), account, wait_for=[quotes]) if fund else [part]
            creating += [create_payouts.submit(each, account, return_state=False, wait_for=[quotes]) for each in funded]
            if funded != [part]:
                break
    finally:
        for payouts in creating:
            payouts.wait()
    return [*sent, *(payouts.result() for payouts in creating)]


def convert_what_it_lacks(
    run_key: str, plan: str, parts: list[Part], done: list[Any], follow_seconds: float, account: str | None
) -> list[Part]:
    """Convert what a run lacks, round by round, each planned afresh; the parts that may leave then.

    `done` takes up each round that was made.
    """
    while True:
        found = plan_conversions(run_key, plan, done, len(done) + 1, follow_seconds, account, wait_for=[parts])
        if found is None:
            return check_funds(run_key, plan, parts, done, account)
        executed = [convert(trade, account) for trade in record_conversions(run_key, found, plan, account)]
        followed = follow_orders(found["run_key"], executed, follow_seconds, account)
        done.append(prove_fills(found, account, wait_for=[followed]))


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("pay")
