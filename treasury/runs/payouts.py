"""Pays a spreadsheet: reads its rows, commits intents, writes results."""

import functools
import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from treasury.concurrency.batches import batched
from treasury.errors import InputError, InvalidSheet, RowProblem
from treasury.ledger.funding_runs import FUNDING, is_fund_key
from treasury.ledger.intents import IntentRules, add_to_plan, commit_plan
from treasury.ledger.payees import what_is_known
from treasury.ledger.quotes import quotes_of_run
from treasury.orders.states import OPEN
from treasury.planning.limits import judge_rows, judge_service
from treasury.planning.payouts import PayoutPlan, plan_payouts
from treasury.planning.policy import Policy
from treasury.policy_file import read_policy
from treasury.provider.service_rules import ServiceRules
from treasury.reports.details import Details
from treasury.reports.refused import write_refused, write_wrong
from treasury.reports.results import write_run_results
from treasury.reports.starts import end_start
from treasury.runs.agreeing import added_plan, check_limits, plan_as_shown
from treasury.runs.approving import is_recorded, marks_of
from treasury.runs.desk import Desk
from treasury.runs.execution import ORDERS_PER_TASK, check_run_key, open_orders
from treasury.runs.fills import Done
from treasury.runs.funding import conversion_files, write_conversions
from treasury.runs.funding_plans import (
    kept_with_run,
)
from treasury.runs.governing import Governing, govern, governing
from treasury.runs.parts import Part, split_run
from treasury.runs.remaining import KIND, check_replaced, keep_left_out_rows, keep_remaining
from treasury.runs.valid_rows import Read, plan_without, remembered
from treasury.sheets.beneficiaries import LAYOUT, read_beneficiaries
from treasury.sheets.cells import MAX_BYTES
from treasury.sheets.mappings import Mappings, read_mappings

LOG = logging.getLogger("treasury")


def read_plan(
    file: Path,
    run_key: str,
    policy_file: Path | None = None,
    service: ServiceRules = ServiceRules(),
    sheet: str | None = None,
    *,
    valid_rows_only: bool = False,
    home: Path | None = None,
) -> PayoutPlan:
    """Validate a beneficiaries file and plan its payment; touches neither ledger nor service.

    `sheet`: which one of a workbook, here and below. `valid_rows_only`: the others are left out. `home` has what people
    confirmed of their headers.

    Raises `InvalidSheet` (also for rows over the policy's limits, or that `service` does not take) and `LimitExceeded`.
    """
    policy = None if policy_file is None else _read_limits(policy_file)
    if valid_rows_only:
        plan = plan_without(str(file), _reader(file, run_key, policy, sheet, home), service)
    else:
        plan = _plan(file, run_key, policy, service, sheet, home)
    check_limits(file, plan)
    return plan


def plan_of(
    desk: Desk,
    file: Path,
    run_key: str,
    policy_file: Path | None = None,
    sheet: str | None = None,
    *,
    add: bool = False,
    valid_rows_only: bool = False,
) -> PayoutPlan:
    """Plan under the policy that applies. Rows of a run that began already are held where they break its limits.

    `add`: see `commit_payouts`; it only counts for rows that are left out.
    """
    return _planned(desk, file, run_key, policy_file, sheet, _Rows(add, valid_rows_only))[0]


@dataclass(frozen=True)
class _Rows:
    """Which rows of a sheet are taken."""

    add: bool = False
    valid_only: bool = False


def _planned(
    desk: Desk, file: Path, run_key: str, policy_file: Path | None, sheet: str | None, rows: _Rows
) -> tuple[PayoutPlan, Governing]:
    governed = govern(desk, policy_file)
    policy = governed.policy
    if governed.version is None and policy is not None and policy_file is not None and policy.payouts is None:
        raise InputError(f"{policy_file}: the policy has no [payouts] table, so it limits nothing")
    return _checked(desk, file, run_key, policy, sheet, rows), governed


def _checked(desk: Desk, file: Path, run_key: str, policy: Policy | None, sheet: str | None, rows: _Rows) -> PayoutPlan:
    plan = _taken(desk, file, run_key, policy, sheet, rows)
    check_replaced(desk, file, plan)
    if desk.ledger.run(run_key) is None:
        check_limits(file, plan)
    return plan


def _taken(desk: Desk, file: Path, run_key: str, policy: Policy | None, sheet: str | None, rows: _Rows) -> PayoutPlan:
    rules = desk.account.rules
    if not rows.valid_only:
        return _plan(file, run_key, policy, rules, sheet, desk.settings.home)
    home, version = desk.settings.home, None if policy is None else policy.version
    read = _reader(file, run_key, policy, sheet, home)
    name = repr((run_key, _File.of(file, sheet, read_mappings(home)), version, rows.add))
    return remembered(desk, name, lambda: plan_without(str(file), read, rules, desk, add=rows.add), read)


