"""Whole runs and nights at a desk, without Prefect."""

import csv
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from tests.engine import paying
from tests.proofs import ALL
from treasury.ledger.closing import mark_written
from treasury.ledger.kept_breaks import accept_break
from treasury.nights import sweep
from treasury.nights.reporting import judge_sweep, report_sweep
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.policy.model import Policy
from treasury.reconciliation.scope import Scope
from treasury.reports.machine import as_machine
from treasury.sheets.statement import read_statement

HEADER = (
    "row_ref,route,amount,currency,settle_currency,payout_method,account_no,account_name,country,bank_code,phone,email,"
    "duplicate_ok"
)


def sheet(folder: Path, *rows: tuple[str, str, str], name: str = "rows.csv", why: str = "") -> Path:
    """A beneficiaries file of direct rows: reference, amount, account; `why` goes into `duplicate_ok`."""
    lines = [
        f"{ref},direct,{amount},USDT_TRC20,IDR,bank_transfer,{account},Example Person,ID,1000120,"
        f"0812000,p@b.example,{why}"
        for ref, amount, account in rows
    ]
    file = folder / name
    file.write_text("\n".join([HEADER, *lines]) + "\n")
    return file


def pay(desk: Desk, file: Path, out: Path, run_key: str = "run", seconds: float = 10) -> dict[str, Any]:
    chunks = paying.commit(desk, file, run_key)
    for ids in chunks:
        execution.send_orders(desk, run_key, ids)
    execution.follow_orders(desk, run_key, [order for ids in chunks for order in ids], seconds)
    return dict(paying.write(desk, run_key, out))


def results(out: Path) -> dict[str, dict[str, str]]:
    with (out / "results.csv").open() as file:
        return {row["row_ref"]: row for row in csv.DictReader(file)}


def night(
    desk: Desk,
    out: Path,
    scope: Scope = Scope(),
    statement: Path | None = None,
    *,
    accepts: bool = True,
    ask_all: bool = False,
    files: bool = False,
) -> dict[str, Any]:
    """A whole night; somebody accepts the openings of the balance accounts, which are left out of what it returns.

    `files`: for a test that reads what is written; drawing the page takes longer than all the rest. In the proofs every
    night writes its files.
    """
    sweep_id = sweep.start_or_resume_sweep(desk, scope, ask_all=ask_all)
    for ids in sweep.open_parts(desk, sweep_id).values():
        sweep.ask_orders(desk, ids)
    sweep.end_sweep(desk, sweep_id)
    report = remake(desk, sweep_id, out, statement, files=files)
    if not accepts:
        return report
    new = [each for each in report["breaks"] if each["class"] == "opening" and not each["accepted"]]
    for each in new:
        accept_break(desk.ledger, each["id"], by="Ana", os_user="ana", why="as the service shows it")
    return without_opening(remake(desk, sweep_id, out, statement, files=files) if new else report)


def without_opening(report: dict[str, Any]) -> dict[str, Any]:
    """The report without the accepted opening of its accounts."""
    breaks = [each for each in report["breaks"] if each["class"] != "opening" or not each["accepted"]]
    counts = {name: count for name, count in report["counts"].items() if name != "opening"}
    return report | {"breaks": breaks, "counts": counts}


def remake(
    desk: Desk, sweep_id: int, out: Path, statement: Path | None = None, *, files: bool = False
) -> dict[str, Any]:
    rules = governing(desk, None).policy or Policy()
    third = None if statement is None else read_statement(statement, ZoneInfo(rules.time_zone))
    if files or ALL:
        return dict(report_sweep(desk, sweep_id, out, rules, third))
    judged = judge_sweep(desk, sweep_id, rules, third)
    mark_written(desk.ledger, sweep_id)  # as if its files were
    return as_machine(judged)
