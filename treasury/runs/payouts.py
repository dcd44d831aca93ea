"""Paying a spreadsheet: the rows in, intents committed, results out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treasury.desk import Desk
from treasury.planning.payouts import PayoutPlan, plan_payouts
from treasury.reports.results import summarize_run, write_run_results
from treasury.runs.execution import CHUNK, check_run_key, open_orders
from treasury.sheets.beneficiaries import read_beneficiaries

KIND = "payout"


def read_plan(file: Path, run_key: str) -> PayoutPlan:
    """Validate a beneficiaries file and plan its payment. Raises `InvalidSheet`; touches neither ledger nor service."""
    return plan_payouts(run_key, read_beneficiaries(file))


def commit_payouts(desk: Desk, file: Path, run_key: str) -> list[list[int]]:
    """Record the intent to pay every row of a file; returns ids of what is to be sent, in chunks.

    Raises `InvalidSheet`, `RunKeyConflict`, `RunHeld`.
    """
    plan = read_plan(file, check_run_key(run_key))
    with desk.hold(run_key):
        summary = {key: value for key, value in plan.as_dict().items() if key != "rows"}
        desk.ledger.commit_plan(run_key, KIND, summary, plan.sha256, plan.intents)
        ids = open_orders(desk, run_key, (intent.row_ref for intent in plan.intents))
    return [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]


def write_payout_results(desk: Desk, file: Path, run_key: str, out: Path | None) -> Mapping[str, Any]:
    """Write `results.csv` and `run.json` for the rows of a file; returns the summary that `run.json` holds."""
    out = out or desk.settings.run_folder(run_key)
    wanted = {row.row_ref for row in read_beneficiaries(file)}
    orders = [order for order in desk.ledger.orders(run_key=run_key) if order.row_ref in wanted]
    summary = summarize_run(run_key, KIND, orders)
    return write_run_results(out, summary, orders)
