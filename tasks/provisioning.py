"""Tasks of card user provisioning."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from treasury.runs import provisioning


@task(cache_policy=NO_CACHE)
def provision_users(file: str, out: str | None, account: str | None = None) -> Mapping[str, Any]:
    """Look up or create each card user of a file and write the results.

    One task, because its results hold KYC links, which belong in the result file and nowhere else.
    """
    desk = open_desk(account)
    results = provisioning.provision_users(desk, Path(file))
    return provisioning.write_users(desk, results, None if out is None else Path(out))
