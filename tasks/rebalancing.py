"""Tasks of the daily rebalancing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from blocks.policy import policy_file
from treasury.planning.rebalancing import TradePlan
from treasury.runs import rebalancing


@task(cache_policy=NO_CACHE, retries=2, retry_delay_seconds=10)
def plan_rebalancing(policy: str, balances: str | None, plan: str | None, account: str | None = None) -> dict[str, Any]:
    """Read balances and rates and plan the trades, or read the plan that a person agreed to."""
    if plan is not None:
        run_key, trades = rebalancing.read_plan_file(Path(plan))
    else:
        file = None if balances is None else Path(balances)
        run_key, trades = rebalancing.plan_rebalancing(open_desk(account), policy_file(policy), file)
    return {"run_key": run_key, "plan": trades.as_dict()}


@task(cache_policy=NO_CACHE)
def commit_trades(run_key: str, plan: Mapping[str, Any], account: str | None = None) -> list[int]:
    """Record the intent to make each trade; ids of what is to be sent."""
    return rebalancing.commit_trades(open_desk(account), run_key, TradePlan.from_dict(plan))


@task(cache_policy=NO_CACHE)
def write_trade_results(
    run_key: str, plan: Mapping[str, Any], out: str | None, account: str | None = None
) -> Mapping[str, Any]:
    """Write `results.csv` and `run.json`; their summary."""
    return rebalancing.write_trade_results(
        open_desk(account), run_key, TradePlan.from_dict(plan), None if out is None else Path(out)
    )
