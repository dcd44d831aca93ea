"""Tasks that fund a payout run: plan the conversions of its gap, record them, and check that the money is there."""

from collections.abc import Sequence

from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from tasks.artifacts import show_rebalancing
from tasks.stated import own, task
from treasury.pay import funding
from treasury.pay.funding_needs import parts_that_are_funded
from treasury.pay.payout_plans import take_plan
from treasury.pay.payouts import parts_that_left
from treasury.payments.execution import Part
from treasury.rebalance.rebalancing import Planned, kept_decisions
from treasury.rebalance.round_results import Done
from treasury.rebalance.trade_orders import RecordedTrade


@task(cache_policy=NO_CACHE, task_run_name="plan conversions for {run_key}, round {number}")
def plan_conversions(
    run_key: str,
    plan: str,
    done: Sequence[Done],
    number: int,  # noqa: ARG001 - in its name
    follow_seconds: float,
    account: str | None = None,
) -> Planned | None:
    """Plan the conversions that the run lacks now, within what was agreed to; None when nothing more is converted."""
    desk = open_desk(account)
    planned = funding.next_round(desk, take_plan(desk, plan, run_key), done, follow_seconds)
    if planned is not None:
        show_rebalancing(planned["run_key"], kept_decisions(desk, planned))
    return own(planned)


@task(cache_policy=NO_CACHE, task_run_name="record {planned[run_key]}")
def record_conversions(run_key: str, planned: Planned, plan: str, account: str | None = None) -> list[RecordedTrade]:
    """Record the intent to make each conversion, under the plan of the run. Raises `ApprovalNeeded`.

    None where something else was recorded since the round was planned: then it is planned again.
    """
    desk = open_desk(account)
    return own(funding.record_round(desk, planned, take_plan(desk, plan, run_key)))


@task(cache_policy=NO_CACHE, task_run_name="check funds of {run_key}")
def check_funds(
    run_key: str, plan: str, parts: list[Part], done: Sequence[Done], account: str | None = None
) -> list[Part]:
    """These parts, if everything that the run needs is there; else what may leave of them, and what left before."""
    desk = open_desk(account)
    made = take_plan(desk, plan, run_key)
    if not made.fund:
        return own(parts_that_are_funded(desk, made.payments, parts))
    why = funding.why_not_funded(desk, made.payments, done)
    return own(parts if why is None else parts_that_left(desk, run_key))
