"""Hold what is needed of every asset: position, rates, plan, then quote, judge and execute each trade, and prove it."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from prefect import flow

from blocks.desk import open_desk
from flows.forms import Account, File, Folder, FollowSeconds, PlanHash, Policy
from tasks.ended import ENDINGS
from tasks.orders import follow_orders
from tasks.outcomes import dated, ends_in_a_named_state, told_after
from tasks.rebalancing import (
    convert,
    fetch_rates,
    plan_trades,
    propose,
    prove_fills,
    read_position,
    record_trades,
    write_decisions,
)
from treasury.errors import TreasuryError


@flow(name="rebalance-treasury", flow_run_name=dated("rebalance"), **ENDINGS)
@ends_in_a_named_state
def rebalance_treasury(
    policy: Policy | None = None,
    out: Folder | None = None,
    balances: File | None = None,
    plan: PlanHash | None = None,
    follow_seconds: FollowSeconds = 30,
    account: Account | None = None,
) -> Mapping[str, Any]:
    """Plan today's trades from position, obligations and rates and make them, inside the policy's bounds.

    Purchases that need what sales bring are made in a second round, planned afresh once the sales are settled. A start
    later on the day plans again from what is held and on its way then.

    Args:
        policy: the policy in force applies; this may name it, a TOML file or block:NAME.
        out: folder for `decisions.json`, `results.csv` and `run.json`; one named by the day when left out.
        balances: a CSV of available balances; without it the service is asked.
        plan: SHA-256 of a plan that `treasury rebalance` made today and a person agreed to, instead of a new one.
        follow_seconds: how long to wait for final statuses in each round.
        account: the Partner Account block, where no account is configured otherwise.

    """
    rounds: list[Any] = []
    done: list[Any] = []
    with ExitStack() as held:
        try:
            while not done or (done[-1]["again"] and not rounds[-1]["is_last"]):
                position = read_position(policy, balances, plan, account)
                planned = plan_trades(fetch_rates(position, policy, account), policy, plan, done, account)
                held.enter_context(open_desk(account).hold(planned["run_key"]))
                trades = record_trades(planned, account, wait_for=[propose(planned, account)])
                rounds.append(planned)
                executed = [convert(trade, account) for trade in trades]
                followed = follow_orders(planned["run_key"], executed, follow_seconds, account)
                done = [*done, prove_fills(planned, account, wait_for=[followed])]
                plan = None
        except TreasuryError as error:
            if not rounds:
                raise
            raise told_after(error, write_decisions(rounds, done, out, account, str(error))) from error
        return write_decisions(rounds, done, out, account)


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("rebalance")
