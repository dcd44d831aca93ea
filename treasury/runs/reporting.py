"""Reports a sweep: reads both sides from the ledger, compares them, records breaks, writes files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treasury.ledger import closing, sweeps
from treasury.ledger.acceptances import acceptances
from treasury.ledger.policies import is_rehearsal
from treasury.planning.policy import Policy
from treasury.reconciliation.entries import StatementEntry
from treasury.runs.desk import Desk

if TYPE_CHECKING:
    from treasury.reconciliation.report import ReconciliationInput


def report_sweep(
    desk: Desk, sweep_id: int, out: Path | None, policy: Policy, entries: Sequence[StatementEntry] = ()
) -> Mapping[str, Any]:
    """Compare both sides of a sweep that has ended and write the report into a folder.

    `entries`: of the service's own statement, if there is one. Returns the machine form with the paths. The same
    sweep, policy and statement give the same bytes.
    """
    from treasury.reconciliation.report import build_report
    from treasury.reports.reconciliation import write_reconciliation

    report = build_report(read_input(desk, sweep_id, policy, entries))
    if report.night.scope.is_whole:  # a narrowed report shows, and changes nothing
        closing.record_breaks(desk.ledger, sweep_id, report.breaks)
    return write_reconciliation(out or desk.settings.night_folder(policy.day_of(report.night.as_of)), report)


def read_input(
    desk: Desk, sweep_id: int, policy: Policy, entries: Sequence[StatementEntry] = ()
) -> "ReconciliationInput":
    """Everything the report of a sweep is made from."""
    import pandas as pd

    from treasury.reconciliation.comparison import OUR_COLUMNS, THEIR_COLUMNS
    from treasury.reconciliation.report import ReconciliationInput

    ledger = desk.ledger
    scope = sweeps.sweep(ledger, sweep_id).scope
    sums = closing.closing_of(ledger, sweep_id, scope)
    columns, users = sweeps.both_sides(ledger, sweep_id, (*OUR_COLUMNS, *THEIR_COLUMNS))
    return ReconciliationInput(
        as_of=sums.as_of,
        both_sides=pd.DataFrame(columns, dtype=object),
        policy=policy,
        scope=scope,
        since=sums.since,
        last_whole=closing.last_whole_report(ledger, sweep_id),
        card_users=users,
        statement=sums.statement,
        balances=closing.balance_nights(ledger, sweep_id),
        entries=[entry for entry in entries if scope.run_key is None and scope.currency in (None, entry.currency)],
        known_numbers=ledger.known_numbers() if entries else (),
        known_breaks=closing.known_breaks(ledger, sweep_id),
        acceptances=acceptances(ledger, sums.as_of),
        fee_on_top=desk.account.rules.fee_on_top,
        rehearsal=is_rehearsal(ledger),
    )
