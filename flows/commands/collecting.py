"""`treasury collect`."""

from pathlib import Path

from flows.commands.common import (
    DONE,
    OutFolder,
    asking_for_headers,
    check_follow,
    configured_desk,
    finish_run,
    say_files,
    summary_of,
)
from flows.commands.prefect_server import prefect_api
from treasury.collect.collecting import invoices_of, look_at_invoices
from treasury.errors import InvalidSheet
from treasury.payments.execution import check_run_key
from treasury.reports.refused import write_refused
from treasury.sheets.invoices import LAYOUT


def collect(
    file: Path,
    /,
    *,
    run_key: str,
    out: OutFolder | None = None,
    sheet: str | None = None,
    follow: float = 0,
    dry_run: bool = False,
) -> int:
    """Make the invoices of a sheet, and write their links, addresses and QR codes, and what was paid.

    Run again, it makes none twice, and says what was paid meanwhile.

    Parameters
    ----------
    file:
        The invoices, CSV or XLSX (columns: data/README.md).
    run_key:
        The name of these invoices, such as invoices-2026-11.
    out:
        Folder for the results.
    sheet:
        The sheet that is meant, where a workbook has several.
    follow:
        Seconds to ask what was paid; once when left out.
    dry_run:
        Say which invoices would be made and which were; make none, write nothing.

    """
    desk = configured_desk()
    check_run_key(run_key)
    folder = (out or desk.settings.run_folder(run_key)).absolute()
    seconds = check_follow(follow)
    try:
        rows = list(asking_for_headers(lambda: invoices_of(desk, file, sheet)))
    except InvalidSheet as error:
        say_files(write_refused(folder, file, error, LAYOUT, sheet))
        raise
    if dry_run:
        found = look_at_invoices(desk, run_key, rows)
        for row_ref, (asked, is_made) in found.items():
            print(f"  {row_ref}: {asked}: {'was made before' if is_made else 'would be made'}")
        print(f"{sum(not is_made for _, is_made in found.values())} would be made; nothing was sent")
        return DONE
    with prefect_api("flows.collect_payments"):
        from flows.collect_payments import collect_payments

        path = str(file.absolute())
        summary = summary_of(lambda: collect_payments(path, run_key, str(folder), sheet=sheet, follow_seconds=seconds))
    return finish_run(summary)
