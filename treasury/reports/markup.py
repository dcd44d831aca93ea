"""Amounts, times and foreign text as parts of a page: readable, exact when copied, and never markup of their own."""

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from treasury.planning.route_offers import decimals_of
from treasury.sheets.writing import printable

if TYPE_CHECKING:
    from jinja2 import Environment

_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?")


def rendered(template: str, **values: object) -> str:
    """A page of a template of this package, with everything in it escaped."""
    return _environment().get_template(template).render(values)


@functools.cache
def _environment() -> "Environment":
    """The templates, compiled once in a process."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("treasury.reports"), autoescape=True, undefined=StrictUndefined, finalize=shown
    )


def shown(value: object) -> object:
    """Return what every expression of the template passes through before it is escaped."""
    if value is None:
        return ""
    return printable(value) if type(value) is str else value


def amount(text: str | None, currency: str | None = None) -> str:
    """An amount with its digits in groups of three; the text stays as given, and on one line unless it is long.

    `currency`: only its own decimals are shown, and `…` where there are more; whoever points at it sees all.
    """
    number = _NUMBER.fullmatch(text or "")
    if number is None:
        return escape(printable(text or ""))
    sign, whole, fraction = number.groups()
    all_digits, fraction = fraction or "", fraction or ""
    decimals = None if currency is None else decimals_of(currency)
    if decimals is not None:
        fraction = fraction[:decimals]
    title, more = "", ""
    if all_digits[len(fraction) :].strip("0"):
        title, more = f' title="{number[0]}"', "…"
    breaks = "<wbr>" if len(sign + whole + fraction) >= UNBROKEN else ""
    head = len(whole) % 3 or 3
    groups = [whole[:head], *(whole[at : at + 3] for at in range(head, len(whole), 3))]
    fractions = [fraction[at : at + 3] for at in range(0, len(fraction), 3)] if len(fraction) > 6 else [fraction]
    point = f"{breaks}.{_grouped(fractions, breaks)}" if fraction else ""
    return Markup(f"<data{title}>{sign}{_grouped(groups, breaks)}{point}{more}</data>")  # noqa: S704  # digits alone


UNBROKEN = 16
"""Characters of an amount that stay on one line."""


def _grouped(groups: Sequence[str], breaks: str) -> str:
    """Digits with room before each group but the first, where the line may break if `breaks` lets it."""
    return groups[0] + "".join(f"{breaks}<span>{group}</span>" for group in groups[1:])


def when(text: str | None) -> str:
    """A time as people read it; what is not a time stays as given."""
    if text is None or not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", text):
        return escape(printable(text or ""))
    return Markup(f'<time datetime="{text}">{text[:10]} {text[11:16]} UTC</time>')  # noqa: S704  # digits alone
