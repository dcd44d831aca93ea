"""The findings of a backtest, for people: a table as rows of text, and a plot of idle money and shortfalls by day."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

from treasury.money import canonical, round_up
from treasury.planning.backtest import PolicyResult

HEAD = ("Policy", "Nights", "Days short", "Short", "Mean idle", "Trades", "Cost", "Cost, bps", "Worst day")
COLORS = ("#1f5fa8", "#e08a2e", "#2a9d8f", "#8e63b5", "#c8453b", "#8b95a1")
WIDTH, HEIGHT = 9.0, 5.0
"""Inches of the plot."""


def backtest_rows(results: Sequence[PolicyResult], base_asset: str) -> list[tuple[str, ...]]:
    """The head and a row for each policy. Values are in the base asset, what is short in its own."""
    head = [f"{title}, {base_asset}" if title in {"Mean idle", "Cost"} else title for title in HEAD]
    return [tuple(head), *(_row(each, base_asset) for each in results)]


def backtest_table(results: Sequence[PolicyResult], base_asset: str) -> str:
    """Return the table as lines of text: the first column to the left, numbers to the right."""
    rows = backtest_rows(results, base_asset)
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def _row(result: PolicyResult, base_asset: str) -> tuple[str, ...]:
    worst = result.worst_day
    return (
        result.policy,
        str(len(result.days)),
        str(result.days_short),
        ", ".join(f"{canonical(amount)} {asset}" for asset, amount in result.short.items()) or "-",
        f"{result.mean_idle:,.2f}",
        str(result.trades),
        f"{result.cost:,.2f}",
        "-" if result.cost_bps is None else canonical(result.cost_bps),
        "-" if worst is None else f"{worst.day} ({canonical(round_up(worst.short_value, 2))} {base_asset} short)",
    )


def plot_backtest(results: Sequence[PolicyResult], base_asset: str) -> str:
    """One SVG: above, what each policy held idle by day; beneath, what it left short. Always the same text."""
    from matplotlib import rc_context
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    out = io.StringIO()
    settings: Mapping[Any, Any] = {"svg.hashsalt": "backtest", "svg.fonttype": "none", "text.parse_math": False}
    with rc_context({**settings, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        idle, short = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        for number, result in enumerate(results):
            color = COLORS[number % len(COLORS)]
            days = [each.day for each in result.days]
            idle.plot(days, [float(each.idle) for each in result.days], color=color, label=result.policy)
            short.plot(
                days, [float(each.short_value) for each in result.days], color=color, drawstyle="steps-mid", linewidth=1
            )
        idle.set_title(f"Held beyond what was paid, {base_asset}", loc="left", fontsize=11)
        short.set_title(f"Not covered, {base_asset}", loc="left", fontsize=11)
        for axes in (idle, short):
            axes.grid(axis="y", color="#e3e7ec")
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter("{x:,.0f}")
        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        short.xaxis.set_major_locator(locator)
        short.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        idle.legend(frameon=False, loc="best")
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return out.getvalue()
