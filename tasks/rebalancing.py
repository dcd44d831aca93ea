"""Tasks of the daily rebalancing: read rates, plan, quote, execute, write results."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from blocks.policy import policy_file
from tasks.artifacts import show_run
from treasury.planning.rebalancing import TradePlan
from treasury.runs import execution, rebalancing
from treasury.runs.rebalancing import RecordedTrade


@task(cache_policy=NO_CACHE, retries=2, retry_delay_seconds=10, task_run_name="read rates")
def read_rates(
    policy: str | None, balances: str | None, plan: str | None, account: str | None = None
) -> dict[str, Any]:
    """Read balances and rates; nothing where a plan was agreed to, or today's run began already."""
    if plan is not None:
        return {}
    file = None if balances is None else Path(balances)
    return rebalancing.read_market(open_desk(account), _file(policy), file).as_dict()


@task(cache_policy=NO_CACHE, task_run_name="plan trades")
def plan_trades(
    policy: str | None, market: Mapping[str, Any], plan: str | None, account: str | None = None
) -> dict[str, Any]:
    """Plan the trades from balances and rates, or take the plan that a person agreed to. Raises `WaitingForYes`."""
    desk = open_desk(account)
    if plan is not None:
        run_key, trades = rebalancing.plan_by_hash(desk, plan)
    else:
        rebalancing.check_said_yes(desk)
        run_key, trades = rebalancing.plan_from_market(desk, _file(policy), rebalancing.Market.from_dict(market))
    return {"run_key": run_key, "plan": trades.as_dict(), "policy": policy}


@task(cache_policy=NO_CACHE, task_run_name="record trades")
def record_trades(planned: Mapping[str, Any], account: str | None = None) -> list[RecordedTrade]:
    """Record the intent to make each trade; returns the trades to execute."""
    plan = TradePlan.from_dict(planned["plan"])
    return rebalancing.record_trades(open_desk(account), planned["run_key"], plan, _file(planned.get("policy")))


@task(cache_policy=NO_CACHE, task_run_name="quote {trade[name]}")
def quote(trade: RecordedTrade, account: str | None = None) -> dict[str, Any]:
    """Ask for the quote of a trade and confirm nothing."""
    asked = execution.fetch_quotes(open_desk(account), trade["run_key"], trade["ids"])
    return {"name": trade["name"], "quotes": asked}


@task(cache_policy=NO_CACHE, task_run_name="execute {trade[name]}")
def execute(trade: RecordedTrade, quoted: Mapping[str, Any], account: str | None = None) -> dict[str, Any]:  # noqa: ARG001 - an edge
    """Judge the quote and confirm it inside the trade's bounds, at most once; asks for a new one if needed."""
    sent = execution.send_orders(open_desk(account), trade["run_key"], trade["ids"])
    return {"name": trade["name"], "sent": sent, "ids": trade["ids"]}


@task(cache_policy=NO_CACHE, task_run_name="write results {planned[run_key]}")
def write_trade_results(
    planned: Mapping[str, Any],
    followed: Mapping[str, Any],  # noqa: ARG001 - an edge
    out: str | None,
    account: str | None = None,
) -> Mapping[str, Any]:
    """Write `results.csv` and `run.json`, and show them in Prefect; returns their summary."""
    desk, plan = open_desk(account), TradePlan.from_dict(planned["plan"])
    summary = rebalancing.write_trade_results(desk, planned["run_key"], plan, None if out is None else Path(out))
    show_run(desk, "rebalance-treasury", summary)
    return summary


def _file(policy: str | None) -> Path | None:
    return None if policy is None else policy_file(policy)
