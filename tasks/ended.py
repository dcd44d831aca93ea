"""Says what left and what did not of a run that Prefect ended: cancelled, crashed, or failed by no error of ours."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

from prefect import Flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.logging.loggers import flow_run_logger

from blocks.account import account_name
from blocks.desk import open_desk
from treasury.errors import TreasuryError
from treasury.orders.states import OUTCOMES
from treasury.pay.payouts import write_results_anew
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.policy.model import Policy
from treasury.rebalance.rebalancing import orders_of_day, run_key_of_day
from treasury.reports.results import in_words


def say_what_left(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:  # noqa: ARG001 - Prefect names them
    """Write the results of the payments that a run recorded, as they are now, and say in its log what came of them.

    A failed run that ended by an error of ours has written and said it itself.
    """
    if state.is_failed() and isinstance(state.result(raise_on_failure=False), TreasuryError):
        return
    log, given = flow_run_logger(flow_run), flow_run.parameters
    try:
        desk = open_desk(account_name(given.get("account")))
        for line in _what_left(desk, given.get("run_key"), given.get("out")):
            log.warning("%s", line)
    except TreasuryError as error:
        log.warning("what left of this run could not be read: %s", error)


def _what_left(desk: Desk, run_key: str | None, out: str | None) -> Iterator[str]:
    keys = _rounds_of_today(desk) if run_key is None else [run_key]
    if not any(desk.ledger.run(each) for each in keys):
        yield f"{run_key or 'today'}: nothing of it was recorded, so nothing left"
        return
    for each in keys:
        where = ""
        if run_key is not None:
            folder = desk.settings.run_folder(each) if out is None else Path(out)
            try:
                write_results_anew(desk, each, folder)
                where = f"results: {folder / 'results.csv'}; "
            except OSError as error:
                where = f"results could not be written: {error}; "
        with desk.ledger.each_order(each) as orders:
            counts = Counter(order.state.outcome for order in orders)
        said = in_words({"counts": {outcome: counts[outcome] for outcome in OUTCOMES if outcome in counts}})
        yield f"run {each}: {said}; {where}what was sent is asked about every night, and the same start sends the rest"


def _rounds_of_today(desk: Desk) -> list[str]:
    """The run keys of today's rounds of the rebalancing."""
    first = run_key_of_day(governing(desk).policy or Policy(), desk.clock.now())
    return list(dict.fromkeys(order.run_key for order in orders_of_day(desk, first)))


class Endings(TypedDict):
    """Options of a flow: what is called where it ends so."""

    on_cancellation: list[Any]
    on_crashed: list[Any]
    on_failure: list[Any]


ENDINGS = Endings(on_cancellation=[say_what_left], on_crashed=[say_what_left], on_failure=[say_what_left])
"""The hooks of flows that move money."""
