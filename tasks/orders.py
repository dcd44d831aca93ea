"""Tasks that execute a run of any kind."""

from collections.abc import Mapping, Sequence
from typing import Any

from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from tasks.stated import task
from treasury.payments import execution


@task(cache_policy=NO_CACHE, task_run_name="send {run_key}")
def send_orders(run_key: str, ids: list[int], account: str | None = None) -> int:
    """Send these orders, each at most once; returns how many the service has now."""
    return execution.send_orders(open_desk(account), run_key, ids)


@task(cache_policy=NO_CACHE, task_run_name="follow {run_key}")
def follow_orders(
    run_key: str, sent: Sequence[Mapping[str, Any]], seconds: float, account: str | None = None
) -> dict[str, Any]:
    """Query the sent orders until all are final or the time is up; returns how many are still open.

    `sent`: what the sending tasks returned, each with the `ids` of its orders.
    """
    ids = [each for part in sent for each in part["ids"]]
    return {"open": execution.follow_orders(open_desk(account), run_key, ids, seconds), "orders": len(ids)}
