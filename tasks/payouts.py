"""Tasks of a payout run: check, record, fetch fiat quotes, create payouts, write results."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypedDict

from prefect import task
from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from blocks.policy import policy_file
from tasks.artifacts import show_preview, show_run, shown_while_it_waits
from tasks.outcomes import unless_rejected
from treasury.approving.tokens import read_token
from treasury.planning.payouts import PayoutPlan
from treasury.reports.plan import MAX_ROWS
from treasury.runs import agreeing, approving, execution, payouts
from treasury.runs.desk import Desk
from treasury.runs.fills import Done
from treasury.runs.parts import Part, split_run
from treasury.runs.preview import look


class Source(TypedDict):
    """The source of a run's payments; passed from task to task."""

    file: str
    sheet: str | None
    """Which one of a workbook."""
    run_key: str
    policy: str | None
    """A TOML file or block:NAME that names the policy in force."""
    out: str | None
    """Folder of its results."""
    add: bool
    """Whether rows that the run does not have are added to it."""
    valid_rows_only: bool
    """Whether the others are left out."""
    fund: bool
    """Whether what it lacks is converted before it is paid."""
    shown: str | None
    """Of a run that is funded: the hash of the plan that was shown, which is agreed to, and no other."""


@task(
    cache_policy=NO_CACHE,
    retries=1,
    retry_condition_fn=unless_rejected,
    task_run_name="read beneficiaries {source[run_key]}",
)
def read_beneficiaries(source: Source, account: str | None = None) -> Source:
    """Validate every row against the interface, the limits and the account. A wrong sheet comes back corrected."""
    desk = open_desk(account)
    with _corrected(desk, source):
        plan = plan_of(desk, source)
    payouts.log_plan(plan)
    folder = folder_of(source) or desk.settings.run_folder(source["run_key"])
    payouts.keep_left_out(folder, _file(source), plan, source["sheet"])
    return source


@task(cache_policy=NO_CACHE, task_run_name="check payees {source[run_key]}")
def check_payees(source: Source, account: str | None = None) -> Source:
    """Count new and changed payees, and payments that look like earlier ones, into the run's log."""
    desk = open_desk(account)
    payouts.check_payees(desk, plan_of(desk, source))
    return source


@task(cache_policy=NO_CACHE, retries=1, retry_condition_fn=unless_rejected, task_run_name="preview {source[run_key]}")
def preview(source: Source, account: str | None = None, proposal: str | None = None) -> Source:
    """Ask the service what it offers, and show what is to be paid, unless this process has shown it.

    A run that is funded is planned with its conversions, unless a plan of it was shown and agreed to before, or signed
    by its maker. Raises `InvalidSheet` for rows that the service would refuse; the sheet then comes back corrected.
    """
    desk = open_desk(account)
    payments, shown = plan_of(desk, source), source["shown"]
    if source["fund"] and shown is None and proposal is not None:
        shown = agreeing.shown_and_signed(desk, payments, proposal, add=source["add"])
    if shown is None:
        plan = agreeing.plan_to_execute(desk, payments, add=source["add"], fund=source["fund"])
    else:
        plan = agreeing.plan_as_shown(desk, payments, shown, add=source["add"])
    if plan is not None and plan.sha256 not in desk.looked_at:
        with _corrected(desk, source):
            show_preview(desk, look(desk, plan, _file(source), in_full=len(plan.rows) <= MAX_ROWS))
    return {**source, "shown": (plan or payments).sha256 if source["fund"] else None}


@task(cache_policy=NO_CACHE, task_run_name="propose {source[run_key]}")
def propose_payouts(source: Source, account: str | None = None, proposal: str | None = None) -> Source:
    """Record the plan if its policy asks for approvals, and show it. Raises `ApprovalNeeded` while it has too few."""
    desk = open_desk(account)
    with shown_while_it_waits(desk, source["run_key"]):
        plan, limits = plan_of(desk, source), limits_of(source)
        agreeing.propose_payouts(desk, plan, limits, proposal, add=source["add"], shown=source["shown"])
    return source


