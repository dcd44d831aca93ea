"""Make sure that every card user of a spreadsheet exists and has a KYC link."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from flows.forms import Account, File, Folder, SheetName
from tasks.outcomes import RESULT_KEPT, dated, ends_in_a_named_state
from tasks.provisioning import create_or_link_users, look_up_users, write_users


@flow(name="provision-card-users", flow_run_name=dated("provision card users"), **RESULT_KEPT)
@ends_in_a_named_state
def provision_card_users(
    file: File,
    out: Folder | None = None,
    account: Account | None = None,
    sheet: SheetName | None = None,
    *,
    update: bool = False,
) -> Mapping[str, Any]:
    """Look up each user, create those who do not exist, see to those who do, write the results.

    Args:
        file: the card users spreadsheet, CSV or XLSX (columns: `data/README.md`).
        out: folder for `card_users.csv`, which holds the links, and `run.json`, or for the corrected copy of a wrong
            sheet; `runs/card-users` when left out.
        account: the Partner Account block, where no account is configured otherwise.
        sheet: the name of the sheet that is meant, where a workbook has several.
        update: whether e-mails at the service are changed to those of the file.

    """
    found = look_up_users(file, account, sheet, out)
    provisioned = create_or_link_users(file, found, account, sheet, update=update)
    return write_users(file, provisioned, out, account, sheet, update=update)


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("provision")
