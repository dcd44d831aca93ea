"""`treasury pay`, `treasury withdraw` and `treasury scan-pay`."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from flows.commands.approving import signing_key, write_waiting
from flows.commands.common import (
    DONE,
    OutFolder,
    agreed,
    asking_for_headers,
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
from treasury.clock import MACHINE
from treasury.errors import ApprovalNeeded, InputError, InvalidSheet
from treasury.files import copy_file, write_json
from treasury.ledger import counts
from treasury.ledger.approvals import standing_of, waiting_plan
from treasury.ledger.approved_plans import approved_by
from treasury.ledger.known_payees import earlier_payments
from treasury.pay.agreeing import check_today, propose_payouts
from treasury.pay.payout_plans import PayRequest, make_plan, read_plan
from treasury.pay.payouts import commit_payouts, keep_left_out, write_payout_results
from treasury.pay.preview import gaps_of, look
from treasury.pay.remaining import write_failed_of
from treasury.payments.approving import BY_NAME_ONLY, is_recorded, rules_of, sign_proposal
from treasury.payments.desk import Desk
from treasury.payments.execution import check_run_key
from treasury.payments.governing import governing, would_rehearse
from treasury.planning.payout_planner import MadePlan, PayoutPlan
from treasury.policy.model import Policy
from treasury.reports.plan import (
    WHY_UNBOUNDED,
    PlanPage,
    as_lines,
    facts_as_lines,
    left_out_of,
    preview_page,
    write_plan,
)
from treasury.reports.refused import write_refused
from treasury.reports.results import REHEARSAL
from treasury.reports.starts import start_folder
from treasury.settings import read_settings
from treasury.sheets.payments import PAYOUTS, QR_CODES, WITHDRAWALS, PaymentSheet
from treasury.texts import count_of


@Parameter(name="*")
@dataclass(frozen=True)
class Start:
    """How a sheet is paid. Run again with the same key, a run resumes where it stopped.

    Parameters
    ----------
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
    key:
        Your private key, where the policy in force lists people: you sign the plan as its maker.
    print_token:
        With --key: print the maker's token for the form of a deployment; record and send nothing.
    only_failed_of:
        Instead of FILE: pay what failed, or was closed or rejected, of this earlier run, each row at most once.
    sheet:
        The sheet that is meant, where a workbook has several.
    add:
        Rows that the run does not have are added to it, under a plan of their own.
    valid_rows_only:
        Pay the valid rows and leave the others out: they are in remaining.xlsx and .csv, to be mended there and sent
        with --add.
    fund:
        Convert first what the run lacks, as the plan shows; nothing is paid before everything is there.
    partly:
        Where the balance does not reach for all rows, pay those that it reaches for, in the order of the sheet.

    """

    run_key: str
    policy: Path | None = None
    dry_run: Annotated[bool, Parameter(negative=())] = False
    yes: Annotated[bool, Parameter(negative=())] = False
    follow: float = 30.0
    out: OutFolder | None = None
    key: Path | None = None
    print_token: Annotated[bool, Parameter(name="--print", negative=())] = False
    only_failed_of: str | None = None
    sheet: str | None = None
    add: Annotated[bool, Parameter(negative=())] = False
    valid_rows_only: Annotated[bool, Parameter(negative=())] = False
    fund: Annotated[bool, Parameter(negative=())] = False
    partly: Annotated[bool, Parameter(negative=())] = False


def pay(file: Path | None = None, /, *, start: Start) -> int:
    """Pay the beneficiaries of a spreadsheet, each row at most once.

    Run again with the same key, it resumes where it stopped.

    Parameters
    ----------
    file:
        The beneficiaries, CSV or XLSX (columns: data/README.md).

    """
    return _pay(PAYOUTS, file, start)


def withdraw(file: Path | None = None, /, *, start: Start) -> int:
    """Withdraw crypto assets to the addresses of a spreadsheet, each row at most once.

    Run again with the same key, it resumes where it stopped.

    Parameters
    ----------
    file:
        The withdrawals, CSV or XLSX (columns: data/README.md).

    """
    return _pay(WITHDRAWALS, file, start)


def scan_pay(file: Path | None = None, /, *, start: Start) -> int:
    """Pay the PromptPay QR codes of a spreadsheet from the USDT balance, each row at most once.

    Run again with the same key, it resumes where it stopped.

    Parameters
    ----------
    file:
        The codes, CSV or XLSX (columns: data/README.md).

    """
    return _pay(QR_CODES, file, start)


def _pay(pays: PaymentSheet, file: Path | None, start: Start) -> int:
    """Plan a sheet, show the plan, ask for a yes, and carry it out."""
    check_follow(start.follow)
    run_key, settings = check_run_key(start.run_key), read_settings()
    folder = (start.out or settings.run_folder(run_key)).absolute()
    if (file is None) == (start.only_failed_of is None):
        raise InputError("name what is to be paid: either FILE, or --only-failed-of RUN")
    if start.print_token and start.key is None:
        raise InputError("--print makes the maker's token with --key FILE")
    if file is None:
        earlier = str(start.only_failed_of)
        file, lacking = write_failed_of(configured_desk(), earlier, run_key, folder, pays.way.kind)
        if lacking:
            print(f"not in this run: {', '.join(lacking)}: the ledger keeps their content no more; see remaining.csv")
    keep, in_full = not start.dry_run or start.print_token, start.dry_run or not start.yes
    flags = (start.sheet, start.add, start.valid_rows_only, start.fund, start.partly)
    request = PayRequest(file, run_key, start.policy, *flags, pays.way.kind)
    # A sheet can be checked before there is an account.
    desk = configured_desk() if settings.has_account or start.fund else None
    made, shown = _plan(desk, request, folder, keep=keep, in_full=in_full)
    plan = made.shown
    _show(desk, plan, shown, folder, in_full=in_full)
    if desk is not None:
        check_today(desk, plan)
    if start.print_token:
        print(_signed(desk or configured_desk(), plan, start.key))
        return DONE
    if start.dry_run:
        print(f"{count_of(len(plan.rows), 'payment')} planned, nothing was sent")
        return DONE
    if not agreed(yes=start.yes, left_out=len(plan.left_out)):
        return say_waiting(f"{count_of(len(plan.rows), 'payment')} planned")
    return _execute(desk or configured_desk(), request, made, folder, start.follow, start.key)


def _execute(desk: Desk, request: PayRequest, made: MadePlan, folder: Path, follow: float, key: Path | None) -> int:
    """Carry out the plan that was agreed to, once it has its approvals."""
    run_key = request.run_key
    try:
        propose_payouts(desk, made, _signed(desk, made.shown, key))
    except ApprovalNeeded:
        if (waiting := waiting_plan(desk.ledger, run_key)) is not None:
            _keep_as_newest(desk, run_key, folder)
            say_files(write_waiting(desk, waiting, folder))
        raise
    # Held before Prefect starts: a second start fails early, and a finished run needs no Prefect.
    with desk.hold(run_key):
        began = desk.ledger.run(run_key) is not None
        _keep_as_newest(desk, run_key, folder)  # Race: another start, which is refused now, may have shown its own
        if began and not commit_payouts(desk, made):
            return finish_run(write_payout_results(desk, made, folder))
        with prefect_api(module := FLOWS[request.kind]):
            pay_it = getattr(importlib.import_module(module), module.removeprefix("flows."))
            file = str(request.file.absolute())
            with showing("sent", lambda: counts.sent(desk.ledger, run_key)):
                summary = summary_of(lambda: pay_it(file, run_key, str(folder), follow, fund=made.fund, plan=made.id))
        return finish_run(summary)


FLOWS = {
    "payout": "flows.pay_beneficiaries",
    "withdrawal": "flows.withdraw_assets",
    "scan-to-pay": "flows.pay_qr_codes",
}
"""Kind of a run -> the module of the flow that carries out its plan."""


def _signed(desk: Desk, plan: PayoutPlan, key: Path | None) -> str | None:
    """The token of the plan's maker, if there is a key."""
    return None if key is None else str(sign_proposal(desk, signing_key(key), plan.run_key, plan.sha256))


