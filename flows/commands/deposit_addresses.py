"""`treasury addresses`."""

from pathlib import Path

from flows.commands.common import DONE, TROUBLE, OutFolder, asking_for_headers, configured_desk, say_files, summary_of
from flows.commands.prefect_server import prefect_api
from treasury.collect.issuing_addresses import BAD_OUTCOMES, KIND, addresses_of, look_at_addresses
from treasury.errors import InvalidSheet
from treasury.reports.refused import write_refused
from treasury.sheets.deposit_addresses_sheet import LAYOUT


def addresses(file: Path, /, *, out: OutFolder | None = None, sheet: str | None = None, dry_run: bool = False) -> int:
    """Issue deposit addresses, one for each customer and asset, and write them with their QR codes.

    Run again, it finds the same addresses and asks for none twice.

    Parameters
    ----------
    file:
        The customers and assets, CSV or XLSX (columns: data/README.md).
    out:
        Folder for the results.
    sheet:
        The sheet that is meant, where a workbook has several.
    dry_run:
        Say which addresses would be asked for and which were issued; ask for none, write nothing.

    """
    desk = configured_desk()
    folder = (out or desk.settings.run_folder(KIND)).absolute()
    try:
        rows = asking_for_headers(lambda: addresses_of(desk, file, sheet))
    except InvalidSheet as error:
        say_files(write_refused(folder, file, error, LAYOUT, sheet))
        raise
    if dry_run:
        found = look_at_addresses(desk, rows)
        for row, is_issued in found:
            said = "was issued before" if is_issued else "would be asked for"
            print(f"  {row.row_ref}: {row.currency} of {row.customer_ref_id}: {said}")
        print(f"{sum(not is_issued for _, is_issued in found)} would be asked for; nothing was sent")
        return DONE
    with prefect_api("flows.issue_deposit_addresses"):
        from flows.issue_deposit_addresses import issue_deposit_addresses

        summary = summary_of(lambda: issue_deposit_addresses(str(file.absolute()), str(folder), sheet=sheet))
    say_files(summary["files"])
    print(", ".join(f"{count} {outcome}" for outcome, count in summary["counts"].items()))
    return TROUBLE if any(summary["counts"].get(outcome) for outcome in BAD_OUTCOMES) else DONE