def _reader(file: Path, run_key: str, policy: Policy | None, sheet: str | None, home: Path | None) -> Read:
    judge = _Judge(None if policy is None else policy.version, policy)
    mappings = Mappings() if home is None else read_mappings(home)
    if is_fund_key(run_key):
        raise InputError(f"{run_key} is a name for the conversions of a run: choose a run key that does not end so")
    return lambda leaving: _plan_of(check_run_key(run_key), _File.of(file, sheet, mappings), judge, leaving)


def _plan(
    file: Path, run_key: str, policy: Policy | None, service: ServiceRules, sheet: str | None, home: Path | None
) -> PayoutPlan:
    plan = _reader(file, run_key, policy, sheet, home)(())
    if not_taken := judge_service(plan.rows, service):
        raise InvalidSheet(str(file), not_taken)
    return plan


@dataclass(frozen=True)
class _Judge:
    """A policy by its version."""

    version: str | None
    policy: Policy | None = field(compare=False)


@dataclass(frozen=True)
class _File:
    """A file, identified by its content, which sheet of it, and how its header is read."""

    content: str
    path: Path = field(compare=False)
    sheet: str | None = None
    mappings: Mappings = Mappings()
    """What headers of people's own mean."""

    @classmethod
    def of(cls, path: Path, sheet: str | None, mappings: Mappings) -> "_File":
        """The file at this path. One that cannot be read raises nothing here; reading its rows does."""
        try:
            if not path.is_file() or path.stat().st_size > MAX_BYTES:
                return cls("", path, sheet, mappings)
            with path.open("rb") as file:
                return cls(hashlib.file_digest(file, "sha256").hexdigest(), path, sheet, mappings)
        except OSError:
            return cls("", path, sheet, mappings)


@functools.lru_cache(maxsize=1)
def _plan_of(run_key: str, file: _File, judge: _Judge, leaving: tuple[RowProblem, ...]) -> PayoutPlan:
    """The plan of these files: every task of a run asks for it, and their rows are read once."""
    rows = read_beneficiaries(file.path, sheet=file.sheet, leaving=leaving, mappings=file.mappings)
    if _File.of(file.path, file.sheet, file.mappings) != file:
        raise InputError(f"{file.path} changed while it was read; nothing was sent")
    return plan_payouts(run_key, rows, judge.policy, left_out=rows.left_out, mapped=rows.mapped)


def _read_limits(file: Path) -> Policy:
    policy = read_policy(file)
    if policy.payouts is None:
        raise InputError(f"{file}: the policy has no [payouts] table, so it limits nothing")
    return policy


def parts_that_left(desk: Desk, run_key: str) -> list[Part]:
    """The orders of a run that left, or may have left, and are not final."""
    return split_run(desk, run_key, desk.ledger.order_ids(run_key, OPEN))


def preview(
    desk: Desk,
    file: Path,
    run_key: str,
    policy_file: Path | None = None,
    sheet: str | None = None,
    *,
    add: bool = False,
    valid_rows_only: bool = False,
) -> PayoutPlan:
    """The plan under the policy that would apply; for those who only look: nothing is refused for want of a policy."""
    policy = governing(desk, policy_file).policy
    return _checked(desk, file, run_key, policy, sheet, _Rows(add, valid_rows_only))


def keep_left_out(folder: Path, file: Path, plan: PayoutPlan, sheet: str | None = None) -> list[Path]:
    """Write the error report of rows that are left out of a sheet, and a copy of them to mend; returns their paths."""
    if not plan.left_out:
        return []
    wrong = InvalidSheet(str(file), [problem for row in plan.left_out for problem in row.problems])
    return write_wrong(folder, file, wrong, LAYOUT, sheet, {row.line for row in plan.left_out})


@contextmanager
def corrected_copy(
    desk: Desk, file: Path, run_key: str, out: Path | None = None, sheet: str | None = None
) -> Iterator[None]:
    """Write the error report and the corrected copy of a sheet that is refused inside, into `out`."""
    try:
        yield
    except InvalidSheet as error:
        write_refused(out or desk.settings.run_folder(run_key), file, error, LAYOUT, sheet)
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
    LOG.info("run %s: %d payments; %s; limits: %s", plan.run_key, said["payments"], money, said["limits"])


