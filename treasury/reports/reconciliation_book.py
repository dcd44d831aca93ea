"""The reconciliation as a workbook: what a treasurer filters, sums and signs, and its charts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treasury.reports.figures import (
    AGES,
    BALANCE_LINES,
    JUDGEMENTS,
    LINES,
    MAX_ORDERS,
    Grid,
    Listed,
    ListedOrders,
    Machine,
    breaks_by_age,
    first_step,
    headline,
    in_words,
    orders_by_day,
    rate_spreads,
    reasons,
    scope_in_words,
    sort_breaks,
)
from treasury.reports.spreadsheets import Column, WrittenBook, set_widths
from treasury.texts import count_of

MAX_DAYS = 92

OUTCOME_COLORS: Mapping[str, str] = {
    "settled": "#2a9d8f",
    "in_progress": "#4a8fd8",
    "failed": "#c8453b",
    "closed": "#8b95a1",
    "rejected": "#e08a2e",
    "cancelled": "#a3785f",
    "held": "#8e63b5",
    "unknown": "#d4b106",
    "not_sent": "#c3cad3",
}

AGE_COLORS = ("#f2c9a5", "#e69a5c", "#cf6a26", "#8f3d0c")

_GRID = {"visible": True, "line": {"color": "#e3e7ec"}}

_CHART_ROWS = 17
"""Rows that one chart covers."""


@dataclass(frozen=True)
class _Block:
    """The place of a grid of figures: header row, first column, rows, columns."""

    row: int
    column: int
    rows: int
    columns: int


def add_figures(book: WrittenBook, machine: Machine, summary: Any, below: int) -> None:
    """Write the sheet Figures, and on the Summary, from row `below` on, a chart of each block that holds anything."""
    sheet = book.sheet("Figures")
    sheet.set_column(0, 40, 16)
    book.text(sheet, 0, 0, "What the charts of the Summary are drawn from.", book.note)
    days, ages = orders_by_day(machine, MAX_DAYS), breaks_by_age(machine)
    ages = Grid(ages.rows, tuple(AGES.get(age, age) for age in ages.columns), ages.cells)
    fees = [(each["currency"], float(each["bps"])) for each in machine["fees"] if each["bps"] is not None]
    rates = [(each.pair, float(each.lowest_bps), 0.0, float(each.highest_bps)) for each in rate_spreads(machine)]
    blocks = _write_side_by_side(
        book,
        sheet,
        [
            (("Day", *map(in_words, days.columns)), _rows_of(days)),
            (("Class", *ages.columns), _rows_of(ages)),
            (("Currency", "Fees, bps"), fees),
            (("Pair", "Lowest, bps", "Average", "Highest, bps"), rates),
        ],
    )
    charts = [
        _stacked(book, "column", "Orders by day", blocks[0], [OUTCOME_COLORS.get(n, "#57606a") for n in days.columns]),
        _stacked(book, "bar", "Breaks by class and age", blocks[1], AGE_COLORS),
        _fees(book, blocks[2]),
        _rates(book, blocks[3]),
    ]
    for (column, place, height), chart, block in zip(_places(len(ages.rows)), charts, blocks, strict=True):
        if block.rows:
            chart.set_size({"width": 700, "height": height})
            summary.insert_chart(below + place * _CHART_ROWS, column, chart)


def _places(classes: int) -> Sequence[tuple[int, int, int]]:
    """Return where the four charts go: column, how many charts beneath the first, height. The one by class stands
    alone."""
    return (0, 0, 320), (5, 0, min(1000, max(320, 130 + 24 * classes))), (0, 1, 320), (0, 2, 320)


def _rows_of(grid: Grid) -> list[tuple[Any, ...]]:
    return [(name, *cells) for name, cells in zip(grid.rows, grid.cells, strict=True)]


def _write_side_by_side(
    book: WrittenBook, sheet: Any, tables: Sequence[tuple[Sequence[str], Sequence[tuple[Any, ...]]]]
) -> list[_Block]:
    """Write tables beside each other, row by row; returns where each stands."""
    blocks, column = [], 0
    for titles, rows in tables:
        blocks.append(_Block(2, column, len(rows), len(titles) - 1))
        column += len(titles) + 1
    for line in range(max(len(rows) for _, rows in tables) + 1):
        for block, (titles, rows) in zip(blocks, tables, strict=True):
            cells = titles if line == 0 else rows[line - 1] if line <= len(rows) else ()
            for offset, cell in enumerate(cells):
                if isinstance(cell, str):
                    look = book.header if line == 0 else None
                    book.text(sheet, block.row + line, block.column + offset, cell, look)
                else:
                    sheet.write_number(block.row + line, block.column + offset, cell)
    return blocks


def _series(block: _Block, number: int) -> dict[str, Any]:
    first, last = block.row + 1, block.row + block.rows
    at = block.column + number
    return {
        "name": ["Figures", block.row, at],
        "categories": ["Figures", first, block.column, last, block.column],
        "values": ["Figures", first, at, last, at],
    }


def _stacked(book: WrittenBook, kind: str, title: str, block: _Block, colors: Sequence[str]) -> Any:
    chart = book.book.add_chart({"type": kind, "subtype": "stacked"})
    for number, color in zip(range(1, block.columns + 1), [*colors, *["#57606a"] * block.columns], strict=False):
        chart.add_series({**_series(block, number), "fill": {"color": color}, "gap": 40})
    chart.set_title({"name": title, "name_font": {"size": 12}, "overlay": False})
    chart.set_legend({"position": "bottom"})
    if kind == "bar":
        chart.set_y_axis({"reverse": True, "interval_unit": 1})  # every class has its name
        chart.set_x_axis({"num_format": "#,##0", "label_position": "high", "major_gridlines": _GRID})
    else:
        chart.set_y_axis({"num_format": "#,##0", "major_gridlines": _GRID})
    return chart


def _fees(book: WrittenBook, block: _Block) -> Any:
    chart = book.book.add_chart({"type": "column"})
    labels = {"value": True, "num_format": "0.##"}
    chart.add_series({**_series(block, 1), "fill": {"color": "#4a8fd8"}, "gap": 60, "data_labels": labels})
    chart.set_title({"name": "Effective fees, bps of the amounts", "name_font": {"size": 12}})
    chart.set_legend({"none": True})
    chart.set_y_axis({"major_gridlines": _GRID})
    return chart


def _rates(book: WrittenBook, block: _Block) -> Any:
    chart = book.book.add_chart({"type": "line"})
    for number, shape in ((1, "triangle"), (2, "square"), (3, "diamond")):
        marker = {"type": shape, "size": 7, "fill": {"color": "#1f5fa8"}, "border": {"color": "#1f5fa8"}}
        chart.add_series({**_series(block, number), "line": {"none": True}, "marker": marker})
    chart.set_high_low_lines({"line": {"color": "#1f5fa8"}})
    chart.set_title({"name": "Rates: lowest and highest, bps from the average", "name_font": {"size": 12}})
    chart.set_legend({"position": "bottom"})
    chart.set_x_axis({"label_position": "low"})
    chart.set_y_axis({"major_gridlines": _GRID})
    return chart


MAX_BREAKS = 100_000
"""Rows of Breaks, Accepted and Resolved: more nobody works through by hand; `reconciliation.json` has all."""

VERDICT_COLORS: Mapping[str, str] = {
    "incomplete": "#7a3e9d",
    "breaks": "#b42318",
    "warnings": "#8a5a00",
    "pending": "#1f5fa8",
    "reconciled": "#1a7f4b",
}

BREAKS = (
    Column("Break", "id", 16),
    Column("Class", "class", 22),
    Column("Severity", "severity", 10),
    Column("Currency", "currency", 10),
    Column("Amount", "amount", 21, "money"),
    Column("Difference", "difference", 21, "money"),
    Column("Days", "age_days", 7, "count"),
    Column("Age", "age_bucket", 10),
    Column("First seen (UTC)", "first_seen", 20, "time"),
    Column("Lifecycle", "lifecycle", 12),
    Column("Run", "run_key", 20),
    Column("Row", "row_ref", 16),
    Column("Operation", "operation", 22),
    Column("Order number", "order_no", 24),
    Column("Request id", "request_id", 36),
    Column("Evidence", "evidence", 70),
    Column("Next action", "next_action", 50),
)

ACCEPTED = (
    *BREAKS[:1],
    Column("Accepted by", "by", 18),
    Column("Why", "why", 40),
    Column("Accepted at (UTC)", "at", 20, "time"),
    *BREAKS[1:],
)

ORDERS = (
    Column("Request id", "request_id", 36),
    Column("Run", "run_key", 20),
    Column("Row", "row_ref", 16),
    Column("Operation", "operation", 22),
    Column("Class", "class", 20),
    Column("State", "state", 12),
    Column("Status", "status", 10),
    Column("Currency", "currency", 10),
    Column("Amount", "amount", 21, "money"),
    Column("Receive currency", "receive_currency", 16),
    Column("Receive amount", "receive_amount", 21, "money"),
    Column("Fee currency", "seen_fee_currency", 13),
    Column("Fee", "seen_fee", 21, "money"),
    Column("Rate", "seen_rate", 21, "money"),
    Column("Order number", "order_no", 24),
    Column("Made (UTC)", "created_at", 20, "time"),
    Column("Sent (UTC)", "sent_at", 20, "time"),
    Column("Final (UTC)", "final_at", 20, "time"),
)

STATEMENT = (Column("Currency", "currency"), Column("Line", "line", 24), Column("Amount", "amount", 22, "money"))
BALANCES = (*STATEMENT, Column("Judgement", "judgement", 34), Column("Note", "note", 70))


def write_workbook(path: Path, machine: Machine, orders: ListedOrders, meanings: Mapping[str, str]) -> None:
    """Write `reconciliation.xlsx`.

    `machine`: the machine form of the reconciliation. `meanings`: what each class means; a class that is not in it has
    none. The same inputs give the same bytes.

    Every amount is a number and, beside it, its exact text, because a spreadsheet's number holds 15 digits. Always:
    with one rule nobody has to know which cells are exact.
    """
    book = WrittenBook(path, machine["as_of"])
    parts = sort_breaks(machine)
    summary, below = write_summary(book, machine, meanings)
    _list_breaks(book, "Breaks", "to clear, by priority and then amount", BREAKS, parts.open)
    _list_breaks(book, "Accepted", "accepted by a person, who answers for it", ACCEPTED, parts.accepted)
    _list_breaks(book, "Resolved", "resolved since the last report", BREAKS, parts.resolved)
    write_statement(book, machine)
    _list_orders(book, "In flight", "not final, the oldest first", orders.flying)
    _list_orders(book, "Matched", "on which both sides agree, the newest first", orders.matched)
    settings = ({"name": name, "value": value} for name, value in sorted(machine["settings"].items()))
    columns = (Column("Setting", "name", 36), Column("Value", "value", 60))
    book.list_sheet("Settings", "The tolerances and limits this report was made with.", columns, settings)
    add_figures(book, machine, summary, below)
    book.finish()


def write_summary(book: WrittenBook, machine: Machine, meanings: Mapping[str, str]) -> tuple[Any, int]:
    """The first sheet: verdict, what to do first, counts and sums. Returns it, and its first row free for charts."""
    sheet = book.sheet("Summary")
    sheet.set_tab_color(VERDICT_COLORS.get(machine["verdict"], "#57606a"))
    sheet.fit_to_pages(1, 1)
    sheet.hide_gridlines(2)
    sheet.set_column(0, 0, 26)
    sheet.set_column(1, len(LINES), 21)
    look = {"bold": True, "font_size": 16, "font_color": "#ffffff", "valign": "vcenter", "indent": 1}
    verdict = book.book.add_format({**look, "bg_color": VERDICT_COLORS.get(machine["verdict"], "#57606a")})
    sheet.set_row(0, 32)
    for column in range(len(LINES) + 1):
        sheet.write_blank(0, column, None, verdict)
    book.text(sheet, 0, 0, f"{in_words(machine['verdict']).upper()}: {headline(machine)}", verdict)
    row = 2
    for name, value in _facts(machine):
        book.text(sheet, row, 0, name, book.header)
        book.text(sheet, row, 1, value)
        row += 1
    row = _write_counts(book, sheet, row + 1, machine, meanings)
    return sheet, _write_sums(book, sheet, row + 1, machine) + 1


def _facts(machine: Machine) -> Iterator[tuple[str, str]]:
    if machine["rehearsal"]:
        yield "Note", machine["rehearsal"]
    yield "As of (UTC)", machine["as_of"]
    yield "Since (UTC)", machine["since"] or "the first report of this scope"
    yield "Scope", scope_in_words(machine)
    start = first_step(machine)
    if start is not None:
        money = f"{start['amount'] or ''} {start['currency'] or ''}".strip()
        named = " ".join(part for part in (start["id"], in_words(start["class"]), money) if part)
        yield "Begin with", f"{named}: {start['next_action']}"
    for reason in reasons(machine):
        yield "Note", reason


def _write_counts(book: WrittenBook, sheet: Any, row: int, machine: Machine, meanings: Mapping[str, str]) -> int:
    book.text(sheet, row, 0, "Orders per class", book.title)
    for column, (title, look) in enumerate(
        (("Class", book.header), ("Orders", book.number_header), ("Meaning", book.header))
    ):
        book.text(sheet, row + 1, column, title, look)
    row += 2
    for name, count in machine["counts"].items():
        book.text(sheet, row, 0, name)
        book.count(sheet, row, 1, count)
        book.text(sheet, row, 2, meanings.get(name), book.indented)
        row += 1
    if not machine["counts"]:
        book.text(sheet, row, 0, "The ledger holds no orders here.", book.note)
        row += 1
    return row


def _write_sums(book: WrittenBook, sheet: Any, row: int, machine: Machine) -> int:
    book.text(sheet, row, 0, "Sums per currency", book.title)
    book.text(sheet, row + 1, 0, "Rounded to 15 digits; the sheet Statement has the exact text.", book.note)
    book.text(sheet, row + 2, 0, "Currency", book.header)
    for column, title in enumerate(LINES.values(), 1):
        book.text(sheet, row + 2, column, title, book.number_header)
    row += 3
    for line in machine["statement"]:
        book.text(sheet, row, 0, line["currency"])
        for column, key in enumerate(LINES, 1):
            book.money(sheet, row, column, line[key])
        row += 1
    return row


def write_statement(book: WrittenBook, machine: Machine) -> None:
    """The statement of orders, a line an amount, and beneath it the balance proof."""
    sheet = book.sheet("Statement")
    sheet.fit_to_pages(1, 0)
    set_widths(sheet, BALANCES)
    book.text(sheet, 0, 0, "Orders per currency. The residual is 0, or the verdict is incomplete.", book.note)
    lines = _lines(machine["statement"], LINES, {})
    below = book.table(sheet, 1, STATEMENT, lines)
    sheet.freeze_panes(2, 0)
    sheet.repeat_rows(1)
    sheet.autofilter(1, 0, below - 1, 3)
    book.text(sheet, below + 1, 0, "Balance proof", book.title)
    said = "The service's balances since their accounts were opened, against what the orders explain."
    book.text(sheet, below + 2, 0, said, book.note)
    book.table(sheet, below + 3, BALANCES, _lines(machine["balances"], BALANCE_LINES, JUDGEMENTS))


def _lines(
    records: Iterable[Mapping[str, Any]], lines: Mapping[str, str], judgements: Mapping[str, str]
) -> Iterator[Mapping[str, Any]]:
    for record in records:
        judged = record.get("judgement")
        for key, line in lines.items():
            yield {
                "currency": record["currency"],
                "line": line,
                "amount": record[key],
                "judgement": judgements.get(str(judged), judged),
                "note": record.get("note"),
            }


def _list_breaks(
    book: WrittenBook, name: str, what: str, columns: Sequence[Column], breaks: Sequence[Mapping[str, Any]]
) -> None:
    note = f"{count_of(len(breaks), 'break')} {what}."
    if len(breaks) > MAX_BREAKS:
        note += f" The first {MAX_BREAKS:,} are here; reconciliation.json has all."
    rows = ({**each, **(each["accepted"] or {})} for each in breaks[:MAX_BREAKS])
    book.list_sheet(name, note, columns, rows)


def _list_orders(book: WrittenBook, name: str, what: str, listed: Listed) -> None:
    note = f"{count_of(listed.count, 'order')} {what}."
    if listed.count > MAX_ORDERS:
        note += f" The first {MAX_ORDERS:,} are here; orders.csv has all."
    book.list_sheet(name, note, ORDERS, listed.first(MAX_ORDERS, [column.key for column in ORDERS]))
