"""Reports a sweep: reads both sides from the ledger, compares them, records breaks, writes files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treasury.errors import InputError
from treasury.ledger import closing, sweeps
from treasury.ledger.changed_by_hand import made_by_hand
from treasury.ledger.epoch import why_epoch
from treasury.ledger.in_force import rules_at
from treasury.ledger.kept_breaks import acceptances, known_breaks, record_breaks
from treasury.ledger.ledger import Ledger
from treasury.ledger.made_reports import changed_reports, is_written, last_whole_report
from treasury.ledger.notifications import unknown_notices
from treasury.ledger.policies import is_rehearsal, policy_in_force
from treasury.ledger.receipts import known_numbers, taken_back
from treasury.ledger.snapshots import issued_addresses
from treasury.ledger.statement_lines import explaining_lines, keep_statement, kept_lines
from treasury.nights.sweep import RESUMED_MS
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.reconciliation.entries import Statement, StatementEntry, last_lines
from treasury.reconciliation.scope import Scope
from treasury.settings import os_user

if TYPE_CHECKING:
    import pandas as pd

    from treasury.reconciliation.report import ReconciliationInput, Report


def report_sweep(
    desk: Desk, sweep_id: int, out: Path | None, policy: Policy, statement: Statement | None = None
) -> Mapping[str, Any]:
    """Compare both sides of a sweep that has ended and write the report into a folder.

    `statement`: the service's own, if there is one; a report of everything keeps its lines. Returns the machine form
    with the paths. The same sweep, policy and statement give the same bytes.
    """
    from treasury.reports.reconciliation import orders_file, write_reconciliation

    as_of = closing.closing_of(desk.ledger, sweep_id, sweeps.sweep(desk.ledger, sweep_id).scope).as_of
    folder = out or desk.settings.night_folder(policy.day_of(as_of))
    with orders_file(folder) as orders:
        report = judge_sweep(desk, sweep_id, policy, statement, orders.add)
    made = write_reconciliation(folder, report, orders.listed)
    closing.mark_written(desk.ledger, sweep_id)
    return made


def judge_sweep(
    desk: Desk,
    sweep_id: int,
    policy: Policy,
    statement: Statement | None = None,
    keep: "Callable[[pd.DataFrame], object] | None" = None,
) -> "Report":
    """Compare both sides of a sweep that has ended, and record its breaks; `keep` is given the compared orders."""
    from treasury.reconciliation.report import build_report

    scope = sweeps.sweep(desk.ledger, sweep_id).scope
    sums, given = closing.closing_of(desk.ledger, sweep_id, scope), () if statement is None else statement.entries
    if statement is not None and scope.is_whole:
        _check_takes_lines(desk.ledger, sweep_id, sums.as_of, policy)
        keep_statement(desk.ledger, sweep_id, sums.as_of, statement, os_user())
    report = build_report(_read_input(desk, sweep_id, scope, sums, policy, given), keep)
    if scope.is_whole:  # a narrowed report shows, and changes nothing
        record_breaks(desk.ledger, sweep_id, report.breaks)
    return report


def _check_takes_lines(ledger: Ledger, sweep_id: int, as_of: int, policy: Policy) -> None:
    """Raise `InputError` where lines would be of a month that is over, by the time zone of then or of now, or of a time
    before people were listed. A new report is of such a time where somebody set the clock back."""
    in_force, then = policy_in_force(ledger), ledger.look(lambda connection: rules_at(connection, ledger.key, as_of))
    is_signed = in_force is not None and in_force.policy.people and not (then is not None and then.people)
    days = (policy, then or policy)
    is_made = is_written(ledger, sweep_id) or ledger.now() - as_of > RESUMED_MS  # else it is being made, over midnight
    is_over = is_made and any(_month(each, as_of) != _month(each, ledger.now()) for each in days)
    if is_signed or is_over:
        why = "a policy lists people since then" if is_signed else "its month is over, and stays as it was"
        raise InputError(
            f"the report of {policy.day_of(as_of)} takes no more lines of statements: {why}; run `treasury reconcile` "
            "with --statement and without --offline"
        )


def _month(policy: Policy, ms: int) -> str:
    return policy.day_of(ms)[:7]


def _read_input(
    desk: Desk, sweep_id: int, scope: Scope, sums: closing.Closing, policy: Policy, given: Sequence[StatementEntry]
) -> "ReconciliationInput":
    """Read everything that the report of a sweep is made from; `given`: lines that it was given."""
    import pandas as pd

    from treasury.reconciliation.report import ReconciliationInput

    ledger = desk.ledger
    kept = kept_lines(ledger, sweep_id)
    if not scope.is_whole:  # it shows the lines that it was given, and keeps none
        kept = last_lines([*kept, *given])
    beside = sweeps.sides_beside(ledger, sweep_id)
    receipts = beside[sweeps.RECEIPT]
    notices = [asdict(notice) for notice in unknown_notices(ledger, sums.as_of)] if scope.is_whole else []
    return ReconciliationInput(
        as_of=sums.as_of,
        both_sides=lambda columns: (
            pd.DataFrame(part, dtype=object) for part in sweeps.both_sides(ledger, sweep_id, columns, sums.shared)
        ),
        policy=policy,
        scope=scope,
        since=sums.since,
        last_whole=last_whole_report(ledger, sweep_id),
        card_users=beside[sweeps.CARD_USER],
        receipts=receipts,
        taken_back=taken_back(ledger, sweep_id, receipts),
        issued=issued_addresses(ledger, sums.as_of) if receipts else (),
        statement=sums.statement,
        not_asked=sums.not_asked,
        by_age=sums.by_age,
        changed=changed_reports(ledger, sweep_id) if scope.is_whole else {},
        made_by_hand=made_by_hand(ledger) if scope.is_whole else {},
        balances=closing.balance_nights(ledger, sweep_id),
        entries=[entry for entry in kept if scope.run_key is None and scope.currency in (None, entry.currency)],
        explaining=last_lines(explaining_lines(ledger, sweep_id)),
        known_numbers=known_numbers(ledger, sweep_id) if kept or notices else (),
        notices=notices,
        known_breaks=known_breaks(ledger, sweep_id),
        acceptances=acceptances(ledger, sums.as_of),
        fee_on_top=desk.account.rules.fee_on_top,
        rehearsal=is_rehearsal(ledger),
        older=desk.why_older() or why_epoch(ledger),
    )
