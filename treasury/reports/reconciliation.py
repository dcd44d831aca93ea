"""The morning report: orders.csv, reconciliation.md and reconciliation.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treasury.money import format_amount
from treasury.reconciliation import BY_NAME, Reconciliation
from treasury.sheets.writing import write_csv, write_json, write_text

ORDER_COLUMNS = (
    *("request_id", "run_key", "row_ref", "operation", "class", "state", "currency", "amount"),
    *("receive_currency", "receive_amount", "answer", "status", "order_no", "seen_currency", "seen_amount"),
    *("seen_receive_currency", "seen_receive_amount", "fee", "seen_reason"),
)

SHOWN_BREAKS = 50
"""Breaks that the page shows; the CSV and JSON have all."""


def as_json(result: Reconciliation, as_of: str) -> dict[str, Any]:
    """The machine form: verdict, time, counts, breaks."""
    return {
        "verdict": result.verdict.value,
        "as_of": as_of,
        "counts": dict(result.counts),
        "breaks": [_break(record) for record in result.breaks.to_dict("records")],
    }


def _break(record: Mapping[Any, Any]) -> dict[str, Any]:
    amount = record["amount"] if record["amount"] is not None else record["seen_amount"]
    return {
        "id": record["id"],
        "request_id": record["request_id"],
        "class": record["class"],
        "currency": record["currency"] or record["seen_currency"],
        "amount": None if amount is None else format_amount(amount),
        "run_key": record["run_key"],
        "row_ref": record["row_ref"],
        "evidence": record["evidence"],
        "next_action": BY_NAME[record["class"]].next_action,
    }


def as_markdown(report: Mapping[str, Any]) -> str:
    """The page people read, from the machine form."""
    lines = [f"# Reconciliation: {report['verdict']}", "", f"As of {report['as_of']}.", ""]
    lines += ["| class | orders | meaning |", "|---|---:|---|"]
    lines += [f"| {name} | {count} | {BY_NAME[name].meaning} |" for name, count in report["counts"].items()]
    if not report["counts"]:
        lines.append("| (none) | 0 | the ledger holds no orders |")
    breaks = report["breaks"]
    if breaks:
        lines += [
            "",
            f"## {len(breaks)} to look at",
            "",
            "| break | class | amount | evidence | next |",
            "|---|---|---|---|---|",
        ]
        for each in breaks[:SHOWN_BREAKS]:
            money = f"{each['amount'] or ''} {each['currency'] or ''}".strip()
            row = (each["id"], each["class"], money, each["evidence"], each["next_action"])
            lines.append("| " + " | ".join(_cell(text) for text in row) + " |")
        if len(breaks) > SHOWN_BREAKS:
            lines.append(f"\n{len(breaks) - SHOWN_BREAKS} more in `orders.csv` and `reconciliation.json`.")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write_reconciliation(out: Path, result: Reconciliation, as_of: str) -> Mapping[str, Any]:
    """Write the three files into a folder; returns the machine form with their paths."""
    report = as_json(result, as_of)
    rows = ({column: record[column] for column in ORDER_COLUMNS} for record in result.orders.to_dict("records"))
    write_csv(out / "orders.csv", ORDER_COLUMNS, rows)
    write_text(out / "reconciliation.md", as_markdown(report))
    write_json(out / "reconciliation.json", report)
    names = ("orders.csv", "reconciliation.md", "reconciliation.json")
    return {**report, "files": [str(out / name) for name in names]}
