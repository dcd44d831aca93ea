"""The reconciliation as one page: opens anywhere, loads nothing, and is read before coffee."""

import base64
import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from treasury.files import write_text
from treasury.reports.charts import plots_of
from treasury.reports.figures import (
    BALANCE_LINES,
    IN_FLIGHT,
    JUDGEMENTS,
    LINES,
    ListedOrders,
    Machine,
    first_step,
    headline,
    in_words,
    reasons,
    scope_in_words,
    sort_breaks,
)
from treasury.reports.markup import amount, shown, when
from treasury.texts import count_of

MAX_BREAKS = 2_000
"""Breaks that a part of the page shows: a browser stays quick; the workbook and the JSON have all."""

MAX_ORDERS = 200
"""Orders in flight that the page shows; `orders.csv` has all."""

FILTERS: Mapping[str, str] = {
    "class": "Class",
    "currency": "Currency",
    "lifecycle": "Lifecycle",
    "severity": "Severity",
}
"""Field of a break -> its filter's label."""

_TEMPLATES = Path(__file__).parent / "templates"


def write_page(path: Path, machine: Machine, orders: ListedOrders, meanings: Mapping[str, str]) -> None:
    """Write `reconciliation.html`.

    `machine`: the machine form of the reconciliation. `meanings`: what each class means; a class that is not in it has
    none. The same inputs give the same bytes. Amounts stand as given: their digits are set in groups by space around
    them, not by characters, so what is copied is exact.
    """
    write_text(path, render_page(machine, orders, meanings))


def render_page(machine: Machine, orders: ListedOrders, meanings: Mapping[str, str]) -> str:
    """The page as text."""
    parts = sort_breaks(machine)
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
        max_breaks=MAX_BREAKS,
        groups=_by_class(parts.open[:MAX_BREAKS]),
        filters=_filters([*parts.open[:MAX_BREAKS], *parts.accepted[:MAX_BREAKS], *parts.resolved[:MAX_BREAKS]]),
        flying=orders.flying.first(MAX_ORDERS),
        all_flying=orders.flying.count,
        open_classes={each["class"] for each in parts.open},
        plots=plots_of(machine),
        settings=sorted(machine["settings"].items()),
        **_inline(),
    )


@functools.cache
def _environment() -> Environment:
    """The templates, compiled once in a process."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    environment.filters |= {
        "amount": amount,
        "words": in_words,
        "count_of": count_of,
        "when": when,
    }
    environment.globals |= {"LINES": LINES, "BALANCE_LINES": BALANCE_LINES, "JUDGEMENTS": JUDGEMENTS}
    return environment


def _tiles(machine: Machine) -> Sequence[tuple[str, int, str]]:
    """The numbers on top: label, number, where they are listed."""
    parts, counts = sort_breaks(machine), machine["counts"]
    return (
        ("orders", machine["orders"], "classes"),
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
