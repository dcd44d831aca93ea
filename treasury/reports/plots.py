"""The plots of the page with their words and numbers: who cannot see a plot reads the same in the table beneath."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from treasury.reports.charts import MAX_DAYS, age_color, draw_charts, outcome_color
from treasury.reports.figures import AGES, Grid, Machine, breaks_by_age, in_words, orders_by_day
from treasury.reports.markup import amount


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
