"""Prefect artifacts of a run: a page and a table, under stable keys."""

import logging
from collections.abc import Mapping
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from treasury.reports.reconciliation import SHOWN_BREAKS, as_markdown
from treasury.reports.results import BAD_OUTCOMES, MAX_SHOWN_ROWS, in_words, rows_for_people, run_as_markdown
from treasury.runs.desk import Desk

LOG = logging.getLogger("treasury")

MAX_TOLD_ROWS = 20
"""Most rows that the run's log names; the table and `results.csv` have all."""


def show_run(desk: Desk, key: str, summary: Mapping[str, Any]) -> None:
    """Show a run's totals as a page and its rows as a table, rows that need a person first."""
    create_markdown_artifact(run_as_markdown(summary), key=key, description=f"Run {summary['run_key']}")
    with desk.ledger.each_order(summary["run_key"]) as orders:
        rows = rows_for_people(orders)
    create_table_artifact(rows, key=f"{key}-rows", description=f"Rows of {summary['run_key']}")
    LOG.info("run %s: %s", summary["run_key"], in_words(summary))
    for row in rows[:MAX_TOLD_ROWS]:
        if row["outcome"] in BAD_OUTCOMES:
            LOG.info("%s %s: %s; next: %s", row["row_ref"], row["outcome"], row["reason"], row["next_action"])


def show_users(summary: Mapping[str, Any], provisioned: Mapping[str, str]) -> None:
    """Show what became of card users as a page and a table, without their links."""
    counts = [
        "| outcome | users |",
        "|---|---:|",
        *(f"| {name} | {count} |" for name, count in summary["counts"].items()),
    ]
    create_markdown_artifact("\n".join(counts) + "\n", key="provision-card-users", description="Card users")
    rows = [{"user_xid": user, "outcome": outcome} for user, outcome in provisioned.items()]
    create_table_artifact(rows[:MAX_SHOWN_ROWS], key="provision-card-users-rows", description="Card users")


def show_report(report: Mapping[str, Any]) -> None:
    """Show a reconciliation: verdict and statement as a page, the first breaks as a table."""
    create_markdown_artifact(as_markdown(report), key="reconciliation", description=f"Verdict: {report['verdict']}")
    create_table_artifact(
        [dict(each) for each in report["breaks"][:SHOWN_BREAKS]],
        key="reconciliation-breaks",
        description=f"{len(report['breaks'])} to look at",
    )
