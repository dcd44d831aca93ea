"""Runs that a schedule starts: on a day that is no business day of the policy, those that wait for one end at once."""

from collections.abc import Callable, Mapping
from typing import Any

from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.runtime import flow_run
from prefect.states import Completed

from blocks.desk import open_desk
from blocks.policy import policy_file
from tasks.approval import is_resumed
from treasury.errors import TreasuryError
from treasury.payments.governing import BUSINESS_DAYS, closed_today


def is_scheduled() -> bool:
    """Tell whether a schedule started this run."""
    context = FlowRunContext.get()
    return context is not None and context.flow_run is not None and context.flow_run.auto_scheduled


def on_business_days(given: Mapping[str, Any], work: Callable[[], State[Any]]) -> Callable[[], State[Any]]:
    """Return the work of a flow, which ends `NotABusinessDay` before it asks anything, where its schedule means others.

    A run that a person started or resumed does its work on any day.
    """

    def told() -> State[Any]:
        closed = _closed(given)
        return work() if closed is None else Completed(name="NotABusinessDay", message=closed)

    return told


def _closed(given: Mapping[str, Any]) -> str | None:
    if not is_scheduled() or BUSINESS_DAYS not in flow_run.tags or is_resumed():
        return None
    try:
        named = given.get("policy")
        return closed_today(open_desk(given.get("account")), None if named is None else policy_file(named))
    except TreasuryError:  # the run itself meets it, and says so
        return None
