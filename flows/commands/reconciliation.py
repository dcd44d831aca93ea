"""`treasury reconcile` and `treasury accept`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.commands.common import BREAKS, DONE, configured_desk, say_files, summary_of
from flows.commands.prefect_server import prefect_api
from flows.commands.progress import showing
from treasury.errors import InputError
from treasury.ledger import progress
from treasury.settings import os_user

BAD_VERDICTS = ("incomplete", "breaks")

DRAWN_WITH = (
    "treasury.reconciliation.report",
    "treasury.reports.page",
    "treasury.reports.workbook",
    "matplotlib.figure",
)
"""Modules that draw a report; importing them takes a second."""


def reconcile(
    *,
    run_key: str | None = None,
    window: int | None = None,
    currency: str | None = None,
    offline: Annotated[bool, Parameter(negative=())] = False,
    statement: Path | None = None,
    policy: Path | None = None,
    out: Path | None = None,
) -> int:
    """Ask the service what became of every order the ledger holds, compare, and write the report. Sends no money.

    Parameters
    ----------
    run_key:
        Only the orders of this run.
    window:
        Leave out orders that became final more than this many days ago; open ones are always asked.
    currency:
        Only orders that pay or bring this currency.
    offline:
        Ask nothing; make the last report again from the stored answers.
    statement:
        The service's own transactions, a sheet, camt.053 or MT940: finds payments that this ledger never meant.
    policy:
        The policy in force applies; this may name it, TOML. Its [reconciliation] table has tolerances, due times and
        amounts of high severity.
    out:
        Folder for the report; nights/DATE in the home when left out.

    """
    from treasury.planning.policy import Policy
    from treasury.reconciliation.scope import Scope
    from treasury.runs.governing import governing
    from treasury.runs.reporting import report_sweep
    from treasury.runs.sweep import stored_sweep
    from treasury.sheets.statement import read_statement

    desk = configured_desk()
    if window is not None and window < 0:
        raise InputError("--window is a number of days, zero or more")
    if run_key is not None and desk.ledger.run(run_key) is None:
        raise InputError(f"the ledger knows no run {run_key} (`treasury runs` lists them)")
    rules = governing(desk, policy).policy or Policy()  # a mistake in a file is reported before anything is asked
    kept = None if statement is None else read_statement(statement)
    if offline:  # asks nothing, so it needs no Prefect
        print("reading the stored answers ...", flush=True)
        folder = None if out is None else out.absolute()
        report = report_sweep(desk, stored_sweep(desk, Scope(run_key, currency, window)), folder, rules, kept)
    else:
        where, third, limits = (None if path is None else str(path.absolute()) for path in (out, statement, policy))
        with prefect_api("flows.reconcile_transactions", *DRAWN_WITH):
            from flows.reconcile_transactions import reconcile_transactions

            with showing("asked", lambda: progress.asked(desk.ledger)):
                report = summary_of(
                    lambda: reconcile_transactions(
                        where, run_key, window, currency=currency, statement=third, policy=limits
                    )
                )
    from treasury.reports.wording import missed, narrowed  # imports pandas

    for line in (*missed(report), *narrowed(report)):
        print(line)
    say_files(report["files"])
    counts = ", ".join(f"{count} {name}" for name, count in report["counts"].items())
    print(f"{report['verdict']}: {counts or 'no orders'}")
    return BREAKS if report["verdict"] in BAD_VERDICTS else DONE


def report(*, month: str, policy: Path | None = None, out: Path | None = None) -> int:
    """Write a month of the balance accounts from the entries of all reports: page, workbook, entries.csv. Asks nothing.

    Parameters
    ----------
    month:
        Year and month in the policy's time zone, for example 2026-11.
    policy:
        The policy in force applies; this may name it, TOML.
    out:
        Folder for the files; months/MONTH in the home when left out.

    """
    from treasury.planning.policy import Policy
    from treasury.runs.governing import governing
    from treasury.runs.months import report_month

    desk = configured_desk()
    rules = governing(desk, policy).policy or Policy()
    written = report_month(desk, month, None if out is None else out.absolute(), rules)
    say_files(written["files"])
    print(f"{month}: {len(written['accounts'])} accounts, {written['entries']} entries")
    return DONE


def accept(break_id: str, /, *, by: str, why: str) -> int:
    """Accept a break of the last report: it stays visible, apart, and has no say in the verdict any more.

    Only as it is now: with another class or another difference it counts again. What could not be read is never
    accepted.

    Parameters
    ----------
    break_id:
        The break's id, for example B-0123456789ab.
    by:
        Your name.
    why:
        Why it may stay.

    """
    from treasury.ledger.closing import accept_break

    if not by.strip() or not why.strip():
        raise InputError("an acceptance needs a name and a reason: --by NAME --why TEXT")
    found = accept_break(configured_desk().ledger, break_id, by=by.strip(), os_user=os_user(), why=why.strip()).found
    print(f"{break_id} ({found.name}) is accepted by {by.strip()}: the next report shows it apart")
    return DONE
