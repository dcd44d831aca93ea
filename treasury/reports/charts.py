"""The plots of the reconciliation page with their words and numbers, as SVG in the page's colours.

A plot is bars, lines, dots and labels in units of the drawing, from the numbers of the machine form; the template
`chart.svg.j2` writes them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any
from unicodedata import east_asian_width

from markupsafe import Markup

from treasury.reports.figures import AGES, Grid, Machine, Spread, breaks_by_age, in_words, orders_by_day, rate_spreads
from treasury.reports.markup import amount, rendered
from treasury.sheets.writing import printable

MAX_DAYS = 31
_MIN_DAYS = 10
"""Room for so many bars even when there are fewer: one day is not a wall."""

MAX_BARS = 15
"""Currencies and pairs that are drawn; the table under each plot has all."""

WIDTH = 360
"""Units of a drawing's width, about a phone's, so that the letters stay readable there."""

LETTER, CAPITAL, WIDE = 6.2, 8.4, 12.0
"""Units of the width of a small letter or digit, a capital, and a letter of Chinese or Japanese, about."""
MOST_LETTERS = 24
"""Letters of a name that are drawn."""
ROW = 22
"""Units of a bar that lies, and the room below it."""
FOOT = 24
"""Units under a plot for the words of its axis."""

COLORS = (
    *("settled", "in_progress", "failed", "closed", "rejected", "cancelled", "held", "unknown", "not_sent", "other"),
    *("age-0", "age-1", "age-2", "age-3", "accent", "line"),
)
"""Names of the page's colours: the style sheet defines each as `--c-<name>`, once for light and once for dark."""


@dataclass(frozen=True)
class Bar:
    """A bar from its upper left corner."""

    x: float
    y: float
    width: float
    height: float
    color: str


@dataclass(frozen=True)
class Rule:
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float
    color: str = "line"
    width: float = 0.8
    dashed: bool = False


@dataclass(frozen=True)
class Dot:
    """The end of a range."""

    x: float
    y: float
    color: str


@dataclass(frozen=True)
class Label:
    """A text; `anchor`: `start`, `middle` or `end`."""

    x: float
    y: float
    text: str
    anchor: str = "start"


@dataclass
class Drawing:
    """The parts of a plot, in units."""

    height: float
    width: float = WIDTH
    lines: list[Rule] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)


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
        "days": draw_days(days) if days.rows else None,
        "ages": draw_ages(ages) if ages.rows else None,
        "fees": draw_fees(fees) if fees else None,
        "rates": draw_rates(spreads) if spreads else None,
    }
    return {name: rendered("chart.svg.j2", chart=each) for name, each in drawn.items() if each is not None}