def commit_payouts(
    desk: Desk,
    file: Path,
    run_key: str,
    policy_file: Path | None = None,
    sheet: str | None = None,
    *,
    add: bool = False,
    valid_rows_only: bool = False,
    shown: str | None = None,
) -> list[list[int]]:
    """Record the intent to pay every row of a file; returns ids of the orders to send or follow, in chunks.

    `add`: rows that a run which began does not have are added to it, under a plan of their own; `valid_rows_only`:
    nothing is recorded of the others; `shown`: the hash of the plan that was agreed to, where it is funded: what may be
    converted is recorded with it. Raises `InvalidSheet`, `RunKeyConflict`, `LimitExceeded`, `ApprovalNeeded`,
    `RunHeld`.
    """
    plan, governed = _planned(desk, file, run_key, policy_file, sheet, _Rows(add, valid_rows_only))
    began, added = desk.ledger.run(run_key) is not None, added_plan(desk, plan) if add else None
    agreed = None if shown is None else plan_as_shown(desk, plan, shown, add=add)
    if added is not None or (agreed is not None and is_recorded(desk, governed, run_key)):
        _add(desk, governed, plan, added, agreed)
        agreed = None
    agreed = agreed or plan
    rules = _judged(governed, governed.rules(desk, "payouts", plan.debits, _over(plan) if began else {}), agreed)
    rules, kept = replace(rules, payments=(plan.sha256,)), kept_with_run(agreed)
    content = agreed.summary() if kept is None else {**agreed.summary(), FUNDING: kept}
    with desk.hold(run_key):
        commit_plan(desk.ledger, run_key, KIND, content, agreed.sha256, plan.intents, rules)
        ids = open_orders(desk, run_key, (row.row_ref for row in plan.rows))
    return list(batched(ids, ORDERS_PER_TASK))


def _add(
    desk: Desk, governed: Governing, plan: PayoutPlan, added: PayoutPlan | None, agreed: PayoutPlan | None
) -> None:
    """Add rows, or conversions that were agreed to, or both, to a run that was recorded under the policy in force."""
    meant = agreed or added or plan
    new = set() if added is None else {row.row_ref for row in added.rows}
    rules = _judged(governed, governed.rules(desk, "payouts", meant.counted, {}), meant)
    rules = rules if added is None else replace(rules, payments=(added.sha256,))
    recorded = [intent for intent in plan.intents if intent.row_ref not in new]
    with desk.hold(plan.run_key):
        add_to_plan(
            *(desk.ledger, plan.run_key, KIND, meant.sha256, () if added is None else added.intents, recorded, rules),
            funding=kept_with_run(meant),
        )


def _judged(governed: Governing, rules: IntentRules, plan: PayoutPlan) -> IntentRules:
    """The rules with the approvals that the conversions of a plan ask for, too."""
    return replace(rules, approving=governed.approving(plan.approvals)) if plan.conversions else rules


def _over(plan: PayoutPlan) -> dict[str, str]:
    """Row -> what it breaks of the limits; every row where the sums do."""
    rows = {each.row_ref: f"{each.column} {each.rule}" for each in judge_rows(plan.rows, plan.limits) if each.row_ref}
    if plan.over is not None:
        rows |= {row.row_ref: plan.over for row in plan.rows}
    return rows


def write_payout_results(
    desk: Desk,
    file: Path,
    run_key: str,
    out: Path | None,
    sheet: str | None = None,
    *,
    add: bool = False,
    valid_rows_only: bool = False,
    converted: Sequence[Done] = (),
) -> Mapping[str, Any]:
    """Write the results of every row of a run, and of its conversions; returns the summary of the rows of this file.

    Whom a row pays is known of this file's rows alone. What was left out is said to be so, whoever left it out.
    `converted`: the rounds of conversions of this start.
    """
    plan = _taken(desk, file, run_key, governing(desk).policy, sheet, _Rows(add, valid_rows_only))
    planned = plan.rows
    folder, marks = out or desk.settings.run_folder(run_key), marks_of(desk, run_key)
    details = Details.of(planned, quotes_of_run(desk.ledger, run_key), desk.account.rules.fee_on_top)
    left_out = keep_left_out_rows(desk, run_key, folder, plan.left_out, add=add)
    funded = write_conversions(desk, run_key, converted, folder)
    files = [*keep_remaining(desk, run_key, folder, left_out), *conversion_files(folder)]
    with desk.ledger.each_order(run_key) as orders:
        summary = write_run_results(
            *(folder, run_key, KIND, orders),
            rows=details.rows,
            marks=marks,
            files=files,
            details=details,
            left_out=left_out,
            left_out_now=len(plan.left_out),
            **funded,
        )
    end_start()
    return summary
