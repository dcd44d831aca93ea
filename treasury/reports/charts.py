"""The plots of the reconciliation page: SVG whose colours are the page's, so that it is readable in the dark."""

import io
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from treasury.reports.figures import AGES, Grid, Machine, breaks_by_age, in_words, orders_by_day, rate_spreads
from treasury.sheets.writing import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_DAYS = 31
_MIN_DAYS = 10
"""Room for so many bars even when there are fewer: one day is not a wall."""

MAX_BARS = 15
"""Currencies and pairs that are drawn; the table under each plot has all."""

WIDTH = 5.0
"""Inches of 72 units: 360 units, about a phone's width, so that the letters stay readable there."""

COLORS = (
    *("settled", "in_progress", "failed", "closed", "rejected", "cancelled", "held", "unknown", "not_sent", "other"),
    *("age-0", "age-1", "age-2", "age-3", "accent", "line"),
)
"""Names of the page's colours: the style sheet defines each as `--c-<name>`, once for light and once for dark."""

_HEX = {name: f"#0000{place + 16:02x}" for place, name in enumerate(COLORS)}
"""What stands for a colour while matplotlib draws, which knows no variables."""

_VARIABLES = {code: f"var(--c-{name})" for name, code in _HEX.items()}

_SETTINGS: Mapping[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a "$" in a name is a "$"
    "font.size": 11.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": _HEX["line"],
    "axes.axisbelow": True,
    "grid.color": _HEX["line"],
    "xtick.color": _HEX["line"],
    "ytick.color": _HEX["line"],
    "xtick.labelcolor": "black",  # black is not written out: the style sheet decides
    "ytick.labelcolor": "black",
    "ytick.major.size": 0,
}


def outcome_color(outcome: str) -> str:
    """The name of an outcome's colour."""
    return outcome if outcome in COLORS else "other"


def age_color(bucket: str) -> str:
    """The name of an age bucket's colour: the older the stronger."""
    return f"age-{list(AGES).index(bucket)}" if bucket in AGES else "other"


def draw_charts(machine: Machine) -> Mapping[str, str]:
    """Draw what there is: name of the plot -> one `<svg>` element. The same machine form gives the same text.

    Names: `days`, `ages`, `fees`, `rates`; a plot without data is not in the answer.
    """
    days, ages = orders_by_day(machine, MAX_DAYS), breaks_by_age(machine)
    fees = [each for each in machine["fees"] if each["bps"] is not None][:MAX_BARS]
    spreads = rate_spreads(machine)[:MAX_BARS]
    drawn = {
        "days": _svg("days", 3.0, lambda axes: _draw_days(axes, days)) if days.rows else "",
        "ages": _svg("ages", _height(len(ages.rows)), lambda axes: _draw_ages(axes, ages)) if ages.rows else "",
        "fees": _svg("fees", _height(len(fees)), lambda axes: _draw_fees(axes, fees)) if fees else "",
        "rates": _svg("rates", _height(len(spreads)), lambda axes: _draw_rates(axes, spreads)) if spreads else "",
    }
    return {name: svg for name, svg in drawn.items() if svg}


def _height(bars: int) -> float:
    return max(1.5, 0.7 + 0.3 * bars)