def _plan(
    desk: Desk | None, request: PayRequest, folder: Path, *, keep: bool, in_full: bool
) -> tuple[MadePlan, dict[str, Any] | None]:
    """The plan, and what is shown of one that may be executed and did not begin."""
    try:
        return asking_for_headers(lambda: _made(desk, request, folder, keep=keep, in_full=in_full))
    except InvalidSheet as error:
        say_files(write_refused(folder, request.file, error, request.pays.layout, request.sheet))
        raise


def _made(
    desk: Desk | None, request: PayRequest, folder: Path, *, keep: bool, in_full: bool
) -> tuple[MadePlan, dict[str, Any] | None]:
    if desk is None:
        settings, only = read_settings(), request.valid_rows_only
        checked = (request.file, request.run_key, request.policy, settings.service, request.sheet)
        about: dict[str, Any] = {"home": settings.home, "kind": request.kind, "notify_url": settings.notify_url}
        plan = read_plan(*checked, valid_rows_only=only, **about)
        say_files(keep_left_out(folder, request, plan))
        return MadePlan("", plan, plan), None
    made = make_plan(desk, request, keep=keep)
    say_files(keep_left_out(folder, request, made.payments))
    return made, None if made.proposed is None else look(desk, made.proposed, request.file, in_full=in_full)


def _show(desk: Desk | None, plan: PayoutPlan, shown: Mapping[str, Any] | None, folder: Path, *, in_full: bool) -> None:
    """Show the plan; in full, and as a page and a workbook, to whoever has yet to say yes."""
    page = None if shown is None or not in_full else preview_page(shown, int(MACHINE.wall() * 1000))
    _show_sums(desk, plan, in_full=page is not None, is_agreed=shown is None)
    if page is not None:
        facts = [(name, value) for name, value in page.facts if name not in SAID_BEFORE]
        lines = as_lines(replace(page, facts=facts), only_noted=True)
    else:
        lines = facts_as_lines(left_out_of(plan.summary()))
    for line in lines:
        print(line)
    if page is None and shown is not None:
        for gap in gaps_of(shown):
            print(f"  NOT FUNDED: {gap} are missing")
    say_files(_keep_plan(desk, plan, page, folder))


