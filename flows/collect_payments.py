"""Collect payments: the invoices of a spreadsheet, each made once, with what its customer pays by."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from flows.forms import Account, File, Folder, FollowSeconds, RunKey, SheetName
from tasks.collecting import make_invoices
from tasks.outcomes import RESULT_KEPT, ends_in_a_named_state


@flow(name="collect-payments", flow_run_name="collect {run_key}", **RESULT_KEPT)
@ends_in_a_named_state
def collect_payments(
    file: File,
    run_key: RunKey,
    out: Folder | None = None,
    account: Account | None = None,
    sheet: SheetName | None = None,
    follow_seconds: FollowSeconds = 0,
) -> Mapping[str, Any]:
    """Make each invoice that was not made before, follow all, write them with links, addresses and QR codes.

    Args:
        file: the spreadsheet, CSV or XLSX (columns: `data/README.md`).
        run_key: the name of these invoices, such as `invoices-2026-11`; run again, it makes none twice.
        out: folder for `results.csv`, the QR codes and `run.json`, or for the corrected copy of a wrong sheet;
            `runs/RUN_KEY` when left out.
        account: the Partner Account block, where no account is configured otherwise.
        sheet: the name of the sheet that is meant, where a workbook has several.
        follow_seconds: how long to ask what was paid; once when left out.

    """
    return make_invoices(file, run_key, account, sheet, out, follow_seconds)


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("collect")
