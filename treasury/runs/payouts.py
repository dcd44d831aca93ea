"""Pays a spreadsheet: reads its rows, commits intents, writes results."""

import functools
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treasury.concurrency.batches import batched
from treasury.errors import ApprovalNeeded, InputError, InvalidSheet, LimitExceeded
from treasury.ledger.approvals import propose_plan
from treasury.ledger.intents import commit_plan
from treasury.ledger.policies import is_rehearsal
from treasury.planning.limits import judge_rows, judge_service
from treasury.planning.payouts import PayoutPlan, plan_payouts
from treasury.planning.policy import Policy
from treasury.policy_file import read_policy
from treasury.provider.service_rules import ServiceRules
from treasury.reports.results import write_run_results
from treasury.runs.desk import Desk
from treasury.runs.execution import ORDERS_PER_TASK, check_run_key, open_orders
from treasury.runs.governing import Governing, govern, governing
from treasury.sheets.beneficiaries import read_beneficiaries

KIND = "payout"

LOG = logging.getLogger("treasury")


def read_plan(
    file: Path, run_key: str, policy_file: Path | None = None, service: ServiceRules = ServiceRules()
) -> PayoutPlan:
    """Validate a beneficiaries file and plan its payment; touches neither ledger nor service.

    Raises `InvalidSheet` (also for rows over the policy's limits, or that `service` does not take) and `LimitExceeded`.
    """
    plan = _plan(file, run_key, None if policy_file is None else _read_limits(policy_file), service)
    _check_limits(file, plan)
    return plan


def plan_of(desk: Desk, file: Path, run_key: str, policy_file: Path | None = None) -> PayoutPlan:
    """The same under the policy that applies. Rows of a run that began already are held where they break its limits."""
    return _planned(desk, file, run_key, policy_file)[0]


def _planned(desk: Desk, file: Path, run_key: str, policy_file: Path | None) -> tuple[PayoutPlan, Governing]:
    governed = govern(desk, policy_file)
    policy = governed.policy
    if governed.version is None and policy is not None and policy_file is not None and policy.payouts is None:
        raise InputError(f"{policy_file}: the policy has no [payouts] table, so it limits nothing")
    plan = _plan(file, run_key, policy, desk.account.rules)
    if desk.ledger.run(run_key) is None:
        _check_limits(file, plan)
    return plan, governed


def _plan(file: Path, run_key: str, policy: Policy | None, service: ServiceRules) -> PayoutPlan:
    version = None if policy is None else policy.version
    plan = _plan_of(check_run_key(run_key), _File.of(file), _Judge(version, policy))
    if not_taken := judge_service(plan.rows, service):
        raise InvalidSheet(str(file), not_taken)
    return plan


def _check_limits(file: Path, plan: PayoutPlan) -> None:
    """Raise `InvalidSheet` for rows over the limits, and `LimitExceeded` when the sums are."""
    if over := judge_rows(plan.rows, plan.limits):
        raise InvalidSheet(str(file), over)
    if plan.over is not None:
        raise LimitExceeded(f"run {plan.run_key}: {plan.over}; nothing was sent")


@dataclass(frozen=True)
class _Judge:
    """A policy by its version."""

    version: str | None
    policy: Policy | None = field(compare=False)


@dataclass(frozen=True)
class _File:
    """A file, identified by its content."""

    content: str
    path: Path = field(compare=False)

    @classmethod
    def of(cls, path: Path) -> "_File":
        """The file at this path. One that cannot be read raises nothing here; reading its rows does."""
        try:
            with path.open("rb") as file:
                return cls(hashlib.file_digest(file, "sha256").hexdigest(), path)
        except OSError:
            return cls("", path)


@functools.lru_cache(maxsize=1)
def _plan_of(run_key: str, file: _File, judge: _Judge) -> PayoutPlan:
    """The plan of these files: every task of a run asks for it, and their rows are read once."""
    rows = read_beneficiaries(file.path)
    if _File.of(file.path) != file:
        raise InputError(f"{file.path} changed while it was read; nothing was sent")
    return plan_payouts(run_key, rows, judge.policy)


def _read_limits(file: Path) -> Policy:
    policy = read_policy(file)
    if policy.payouts is None:
        raise InputError(f"{file}: the policy has no [payouts] table, so it limits nothing")
    return policy


def propose_payouts(desk: Desk, plan: PayoutPlan, maker: str) -> None:
    """Record a plan that needs approvals. Raises `ApprovalNeeded` while it has too few."""
    run = desk.ledger.run(plan.run_key)
    if not plan.approvals or (run is not None and run.policy == govern(desk).version):
        return
    approved_by = propose_plan(desk.ledger, plan.run_key, plan.sha256, maker, plan.approvals)
    if len(approved_by) < plan.approvals:
        raise ApprovalNeeded(plan.run_key, plan.approvals, approved_by)


def preview(desk: Desk, file: Path, run_key: str, policy_file: Path | None = None) -> PayoutPlan:
    """The plan under the policy that would apply; for those who only look: nothing is refused for want of a policy."""
    policy = governing(desk, policy_file).policy
    plan = _plan(file, run_key, policy, desk.account.rules)
    if desk.ledger.run(run_key) is None:
        _check_limits(file, plan)
    return plan


def check_sheet(desk: Desk, file: Path, run_key: str, policy_file: Path | None) -> dict[str, Any]:
    """The plan of a file without its rows. Raises as `read_plan` does."""
    plan = plan_of(desk, file, run_key, policy_file).summary()
    money = "; ".join(
        f"{name} {total} {currency}" for name in ("debits", "receipts") for currency, total in plan[name].items()
    )
    LOG.info("run %s: %d payments; %s; limits: %s", run_key, plan["payments"], money, plan["limits"])
    return plan


def commit_payouts(desk: Desk, file: Path, run_key: str, policy_file: Path | None = None) -> list[list[int]]:
    """Record the intent to pay every row of a file; returns ids of the orders to send or follow, in chunks.

    Raises `InvalidSheet`, `RunKeyConflict`, `LimitExceeded`, `ApprovalNeeded`, `RunHeld`.
    """
    plan, governed = _planned(desk, file, run_key, policy_file)
    over = {} if desk.ledger.run(run_key) is None else _over(plan)
    rules = governed.rules(desk, "payouts", plan.debits, over)
    with desk.hold(run_key):
        commit_plan(desk.ledger, run_key, KIND, plan.summary(), plan.sha256, plan.intents, rules)
        ids = open_orders(desk, run_key, (row.row_ref for row in plan.rows))
    return list(batched(ids, ORDERS_PER_TASK))


def _over(plan: PayoutPlan) -> dict[str, str]:
    """Row -> what it breaks of the limits; every row where the sums do."""
    rows = {each.row_ref: f"{each.column} {each.rule}" for each in judge_rows(plan.rows, plan.limits) if each.row_ref}
    if plan.over is not None:
        rows |= {row.row_ref: plan.over for row in plan.rows}
    return rows


def write_payout_results(desk: Desk, file: Path, run_key: str, out: Path | None) -> Mapping[str, Any]:
    """Write `results.csv` and `run.json` for every row of a run; returns the summary of the rows of this file."""
    rows = {row.row_ref for row in _plan(file, run_key, governing(desk).policy, desk.account.rules).rows}
    folder, rehearsal = out or desk.settings.run_folder(run_key), is_rehearsal(desk.ledger)
    with desk.ledger.each_order(run_key) as orders:
        return write_run_results(folder, run_key, KIND, orders, rows=rows, rehearsal=rehearsal)
