"""Bring every asset back to its target: rate, quote, check, execute, follow."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from blocks.desk import open_desk
from tasks.orders import follow_orders, send_orders
from tasks.rebalancing import commit_trades, plan_rebalancing, write_trade_results


@flow(name="rebalance-treasury")
def rebalance_treasury(
    policy: str,
    out: str | None = None,
    balances: str | None = None,
    plan: str | None = None,
    follow_seconds: float = 30,
    account: str | None = None,
) -> Mapping[str, Any]:
    """Plan today's trades from balances and rates and make them, inside the policy's bounds, once a business date.

    Args:
        policy: the treasury policy: a TOML file, or block:NAME.
        out: folder for `results.csv` and `run.json`; one named by the day when left out.
        balances: a CSV of available balances; without it the service is asked.
        plan: a plan that `treasury rebalance` wrote and a person agreed to, instead of a new one.
        follow_seconds: how long to wait for final statuses.
        account: name of the Partner Account block, where no account is configured otherwise.

    """
    planned = plan_rebalancing(policy, balances, plan, account)
    run_key, trades = planned["run_key"], planned["plan"]
    with open_desk(account).hold(run_key):
        ids = commit_trades(run_key, trades, account)
        send_orders(run_key, ids, account)
        follow_orders(run_key, ids, follow_seconds, account)
        return write_trade_results(run_key, trades, out, account)


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("rebalance")
