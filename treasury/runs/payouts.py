"""Pays a spreadsheet: reads its rows, commits intents, writes results."""

import functools
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from treasury.concurrency.batches import batched
from treasury.errors import ApprovalNeeded, InputError, InvalidSheet
from treasury.ledger.approvals import propose_plan
from treasury.ledger.intents import IntentRules, commit_plan
from treasury.planning.limits import judge_rows, judge_service
from treasury.planning.payouts import PayoutPlan, plan_payouts
from treasury.planning.policy import Policy
from treasury.policy_file import read_policy
from treasury.provider.service_rules import ServiceRules
from treasury.reports.results import write_run_results
from treasury.runs.desk import Desk
from treasury.runs.execution import ORDERS_PER_TASK, check_run_key, open_orders
from treasury.sheets.beneficiaries import read_beneficiaries

KIND = "payout"

LOG = logging.getLogger("treasury")


def read_plan(
    file: Path, run_key: str, policy_file: Path | None = None, service: ServiceRules = ServiceRules()
) -> PayoutPlan:
    """Validate a beneficiaries file and plan its payment; touches neither ledger nor service.

    Raises `InvalidSheet` (also for rows over the policy's limits, or that `service` does not take) and `LimitExceeded`.
    """
    policy = None if policy_file is None else _File.of(policy_file)
    plan = _plan_of(check_run_key(run_key), _File.of(file), policy)
    if not_taken := judge_service(plan.rows, service):
        raise InvalidSheet(str(file), not_taken)
    return plan


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
def _plan_of(run_key: str, file: _File, policy_file: _File | None) -> PayoutPlan:
    """The plan of these files, cached: every task of a run needs it, and the rows are judged once."""
    policy = None if policy_file is None else _read_limits(policy_file.path)
    rows = read_beneficiaries(file.path)
    if _File.of(file.path) != file:
        raise InputError(f"{file.path} changed while it was read; nothing was sent")
    plan = plan_payouts(run_key, rows, policy)
    if over := judge_rows(rows, plan.limits):
        raise InvalidSheet(str(file.path), over)
    return plan


def _read_limits(file: Path) -> Policy:
    policy = read_policy(file)
    if policy.payouts is None:
        raise InputError(f"{file}: the policy has no [payouts] table, so it limits nothing")
    return policy


def propose_payouts(desk: Desk, plan: PayoutPlan, maker: str) -> None:
    """Record a plan that needs approvals. Raises `ApprovalNeeded` while it has too few."""
    if not plan.approvals or desk.ledger.run(plan.run_key) is not None:
        return
    approved_by = propose_plan(desk.ledger, plan.run_key, plan.sha256, maker, plan.approvals)
    if len(approved_by) < plan.approvals:
        raise ApprovalNeeded(plan.run_key, plan.approvals, approved_by)


def check_sheet(desk: Desk, file: Path, run_key: str, policy_file: Path | None) -> dict[str, Any]:
    """The plan of a file without its rows. Raises as `read_plan` does."""
    plan = read_plan(file, run_key, policy_file, desk.account.rules).summary()
    money = "; ".join(
        f"{name} {total} {currency}" for name in ("debits", "receipts") for currency, total in plan[name].items()
    )
    LOG.info("run %s: %d payments; %s; limits: %s", run_key, plan["payments"], money, plan["limits"])
    return plan


def commit_payouts(desk: Desk, file: Path, run_key: str, policy_file: Path | None = None) -> list[list[int]]:
    """Record the intent to pay every row of a file; returns ids of the orders to send or follow, in chunks.

    Raises `InvalidSheet`, `RunKeyConflict`, `LimitExceeded`, `ApprovalNeeded`, `RunHeld`.
    """
    plan = read_plan(file, run_key, policy_file, desk.account.rules)
    with desk.hold(run_key):
        commit_plan(desk.ledger, run_key, KIND, plan.summary(), plan.sha256, plan.intents, _rules(plan))
        ids = open_orders(desk, run_key, (row.row_ref for row in plan.rows))
    return list(batched(ids, ORDERS_PER_TASK))


def _rules(plan: PayoutPlan) -> IntentRules:
    if plan.policy is None:
        return IntentRules()
    day_start = plan.policy.day_start_ms(datetime.now(UTC))
    return IntentRules(plan.limits.duplicate_days, plan.approvals, plan.limits.max_per_day, day_start)


def write_payout_results(
    desk: Desk, file: Path, run_key: str, out: Path | None, policy_file: Path | None = None
) -> Mapping[str, Any]:
    """Write `results.csv` and `run.json` for the rows of a file; returns the summary that `run.json` holds."""
    wanted = {row.row_ref for row in read_plan(file, run_key, policy_file, desk.account.rules).rows}
    with desk.ledger.each_order(run_key) as orders:
        paid = (order for order in orders if order.row_ref in wanted)
        return write_run_results(out or desk.settings.run_folder(run_key), run_key, KIND, paid)
