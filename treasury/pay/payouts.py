"""Pays the plan of a run: commits intents, writes results."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from treasury.concurrency.batches import batched
from treasury.errors import InputError, InvalidSheet
from treasury.files import one_writer
from treasury.ledger.debits import recorded_debits
from treasury.ledger.funding_runs import FUNDING
from treasury.ledger.intents import IntentRules, add_to_plan, commit_plan
from treasury.ledger.known_payees import what_is_known
from treasury.ledger.plans import forget_plan_rows, kept_plans, newest_kept
from treasury.ledger.quotes import quotes_of_run
from treasury.ledger.replacements import replacing
from treasury.ledger.snapshots import check_not_of_invoices
from treasury.orders.rows import PayoutRow
from treasury.orders.states import OPEN
from treasury.pay.agreeing import added_plan, check_partly, governed_plan, plan_as_shown
from treasury.pay.funding import conversion_files, write_conversions
from treasury.pay.funding_plans import kept_with_run
from treasury.pay.payout_plans import PayRequest, take_plan
from treasury.pay.remaining import keep_left_out_rows, keep_remaining
from treasury.payments.approving import dated_by, is_recorded, marks_of
from treasury.payments.desk import Desk
from treasury.payments.execution import ORDERS_PER_TASK, Part, open_orders, split_run
from treasury.payments.governing import Governing, governing
from treasury.payments.preflight import check_clock_before
from treasury.planning.payout_planner import MadePlan, PayoutPlan, plan_payouts
from treasury.policy.judge import check_run_total, judge_rows
from treasury.rebalance.round_results import Done
from treasury.reports.details import Details
from treasury.reports.refused import write_refused, write_wrong
from treasury.reports.results import earlier_results, write_run_results
from treasury.reports.starts import end_start
from treasury.sheets.payments import SHEETS
from treasury.sheets.reading import Sheet
from treasury.texts import count_of

LOG = logging.getLogger("treasury")


def parts_that_left(desk: Desk, run_key: str) -> list[Part]:
    """The orders of a run that left, or may have left, and are not final."""
    return split_run(desk, run_key, desk.ledger.order_ids(run_key, OPEN))


def keep_left_out(folder: Path, request: PayRequest, plan: PayoutPlan) -> list[Path]:
    """Write the error report of rows that are left out of a sheet, and a copy of them to mend; returns their paths."""
    if not plan.left_out:
        return []
    file, lines = request.file, {row.line for row in plan.left_out}
    wrong = InvalidSheet(str(file), [problem for row in plan.left_out for problem in row.problems])
    return write_wrong(folder, file, wrong, request.pays.layout, request.sheet, lines)


@contextmanager
def corrected_copy(request: PayRequest, folder: Path) -> Iterator[None]:
    """Write the error report and the corrected copy of a sheet that is refused inside, into a folder."""
    try:
        yield
    except InvalidSheet as error:
        write_refused(folder, request.file, error, request.pays.layout, request.sheet)
        raise


def check_payees(desk: Desk, plan: PayoutPlan) -> dict[str, int]:
    """How many payments go to new and to changed payees, and look like earlier ones; each is named in the preview."""
    known = what_is_known(desk.ledger, plan.run_key, plan.intents, plan.limits.duplicate_days)
    found = {
        "paid for the first time": len(known.new),
        "known name, other account": len(known.changed),
        "look like earlier payments": len(known.duplicates),
    }
    LOG.info("run %s: payees: %s", plan.run_key, "; ".join(f"{count} {what}" for what, count in found.items()))
    return found


def log_plan(plan: PayoutPlan) -> None:
    """Log what a plan of rows that are right comes to."""
    said = plan.summary()
    money = "; ".join(
        f"{name} {total} {currency}" for name in ("debits", "receipts") for currency, total in said[name].items()
    )
    LOG.info("run %s: %s; %s; limits: %s", plan.run_key, count_of(said["payments"], "payment"), money, said["limits"])


def commit_payouts(desk: Desk, made: MadePlan) -> list[list[int]]:
    """Record the intent to pay every row of a plan; returns ids of the orders to send or follow, in chunks.

    Rows of a run that began are held where they break the limits of its policy. Raises `RunKeyConflict`,
    `LimitExceeded`, `ApprovalNeeded`, `PolicyChanged` and `RunHeld`.
    """
    plan, governed = made.payments, governed_plan(desk, made)
    check_partly(desk, plan)
    check_clock_before(desk, plan.run_key, governed.limits(plan.table))
    began, added = desk.ledger.run(plan.run_key) is not None, added_plan(desk, plan) if made.add else None
    agreed = None if made.agreed is None else plan_as_shown(desk, plan, made.agreed, add=made.add)
    if added is not None or (agreed is not None and is_recorded(desk, governed, plan.run_key)):
        _add(desk, governed, plan, added, agreed)
        agreed = None
    agreed = agreed or plan
    over = _over(desk, plan) if began else {}
    rules = _judged(governed, governed.rules(desk, plan.table, plan.counted, over), agreed)
    rules, kept = replace(rules, payments=(plan.sha256,)), kept_with_run(agreed)
    content = agreed.summary() if kept is None else {**agreed.summary(), FUNDING: kept}
    with desk.hold(plan.run_key):
        if not began:  # Race: invoices may have taken the run key since it was planned
            check_not_of_invoices(desk.ledger, plan.run_key)
        commit_plan(desk.ledger, plan.run_key, plan.kind, content, agreed.sha256, plan.intents, rules)
        ids = open_orders(desk, plan.run_key, (row.row_ref for row in plan.rows))
    return list(batched(ids, ORDERS_PER_TASK))


def _add(
    desk: Desk, governed: Governing, plan: PayoutPlan, added: PayoutPlan | None, agreed: PayoutPlan | None
) -> None:
    """Add rows, or conversions that were agreed to, or both, to a run that was recorded under the policy in force."""
    meant = agreed or added or plan
    new = set() if added is None else {row.row_ref for row in added.rows}
    rules = _judged(governed, governed.rules(desk, plan.table, meant.counted, {}), meant)
    rules = rules if added is None else replace(rules, payments=(added.sha256,), recorded=added.recorded)
    recorded = [intent for intent in plan.intents if intent.row_ref not in new]
    with desk.hold(plan.run_key):
        add_to_plan(
            *(
                desk.ledger,
                plan.run_key,
                plan.kind,
                meant.sha256,
                () if added is None else added.intents,
                recorded,
                rules,
            ),
            funding=kept_with_run(meant),
        )


def _judged(governed: Governing, rules: IntentRules, plan: PayoutPlan) -> IntentRules:
    """The rules with the approvals that the conversions of a plan ask for, too."""
    return replace(rules, approving=governed.approving(plan.approvals)) if plan.conversions else rules


def _over(desk: Desk, plan: PayoutPlan) -> dict[str, str]:
    """Row -> what it breaks of the limits; every row where the sums do, of the plan or of all that its run recorded."""
    of_run = check_run_total(recorded_debits(desk.ledger, plan.run_key).sums, plan.limits)
    rows = {each.row_ref: f"{each.column} {each.rule}" for each in judge_rows(plan.rows, plan.limits) if each.row_ref}
    if (over := plan.over or of_run) is not None:
        rows |= {row.row_ref: over for row in plan.rows}
    return rows


def write_payout_results(
    desk: Desk, made: MadePlan, out: Path | None, converted: Sequence[Done] = (), *, of_run: bool = False
) -> Mapping[str, Any]:
    """Write the results of every row of a run, and of its conversions; returns the summary of the rows of this plan.

    Whom a row pays is known of this plan's rows alone. What was left out is said to be so, whoever left it out.
    `of_run`: the summary is of all rows of the run, and of all that are left out of it.
    `converted`: the rounds of conversions of this start.
    """
    run_key = made.payments.run_key
    folder = out or desk.settings.run_folder(run_key)
    with one_writer(folder):  # Race: `treasury results`, beside the end of the run
        summary = _write_results(desk, made, folder, converted, of_run=of_run)
    forget_plan_rows(desk.ledger, 0, run_key)
    end_start()
    return summary


def _write_results(
    desk: Desk, made: MadePlan, folder: Path, converted: Sequence[Done], *, of_run: bool
) -> Mapping[str, Any]:
    plan, run_key, run = made.payments, made.payments.run_key, desk.ledger.run(made.payments.run_key)
    marks = marks_of(desk, run_key)
    quotes, policy = quotes_of_run(desk.ledger, run_key), plan.policy
    details = Details.of(plan.rows, quotes, desk.account.rules.fee_on_top, earlier_results(folder))
    if policy is not None:
        details = replace(details, day_of=policy.value_date)
    left_out = keep_left_out_rows(desk, run_key, folder, plan.left_out, add=made.add)
    funded = write_conversions(desk, run_key, converted, folder)
    kind = plan.kind if run is None else run.kind
    files = [*keep_remaining(desk, run_key, folder, kind, left_out), *conversion_files(folder)]
    with desk.ledger.each_order(run_key) as orders:
        return write_run_results(
            *(folder, run_key, kind, orders),
            rows=None if of_run else {row.row_ref for row in plan.rows} or None,
            marks=marks,
            files=files,
            details=details,
            left_out=left_out,
            left_out_now=len(left_out if of_run else plan.left_out),
            replaced=replacing(desk.ledger, run_key),
            **funded,
        )


def write_results_anew(desk: Desk, run_key: str, out: Path | None) -> Mapping[str, Any]:
    """Write the results of a run that began as they are now; asks the service nothing, and sends nothing.

    Whom a row pays is kept from the plan while its content is, and from the results in the folder after that. Raises
    `InputError` for a run that the ledger does not know.
    """
    run = desk.ledger.run(run_key)
    if run is None:
        raise InputError(f"there is no run {run_key} in this ledger: treasury runs lists them")
    if run.kind in SHEETS:
        return write_payout_results(desk, _plan_of_run(desk, run_key), out, of_run=True)
    with desk.ledger.each_order(run_key) as orders:
        folder, marks = out or desk.settings.run_folder(run_key), marks_of(desk, run_key)
        details = dated_by(governing(desk).policy)
        summary = write_run_results(folder, run_key, run.kind, orders, marks=marks, details=details)
    end_start()
    return summary


def proposed_plan(desk: Desk, run_key: str, sha256: str) -> MadePlan:
    """The plan of a run that was proposed under a hash. Raises `InputError` where its rows are kept no more."""
    for kept in reversed(kept_plans(desk.ledger, run_key)):
        with suppress(InputError):
            made = take_plan(desk, kept.id, run_key)
            if made.shown.sha256 == sha256:
                return made
    raise InputError(f"run {run_key}: the rows of plan {sha256[:12]} are kept no more: start it again with its sheet")


def _plan_of_run(desk: Desk, run_key: str) -> MadePlan:
    """The newest plan of a run; without its rows where they are kept no more."""
    kept = newest_kept(desk.ledger, run_key)
    try:
        return take_plan(desk, "" if kept is None else kept.id, run_key)
    except InputError:
        return MadePlan("", plan_payouts(run_key, Sheet[PayoutRow](), governing(desk).policy), None)
