"""Number formats: does one make a number a date, and what does a person see?"""

import functools
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

GENERAL = "General"

_DATES = (*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59))
BUILT_IN = {
    **dict(enumerate(("0", "0.00", "#,##0", "#,##0.00"), 1)),
    **dict(enumerate(("0%", "0.00%", "0.00E+00", "# ?/?", "# ??/??"), 9)),
    **dict.fromkeys((37, 38), "#,##0;(#,##0)"), **dict.fromkeys((39, 40), "#,##0.00;(#,##0.00)"),
    41: "#,##0", 43: "#,##0.00", **dict.fromkeys((5, 6, 42), "¤#,##0"), **dict.fromkeys((7, 8, 44), "¤#,##0.00"),
    48: "##0.0E+0", 49: "@",
    **dict.fromkeys(_DATES, "yyyy-mm-dd"),
}  # fmt: skip
"""Formats that a workbook names by number alone (ECMA-376 part 1, 18.8.30); ¤: the currency of whoever opens it."""

_PIECE = re.compile(r'"[^"]*"?|\\.|_.|\*.|\[[^\]]*\]|.', re.DOTALL)
"""Text, escaped characters, widths, fillers, what stands in brackets, and single characters."""
_LITERAL = ('"', "\\", "_", "*")
_ELAPSED = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
_COLOUR = re.compile(r"\[(black|blue|cyan|green|magenta|red|white|yellow|color ?[0-9]{1,2})\]", re.IGNORECASE)
_CONDITION = re.compile(r"\[(<=|>=|<>|<|>|=)(-?[0-9]+(?:\.[0-9]+)?)\]")
_SIGN = re.compile(r"\[\$[^\-\]]")
"""A text in brackets that is shown: the sign of a currency."""
_PLACEHOLDERS = "0#?.,@"
_POINTS = "%‰.,"
"""Shown as text beside digits, these make another number of them."""
_PLACES = re.compile(r"\.([0#?]*)")
_SCALED = re.compile(r"[0#?],+(?![0#?,])")
_MINUS = re.compile(r"\A[^0]*[-\u2212\u2013(]|0\s*[-\u2212\u2013]\s*\Z")
"""A sign before the digits of a picture, or right behind them; `1250.-` has none."""
_PARTED = re.compile(r"0[^0.,\s'\u2019]+0")
"""Something among the digits of a picture that parts no thousands."""