def draw_days(days: Grid) -> Drawing:
    """Draw a bar that stands for each day, its outcomes one upon the other; the days from left to right."""
    drawing, top, foot = Drawing(216), 8.0, 216.0 - FOOT
    most = max(sum(cells) for cells in days.cells)
    ticks = _ticks(most)
    left = 10 + _width(f"{ticks[-1]:,}")
    unit = (foot - top) / (most * 1.05)
    for tick in ticks:
        y = _round(foot - tick * unit)
        drawing.lines.append(Rule(left, y, WIDTH, y))
        drawing.labels.append(Label(left - 5, y + 4, f"{tick:,}", "end"))
    room = (WIDTH - left) / max(len(days.rows), _MIN_DAYS)
    start = WIDTH - room * len(days.rows)
    step = max(1, -(-len(days.rows) // 6))
    for number, (day, cells) in enumerate(zip(days.rows, days.cells, strict=True)):
        x, y = _round(start + room * (number + 0.1)), foot
        for outcome, count in zip(days.columns, cells, strict=True):
            y -= count * unit
            if count:
                bar = Bar(x, _round(y), _round(room * 0.8), _round(count * unit), outcome_color(outcome))
                drawing.bars.append(bar)
        if (len(days.rows) - 1 - number) % step == 0:  # counted from the last day, which people look for
            middle = min(x + room * 0.4, WIDTH - 20)
            drawing.labels.append(Label(_round(middle), foot + 16, _day(day), "middle"))
    return drawing


def draw_ages(ages: Grid) -> Drawing:
    """Draw a lying bar for each class, its ages one beside the other, and the number behind it."""
    names = _names(in_words(name) for name in ages.rows)
    totals = [sum(cells) for cells in ages.cells]
    behind = _width(f"{max(totals):,}") + 10
    drawing, left, unit = _lying(names, behind, 0, max(totals))
    _ticked(drawing, left, unit, _ticks(max(totals)))
    for row, (cells, total) in enumerate(zip(ages.cells, totals, strict=True)):
        x = left
        for age, count in zip(ages.columns, cells, strict=True):
            if count:
                drawing.bars.append(_bar(x, row, count * unit, age_color(age)))
            x += count * unit
        drawing.labels.append(Label(_round(x + 4), _middle(row) + 4, f"{total:,}"))
    return drawing


def draw_fees(fees: Sequence[Mapping[str, Any]]) -> Drawing:
    """Draw a lying bar for each currency: the fees in basis points of what arrived, and the number behind it."""
    values, said = [float(each["bps"]) for each in fees], [f"{each['bps']} bps" for each in fees]
    low, high = min(0.0, *values), max(0.0, *values)
    drawing, left, unit = _lying(_names(each["currency"] for each in fees), max(map(_width, said)) + 10, low, high)
    zero = left - low * unit
    drawing.lines.append(Rule(_round(zero), 4, _round(zero), drawing.height - FOOT))
    for row, (value, text) in enumerate(zip(values, said, strict=True)):
        drawing.bars.append(_bar(zero + min(value, 0.0) * unit, row, abs(value) * unit, "accent"))
        drawing.labels.append(Label(_round(zero + max(value, 0.0) * unit + 4), _middle(row) + 4, text))
    return drawing


def draw_rates(spreads: Sequence[Spread]) -> Drawing:
    """Draw the range of each pair's rates around its average, in basis points of that."""
    most = max(1.0, *(abs(float(bps)) for each in spreads for bps in (each.lowest_bps, each.highest_bps)))
    reach = most * 1.15
    drawing, left, unit = _lying(_names(each.pair for each in spreads), 6, -reach, reach)
    zero, foot = _round(left + reach * unit), drawing.height - FOOT
    drawing.lines.append(Rule(zero, 4, zero, foot, "other", 1, dashed=True))
    for row, each in enumerate(spreads):
        y = _middle(row)
        ends = [_round(zero + float(bps) * unit) for bps in (each.lowest_bps, each.highest_bps)]
        drawing.lines.append(Rule(ends[0], y, ends[1], y, "accent", 3))
        drawing.dots += [Dot(x, y, "accent") for x in ends]
    drawing.labels.append(Label(zero, foot + 16, "bps from the average", "middle"))
    for bps in (-most, most):
        drawing.labels.append(Label(_round(zero + bps * unit), foot + 16, f"{bps:,.0f}", "middle"))
    return drawing


def _lying(names: Sequence[str], behind: float, low: float, high: float) -> tuple[Drawing, float, float]:
    """Return a drawing with a name before each row, where its bars begin, and the width of one of their units."""
    drawing = Drawing(6.0 + ROW * len(names) + FOOT)
    left = max(map(_width, names)) + 8
    for row, name in enumerate(names):
        drawing.labels.append(Label(_round(left - 6), _middle(row) + 4, name, "end"))
    return drawing, left, (WIDTH - left - behind) / ((high - low) or 1.0)


def _ticked(drawing: Drawing, left: float, unit: float, ticks: Iterable[int]) -> None:
    foot = drawing.height - FOOT
    for tick in ticks:
        x = _round(left + tick * unit)
        drawing.lines.append(Rule(x, 4, x, foot))
        drawing.labels.append(Label(x, foot + 16, f"{tick:,}", "middle"))


def _bar(x: float, row: int, width: float, color: str) -> Bar:
    return Bar(_round(x), _middle(row) - 7, _round(width), 14, color)


def _middle(row: int) -> float:
    return 6.0 + ROW * row + ROW / 2


def _ticks(most: int) -> Sequence[int]:
    """Return whole numbers from 0 on for an axis that reaches `most`: three to five, each so many times 1, 2 or 5."""
    step = next(step for step in _steps() if most / step <= 4)
    return range(0, most + 1, step)


def _steps() -> Iterator[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _width(text: str) -> float:
    """Return about how wide a text is, in units."""
    return sum(WIDE if east_asian_width(each) in "WF" else CAPITAL if each.isupper() else LETTER for each in text)


def _names(names: Iterable[str]) -> Sequence[str]:
    return [name if len(name) <= MOST_LETTERS else name[: MOST_LETTERS - 1] + "…" for name in map(printable, names)]


def _day(text: str) -> str:
    day = date.fromisoformat(text)
    return f"{day.day} {day:%b}"


def _round(value: float) -> float:
    """Return it to a hundredth of a unit: more digits only make the page longer."""
    return round(value, 2)


@dataclass(frozen=True)
class Plot:
    """A plot. `svg`: the drawing. `head`, `rows`: its numbers. `legend`: label and name of the page's colour."""

    name: str
    title: str
    note: str
    svg: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    legend: Sequence[tuple[str, str]] = ()


def plots_of(machine: Machine) -> Sequence[Plot]:
    """The plots for which there is anything to draw."""
    drawn = draw_charts(machine)
    plots = (_days(machine), _ages(machine), _fees(machine), _rates(machine))
    return [
        replace(plot, svg=Markup(drawn[plot.name]))  # noqa: S704  # our own drawing, in which names are escaped
        for plot in plots
        if plot.name in drawn
    ]


def _days(machine: Machine) -> Plot:
    days = orders_by_day(machine, MAX_DAYS)
    legend = [(in_words(outcome), outcome_color(outcome)) for outcome in days.columns]
    note = f"By the day they were made and what became of them; at most the last {MAX_DAYS} days."
    head = ["Day", *(label for label, _ in legend)]
    return Plot("days", "Orders by day", note, "", head, _rows(days, days.rows), legend)


def _ages(machine: Machine) -> Plot:
    ages = breaks_by_age(machine)
    legend = [(AGES.get(age, age), age_color(age)) for age in ages.columns]
    note = "Those that stand, the most urgent class first."
    head = ["Class", *(label for label, _ in legend)]
    return Plot("ages", "Breaks by class and age", note, "", head, _rows(ages, map(in_words, ages.rows)), legend)


def _fees(machine: Machine) -> Plot:
    rows = [(each["currency"], f"{each['orders']:,}", *_money(each), amount(each["bps"])) for each in machine["fees"]]
    head = ("Currency", "Orders", "Amounts", "Fees", "bps")
    note = "Of what arrived: in basis points of the amounts, fees inside them included."
    return Plot("fees", "Effective fees", note, "", head, rows)


def _money(each: Mapping[str, Any]) -> Iterable[str]:
    return (amount(each[name], each["currency"]) for name in ("amount", "fees"))


def _rates(machine: Machine) -> Plot:
    rows = [
        (each["pair"], f"{each['orders']:,}", *(amount(each[rate]) for rate in ("lowest", "average", "highest")))
        for each in machine["rates"]
    ]
    head = ("Pair", "Orders", "Lowest", "Average", "Highest")
    note = "The lowest and the highest rate of each pair, from its average."
    return Plot("rates", "Effective rates", note, "", head, rows)


def _rows(grid: Grid, names: Iterable[str]) -> Sequence[Sequence[object]]:
    return [(name, *(f"{count:,}" for count in counts)) for name, counts in zip(names, grid.cells, strict=True)]
