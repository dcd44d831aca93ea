"""Tasks of the nightly reconciliation: start the sweep, ask for every request id, compare, report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from blocks.files import file_at_hand
from blocks.notice import send_notice
from blocks.policy import policy_file
from tasks.artifacts import show_report
from tasks.stated import task
from treasury.planning.policy import Policy
from treasury.reconciliation.scope import Scope
from treasury.reports.notice import news_of
from treasury.runs import reporting, sweep
from treasury.runs.governing import governing
from treasury.sheets.statement import read_statement


class SweepPart(TypedDict):
    """Questions of a sweep that one task asks; plain values, because Prefect passes it between tasks."""

    sweep_id: int
    rows: str
    """Which ones, for people: `1-20000`, in the sequence they are asked."""
    ids: list[int]


@task(cache_policy=NO_CACHE, task_run_name="start sweep")
def start_sweep(scope: dict[str, Any], account: str | None = None, ask_all: bool = False) -> dict[str, Any]:
    """Record the questions of a sweep, or resume one that was cut off; read the balances."""
    return {"sweep_id": sweep.start_or_resume_sweep(open_desk(account), Scope(**scope), ask_all=ask_all)}


@task(cache_policy=NO_CACHE, task_run_name="find stored answers")
def stored_sweep(scope: dict[str, Any], account: str | None = None) -> dict[str, Any]:
    """The last sweep that was reported."""
    return {"sweep_id": sweep.stored_sweep(open_desk(account), Scope(**scope))}


def parts_of(started: Mapping[str, Any], account: str | None = None) -> list[SweepPart]:
    """The open questions of a sweep, in parts."""
    parts, first = [], 1
    for ids in sweep.open_chunks(open_desk(account), started["sweep_id"]):
        rows = f"{first}-{first + len(ids) - 1}"
        parts.append(SweepPart(sweep_id=started["sweep_id"], rows=rows, ids=ids))
        first += len(ids)
    return parts


@task(cache_policy=NO_CACHE, retries=1, task_run_name="ask {part[rows]}")
def ask_orders(part: SweepPart, account: str | None = None) -> dict[str, Any]:
    """Ask for every request id of a part; says how many could be asked."""
    return {"asked": f"{sweep.ask_orders(open_desk(account), part['ids'])} of {len(part['ids'])}"}


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
            third = read_statement(lines)
    report = reporting.report_sweep(open_desk(account), ended["sweep_id"], folder, rules, third)
    show_report(report)
    return report


@task(cache_policy=NO_CACHE, task_run_name="send notification")
def notify(report: Mapping[str, Any], block: str | None) -> bool:
    """Send one message through the notification block if there is anything new; returns whether it was sent."""
    news = news_of(report)
    return block is not None and news is not None and send_notice(block, news)
