"""A month of the balance accounts: page, workbook, `month.json`, and `entries.csv` for the books."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from treasury.files import write_json, write_text
from treasury.reconciliation.months import Booking, MonthLine
from treasury.reports.machine import time_text
from treasury.reports.markup import amount, rendered
from treasury.reports.spreadsheets import PlainBook
from treasury.sheets.writing import write_csv

COLUMNS: Mapping[str, str] = {
    "currency": "currency",
    "opening": "opening",
    "received": "received",
    "paid": "paid",
    "fees": "fees",
    "returned": "returned",
    "adjustments": "adjustments",
    "closing": "closing",
    "shown": "shown by the service",
    "difference": "in flight or not explained",
}
"""Field of an account's line -> its title."""

ENTRY_COLUMNS = ("id", "at", "currency", "kind", "amount", "reference", "run_key", "row_ref", "order_no")

CONTROL_COLUMNS = ("control", "acted")


def write_month(
    out: Path,
    month: str,
    time_zone: str,
    lines: Sequence[MonthLine],
    entries: Sequence[Booking],
    controls: Mapping[str, int],
) -> Mapping[str, Any]:
    """Write the files of a month into a folder; return its machine form with their paths.

    `controls`: control -> how often it acted.
    """
    machine: dict[str, Any] = {"month": month, "time_zone": time_zone, "entries": len(entries)}
    machine |= {"accounts": [line.as_text() for line in lines], "controls": dict(controls)}
    write_csv(out / "entries.csv", ENTRY_COLUMNS, _rows(entries))
    book = PlainBook(out / "month.xlsx")
    for name, columns, rows in (
        ("Accounts", tuple(COLUMNS), [line.as_values() for line in lines]),
        ("Entries", ENTRY_COLUMNS, list(_rows(entries))),
        ("Controls", CONTROL_COLUMNS, [dict(zip(CONTROL_COLUMNS, each, strict=True)) for each in controls.items()]),
    ):
        book.add(name, columns, rows, dict.fromkeys(columns, 20))
    book.finish()
    page = rendered("month.html.j2", machine=machine, columns=COLUMNS, amount=amount)
    write_text(out / "month.html", page)
    write_json(out / "month.json", machine)
    names = ("month.html", "month.xlsx", "entries.csv", "month.json")
    return {**machine, "files": [str(out / name) for name in names]}


def _rows(entries: Sequence[Booking]) -> Iterator[dict[str, object]]:
    for each in entries:
        values = {**vars(each), "kind": each.kind.value, "at": time_text(each.at)}
        yield {name: values[name] for name in ENTRY_COLUMNS}
