"""How cells look, as far as that is certain, and why nobody sees what is in some of them.

A colour that is not certain is none: what follows from it is not refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

RGB = tuple[int, int, int]

ALIKE = 16
"""How far apart two colours are at least, in red, green or blue (0 to 255), so that one can be seen on the other."""
MIN_SIZE = 3
"""The size of letters, in points, from which they can be seen."""

SAME_COLOUR = "its letters have the colour of what is behind them"
TOO_SMALL = f"its letters are smaller than {MIN_SIZE} points"
BLANK_FORMAT = "its number format shows nothing"
OTHER_FORMAT = "its number format shows something else in its place"

_NAMED: Mapping[str, RGB] = {
    "black": (0, 0, 0),
    "white": (255, 255, 255),
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "magenta": (255, 0, 255),
    "cyan": (0, 255, 255),
}
_FIRST = tuple(_NAMED[name] for name in ("black", "white", "red", "green", "blue", "yellow", "magenta", "cyan"))
"""Of the colours that are named by a number, 0 to 7, and once more 8 to 15 (ECMA-376 part 1, 18.8.27)."""
_SYSTEM = 64
"""The first number that stands for a colour of the reader's own screen."""

_THEME = ("lt1", "dk1", "lt2", "dk2", *(f"accent{number}" for number in range(1, 7)), "hlink", "folHlink")
THEME: Mapping[str, int] = {name: number for number, name in enumerate(_THEME)}
"""Name in a theme -> number in a workbook."""


class Colour(NamedTuple):
    """A colour: how it is written, and which one it is where that is certain."""

    said: tuple[str, str, float]
    rgb: RGB | None


PLAIN = Colour(("none", "", 0.0), (255, 255, 255))
"""Behind a cell without a fill."""


class Font(NamedTuple):
    """Of letters; None where it is not certain, or not said."""

    colour: Colour | None = None
    size: float | None = None


class Look(NamedTuple):
    """Of a cell."""

    font: Font = Font()
    behind: Colour | None = PLAIN
    """The colour of its fill; None where that is not certain."""
    is_struck: bool = False


@dataclass
class Palette:
    """Which colours are meant by the numbers of a workbook."""

    theme: Mapping[int, RGB] = field(default_factory=lambda: {0: _NAMED["white"], 1: _NAMED["black"]})
    indexed: Sequence[RGB | None] = _FIRST * 2

    def colour(self, said: Mapping[str, str]) -> Colour | None:
        """The colour that an element says; None for one that depends on the screen, and for none."""
        tint = number_of(said.get("tint", "0"))
        kind = next((each for each in ("rgb", "theme", "indexed") if each in said), None)
        if kind is None or tint is None:
            return None
        rgb = rgb_of(said[kind]) if kind == "rgb" else self._known(kind, said[kind])
        is_none = rgb is None if kind == "rgb" else kind == "indexed" and number_of(said[kind]) not in range(_SYSTEM)
        return None if is_none else Colour((kind, said[kind].upper(), tint), None if tint else rgb)

    def _known(self, kind: str, text: str) -> RGB | None:
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else -1
        if kind == "theme":
            return self.theme.get(number)
        return self.indexed[number] if 0 <= number < len(self.indexed) else None

    def named(self, name: str) -> Colour | None:
        """The colour that a number format names: white, or color2."""
        if name in _NAMED:
            return Colour(("named", name, 0.0), _NAMED[name])
        return self.colour({"indexed": str(int(name.removeprefix("color")) + 7)})


def number_of(text: str) -> float | None:
    """The number that an attribute says; None for what is none."""
    try:
        return float(text)
    except ValueError:
        return None


def rgb_of(text: str) -> RGB | None:
    """The colour of six hexadecimal digits, or of eight, the first two of which say nothing; else None."""
    try:
        value = int(text[-6:], 16) if len(text) in (6, 8) else None
    except ValueError:
        value = None
    return None if value is None else (value >> 16, value >> 8 & 255, value & 255)


def unseen(font: Font, behind: Colour | None) -> str | None:
    """Why letters cannot be seen; None where they can, or where that is not certain."""
    if font.size is not None and font.size < MIN_SIZE:
        return TOO_SMALL
    return SAME_COLOUR if font.colour is not None and behind is not None and _is_alike(font.colour, behind) else None


def _is_alike(one: Colour, other: Colour) -> bool:
    if one.said == other.said:
        return True
    if one.rgb is None or other.rgb is None:
        return False
    return all(abs(mine - its) < ALIKE for mine, its in zip(one.rgb, other.rgb, strict=True))
