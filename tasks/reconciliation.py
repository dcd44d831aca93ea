"""Tasks of the nightly reconciliation: start the sweep, ask for every request id, compare, report."""

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypedDict
from zoneinfo import ZoneInfo

from prefect.cache_policies import NO_CACHE
from prefect.task_runners import TaskRunner

from blocks.desk import open_desk
from blocks.files import file_at_hand
from blocks.notice import send_notice
from blocks.policy import policy_file
from tasks.artifacts import show_report
from tasks.outcomes import unless_rejected
from tasks.runners import WorkerProcesses, is_lost, running, show_lost, submitted
from tasks.stated import task
from treasury.concurrency.batches import batched
from treasury.nights import reporting, sweep
from treasury.payments.governing import governing
from treasury.policy.model import Policy
from treasury.reconciliation.scope import Scope
from treasury.reports.notice import news_of
from treasury.sheets.statement import read_statement

LOG = logging.getLogger("treasury")


class SweepPart(TypedDict):
    """Questions of a sweep that one task asks; plain values, because Prefect passes it between tasks."""

    sweep_id: int
    rows: str
    """Which ones, for people: `1-2000`, in the sequence they are asked."""
    parts: dict[int, list[int]]
    """Their ids, by the number of the part that is claimed for them."""
    start: int
    """When this start of the sweep made its parts, Unix ms."""


@task(cache_policy=NO_CACHE, task_run_name="start sweep")
def start_sweep(scope: dict[str, Any], account: str | None = None, ask_all: bool = False) -> dict[str, Any]:
    """Record the questions of a sweep, or resume one that was cut off; read the balances."""
    desk = open_desk(account)
    return {"sweep_id": sweep.start_or_resume_sweep(desk, sweep.check_scope(desk, Scope(**scope)), ask_all=ask_all)}


@task(cache_policy=NO_CACHE, task_run_name="find stored answers")
def stored_sweep(scope: dict[str, Any], account: str | None = None) -> dict[str, Any]:
    """The last sweep that was reported."""
    desk = open_desk(account)
    return {"sweep_id": sweep.stored_sweep(desk, sweep.check_scope(desk, Scope(**scope)))}


def parts_of(started: Mapping[str, Any], account: str | None = None) -> list[SweepPart]:
    """The open questions of a sweep, by task: the share of a process, or less."""
    desk, first, found = open_desk(account), 1, []
    start, parts = desk.ledger.now(), sweep.open_parts(desk, started["sweep_id"])
    size = min(sweep.PARTS_PER_TASK, -(-len(parts) // desk.settings.processes))
    for some in batched(parts, size):
        asked = {number: parts[number] for number in some}
        last = first + sum(map(len, asked.values())) - 1
        found.append(SweepPart(sweep_id=started["sweep_id"], rows=f"{first}-{last}", parts=asked, start=start))
        first = last + 1
    return found


def runner_of_sweep(scope: dict[str, Any], account: str | None = None) -> AbstractContextManager[TaskRunner[Any]]:
    """Run the task runner that asks the parts of a sweep."""
    return running(sweep.likely_questions(open_desk(account), Scope(**scope)), __name__)


PATIENCE_SECONDS = 60.0
"""How long a part that a process of another start is asking is waited for, in the end."""


@task(cache_policy=NO_CACHE, retries=1, retry_condition_fn=unless_rejected, task_run_name="ask {part[rows]}")
def ask_orders(part: SweepPart, account: str | None = None, patience_seconds: float | None = None) -> dict[str, Any]:
    """Ask for every request id that nobody has asked yet, or is asking; says how many are answered then."""
    answered = sweep.ask_parts(open_desk(account), part["parts"], part["start"], patience_seconds)
    return {"asked": f"{answered} of {sum(map(len, part['parts'].values()))}"}


def ask_parts(runner: TaskRunner[Any], started: Mapping[str, Any], account: str | None = None) -> list[Any]:
    """Ask a sweep's parts on a runner; what no worker has asked in the end, this process asks.

    Returns what the end of the sweep waits for. Raises `RunHeld` when a process of another start is asking a part.
    """
    desk, parts = open_desk(account), parts_of(started, account)
    asked = [submitted(runner, ask_orders, started, part=part, account=account) for part in parts]
    if isinstance(runner, WorkerProcesses):
        for part in reversed(parts):  # this process begins at the other end, while the others start
            sweep.ask_parts(desk, dict(reversed(part["parts"].items())), part["start"])
    lost = [future for future in asked if is_lost(future)]
    left = [part for part in parts if sweep.has_open(desk, part["parts"], part["start"])]
    if left:
        LOG.warning("questions %s were left: this process asks them", ", ".join(part["rows"] for part in left))
    again = [ask_orders(part, account, PATIENCE_SECONDS, wait_for=[started]) for part in left]
    show_lost(lost)
    return [*(future for future in asked if future not in lost), *again]


@task(cache_policy=NO_CACHE, task_run_name="end sweep")
def end_sweep(started: Mapping[str, Any], account: str | None = None) -> dict[str, Any]:
    """Read the balances again and draw the statement."""
    sweep.end_sweep(open_desk(account), started["sweep_id"])
    return {"sweep_id": started["sweep_id"]}


@task(cache_policy=NO_CACHE, task_run_name="write pandas report")
def write_report(
    ended: Mapping[str, Any], out: str | None, policy: str | None, statement: str | None, account: str | None = None
) -> Mapping[str, Any]:
    """Compare both sides, write the report, and show it in Prefect; returns its machine form."""
    rules = governing(open_desk(account), None if policy is None else policy_file(policy)).policy or Policy()
    folder, third = None if out is None else Path(out), None
    if statement is not None:
        with file_at_hand(statement) as lines:
            third = read_statement(lines, ZoneInfo(rules.time_zone))
    report = reporting.report_sweep(open_desk(account), ended["sweep_id"], folder, rules, third)
    show_report(report)
    return report


@task(cache_policy=NO_CACHE, task_run_name="send notification")
def notify(report: Mapping[str, Any], block: str | None) -> bool:
    """Send one message through the notification block if there is anything new; returns whether it was sent."""
    news = news_of(report)
    return block is not None and news is not None and send_notice(block, news)