def _draw_days(axes: "Axes", days: Grid) -> None:
    below = [0] * len(days.rows)
    places = range(len(days.rows))
    for number, outcome in enumerate(days.columns):
        heights = [cells[number] for cells in days.cells]
        axes.bar(places, heights, bottom=below, width=0.8, color=_HEX[outcome_color(outcome)])
        below = [low + height for low, height in zip(below, heights, strict=True)]
    step = max(1, -(-len(days.rows) // 6))
    ticks = list(places)[::-step][::-1]  # counted from the last day, which people look for
    axes.set_xticks(ticks, [_day(days.rows[tick]) for tick in ticks])
    axes.set_xlim(min(0, len(days.rows) - _MIN_DAYS) - 0.6, len(days.rows) - 0.4)
    axes.grid(axis="y")
    axes.locator_params(axis="y", integer=True)
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _day(text: str) -> str:
    day = date.fromisoformat(text)
    return f"{day.day} {day:%b}"


def _draw_ages(axes: "Axes", ages: Grid) -> None:
    left = [0] * len(ages.rows)
    for number, age in enumerate(ages.columns):
        widths = [cells[number] for cells in ages.cells]
        axes.barh(range(len(widths)), widths, left=left, height=0.7, color=_HEX[age_color(age)])
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for row, total in enumerate(left):
        axes.annotate(f"{total:,}", (total, row), xytext=(4, 0), textcoords="offset points", va="center")
    _name_rows(axes, [in_words(name) for name in ages.rows])
    axes.set_xlim(0, max(left) * 1.12)
    axes.locator_params(axis="x", integer=True)
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _draw_fees(axes: "Axes", fees: Sequence[Mapping[str, Any]]) -> None:
    values = [float(each["bps"]) for each in fees]
    axes.barh(range(len(values)), values, height=0.6, color=_HEX["accent"])
    for row, each in enumerate(fees):
        place = (max(values[row], 0.0), row)
        axes.annotate(f"{each['bps']} bps", place, xytext=(4, 0), textcoords="offset points", va="center")
    _name_rows(axes, [each["currency"] for each in fees])
    low, high = min(0.0, *values), max(0.0, *values)
    axes.set_xlim(low, low + ((high - low) or 1.0) * 1.35)


def _draw_rates(axes: "Axes", spreads: Sequence[Any]) -> None:
    for row, each in enumerate(spreads):
        low, high = float(each.lowest_bps), float(each.highest_bps)
        axes.plot([low, high], [row, row], color=_HEX["accent"], linewidth=3, solid_capstyle="round")
        axes.plot([low, high], [row, row], color=_HEX["accent"], marker="o", markersize=6, linestyle="none")
    axes.axvline(0, color=_HEX["other"], linewidth=1, linestyle="--")
    _name_rows(axes, [each.pair for each in spreads])
    reach = max(1.0, *(abs(float(bps)) for each in spreads for bps in (each.lowest_bps, each.highest_bps))) * 1.15
    axes.set_xlim(-reach, reach)
    axes.set_xlabel("bps from the average")


def _name_rows(axes: "Axes", names: Sequence[str]) -> None:
    shown = [name if len(name) <= 24 else name[:23] + "…" for name in map(printable, names)]
    axes.set_yticks(range(len(shown)), shown)
    axes.set_ylim(len(shown) - 0.4, -0.6)  # the first on top
    axes.grid(axis="x")


def _svg(name: str, height: float, draw: Any) -> str:
    """Draw one plot of this height (inches) as SVG."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    out = io.StringIO()
    with rc_context({**_SETTINGS, "svg.hashsalt": name}), warnings.catch_warnings():
        # A name in letters that matplotlib's own font lacks: it only measures them, the browser draws them.
        warnings.filterwarnings("ignore", "Glyph")
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure.subplots())
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    return _for_the_page(out.getvalue())


def _for_the_page(drawn: str) -> str:
    """The SVG as part of a page: no style of its own, which the page's security policy forbids, and its colours."""
    root = ET.fromstring(drawn)  # noqa: S314  # our own drawing, of a moment ago
    for parent in root.iter():
        for child in [each for each in parent if each.tag.endswith("}style")]:
            parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        attributes = dict(element.attrib)
        element.attrib.clear()
        for key, value in attributes.items():
            element.attrib.update(_attribute(element.tag, key.rpartition("}")[2], value))
    for size in ("width", "height"):
        del root.attrib[size]
    root.attrib |= {"aria-hidden": "true", "focusable": "false"}
    return ET.tostring(root, encoding="unicode")


def _attribute(tag: str, key: str, value: str) -> Mapping[str, str]:
    if key == "style":
        styles = (part.partition(":")[::2] for part in value.split(";"))
        return {
            name.strip(): _VARIABLES.get(said.strip(), said.strip())
            for name, said in styles
            if name.strip() != "font-family"  # the page's own
        }
    if key == "id" and tag == "g":
        return {}  # matplotlib's names for its parts repeat from plot to plot
    return {key: value}
