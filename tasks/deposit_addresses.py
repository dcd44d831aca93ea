"""The task of deposit addresses. Addresses stay out of Prefect."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from blocks.files import file_at_hand
from tasks.outcomes import unless_rejected
from tasks.stated import task
from treasury.collect.deposit_addresses import issue_and_write


@task(cache_policy=NO_CACHE, retries=1, retry_condition_fn=unless_rejected, task_run_name="issue deposit addresses")
def issue_addresses(
    file: str, account: str | None = None, sheet: str | None = None, out: str | None = None
) -> Mapping[str, Any]:
    """Ask for each address that was not issued before, verify all, and write them; returns the summary.

    A wrong sheet comes back corrected in `out`.
    """
    with file_at_hand(file) as addresses:
        return issue_and_write(open_desk(account), addresses, None if out is None else Path(out), sheet)
