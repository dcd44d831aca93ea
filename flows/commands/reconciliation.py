"""`treasury reconcile`, `treasury report` and `treasury accept`."""

from datetime import date
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

from cyclopts import Parameter

from flows.commands.common import BREAKS, DONE, OutFolder, configured_desk, say_files, summary_of
from flows.commands.deciding import NOBODY, PersonOptions
from flows.commands.prefect_server import prefect_api
from flows.commands.progress import showing
from treasury.approving.tokens import Verb
from treasury.errors import InputError
from treasury.ledger.counts import asked
from treasury.payments.desk import Desk
from treasury.settings import os_user
from treasury.texts import count_of

BAD_VERDICTS = ("incomplete", "breaks")

DRAWN_WITH = (
    "treasury.reconciliation.report",
    "treasury.reports.page",
    "treasury.reports.reconciliation_book",
)
"""Modules that draw a report; importing them takes a second."""


def reconcile(
    *,
    run_key: str | None = None,
    window: int | None = None,
    currency: str | None = None,
    ask_all: Annotated[bool, Parameter(name="--all", negative=())] = False,
    offline: Annotated[bool, Parameter(negative=())] = False,
    statement: Path | None = None,
    policy: Path | None = None,
    out: OutFolder | None = None,
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
    ask_all:
        Ask about every order, also those that the policy's [reconciliation.by_age] leaves out tonight.
    offline:
        Ask nothing; make the last report with the same --run-key, --currency and --window again, from stored answers.
    statement:
        The service's own transactions, a sheet, camt.053 or MT940: finds payments that this ledger never meant.
    policy:
        The policy in force applies; this may name it, TOML. Its [reconciliation] table has tolerances, due times and
        amounts of high severity.
    out:
        Folder for the report; nights/DATE in the home when left out.

    """
    from treasury.nights.reporting import report_sweep
    from treasury.nights.sweep import check_scope, stored_sweep
    from treasury.payments.governing import governing
    from treasury.policy.model import Policy
    from treasury.reconciliation.scope import Scope
    from treasury.sheets.statement import read_statement

    desk = configured_desk()
    if window is not None and window < 0:
        raise InputError("--window is a number of days, zero or more")
    scope = check_scope(desk, Scope(run_key, currency, window))
    rules = governing(desk, policy).policy or Policy()  # a mistake in a file is reported before anything is asked
    kept = None if statement is None else read_statement(statement, ZoneInfo(rules.time_zone))
    if offline:  # asks nothing, so it needs no Prefect
        print("reading the stored answers ...", flush=True)
        folder = None if out is None else out.absolute()
        report = report_sweep(desk, stored_sweep(desk, scope), folder, rules, kept)
    else:
        where, third, limits = (None if path is None else str(path.absolute()) for path in (out, statement, policy))
        with prefect_api("flows.reconcile_transactions", *DRAWN_WITH):
            from flows.reconcile_transactions import reconcile_transactions

            with showing("asked", lambda: asked(desk.ledger)):
                report = summary_of(
                    lambda: reconcile_transactions(
                        where, run_key, window, currency=currency, statement=third, policy=limits, ask_all=ask_all
                    )
                )
    from treasury.reports.figures import before_all  # imports pandas

    for line in before_all(report):
        print(line)
    say_files(report["files"])
    counts = ", ".join(f"{count} {name}" for name, count in report["counts"].items())
    print(f"{report['verdict']}: {counts or 'no orders'}")
    return BREAKS if report["verdict"] in BAD_VERDICTS else DONE


def report(*, month: str, policy: Path | None = None, out: OutFolder | None = None) -> int:
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
    from treasury.nights.month_reports import report_month
    from treasury.payments.governing import governing
    from treasury.policy.model import Policy

    desk = configured_desk()
    rules = governing(desk, policy).policy or Policy()
    written = report_month(desk, month, None if out is None else out.absolute(), rules)
    say_files(written["files"])
    accounts, entries = len(written["accounts"]), written["entries"]
    print(f"{month}: {accounts} account{'' if accounts == 1 else 's'}, {entries} entr{'y' if entries == 1 else 'ies'}")
    return DONE


def accept(
    break_id: str,
    /,
    *,
    until: str | None = None,
    withdraw: Annotated[bool, Parameter(negative=())] = False,
    person: PersonOptions = NOBODY,
) -> int:
    """Accept a break of the last report: it stays visible, apart, and has no say in the verdict any more.

    Only as it is now: with another class or another difference it counts again. What could not be read is never
    accepted. A second acceptance adds to the first. Where the policy in force lists people it takes the key of somebody
    who did not make the run that it is about.

    Parameters
    ----------
    break_id:
        The break's id, for example B-0123456789ab.
    until:
        The last day on which it counts, YYYY-MM-DD in the policy's time zone; without it, until it is withdrawn.
    withdraw:
        Withdraw what was accepted of it: the next report counts it again. Any listed person may.

    """
    from treasury.ledger.kept_breaks import accept_break, acceptances, matter_of_break, withdraw_acceptances
    from treasury.payments.deciding import check_recovered

    if withdraw and until is not None:
        raise InputError("--withdraw ends what was accepted of a break; it has no --until")
    purpose = Verb.WITHDRAW if withdraw else Verb.ACCEPT

    def code() -> str:
        desk = configured_desk()
        return matter_of_break(desk.ledger, break_id, ends_at=_end_of(desk, until), withdraw=withdraw).code

    if person.print_token:
        return person.print_for(purpose, break_id, code)
    proof, desk = person.proof, configured_desk()
    desk.check_standing()  # what an older ledger says of its breaks is not to be believed
    said = {"by": person.by, "os_user": os_user(), "why": person.why}
    if withdraw:
        count = withdraw_acceptances(desk.ledger, break_id, **said, proof=proof)
        print(f"{count_of(count, 'acceptance')} of {break_id} withdrawn: the next report counts it again")
        return DONE
    check_recovered(desk)
    found = accept_break(desk.ledger, break_id, **said, proof=proof, ends_at=_end_of(desk, until)).found
    name = acceptances(desk.ledger, desk.ledger.now())[break_id].accepted_by
    counts = "" if until is None else f", until {until}"
    print(f"{break_id} ({found.name}) is accepted by {name}{counts}: the next report shows it apart")
    return DONE


def _end_of(desk: Desk, until: str | None) -> int | None:
    """The end of a day in the time zone of the policy in force, Unix ms. Raises `InputError`."""
    from treasury.payments.governing import governing
    from treasury.policy.model import Policy

    if until is None:
        return None
    policy = governing(desk).policy or Policy()
    try:
        ends = policy.end_of_day_ms(date.fromisoformat(until))
    except (ValueError, OverflowError):  # the last day of the calendar has no day after it
        raise InputError(f"--until is a day as YYYY-MM-DD, at the latest 9999-12-30 (got {until})") from None
    if ends <= desk.ledger.now():
        raise InputError(f"--until {until} is over already")
    return ends
