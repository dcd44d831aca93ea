"""Prefect artifacts of a run: a page and a table, under stable keys."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from treasury.errors import ApprovalNeeded
from treasury.ledger.approvals import standing_of, waiting_plan
from treasury.pay.preview import gaps_of
from treasury.payments.approving import note_of, rules_of
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.reports.figures import sort_breaks
from treasury.reports.plan import as_markdown as plan_as_markdown
from treasury.reports.plan import preview_page, waiting_page
from treasury.reports.reconciliation import SHOWN_BREAKS, as_markdown
from treasury.reports.results import BAD_OUTCOMES, MAX_SHOWN_ROWS, in_words, rows_for_people, run_as_markdown
from treasury.reports.round_page import as_markdown as rebalancing_as_markdown

LOG = logging.getLogger("treasury")


@contextmanager
def shown(what: str) -> Iterator[None]:
    """Make artifacts inside. What Prefect's server does not take is one line of the log, and changes nothing: what a
    run did and what it ends with do not depend on it."""
    try:
        yield
    except Exception as error:
        LOG.warning("%s could not be shown in Prefect: %s", what, type(error).__name__)


MAX_TOLD_ROWS = 20
"""Most rows that the run's log names; the table and `results.csv` have all."""


def show_run(desk: Desk, key: str, summary: Mapping[str, Any]) -> None:
    """Show a run's totals as a page and its rows as a table, rows that need a person first."""
    said = f"Run {summary['run_key']}: {in_words(summary)}"
    with desk.ledger.each_order(summary["run_key"]) as orders:
        rows = rows_for_people(orders, is_listed=bool(governing(desk).people))
    with shown(f"run {summary['run_key']}"):
        create_markdown_artifact(run_as_markdown(summary), key=key, description=said)
        create_table_artifact(rows, key=f"{key}-rows", description=f"Rows of {summary['run_key']}")
    LOG.info("run %s: %s", summary["run_key"], in_words(summary))
    for row in rows[:MAX_TOLD_ROWS]:
        if row["outcome"] in BAD_OUTCOMES:
            LOG.info("%s %s: %s; next: %s", row["row_ref"], row["outcome"], row["reason"], row["next_action"])


@contextmanager
def shown_while_it_waits(desk: Desk, run_key: str) -> Iterator[None]:
    """Show the plan of a run as a page when it has to wait for approvals."""
    try:
        yield
    except ApprovalNeeded:
        plan = waiting_plan(desk.ledger, run_key)
        if plan is not None:
            judged, _ = standing_of(desk.ledger, plan, rules_of(desk, plan))
            page = plan_as_markdown(waiting_page(plan, judged, note_of(desk, plan)))
            with shown(f"the plan of {run_key}"):
                create_markdown_artifact(page, key="waiting-plan", description=f"Plan of {run_key} waits for approval")
        raise


def show_preview(desk: Desk, planned: Mapping[str, Any]) -> None:
    """Show a plan that is about to be proposed as a page; names and accounts are masked there."""
    page = plan_as_markdown(preview_page(planned, desk.ledger.now()))
    with shown(f"the plan of {planned['run_key']}"):
        create_markdown_artifact(page, key="plan", description=f"Plan of {planned['run_key']}")
    for gap in gaps_of(planned):
        LOG.warning("run %s: not funded: %s are missing", planned["run_key"], gap)


def show_rebalancing(run_key: str, decisions: Mapping[str, Any]) -> None:
    """Show what a round of a rebalancing decided, asset by asset, as a page."""
    page = rebalancing_as_markdown(run_key, decisions["decided"])
    with shown(f"decisions of {run_key}"):
        create_markdown_artifact(page, key="rebalancing", description=f"Decisions of {run_key}")


def show_users(summary: Mapping[str, Any], provisioned: Mapping[str, str]) -> None:
    """Show what became of card users as a page and a table, without their links."""
    counts = [
        "| outcome | users |",
        "|---|---:|",
        *(f"| {name} | {count} |" for name, count in summary["counts"].items()),
    ]
    rows = [{"user_xid": user, "outcome": outcome} for user, outcome in provisioned.items()]
    with shown("card users"):
        create_markdown_artifact("\n".join(counts) + "\n", key="provision-card-users", description="Card users")
        create_table_artifact(rows[:MAX_SHOWN_ROWS], key="provision-card-users-rows", description="Card users")


def show_report(report: Mapping[str, Any]) -> None:
    """Show a reconciliation: verdict and statement as a page, the first breaks as a table."""
    page, rows = as_markdown(report), [dict(each) for each in report["breaks"][:SHOWN_BREAKS]]
    to_look_at = f"{len(sort_breaks(report).open)} to look at"
    with shown("the report"):
        create_markdown_artifact(page, key="reconciliation", description=f"Verdict: {report['verdict']}")
        create_table_artifact(rows, key="reconciliation-breaks", description=to_look_at)
