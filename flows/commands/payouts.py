"""`treasury pay`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.commands.common import (
    DONE,
    agreed,
    check_follow,
    configured_desk,
    finish_run,
    money_lines,
    say_files,
    say_waiting,
    summary_of,
)
from flows.commands.prefect_server import prefect_api
from flows.commands.progress import showing
from treasury.errors import InvalidSheet
from treasury.files import copy_file, write_json
from treasury.ledger import progress
from treasury.ledger.approvals import waiting_plan
from treasury.ledger.duplicates import earlier_payments
from treasury.planning.payouts import PayoutPlan
from treasury.reports.results import REHEARSAL
from treasury.reports.starts import start_folder
from treasury.runs.execution import check_run_key
from treasury.runs.governing import would_rehearse
from treasury.runs.payouts import (
    commit_payouts,
    plan_of,
    preview,
    propose_payouts,
    read_plan,
    write_payout_results,
)
from treasury.settings import os_user, read_settings
from treasury.sheets.writing import write_errors


def pay(
    file: Path,
    /,
    *,
    run_key: str,
    policy: Path | None = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    yes: Annotated[bool, Parameter(negative=())] = False,
    follow: float = 30.0,
    out: Path | None = None,
) -> int:
    """Pay the beneficiaries of a spreadsheet, each row at most once.

    Run again with the same key, it resumes where it stopped.

    Parameters
    ----------
    file:
        The beneficiaries, CSV or XLSX (columns: data/README.md).
    run_key:
        The name of this payment run, for example payroll-2026-11.
    policy:
        The policy in force applies; this may name it. Where none is in force, on a service of this machine: the one
        whose limits and approvals apply to this start, TOML.
    dry_run:
        Validate, write and show the plan; send nothing.
    yes:
        Send without asking.
    follow:
        Seconds to wait for final statuses.
    out:
        Folder for the results.

    """
    check_follow(follow)
    folder = (out or read_settings().run_folder(check_run_key(run_key))).absolute()
    plan = _plan(file, run_key, policy, folder)
    show_plan(plan)
    say_files([_keep_plan(plan, folder)])
    if dry_run:
        print(f"{len(plan.rows)} payments planned, nothing was sent")
        return DONE
    if not agreed(yes=yes):
        return say_waiting(f"{len(plan.rows)} payments planned")
    desk = configured_desk()
    plan = plan_of(desk, file, run_key, policy)
    if desk.ledger.run(run_key) is None:  # the plan that waits or is carried out from now on
        copy_file(start_folder(folder) / "plan.json", folder / "plan.json")
    propose_payouts(desk, plan, os_user())
    # Held before Prefect starts: a second start fails early, and a finished run needs no Prefect.
    with desk.hold(run_key):
        if desk.ledger.run(run_key) is not None and not commit_payouts(desk, file, run_key, policy):
            return finish_run(write_payout_results(desk, file, run_key, folder))
        with prefect_api("flows.pay_beneficiaries"):
            from flows.pay_beneficiaries import pay_beneficiaries

            limits = None if policy is None else str(policy.absolute())
            with showing("sent", lambda: progress.sent(desk.ledger, run_key)):
                summary = summary_of(
                    lambda: pay_beneficiaries(str(file.absolute()), run_key, str(folder), follow, policy=limits)
                )
        return finish_run(summary)


def _plan(file: Path, run_key: str, policy: Path | None, folder: Path) -> PayoutPlan:
    try:
        settings = read_settings()
        if not settings.has_account:  # a sheet can be checked before there is an account
            return read_plan(file, run_key, policy, settings.service)
        return preview(configured_desk(), file, run_key, policy)
    except InvalidSheet as error:
        write_errors(folder / "errors.csv", error)
        write_errors(start_folder(folder) / "errors.csv", error)
        say_files([folder / "errors.csv"])
        raise


def _keep_plan(plan: PayoutPlan, folder: Path) -> Path:
    """Write the plan for this start, and as the newest one unless that waits for approvals or is carried out."""
    own, newest = start_folder(folder) / "plan.json", folder / "plan.json"
    content = {**plan.summary(), **_rehearsal(), "earlier_payments": _earlier(plan)}
    write_json(own, {**content, "rows": plan.as_dict()["rows"]})
    if newest.exists() and _is_kept(plan.run_key):
        return own
    copy_file(own, newest)
    return newest


def _earlier(plan: PayoutPlan) -> list[dict[str, str]]:
    """Payments like these that were settled longer ago than duplicates count, by row."""
    if not read_settings().has_account:
        return []
    days = plan.limits.duplicate_days
    found = earlier_payments(configured_desk().ledger, plan.run_key, plan.intents, days)
    rows = [
        {
            "row_ref": each.row_ref,
            "run_key": each.run_key,
            "request_id": each.request_id,
            "settled_on": f"{datetime.fromtimestamp(each.settled_at / 1000, UTC):%Y-%m-%d}",
        }
        for each in found
    ]
    for row in rows[:MAX_EARLIER]:
        print(f"  {row['row_ref']} looks like a payment of {row['settled_on']} in run {row['run_key']}")
    if len(rows) > MAX_EARLIER:
        print(f"  and {len(rows) - MAX_EARLIER} more look like earlier payments: plan.json names them")
    return rows


MAX_EARLIER = 5
"""Rows that look like earlier payments and are named on the terminal."""


def _rehearsal() -> dict[str, str]:
    has_account = read_settings().has_account
    return {"rehearsal": REHEARSAL} if has_account and would_rehearse(configured_desk()) else {}


def _is_kept(run_key: str) -> bool:
    """Whether a plan of this run waits for approvals, or was carried out."""
    if not read_settings().has_account:
        return False
    ledger = configured_desk().ledger
    return ledger.run(run_key) is not None or waiting_plan(ledger, run_key) is not None


def show_plan(plan: PayoutPlan) -> None:
    """The plan in a few lines."""
    content = plan.summary()
    print(f"run {plan.run_key}: {content['payments']} payments; limits: {content['limits']}")
    for line in _rehearsal().values():
        print(f"  {line}")
    money_lines("debit", content["debits"])
    money_lines("beneficiaries receive", content["receipts"])
    if plan.approvals:
        print(f"  needs {plan.approvals} approval(s) besides yours; plan {plan.sha256[:12]}")
