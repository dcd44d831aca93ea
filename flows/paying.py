"""Pays the sheets of payments: every row at most once, whatever happens in between."""

from collections.abc import Mapping
from typing import Any

from blocks.desk import open_desk
from tasks.funding import check_funds, plan_conversions, record_conversions
from tasks.orders import follow_orders
from tasks.outcomes import told_after
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
from treasury.payments.execution import Part


def pay_sheet(
    file: str,
    run_key: str,
    out: str | None,
    follow_seconds: float,
    account: str | None,
    policy: str | None,
    proposal: str | None,
    agreed: str | None,
    plan: str | None,
    rows: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Plan a sheet, ask for approvals, record, send, follow, and write a result for each row.

    The plan is made once and kept in the ledger; after the first task only its id is passed on. `rows`: the kind of the
    sheet, which of its rows are taken, and whether the run is funded (`PayRequest`).
    """
    if plan is None:
        plan = plan_payouts(run_key, file, policy, rows, out, account, agreed, proposal)
    return carry_out(run_key, plan, out, follow_seconds, account, proposal, fund=bool(rows["fund"]))


def carry_out(
    run_key: str,
    plan: str,
    out: str | None,
    follow_seconds: float,
    account: str | None,
    proposal: str | None = None,
    *,
    fund: bool,
) -> Mapping[str, Any]:
    """Ask for approvals of a plan, record, send, follow, and write a result for each row."""
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
