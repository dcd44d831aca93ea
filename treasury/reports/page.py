"""The reconciliation as one page: opens anywhere, loads nothing, and is read before coffee."""

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from treasury.reports.charts import MOST_DAYS, age_color, draw_charts, outcome_color
from treasury.reports.figures import (
    AGES,
    BALANCE_LINES,
    IN_FLIGHT,
    JUDGEMENTS,
    LINES,
    Grid,
    Machine,
    breaks_by_age,
    count_of,
    in_flight,
    in_words,
    orders_by_day,
    sort_breaks,
)
from treasury.reports.wording import first_step, headline, reasons, scope_in_words
from treasury.sheets.writing import printable, write_text

MOST_BREAKS = 2_000
"""Breaks that a part of the page shows: a browser stays quick; the workbook and the JSON have all."""

MOST_ORDERS = 200
"""Orders in flight that the page shows; `orders.csv` has all."""

FILTERS: Mapping[str, str] = {
    "class": "Class",
    "currency": "Currency",
    "lifecycle": "Lifecycle",
    "severity": "Severity",
}
"""Field of a break -> its filter's label."""

_TEMPLATES = Path(__file__).parent / "templates"

_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?")


def write_page(path: Path, machine: Machine, orders: pd.DataFrame, meanings: Mapping[str, str]) -> None:
    """Write `reconciliation.html`.

    `machine`: the machine form of the reconciliation. `orders`: one row per order, in any order of rows. `meanings`:
    what each class means; a class that is not in it has none. The same inputs give the same bytes. Amounts stand as
    given: their digits are set in groups by space around them, not by characters, so what is copied is exact.
    """
    write_text(path, render_page(machine, orders, meanings))


def render_page(machine: Machine, orders: pd.DataFrame, meanings: Mapping[str, str]) -> str:
    """The page as text."""
    parts = sort_breaks(machine)
    flying = in_flight(orders)
    template = _environment().get_template("reconciliation.html.j2")
    return template.render(
        machine=machine,
        meanings=meanings,
        headline=headline(machine),
        reasons=reasons(machine),
        start=first_step(machine),
        scope=scope_in_words(machine),
        tiles=_tiles(machine),
        breaks=parts,
        most_breaks=MOST_BREAKS,
        groups=_by_class(parts.open[:MOST_BREAKS]),
        filters=_filters([*parts.open[:MOST_BREAKS], *parts.accepted[:MOST_BREAKS], *parts.resolved[:MOST_BREAKS]]),
        flying=flying.head(MOST_ORDERS).to_dict("records"),
        all_flying=len(flying),
        open_classes={each["class"] for each in parts.open},
        plots=_plots(machine),
        settings=sorted(machine["settings"].items()),
        **_inline(),
    )


@dataclass(frozen=True)
class Plot:
    """A plot, in words and numbers too: who cannot see it reads the same in the table beneath."""

    name: str
    title: str
    note: str
    svg: Markup
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    legend: Sequence[tuple[str, str]] = ()


def _plots(machine: Machine) -> Sequence[Plot]:
    drawn = draw_charts(machine)
    svg = {name: Markup(drawn.get(name, "")) for name in ("days", "ages", "fees", "rates")}  # noqa: S704  # escaped there
    days, ages = orders_by_day(machine, MOST_DAYS), breaks_by_age(machine)
    outcomes = [(in_words(outcome), outcome_color(outcome)) for outcome in days.columns]
    buckets = [(AGES.get(age, age), age_color(age)) for age in ages.columns]
    fees = [
        (each["currency"], f"{each['orders']:,}", amount(each["amount"]), amount(each["fees"]), amount(each["bps"]))
        for each in machine["fees"]
    ]
    rates = [
        (each["pair"], f"{each['orders']:,}", *(amount(each[rate]) for rate in ("lowest", "average", "highest")))
        for each in machine["rates"]
    ]
    made = f"By the day they were made and what became of them; at most the last {MOST_DAYS} days."
    stand = "Those that stand, the most urgent class first."
    spread = "The lowest and the highest rate of each pair, from its average."
    day_head, age_head = ["Day", *(name for name, _ in outcomes)], ["Class", *(name for name, _ in buckets)]
    fee_head, rate_head = (
        ("Currency", "Orders", "Arrived", "Fees", "bps"),
        ("Pair", "Orders", "Lowest", "Average", "Highest"),
    )
    return (
        Plot("days", "Orders by day", made, svg["days"], day_head, _rows(days, days.rows), outcomes),
        Plot(
            "ages",
            "Breaks by class and age",
            stand,
            svg["ages"],
            age_head,
            _rows(ages, map(in_words, ages.rows)),
            buckets,
        ),
        Plot("fees", "Effective fees", "In basis points of what arrived.", svg["fees"], fee_head, fees),
        Plot("rates", "Effective rates", spread, svg["rates"], rate_head, rates),
    )


