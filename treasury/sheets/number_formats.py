"""What a number format makes of a number: whether it is a date, and what a person sees."""

import functools
import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

GENERAL = "General"

BUILT_IN = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    9: "0%",
    10: "0.00%",
    11: "0.00E+00",
    12: "# ?/?",
    13: "# ??/??",
    37: "#,##0;(#,##0)",
    38: "#,##0;(#,##0)",
    39: "#,##0.00;(#,##0.00)",
    40: "#,##0.00;(#,##0.00)",
    41: "#,##0",
    42: "#,##0",
    43: "#,##0.00",
    44: "#,##0.00",
    48: "##0.0E+0",
    49: "@",
    **dict.fromkeys((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)), "yyyy-mm-dd"),
}
"""Formats that a workbook names by number alone (ECMA-376 part 1, 18.8.30)."""

_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.')
"""Text, escaped characters, widths and fillers: no digits of the number."""
_BRACKETS = re.compile(r"\[[^\]]*\]")
_ELAPSED = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
_PLACES = re.compile(r"\.([0#?]*)")
_SCALED = re.compile(r"[0#?],+(?![0#?,])")


@dataclass(frozen=True)
class NumberFormat:
    """What is needed to know of a format."""

    is_date: bool = False
    places: int | None = None
    """Digits after the point that are shown; None for all."""
    hides: bool = False
    """Whether nothing is shown."""
    changes: bool = False
    """Whether another number is shown: a percentage, thousands, a fraction, an exponent."""

    def shown(self, text: str) -> str | None:
        """What a person sees of a number, where that is another value; None where it is the same."""
        if self.hides:
            return ""
        if self.changes:
            return "something else"
        if self.places is None or len(text.partition(".")[2]) <= self.places:
            return None
        return format(Decimal(text).quantize(Decimal(1).scaleb(-self.places), rounding=ROUND_HALF_UP), "f")


@functools.lru_cache(maxsize=4096)
def read_format(code: str) -> NumberFormat:
    """What a format code means."""
    if code in (GENERAL, "@", ""):
        return NumberFormat()
    plain = _BRACKETS.sub("", _LITERAL.sub("", code))
    sections = plain.split(";")
    if not sections[0].strip() and not _LITERAL.search(code.split(";", maxsplit=1)[0]):
        return NumberFormat(hides=True)
    if _ELAPSED.search(code) or re.search(r"[ymdhs]", sections[0].replace(GENERAL, ""), re.IGNORECASE):
        return NumberFormat(is_date=True)
    # A section may stand for other numbers by a condition; without one the first stands for all above zero.
    return _of_numbers(sections if re.search(r"\[[<>=]", code) else sections[:1])


def _of_numbers(sections: list[str]) -> NumberFormat:
    if GENERAL in sections[0] or "@" in sections[0]:
        return NumberFormat()
    if not re.search(r"[0#?]", sections[0]):
        return NumberFormat(changes=True)
    if any("%" in each or "E" in each.upper() or "/" in each or _SCALED.search(each) for each in sections):
        return NumberFormat(changes=True)
    return NumberFormat(places=min(map(_places, sections)))


def _places(section: str) -> int:
    found = _PLACES.search(section)
    return len(found[1]) if found else 0
