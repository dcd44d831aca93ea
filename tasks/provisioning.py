"""Tasks of card user provisioning: look up, create or link, write results. Links stay out of Prefect."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from blocks.files import file_at_hand
from tasks.artifacts import show_users
from tasks.outcomes import unless_rejected
from tasks.stated import task
from treasury.cards import provisioning


@task(cache_policy=NO_CACHE, retries=1, retry_condition_fn=unless_rejected, task_run_name="look up users")
def look_up_users(
    file: str, account: str | None = None, sheet: str | None = None, out: str | None = None
) -> dict[str, str]:
    """Tell whether the service knows each user of a file: existing, absent, or unknown when it could not be asked.

    A wrong sheet comes back corrected in `out`.
    """
    with file_at_hand(file) as users:
        return provisioning.look_up_users(open_desk(account), users, sheet, None if out is None else Path(out))


@task(cache_policy=NO_CACHE, task_run_name="create or link users")
def create_or_link_users(
    file: str,
    found: Mapping[str, str],
    account: str | None = None,
    sheet: str | None = None,
    *,
    update: bool = False,
) -> dict[str, str]:
    """Create each absent user, see to e-mail, identity and link of each existing one; returns the outcome of each."""
    with file_at_hand(file) as users:
        return provisioning.create_or_link_users(open_desk(account), users, found, sheet, update=update)


@task(cache_policy=NO_CACHE, task_run_name="write results")
def write_users(
    file: str,
    provisioned: Mapping[str, str],
    out: str | None,
    account: str | None = None,
    sheet: str | None = None,
    *,
    update: bool = False,
) -> Mapping[str, Any]:
    """Write `card_users.csv` and its workbook, which hold the links, and `run.json`, and show the totals in Prefect;
    returns a summary."""
    desk = open_desk(account)
    folder = None if out is None else Path(out)
    with file_at_hand(file) as users:
        summary = provisioning.write_provisioned(desk, users, provisioned, folder, sheet, update=update)
    show_users(summary, provisioned)
    return summary
