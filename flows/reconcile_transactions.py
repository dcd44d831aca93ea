"""Ask what became of every order the ledger holds, compare both sides, and write the morning's report."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from flows.forms import Account, Currency, File, Folder, KnownRun, Notification, Policy, WindowDays
from tasks.outcomes import RESULT_KEPT, dated, ends_in_a_named_state
from tasks.reconciliation import ask_parts, end_sweep, notify, runner_of_sweep, start_sweep, stored_sweep, write_report


@flow(name="reconcile-transactions", flow_run_name=dated("reconcile"), **RESULT_KEPT)
@ends_in_a_named_state
def reconcile_transactions(
    out: Folder | None = None,
    run_key: KnownRun | None = None,
    window_days: WindowDays | None = None,
    account: Account | None = None,
    currency: Currency | None = None,
    offline: bool = False,
    statement: File | None = None,
    policy: Policy | None = None,
    notification: Notification | None = None,
    ask_all: bool = False,
) -> Mapping[str, Any]:
    """Ask for every request id, open or final, and report. Sends nothing that moves money.

    The run ends in a state that is named for the verdict; its result is the report's machine form.

    Args:
        out: folder for the report; `nights/DATE` in the home when left out.
        run_key: only the orders of this run.
        window_days: leave out orders that became final longer ago; open ones are always asked.
        account: the Partner Account block, where no account is configured otherwise.
        currency: only orders that pay or bring this currency.
        offline: ask nothing; make the last report of the same run key, currency and window again, from stored answers.
        statement: the service's own transactions, as a third side: a sheet, camt.053 or MT940.
        policy: TOML file (or block:NAME) whose [reconciliation] table has the tolerances.
        notification: a notification block, TYPE/NAME, that gets one message when something is new.
        ask_all: ask about every order, also those that the policy's [reconciliation.by_age] leaves out tonight.

    """
    scope = {"run_key": run_key, "window_days": window_days, "currency": currency}
    if offline:
        started, asked = stored_sweep(scope, account), []
    else:
        with runner_of_sweep(scope, account) as runner:  # its processes start while the questions are written down
            started = start_sweep(scope, account, ask_all)
            asked = ask_parts(runner, started, account)
    ended = end_sweep(started, account, wait_for=asked)
    report = write_report(ended, out, policy, statement, account)
    if notification is not None:
        notify(report, notification)
    return report


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("reconcile")
