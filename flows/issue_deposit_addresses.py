"""Issue the deposit addresses of a spreadsheet: one for each customer and asset, asked for once."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from flows.forms import Account, File, Folder, SheetName
from tasks.collecting import issue_addresses
from tasks.outcomes import RESULT_KEPT, dated, ends_in_a_named_state


@flow(name="issue-deposit-addresses", flow_run_name=dated("issue deposit addresses"), **RESULT_KEPT)
@ends_in_a_named_state
def issue_deposit_addresses(
    file: File, out: Folder | None = None, account: Account | None = None, sheet: SheetName | None = None
) -> Mapping[str, Any]:
    """Ask for each address that was not issued before, verify all with the service, write them with their QR codes.

    Args:
        file: the spreadsheet, CSV or XLSX (columns: `data/README.md`).
        out: folder for `addresses.csv`, the QR codes and `run.json`, or for the corrected copy of a wrong sheet;
            `runs/deposit-addresses` when left out.
        account: the Partner Account block, where no account is configured otherwise.
        sheet: the name of the sheet that is meant, where a workbook has several.

    """
    return issue_addresses(file, account, sheet, out)


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("addresses")
