"""`treasury pay`."""

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
from treasury.files import write_json
from treasury.ledger import progress
from treasury.planning.payouts import PayoutPlan
from treasury.runs.execution import check_run_key
from treasury.runs.payouts import commit_payouts, propose_payouts, read_plan, write_payout_results
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
        The policy whose limits and approvals apply, TOML.
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
    say_files([folder / "plan.json"])
    if dry_run:
        print(f"{len(plan.rows)} payments planned, nothing was sent")
        return DONE
    if not agreed(yes=yes):
        return say_waiting(f"{len(plan.rows)} payments planned")
    desk = configured_desk()
    propose_payouts(desk, plan, os_user())
    # Held before Prefect starts: a second start fails early, and a finished run needs no Prefect.
    with desk.hold(run_key):
        if desk.ledger.run(run_key) is not None and not commit_payouts(desk, file, run_key, policy):
            return finish_run(write_payout_results(desk, file, run_key, folder, policy))
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
        plan = read_plan(file, run_key, policy, read_settings().service)
    except InvalidSheet as error:
        write_errors(folder / "errors.csv", error)
        say_files([folder / "errors.csv"])
        raise
    write_json(folder / "plan.json", plan.as_dict())
    return plan


def show_plan(plan: PayoutPlan) -> None:
    """The plan in a few lines."""
    content = plan.summary()
    print(f"run {plan.run_key}: {content['payments']} payments; limits: {content['limits']}")
    money_lines("debit", content["debits"])
    money_lines("beneficiaries receive", content["receipts"])
    if plan.approvals:
        print(f"  needs {plan.approvals} approval(s) besides yours; plan {plan.sha256[:12]}")
