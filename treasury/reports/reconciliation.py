"""The morning report: workbook, page, orders.csv, reconciliation.md and reconciliation.json; with the extra
`parquet`, orders.parquet, too."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treasury.files import copy_file, write_json, write_text
from treasury.reconciliation.classes import BY_NAME
from treasury.reports.figures import ListedOrders, before_all, sort_breaks
from treasury.reports.machine import ORDER_COLUMNS, TIMES, as_machine, meanings, time_text
from treasury.reports.starts import end_start, start_folder
from treasury.sheets.writing import csv_file, safe_cell
from treasury.texts import count_of, without_markup

if TYPE_CHECKING:
    import pandas as pd

    from treasury.reconciliation.report import Report

SHOWN_BREAKS = 50
"""Breaks of a kind that the Markdown page shows; the other files have all."""


def as_markdown(report: Mapping[str, Any]) -> str:
    """The page people read in Prefect, from the machine form."""
    since = f", since {report['since']}" if report["since"] else ""
    lines = [f"# Reconciliation: {report['verdict']}", "", f"As of {report['as_of']}{since}.", ""]
    said = before_all(report)
    lines += [*said, ""] if said else []
    lines += [report["rehearsal"], ""] if report["rehearsal"] else []
    lines += ["| class | orders | meaning |", "|---|---:|---|"]
    lines += [f"| {name} | {count} | {BY_NAME[name].meaning} |" for name, count in report["counts"].items()]
    if not report["counts"]:
        lines.append("| (none) | 0 | the ledger holds no orders |")
    if report["statement"]:
        lines += ["", "## Statement of orders", "", *_table(STATEMENT_COLUMNS, report["statement"])]
    if report["balances"]:
        lines += ["", "## Balances", "", *_table(BALANCE_COLUMNS, report["balances"])]
    if report.get("card_users"):
        lines += ["", "## Card users", "", *_table(FUNNEL_COLUMNS, [{**report["card_users"], **_funnel(report)}])]
    if report.get("money_in"):
        lines += ["", "## Money in", "", *_table(MONEY_IN_COLUMNS, [_money_in(report)])]
    found = sort_breaks(report)
    for words, breaks, columns in (
        ("to look at", found.open, BREAK_COLUMNS),
        ("accepted", found.accepted, ACCEPTED_COLUMNS),
        ("resolved", found.resolved, BREAK_COLUMNS),
    ):
        lines += _breaks(words, breaks, columns)
    return "\n".join(lines) + "\n"


def _breaks(words: str, breaks: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> Iterator[str]:
    if breaks:
        yield from ("", f"## {len(breaks)} {words}", "")
        said: list[Mapping[str, Any]] = [
            {**each, **(each["accepted"] or {}), "money": _money(each)} for each in breaks[:SHOWN_BREAKS]
        ]
        yield from _table(columns, said)
    if len(breaks) > SHOWN_BREAKS:
        yield f"\n{len(breaks) - SHOWN_BREAKS} more in the workbook, `orders.csv` and `reconciliation.json`."


def _funnel(report: Mapping[str, Any]) -> dict[str, str]:
    found = report["card_users"]
    counts = ", ".join(f"{count} {words}" for words, count in found["counts"].items())
    return {"counts": counts, "unused": ", ".join(found["unused"]) or "nobody"}


def _money_in(report: Mapping[str, Any]) -> dict[str, str]:
    found = report["money_in"]
    said = {kind: ", ".join(f"{n} {words}" for words, n in found[kind].items()) for kind in ("invoices", "deposits")}
    days = found["oldest_unpaid_days"]
    return {**said, "oldest": "" if days is None else count_of(days, "day")}


MONEY_IN_COLUMNS = {"invoices": "invoices", "deposits": "deposits", "oldest": "oldest unpaid invoice"}

FUNNEL_COLUMNS = {
    "created": "known",
    "handed_in": "handed in data",
    "passed": "passed",
    "counts": "by status",
    "median_hours": "median hours to pass",
    "unused": "link not used",
}

STATEMENT_COLUMNS = {
    "currency": "currency",
    "opening_in_flight": "opening in flight",
    "sent": "sent",
    "arrived": "arrived",
    "fees": "fees",
    "failed_and_returned": "failed and returned",
    "closing_in_flight": "closing in flight",
    "residual": "residual",
    "fees_beside": "fees beside",
}

BALANCE_COLUMNS = {
    "currency": "currency",
    "opening": "opening",
    "closing": "closing",
    "change": "change",
    "unexplained": "unexplained",
    "judgement": "judgement",
}

BREAK_COLUMNS = {
    "id": "break",
    "class": "class",
    "money": "amount",
    "lifecycle": "is",
    "evidence": "evidence",
    "next_action": "next",
}

ACCEPTED_COLUMNS = {
    "id": "break",
    "class": "class",
    "money": "amount",
    "by": "accepted by",
    "why": "why",
    "evidence": "evidence",
}


def _table(columns: Mapping[str, str], rows: list[Mapping[str, Any]]) -> Iterator[str]:
    yield "| " + " | ".join(columns.values()) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(_cell(row[name]) for name in columns) + " |"


def _money(each: Mapping[str, Any]) -> str:
    return f"{each['amount'] or ''} {each['currency'] or ''}".strip()


def _cell(value: object) -> str:
    return "" if value is None else without_markup(str(value))


FILES = (
    "reconciliation.html",
    "reconciliation.xlsx",
    "orders.csv",
    "reconciliation.json",
    "reconciliation.md",
)


@contextmanager
def orders_file(out: Path) -> Iterator["OrdersFile"]:
    """Open `orders.csv` of this start, to which orders are added while they are compared."""
    with csv_file(start_folder(out) / "orders.csv", ORDER_COLUMNS) as write:
        yield OrdersFile(write)


class OrdersFile:
    """`orders.csv`, and the orders that workbook and page list."""

    def __init__(self, write: Callable[[Iterable[Sequence[str]]], None]) -> None:
        self._write = write
        self.listed = ListedOrders()

    def add(self, orders: "pd.DataFrame") -> None:
        """Add compared orders: the columns that are shown, times as text."""
        import pandas as pd

        shown = orders[list(ORDER_COLUMNS)].copy()
        for name in TIMES:
            texts = [None if at is None else time_text(int(at)) for at in orders[name]]
            shown[name] = pd.Series(texts, index=shown.index, dtype=object)
        self._write(zip(*(map(safe_cell, shown[name]) for name in ORDER_COLUMNS), strict=True))
        self.listed.add(shown)


def write_reconciliation(out: Path, report: "Report", orders: ListedOrders) -> Mapping[str, Any]:
    """Write the files into the folder of this start, and as the newest; returns the machine form with their paths.

    `orders`: those that workbook and page list; `orders.csv` is in the folder of this start already.
    """
    from treasury.reports.page import write_page
    from treasury.reports.reconciliation_book import write_workbook

    machine, own = as_machine(report), start_folder(out)
    write_workbook(own / "reconciliation.xlsx", machine, orders, meanings())
    write_page(own / "reconciliation.html", machine, orders, meanings())
    write_text(own / "reconciliation.md", as_markdown(machine))
    write_json(own / "reconciliation.json", machine)
    names = list(FILES)
    if find_spec("pyarrow") is not None:
        from treasury.reports.order_frames import write_parquet

        write_parquet(own / "orders.csv", own / "orders.parquet")
        names.append("orders.parquet")
    for name in names:
        copy_file(own / name, out / name)
    end_start()
    return {**machine, "files": [str(out / name) for name in names]}