SAID_BEFORE = ("Run", "Payments", "REHEARSAL")
"""The first line of a plan that is shown in full."""


def _keep_plan(desk: Desk | None, plan: PayoutPlan, page: PlanPage | None, folder: Path) -> list[Path]:
    """Write the plan for this start, and as the newest one unless that waits for approvals or is carried out."""
    own, newest = start_folder(folder) / "plan.json", folder / "plan.json"
    content = {**plan.summary(), **_rehearsal(desk), **_by_name(plan), "earlier_payments": _earlier(desk, plan)}
    write_json(own, {**content, "rows": plan.as_dict()["rows"]})
    written = [own, *([] if page is None else write_plan(own.parent, page))]
    if newest.exists() and desk is not None and _is_kept(desk, plan.run_key):
        return written
    for each in written:
        copy_file(each, folder / each.name)
    return [folder / each.name for each in written]


def _earlier(desk: Desk | None, plan: PayoutPlan) -> list[dict[str, str]]:
    """Payments like these that were settled longer ago than duplicates count, by row."""
    if desk is None:
        return []
    days, policy = plan.limits.duplicate_days, governing(desk).policy or Policy()
    found = earlier_payments(desk.ledger, plan.run_key, plan.intents, days)
    rows = [
        {
            "row_ref": each.row_ref,
            "run_key": each.run_key,
            "request_id": each.request_id,
            "settled_on": policy.day_of(each.settled_at),
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


def _rehearsal(desk: Desk | None) -> dict[str, str]:
    return {"rehearsal": REHEARSAL} if desk is not None and would_rehearse(desk) else {}


def _by_name(plan: PayoutPlan) -> dict[str, str]:
    return {} if plan.policy and plan.policy.people else {"approvals": BY_NAME_ONLY}


def _keep_as_newest(desk: Desk, run_key: str, folder: Path) -> None:
    """Make the plan of this start the newest one, which waits or is carried out from now on, unless its run began."""
    if desk.ledger.run(run_key) is None:
        copy_file(start_folder(folder) / "plan.json", folder / "plan.json")


def _is_kept(desk: Desk, run_key: str) -> bool:
    """Tell whether a plan of this run waits for approvals, was carried out, or is being carried out."""
    ledger = desk.ledger
    return (
        ledger.run(run_key) is not None
        or waiting_plan(ledger, run_key) is not None
        or desk.machine.seems_held(run_key)  # it is recorded seconds later, once Prefect has started
    )


def _show_sums(desk: Desk | None, plan: PayoutPlan, *, in_full: bool, is_agreed: bool) -> None:
    """Show the plan in a few lines; `in_full`: what its page says follows, and is not said here.

    `is_agreed`: its run began, and nothing of it is still to be agreed to.
    """
    content = plan.summary()
    print(f"run {plan.run_key}: {count_of(content['payments'], 'payment')}; limits: {content['limits']}")
    for line in _rehearsal(desk).values():
        print(f"  {line}")
    if not in_full:
        money_lines("debit", content["debits"])
        money_lines("fees on top at most", content.get("on_top", {}))
        for currency, count in plan.unbounded.items():
            print(f"  and what is debited in {currency} for {count_of(count, 'payment')}: {WHY_UNBOUNDED}")
        money_lines("beneficiaries receive", content["receipts"])
    for each in [] if in_full else plan.conversions:
        print(f"  converted first: {each}")
    if plan.unfunded and not in_full:
        print(f"  CANNOT BE FUNDED: {plan.unfunded}")
    if plan.approvals:
        print(f"  {_approvals_of(desk, plan, is_agreed=is_agreed)}; plan {plan.sha256[:12]}")
        for line in [] if in_full else _by_name(plan).values():
            print(f"  {line}")


def _approvals_of(desk: Desk | None, plan: PayoutPlan, *, is_agreed: bool) -> str:
    """Return what the plan needs of approvals, or that it has them: of a part of a sheet, those of its run."""
    if desk is not None:
        of_run = is_agreed and is_recorded(desk, governing(desk), plan.run_key)
        waiting = waiting_plan(desk.ledger, plan.run_key)
        if waiting is not None and waiting.sha256 == plan.sha256:
            judged, _ = standing_of(desk.ledger, waiting, rules_of(desk, waiting))
            if len(judged.counted) >= waiting.needed:
                return f"approved by {', '.join(judged.counted)}"
        elif carried_out_with := approved_by(desk.ledger, plan.run_key, None if of_run else plan.sha256):
            return f"approved by {', '.join(each.name for each in carried_out_with)}"
    return f"needs {count_of(plan.approvals, 'approval')} besides yours"