def _rows(grid: Grid, names: Iterable[str]) -> Sequence[Sequence[object]]:
    return [(name, *(f"{count:,}" for count in counts)) for name, counts in zip(names, grid.cells, strict=True)]


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {
        "amount": amount,
        "words": in_words,
        "count_of": count_of,
        "when": when,
    }
    environment.globals |= {"LINES": LINES, "BALANCE_LINES": BALANCE_LINES, "JUDGEMENTS": JUDGEMENTS}
    return environment


def _shown(value: object) -> object:
    """What every expression of the template passes through before it is escaped."""
    if value is None:
        return ""
    return printable(value) if type(value) is str else value


def amount(text: str | None) -> str:
    """An amount with its digits in groups of three; the text itself stays as given."""
    number = _NUMBER.fullmatch(text or "")
    if number is None:
        return escape(printable(text or ""))
    sign, whole, fraction = number.groups()
    head = len(whole) % 3 or 3
    groups = [whole[:head], *(whole[at : at + 3] for at in range(head, len(whole), 3))]
    fraction = fraction or ""
    fractions = [fraction[at : at + 3] for at in range(0, len(fraction), 3)] if len(fraction) > 6 else [fraction]
    point = f"<wbr>.{_grouped(fractions)}" if fraction else ""
    return Markup(f"<data>{sign}{_grouped(groups)}{point}</data>")  # noqa: S704  # digits alone


def _grouped(groups: Sequence[str]) -> str:
    """Digits with room before each group but the first, where a line may break, too."""
    return groups[0] + "".join(f"<wbr><span>{group}</span>" for group in groups[1:])


def when(text: str | None) -> str:
    """A time as people read it; what is not a time stays as given."""
    if text is None or not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", text):
        return escape(printable(text or ""))
    return Markup(f'<time datetime="{text}">{text[:10]} {text[11:16]} UTC</time>')  # noqa: S704  # digits alone


def _tiles(machine: Machine) -> Sequence[tuple[str, int, str]]:
    """The numbers on top: label, number, where they are listed."""
    parts, counts = sort_breaks(machine), machine["counts"]
    return (
        ("orders", sum(counts.values()), "classes"),
        ("matched", counts.get("matched", 0), "classes"),
        ("in flight", sum(counts.get(name, 0) for name in IN_FLIGHT), "in-flight"),
        ("to clear", len(parts.open), "breaks"),
        ("accepted", len(parts.accepted), "accepted"),
        ("resolved", len(parts.resolved), "resolved"),
    )


def _by_class(breaks: Iterable[Mapping[str, Any]]) -> Sequence[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Breaks that follow each other and are of one class, together: they come in order of priority."""
    return [(name, list(group)) for name, group in groupby(breaks, key=lambda each: str(each["class"]))]


def _filters(breaks: Sequence[Mapping[str, Any]]) -> Sequence[tuple[str, str, Sequence[tuple[str, int]]]]:
    """Each filter: field, label, and the values that occur with their counts, in the order they first occur."""
    return [
        (field, label, list(Counter(each[field] or "" for each in breaks).items())) for field, label in FILTERS.items()
    ]


def _inline() -> Mapping[str, Any]:
    """Style and script, and the policy that allows the browser these two and nothing else."""
    style = (_TEMPLATES / "reconciliation.css").read_text(encoding="utf-8")
    script = (_TEMPLATES / "reconciliation.js").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; style-src {_fingerprint(style)}; script-src {_fingerprint(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return {"style": Markup(style), "script": Markup(script), "policy": policy}  # noqa: S704  # files of this package


def _fingerprint(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