_MEETS: Mapping[str, Callable[[Decimal, Decimal], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne,
}  # fmt: skip

CHANGED = "something else"
"""Shown of a number that is shown as another one."""


@dataclass(frozen=True)
class Section:
    """A part of a format, and what it makes of the values that it stands for."""

    is_blank: bool = False
    """True when it shows nothing."""
    is_date: bool = False
    holds_text: bool = False
    """True when a text is shown by it, and nothing else in its place."""
    changes: bool = False
    """True when another number is shown: a percentage, thousands, a fraction, an exponent, digits in parts."""
    negates: bool = False
    """True when it shows a sign, or brackets, as negative amounts have them."""
    places: int | None = None
    """Digits after the point that are shown; None for all."""
    colour: str = ""
    """The colour of letters that it sets, by its name; blank where the font says which."""
    condition: tuple[str, Decimal] | None = None
    beside: str = ""
    """The words, currencies and digits that it shows beside the value."""

    def shown(self, text: str) -> str | None:
        """Return what a person sees of a number, where that is another value; None where it is the same, blank for
        nothing."""
        if self.is_blank:
            return ""
        if self.changes or (self.negates and Decimal(text) > 0):
            return CHANGED
        if self.places is None or len(text.partition(".")[2]) <= self.places:
            return None
        return format(Decimal(text).quantize(Decimal(1).scaleb(-self.places), rounding=ROUND_HALF_UP), "f")


@dataclass(frozen=True)
class NumberFormat:
    """The facts of a format that are needed."""

    numbers: tuple[Section, ...] = ()
    """By sign or condition; none where numbers are shown as they are."""
    text: Section | None = None
    """None where texts are shown as they are."""

    @property
    def is_date(self) -> bool:
        """Tell whether a number stands for a date."""
        return bool(self.numbers) and self.numbers[0].is_date

    @property
    def has_colours(self) -> bool:
        """Tell whether it sets the colour of letters."""
        return any(each.colour for each in (*self.numbers, *([] if self.text is None else [self.text])))

    def of_number(self, text: str) -> Section | None:
        """The section that shows a number; None where that is not certain, or no section does."""
        if len(self.numbers) < 2:
            return self.numbers[0] if self.numbers and self.numbers[0].condition is None else None
        number, first, second = Decimal(text), self.numbers[0], self.numbers[1]
        if first.condition is None and second.condition is None:
            return first if number > 0 or (not number and len(self.numbers) == 2) else self.numbers[1 if number else 2]
        if first.condition is not None and _meets(number, first.condition):
            return first
        if first.condition is not None and second.condition is not None:
            return second if _meets(number, second.condition) else self.numbers[2] if len(self.numbers) > 2 else None
        return second if first.condition is not None and len(self.numbers) == 2 else None

    def shown(self, text: str) -> str | None:
        """As of the section that shows it; where that is not certain, as of any that shows another value."""
        if len(self.numbers) < 2:
            return self.numbers[0].shown(text) if self.numbers else None
        if (section := self.of_number(text)) is not None:
            return section.shown(text)
        return next((shown or CHANGED for each in self.numbers if (shown := each.shown(text)) is not None), None)

    def beside(self, text: str) -> str:
        """The words and signs that a person sees beside a number; where that is not certain, those of any section."""
        if (section := self.of_number(text)) is not None:
            return section.beside
        return next((each.beside for each in self.numbers if each.beside), "")


def _meets(number: Decimal, condition: tuple[str, Decimal]) -> bool:
    return _MEETS[condition[0]](number, condition[1])


@functools.lru_cache(maxsize=4096)
def read_format(code: str) -> NumberFormat:
    """Return what a format code means."""
    if code in (GENERAL, "@", ""):
        return NumberFormat()
    parts: list[list[str]] = [[]]
    for piece in _PIECE.findall(code):
        if piece == ";":
            parts.append([])
        else:
            parts[-1].append(piece)
    sections = [_section(part) for part in parts]
    has_text = len(parts) == 4 or (len(parts) < 4 and "@" in parts[-1])
    numbers = sections[:-1] if has_text else sections[:3]
    return NumberFormat(tuple(numbers), sections[-1] if has_text else None)


def _section(pieces: Sequence[str]) -> Section:
    brackets = "".join(piece for piece in pieces if piece.startswith("["))
    plain = "".join(piece for piece in pieces if not piece.startswith((*_LITERAL, "[")))
    colour, condition = _COLOUR.search(brackets), _CONDITION.search(brackets)
    is_general = GENERAL.casefold() in plain.casefold()
    holds_text = "@" in plain or is_general
    digits, picture = re.search(r"[0#?]", plain), "".join(map(_pictured, pieces))
    is_date = bool(_ELAPSED.search(brackets) or (not is_general and re.search(r"[ymdhs]", plain, re.IGNORECASE)))
    is_another = bool(set(plain.upper()) & set("%E/") or _SCALED.search(plain) or _PARTED.search(picture))
    return Section(
        is_blank=not any(map(_is_seen, pieces)),
        is_date=is_date,
        holds_text=holds_text,
        changes=not holds_text and not is_date and (not digits or is_another),
        negates=bool(digits) and _MINUS.search(picture) is not None,
        places=_places(plain) if digits and not holds_text else None,
        colour=colour[1].casefold().replace(" ", "") if colour else "",
        condition=(condition[1], Decimal(condition[2])) if condition else None,
        beside="" if is_date else _beside(pieces),
    )


def _beside(pieces: Sequence[str]) -> str:
    """The text among the parts of a format, without what says nothing: spaces, brackets, dashes."""
    text = re.sub(GENERAL, " ", "".join(map(_text_of, pieces)), flags=re.IGNORECASE)
    return " ".join(word for word in text.split() if any(map(_says_something, word)))


def _text_of(piece: str) -> str:
    if piece.startswith("[$"):
        return piece[2:].rstrip("]").partition("-")[0]
    if piece.startswith(("[", "_")) or piece in _PLACEHOLDERS:
        return " "
    return piece.strip('"') if piece.startswith('"') else piece[-1] if piece.startswith(("\\", "*")) else piece


def _pictured(piece: str) -> str:
    """A part of a format as it is seen, each digit as a 0."""
    if piece.startswith(("[", "_", "*")):
        return " "
    return "0" if piece in ("0", "#", "?") else piece.strip('"').lstrip("\\")


def _says_something(character: str) -> bool:
    return character.isalnum() or character in _POINTS or unicodedata.category(character) == "Sc"


def _is_seen(piece: str) -> bool:
    """Tell whether a part of a format leaves something to be seen."""
    if piece.startswith("["):
        return bool(_SIGN.match(piece) or _ELAPSED.match(piece))
    if piece.startswith("_"):
        return False
    return bool(piece.strip('"').strip() if piece.startswith('"') else piece.lstrip("\\*").strip())


def _places(plain: str) -> int:
    found = _PLACES.search(plain)
    return len(found[1]) if found else 0
