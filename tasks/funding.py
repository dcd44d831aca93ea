"""Tasks that fund a payout run: plan the conversions of its gap, record them, and check that the money is there."""

from collections.abc import Mapping, Sequence
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from tasks.artifacts import show_rebalancing
from tasks.payouts import Source, limits_of, plan_of
from treasury.runs import funding
from treasury.runs.fills import Done
from treasury.runs.parts import Part
from treasury.runs.payouts import parts_that_left
from treasury.runs.rebalancing import Planned
from treasury.runs.trade_orders import RecordedTrade


@task(cache_policy=NO_CACHE, task_run_name="plan conversions for {source[run_key]}, round {number}")
def plan_conversions(
    source: Source,
    parts: list[Part],  # noqa: ARG001 - an edge: its rows are recorded first
    done: Sequence[Done],
    number: int,  # noqa: ARG001 - in its name
    follow_seconds: float,
    account: str | None = None,
) -> Planned | None:
    """Plan the conversions that the run lacks now, within what was agreed to; None when nothing more is converted."""
    desk = open_desk(account)
    planned = funding.next_round(desk, plan_of(desk, source), done, follow_seconds, limits_of(source))
    if planned is not None:
        show_rebalancing(planned)
    return planned


@task(cache_policy=NO_CACHE, task_run_name="record {planned[run_key]}")
def record_conversions(planned: Planned, source: Source, account: str | None = None) -> list[RecordedTrade]:
    """Record the intent to make each conversion, under the plan of the run. Raises `ApprovalNeeded`.

    None where something else was recorded since the round was planned: then it is planned again.
    """
    desk = open_desk(account)
    return funding.record_round(desk, planned, plan_of(desk, source), limits_of(source))


@task(cache_policy=NO_CACHE, task_run_name="check funds of {source[run_key]}")
def check_funds(
    source: Source,
    parts: list[Part],
    done: Sequence[Done],
    account: str | None = None,
    quotes: Mapping[str, Any] | None = None,  # noqa: ARG001 - an edge: they say what their rows debit
) -> list[Part]:
    """These parts, if everything that the run needs is there; else what left of the run before, to be followed."""
    desk = open_desk(account)
    why = funding.why_not_funded(desk, plan_of(desk, source), done)
    return parts if why is None else parts_that_left(desk, source["run_key"])
