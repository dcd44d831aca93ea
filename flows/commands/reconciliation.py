"""`treasury reconcile`."""

from datetime import UTC, datetime
from pathlib import Path

from flows.commands.common import BREAKS, DONE, configured_desk, say_files
from flows.commands.prefect_server import prefect_api
from treasury.errors import InputError

BAD_VERDICTS = ("incomplete", "breaks")


def reconcile(*, run_key: str | None = None, window: int | None = None, out: Path | None = None) -> int:
    """Ask the service what became of every order the ledger holds, compare, and write the report. Sends no money.

    Parameters
    ----------
    run_key:
        Only the orders of this run.
    window:
        Leave out orders that became final more than this many days ago; open ones are always asked.
    out:
        Folder for the report.

    """
    desk = configured_desk()
    if window is not None and window < 0:
        raise InputError("--window is a number of days, zero or more")
    if run_key is not None and desk.ledger.run(run_key) is None:
        raise InputError(f"the ledger knows no run {run_key} (`treasury runs` lists them)")
    folder = (out or desk.settings.report_folder(datetime.now(UTC))).absolute()
    with prefect_api():
        from flows.reconcile_transactions import reconcile_transactions

        report = reconcile_transactions(str(folder), run_key, window)
    say_files(report["files"])
    counts = ", ".join(f"{count} {name}" for name, count in report["counts"].items())
    print(f"{report['verdict']}: {counts or 'no orders'}")
    return BREAKS if report["verdict"] in BAD_VERDICTS else DONE
