"""Says what left and what did not of a run that Prefect ended: cancelled, crashed, or failed by no error of ours."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.logging.loggers import flow_run_logger

from blocks.account import account_name
from blocks.desk import open_desk
from tasks.outcomes import Endings, check_out, give_result_back
from treasury.errors import CannotGoOn, InputError, TreasuryError
from treasury.ledger.funding_runs import rounds_of
from treasury.orders.states import OUTCOMES
from treasury.pay.payouts import write_results_anew
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.policy.model import Policy
from treasury.rebalance.rebalancing import orders_of_day, run_key_of_date
from treasury.reports.results import in_words


def say_what_left(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:  # noqa: ARG001 - Prefect names them
    """Write the results of the payments that a run recorded, as they are now, and say in its log what came of them.

    A failed run that ended by an error of ours has written and said it itself, unless it could not.
    """
    error = state.result(raise_on_failure=False) if state.is_failed() else None
    if isinstance(error, TreasuryError) and not isinstance(error, CannotGoOn):
        return
    log = flow_run_logger(flow_run)
    try:
        desk = open_desk(account_name(flow_run.parameters.get("account")))
        for line in _what_left(desk, flow_run):
            log.warning("%s", line)
    except Exception as error:  # whoever calls it would log a traceback
        said = error if isinstance(error, TreasuryError) else type(error).__name__
        log.warning("what left of this run could not be read: %s", said)


def _what_left(desk: Desk, flow_run: FlowRun) -> Iterator[str]:
    run_key = flow_run.parameters.get("run_key")
    keys = _rounds_of(desk, flow_run.start_time) if run_key is None else _with_conversions(desk, run_key)
    if not keys:
        yield f"{run_key or 'the rebalancing'}: nothing of it was recorded, so nothing left"
    for each in keys:
        where = _write_results(desk, flow_run, each) if each == run_key else ""
        with desk.ledger.each_order(each) as orders:
            counts = Counter(order.state.outcome for order in orders)
        said = in_words({"counts": {outcome: counts[outcome] for outcome in OUTCOMES if outcome in counts}})
        yield f"run {each}: {said}; {where}what was sent is asked about every night, and the same start sends the rest"


def _write_results(desk: Desk, flow_run: FlowRun, run_key: str) -> str:
    """Write the results of a run where its start was to write them; says where, or why it could not.

    A start that Prefect ended may not have come to judge the folder that a form named.
    """
    out = flow_run.parameters.get("out")
    try:
        check_out(out, is_deployed=flow_run.deployment_id is not None)
        folder = desk.settings.run_folder(run_key) if out is None else Path(out)
        write_results_anew(desk, run_key, folder)
    except (OSError, InputError) as error:
        return f"results could not be written: {error}; "
    return f"results: {folder / 'results.csv'}; "


def _with_conversions(desk: Desk, run_key: str) -> list[str]:
    """A payment run that was recorded, behind the rounds of conversions that were made for it."""
    return [] if desk.ledger.run(run_key) is None else [*rounds_of(desk.ledger, run_key), run_key]


def _rounds_of(desk: Desk, began: datetime | None) -> list[str]:
    """The run keys of the rounds of the rebalancing, of the days since a flow run began."""
    policy, now = governing(desk).policy or Policy(), desk.clock.now()
    first, last = policy.business_date(began or now), policy.business_date(now)
    days = (first + timedelta(days=number) for number in range((last - first).days + 1))
    return list(dict.fromkeys(order.run_key for day in days for order in orders_of_day(desk, run_key_of_date(day))))


ENDINGS = Endings(
    on_completion=[give_result_back],
    on_cancellation=[say_what_left],
    on_crashed=[say_what_left],
    on_failure=[give_result_back, say_what_left],
)
"""The hooks of flows that move money."""
