"""The charts of the workbook: the figures on a sheet of their own, drawn by the spreadsheet program itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treasury.reports.cells import WrittenBook
from treasury.reports.figures import AGES, Grid, Machine, breaks_by_age, in_words, orders_by_day, rate_spreads

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