@task(cache_policy=NO_CACHE, task_run_name="approve {run_key}")
def approve_plan(
    run_key: str, approved_by: str | None, account: str | None = None, token: str | None = None
) -> list[str]:
    """Approve the plan of a run that waits, by a token or a typed name; returns whose approvals count."""
    given = read_token(token) if token else None
    return list(approving.approve(open_desk(account), run_key, name=approved_by or "", token=given).judged.counted)


@task(cache_policy=NO_CACHE, task_run_name="record {source[run_key]}")
def record_payouts(source: Source, account: str | None = None) -> list[Part]:
    """Record the intent to pay each row of a file; returns the orders to send or follow, in parts."""
    desk, run_key = open_desk(account), source["run_key"]
    limits, rows = limits_of(source), _rows(source)
    chunks = payouts.commit_payouts(desk, _file(source), run_key, limits, **rows, shown=source["shown"])
    return split_run(desk, run_key, [each for ids in chunks for each in ids])


@task(cache_policy=NO_CACHE, task_run_name="send payouts {part[rows]}")
def send_payouts(part: Part, account: str | None = None) -> dict[str, Any]:
    """Send these payouts, each at most once; returns how many the service has now."""
    sent = execution.send_orders(open_desk(account), part["run_key"], part["ids"])
    return {"rows": part["rows"], "sent": sent, "ids": part["ids"]}


@task(cache_policy=NO_CACHE, task_run_name="fetch fiat quotes {part[rows]}")
def fetch_fiat_quotes(part: Part, account: str | None = None) -> dict[str, Any]:
    """Fetch quotes for these payouts and confirm none; returns how many came before the first grew old."""
    asked = execution.fetch_quotes(open_desk(account), part["run_key"], part["ids"])
    return {"rows": part["rows"], "quotes": asked}


@task(cache_policy=NO_CACHE, task_run_name="create payouts {part[rows]}")
def create_payouts(part: Part, quotes: Mapping[str, Any], account: str | None = None) -> dict[str, Any]:  # noqa: ARG001 - an edge
    """Judge each quote and confirm it inside the bounds, each payout at most once; asks for new quotes if needed."""
    sent = execution.send_orders(open_desk(account), part["run_key"], part["ids"])
    return {"rows": part["rows"], "sent": sent, "ids": part["ids"]}


@task(cache_policy=NO_CACHE, task_run_name="write results {source[run_key]}")
def write_payout_results(
    source: Source,
    followed: Mapping[str, Any] | None,  # noqa: ARG001 - an edge
    account: str | None = None,
    converted: Sequence[Done] = (),
) -> Mapping[str, Any]:
    """Write `results.csv` and `run.json`, and show them in Prefect; returns their summary.

    `converted`: the rounds of conversions that this start made.
    """
    desk, file, run_key = open_desk(account), _file(source), source["run_key"]
    rows = _rows(source)
    summary = payouts.write_payout_results(desk, file, run_key, folder_of(source), **rows, converted=converted)
    show_run(desk, "pay-beneficiaries", summary)
    return summary


def plan_of(desk: Desk, source: Source) -> PayoutPlan:
    """The payments of a run."""
    return payouts.plan_of(desk, _file(source), source["run_key"], limits_of(source), **_rows(source))


def _corrected(desk: Desk, source: Source) -> AbstractContextManager[None]:
    return payouts.corrected_copy(desk, _file(source), source["run_key"], folder_of(source), source["sheet"])


def _file(source: Source) -> Path:
    return Path(source["file"])


def _rows(source: Source) -> dict[str, Any]:
    """Which rows of the file are taken."""
    return {"sheet": source["sheet"], "add": source["add"], "valid_rows_only": source["valid_rows_only"]}


def folder_of(source: Source) -> Path | None:
    """Return where its results go, where that is named."""
    return None if source["out"] is None else Path(source["out"])


def limits_of(source: Source) -> Path | None:
    """The file of the policy that is named for it."""
    return None if source["policy"] is None else policy_file(source["policy"])
