"""Tasks of the daily rebalancing, round by round: position, rates, plan, quote, judge, execute, prove, decisions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from blocks.files import file_at_hand
from blocks.policy import policy_file
from tasks.artifacts import show_rebalancing, show_run, shown_while_it_waits
from tasks.outcomes import unless_rejected
from tasks.stated import own, state_of_orders, task
from treasury.payments import execution
from treasury.rebalance import rebalancing, round_results, trade_orders
from treasury.rebalance.rebalancing import Planned
from treasury.rebalance.round_results import Done
from treasury.rebalance.trade_orders import RecordedTrade


@task(
    cache_policy=NO_CACHE,
    retries=2,
    retry_delay_seconds=10,
    retry_condition_fn=unless_rejected,
    task_run_name="read position",
)
def read_position(
    policy: str | None, balances: str | None, plan: str | None, account: str | None = None
) -> dict[str, Any]:
    """Read balances, orders on their way and obligations; nothing where a plan was agreed to, or a round waits."""
    desk, rules = open_desk(account), _file(policy)
    if balances is None:
        return _market(rebalancing.position_for(desk, rules, None, plan))
    with file_at_hand(balances) as file:
        return _market(rebalancing.position_for(desk, rules, file, plan))


@task(
    cache_policy=NO_CACHE,
    retries=2,
    retry_delay_seconds=10,
    retry_condition_fn=unless_rejected,
    task_run_name="fetch rates",
)
def fetch_rates(position: Mapping[str, Any], policy: str | None, account: str | None = None) -> dict[str, Any]:
    """Ask for the rates of the pairs that may be traded, and judge them."""
    return _market(rebalancing.rates_for(open_desk(account), _file(policy), position["market"]))


@task(cache_policy=NO_CACHE, task_run_name="plan trades")
def plan_trades(
    market: Mapping[str, Any],
    policy: str | None,
    plan: str | None,
    before: Sequence[Done] = (),
    account: str | None = None,
) -> Planned:
    """Plan the trades of a round, or take the plan that a person agreed to. Raises `WaitingForYes`."""
    desk, rules = open_desk(account), _file(policy)
    planned = rebalancing.planned_round(desk, policy, rules, market["market"], plan, before)
    show_rebalancing(planned["run_key"], rebalancing.kept_decisions(desk, planned, rules))
    return own(planned)


@task(cache_policy=NO_CACHE, task_run_name="propose {planned[run_key]}")
def propose(planned: Planned, account: str | None = None) -> str:
    """Keep the plan in the ledger, where it waits for the approvals that the policy asks for; returns its hash."""
    return own(rebalancing.propose(open_desk(account), planned, _file(planned["policy"]))["plan_sha256"])


@task(cache_policy=NO_CACHE, task_run_name="record trades")
def record_trades(planned: Planned, account: str | None = None) -> list[RecordedTrade]:
    """Record the intent to make each trade; returns the trades to execute. Raises `ApprovalNeeded`."""
    desk, run_key = open_desk(account), planned["run_key"]
    with shown_while_it_waits(desk, run_key):
        plan = rebalancing.kept_plan(desk, planned)
        return own(trade_orders.record_trades(desk, run_key, plan, _file(planned["policy"])))


@task(cache_policy=NO_CACHE, task_run_name="quote {trade[name]}")
def quote_conversion(trade: RecordedTrade, account: str | None = None) -> dict[str, Any]:
    """Ask for the quote of a trade and confirm nothing."""
    asked = execution.fetch_quotes(open_desk(account), trade["run_key"], trade["ids"])
    return {"quotes": f"{asked} fetched"}


@task(cache_policy=NO_CACHE, task_run_name="judge quote of {trade[name]}")
def judge_quote(trade: RecordedTrade, account: str | None = None) -> dict[str, Any]:
    """Say whether the quote is inside the trade's bounds; the confirmation judges it again."""
    return {"problems": execution.quote_problems(open_desk(account), trade["ids"])}


@task(cache_policy=NO_CACHE, task_run_name="execute {trade[name]}")
def execute_conversion(trade: RecordedTrade, account: str | None = None) -> dict[str, Any]:
    """Confirm the quote inside the trade's bounds, at most once; asks for a new one if needed.

    Its state is named for what came of it.
    """
    desk = open_desk(account)
    execution.send_orders(desk, trade["run_key"], trade["ids"])
    return state_of_orders(desk, trade["ids"], {"ids": list(trade["ids"])})


def convert(trade: RecordedTrade, account: str | None = None) -> dict[str, Any]:
    """Quote a trade, judge the quote and execute it: three tasks, one after the other."""
    quoted = quote_conversion(trade, account)
    judged = judge_quote(trade, account, wait_for=[quoted])
    return execute_conversion(trade, account, wait_for=[judged])


@task(cache_policy=NO_CACHE, task_run_name="prove fills {planned[run_key]}")
def prove_fills(planned: Planned, account: str | None = None) -> Done:
    """Compare the balances with the fills, and each trade with its plan; says whether another round follows."""
    desk = open_desk(account)
    return own(round_results.prove_round(desk, planned["run_key"], rebalancing.kept_plan(desk, planned)))


@task(cache_policy=NO_CACHE, task_run_name="write decisions")
def write_decisions(
    planned: Sequence[Planned],
    done: Sequence[Done],
    out: str | None,
    account: str | None = None,
    ended_by: str | None = None,
) -> Mapping[str, Any]:
    """Write `decisions.json`, `results.csv` and `run.json`, and show them in Prefect; returns their summary.

    `ended_by`: the error that ended the start, in words.
    """
    desk, folder = open_desk(account), None if out is None else Path(out)
    decisions = [rebalancing.kept_decisions(desk, each, _file(each["policy"])) for each in planned]
    summary = round_results.write_decisions(desk, decisions, done, folder, ended_by)
    show_run(desk, "rebalance-treasury", summary)
    return summary


def _file(policy: str | None) -> Path | None:
    return None if policy is None else policy_file(policy)


def _market(content: Mapping[str, Any]) -> dict[str, Any]:
    """Wrap a position once more: Prefect links what a result holds to its task, and a short text such as "0" is the
    same object in every result."""
    return {"market": own(content)}
