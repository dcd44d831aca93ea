"""Tasks of the nightly reconciliation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect import task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from treasury.reports.reconciliation import SHOWN_BREAKS, as_markdown
from treasury.runs import sweep


@task(cache_policy=NO_CACHE)
def start_sweep(run_key: str | None, window_days: int | None, account: str | None = None) -> int:
    """Record what is to be asked; the sweep's id."""
    return sweep.start_sweep(open_desk(account), run_key=run_key, window_days=window_days)


@task(cache_policy=NO_CACHE)
def open_chunks(sweep_id: int, account: str | None = None) -> list[list[int]]:
    """What a sweep has not asked yet, in chunks."""
    return sweep.open_chunks(open_desk(account), sweep_id)


@task(cache_policy=NO_CACHE, retries=1)
def ask_orders(ids: list[int], account: str | None = None) -> int:
    """Ask about these orders; how many could be asked."""
    return sweep.ask_orders(open_desk(account), ids)


@task(cache_policy=NO_CACHE)
def write_report(sweep_id: int, out: str | None, account: str | None = None) -> Mapping[str, Any]:
    """Compare both sides and write the report; its machine form."""
    return sweep.report_sweep(open_desk(account), sweep_id, None if out is None else Path(out))


@task(cache_policy=NO_CACHE)
def publish_report(report: Mapping[str, Any]) -> None:
    """Show the report in Prefect: the page as Markdown, what is to be looked at as a table."""
    create_markdown_artifact(as_markdown(report), key="reconciliation", description=f"Verdict: {report['verdict']}")
    create_table_artifact(
        [dict(each) for each in report["breaks"][:SHOWN_BREAKS]],
        key="reconciliation-breaks",
        description=f"{len(report['breaks'])} orders to look at",
    )
