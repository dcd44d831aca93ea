"""Tasks of money in: invoices and deposit addresses. Links, addresses and customers stay out of Prefect."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from blocks.files import file_at_hand
from tasks.outcomes import unless_rejected
from tasks.stated import task
from treasury.collect.collecting import collect_and_write
from treasury.collect.issuing_addresses import issue_and_write


@task(cache_policy=NO_CACHE, retries=1, retry_condition_fn=unless_rejected, task_run_name="collect {run_key}")
def make_invoices(
    file: str,
    run_key: str,
    account: str | None = None,
    sheet: str | None = None,
    out: str | None = None,
    follow_seconds: float = 0,
) -> Mapping[str, Any]:
    """Make each invoice that was not made before, follow all, and write them; returns the summary.

    A wrong sheet comes back corrected in `out`.
    """
    folder = None if out is None else Path(out)
    with file_at_hand(file) as invoices:
        return collect_and_write(open_desk(account), invoices, run_key, folder, sheet, follow_seconds)


@task(cache_policy=NO_CACHE, retries=1, retry_condition_fn=unless_rejected, task_run_name="issue deposit addresses")
def issue_addresses(
    file: str, account: str | None = None, sheet: str | None = None, out: str | None = None
) -> Mapping[str, Any]:
    """Ask for each address that was not issued before, verify all, and write them; returns the summary.

    A wrong sheet comes back corrected in `out`.
    """
    with file_at_hand(file) as addresses:
        return issue_and_write(open_desk(account), addresses, None if out is None else Path(out), sheet)
