"""Bring every asset back to its target: rates, plan, quote, execute, follow."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from blocks.desk import open_desk
from tasks.orders import follow_orders
from tasks.outcomes import dated, ends_in_a_named_state
from tasks.rebalancing import execute, plan_trades, quote, read_rates, record_trades, write_trade_results


@flow(name="rebalance-treasury", flow_run_name=dated("rebalance"))
@ends_in_a_named_state
def rebalance_treasury(
    policy: str | None = None,
    out: str | None = None,
    balances: str | None = None,
    plan: str | None = None,
    follow_seconds: float = 30,
    account: str | None = None,
) -> Mapping[str, Any]:
    """Plan today's trades from balances and rates and make them, inside the policy's bounds, once a business date.

    Args:
        policy: the policy in force applies; this may name it, a TOML file or block:NAME.
        out: folder for `results.csv` and `run.json`; one named by the day when left out.
        balances: a CSV of available balances; without it the service is asked.
        plan: SHA-256 of a plan that `treasury rebalance` made today and a person agreed to, instead of a new one.
        follow_seconds: how long to wait for final statuses.
        account: name of the Partner Account block, where no account is configured otherwise.

    """
    rates = read_rates(policy, balances, plan, account)
    planned = plan_trades(policy, rates, plan, account)
    with open_desk(account).hold(planned["run_key"]):
        trades = record_trades(planned, account)
        executed = [execute(trade, quote(trade, account), account) for trade in trades]
        followed = follow_orders(planned["run_key"], executed, follow_seconds, account)
        return write_trade_results(planned, followed, out, account)


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("rebalance")
