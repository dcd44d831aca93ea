"""Tasks of the nightly reconciliation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from blocks.notice import send_notice
from blocks.policy import policy_file
from treasury.planning.policy import Policy
from treasury.policy_file import read_policy
from treasury.reconciliation.scope import Scope
from treasury.reports.reconciliation import SHOWN_BREAKS, as_markdown
from treasury.runs import reporting, sweep
from treasury.sheets.statement import read_statement


@task(cache_policy=NO_CACHE)
def start_sweep(scope: dict[str, Any], account: str | None = None) -> int:
    """Record what is to be asked, or find what a sweep that was cut off left; the sweep's id."""
    return sweep.start_sweep(open_desk(account), Scope(**scope))


@task(cache_policy=NO_CACHE)
def stored_sweep(scope: dict[str, Any], account: str | None = None) -> int:
    """The last sweep that was reported; its id."""
    return sweep.stored_sweep(open_desk(account), Scope(**scope))


@task(cache_policy=NO_CACHE)
def open_chunks(sweep_id: int, account: str | None = None) -> list[list[int]]:
    """What a sweep has not asked yet, in chunks."""
    return sweep.open_chunks(open_desk(account), sweep_id)


@task(cache_policy=NO_CACHE)
def show_progress(percent: float, artifact: str | None = None) -> str:
    """Show in Prefect how much has been asked; the id of the progress artifact."""
    if artifact is None:
        return str(create_progress_artifact(percent, key="reconciliation-progress", description="Orders asked"))
    update_progress_artifact(UUID(artifact), percent)
    return artifact


@task(cache_policy=NO_CACHE, retries=1)
def ask_orders(ids: list[int], account: str | None = None) -> int:
    """Ask about these orders; how many could be asked."""
    return sweep.ask_orders(open_desk(account), ids)


@task(cache_policy=NO_CACHE)
def end_sweep(sweep_id: int, account: str | None = None) -> None:
    """Read the balances again and draw the statement."""
    sweep.end_sweep(open_desk(account), sweep_id)


@task(cache_policy=NO_CACHE)
def write_report(
    sweep_id: int, out: str | None, policy: str | None, statement: str | None, account: str | None = None
) -> Mapping[str, Any]:
    """Compare both sides and write the report; its machine form."""
    rules = Policy() if policy is None else read_policy(policy_file(policy))
    entries = [] if statement is None else read_statement(Path(statement))
    return reporting.report_sweep(open_desk(account), sweep_id, None if out is None else Path(out), rules, entries)


@task(cache_policy=NO_CACHE)
def publish_report(report: Mapping[str, Any]) -> None:
    """Show the report in Prefect: verdict and statement as Markdown, the first breaks as a table."""
    create_markdown_artifact(as_markdown(report), key="reconciliation", description=f"Verdict: {report['verdict']}")
    create_table_artifact(
        [dict(each) for each in report["breaks"][:SHOWN_BREAKS]],
        key="reconciliation-breaks",
        description=f"{len(report['breaks'])} to look at",
    )


@task(cache_policy=NO_CACHE)
def notify(report: Mapping[str, Any], block: str | None) -> bool:
    """Tell whoever the notification block tells, once, if there is anything new; whether it was told."""
    return send_notice(block, report)
