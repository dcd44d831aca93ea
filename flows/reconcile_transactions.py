"""Ask what became of every order the ledger holds, compare both sides, and write the morning's report."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from tasks.reconciliation import ask_orders, open_chunks, publish_report, start_sweep, write_report


@flow(name="reconcile-transactions")
def reconcile_transactions(
    out: str | None = None, run_key: str | None = None, window_days: int | None = None, account: str | None = None
) -> Mapping[str, Any]:
    """Ask for every request id, open or final, and report. Sends nothing that moves money.

    Args:
        out: folder for `orders.csv`, `reconciliation.md`, `reconciliation.json`; one named by the time when left out.
        run_key: only the orders of this run.
        window_days: leave out orders that became final longer ago; open ones are always asked.
        account: name of the Partner Account block, where no account is configured otherwise.

    """
    sweep_id = start_sweep(run_key, window_days, account)
    for ids in open_chunks(sweep_id, account):
        ask_orders(ids, account)
    report = write_report(sweep_id, out, account)
    publish_report(report)
    return report


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("reconcile")
