"""A rebalancing as people see it: each asset before, on its way, to be paid, traded and after; and why."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from treasury.files import write_text
from treasury.money import canonical, parse_amount
from treasury.planning.round_planner import Rebalancing
from treasury.reports.markup import rendered
from treasury.texts import without_markup

COLUMNS: Mapping[str, str] = {
    "asset": "asset",
    "before": "before",
    "incoming": "on its way in",
    "outgoing": "on its way out",
    "need": "to be paid",
    "minimum": "minimum",
    "target": "target",
    "maximum": "maximum",
    "trade": "trades",
    "after": "after",
}
"""Field of an asset's line -> its title."""

BARS = 24
"""Characters of an asset's picture."""


def as_lines(decided: Rebalancing) -> Iterator[str]:
    """The decision on a terminal."""
    lines = [line.as_dict() for line in decided.lines]
    cells = [[_text(line[name]) for name in COLUMNS] for line in lines]
    widths = [max(len(title), *(len(row[place]) for row in cells)) for place, title in enumerate(COLUMNS.values())]
    if cells:
        yield "  " + "  ".join(title.rjust(width) for title, width in zip(COLUMNS.values(), widths, strict=True))
    for row, line in zip(cells, lines, strict=True):
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        picture = _picture(line)
        yield f"    {line['asset']}: {line['why']}" + (f"  {picture}" if picture else "")
        yield from (f"      to be paid: {each['amount']}, {each['what']}" for each in line["obligations"])
    trades = [*decided.plan.trades, *decided.plan.later]
    if trades:
        yield f"  cost against the middle of the rates: {_cost(decided)}"
    for name, cost in sorted(decided.next_unit.items()):
        said = "cannot be had" if cost is None else f"would cost {canonical(cost)}"
        yield f"  one more {name} to be paid {said}"
    yield from (f"  note: {each}" for each in decided.notes)


def table(columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Rows under their columns, each as wide as its widest cell."""
    titles = [name.replace("_", " ") for name in columns]
    cells = [titles, *([row[name] for name in columns] for row in rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
    for row in cells:
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def _cost(decided: Rebalancing) -> str:
    return f"{canonical(decided.cost)}, {decided.cost_bps:f} bps of what is traded"


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _picture(line: Mapping[str, Any]) -> str:
    """The asset in its band, before (o) and after (x): `....[..o..|.x]....`."""
    if line["before"] is None or line["maximum"] is None or line["maximum"] == line["minimum"]:
        return ""
    need = parse_amount(line["need"])
    places = {
        name: parse_amount(line[name]) - (need if name in ("before", "after") else 0)
        for name in ("minimum", "target", "maximum", "before", "after")
    }
    low, high = min(*places.values(), parse_amount("0")), max(places.values())
    drawn = ["."] * BARS
    marks = (("minimum", "["), ("maximum", "]"), ("target", "|"), ("before", "o"), ("after", "x"))
    for name, mark in marks:
        place = int((places[name] - low) / (high - low) * (BARS - 1)) if high > low else 0
        drawn[place] = mark
    return "".join(drawn)


def as_markdown(run_key: str, decided: Mapping[str, Any]) -> str:
    """The decision in Prefect, from its JSON form."""
    lines = [f"# Rebalancing {run_key}", "", "| " + " | ".join(COLUMNS.values()) + " | why |"]
    lines.append("|---|" + "---:|" * (len(COLUMNS) - 1) + "---|")
    for line in decided["assets"]:
        cells = [_text(line[name]) for name in COLUMNS] + [str(line["why"])]
        lines.append("| " + " | ".join(map(without_markup, cells)) + " |")
    pictures = [f"{line['asset']:>12} {picture}" for line in decided["assets"] if (picture := _picture(line))]
    if pictures:
        lines += ["", "Before (o) and after (x) in the band, after what is to be paid:", "", "```", *pictures, "```"]
    for line in decided["assets"]:
        lines += [
            f"- {line['asset']} has to pay {each['amount']}: {without_markup(each['what'])}"
            for each in line["obligations"]
        ]
    lines += ["", f"Cost against the middle of the rates: {decided['cost']}."]
    lines += [f"- {without_markup(each)}" for each in decided["notes"]]
    return "\n".join(lines) + "\n"


def write_page(path: Path, run_key: str, decided: Mapping[str, Any]) -> Path:
    """Write the decision as a page that loads nothing."""
    page = rendered(
        "rebalancing.html.j2", run_key=run_key, decided=decided, columns=COLUMNS, text=_text, band_of=_band_of
    )
    write_text(path, page)
    return path


def _band_of(line: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return where an asset's band, and what is held before and after, are on a bar of 180; None where there is no
    band."""
    if line["before"] is None or line["maximum"] is None:
        return None
    need = parse_amount(line["need"])
    low, high = parse_amount(line["minimum"]), parse_amount(line["maximum"])
    before, after = (parse_amount(line[name]) - need for name in ("before", "after"))
    least, most = min(low, before, after, parse_amount("0")), max(high, before, after)
    if most == least:
        return None

    def at(amount: Decimal) -> str:
        return f"{float((amount - least) / (most - least)) * 180 + 10:.1f}"

    width = f"{float((high - low) / (most - least)) * 180:.1f}"
    return {"minimum": at(low), "width": width, "before": at(before), "after": at(after)}


def explained(same: bool, run_key: str) -> Sequence[str]:
    """The last lines of `treasury rebalance --explain`."""
    if same:
        return [f"{run_key}: planned again from its decisions, with the same result"]
    return [f"{run_key}: planned again from its decisions, and the result differs from what was decided then"]
