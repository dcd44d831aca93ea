"""How cells look, as far as that is certain, and why nobody sees what is in some of them.

A colour that is not certain is none: what follows from it is not refused. Of openpyxl's fonts and formats only what
decides whether something is seen is made, so that no odd border or family of fonts keeps a sheet from being read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from openpyxl.cell.text import Text
from openpyxl.styles.colors import COLOR_INDEX, Color
from openpyxl.styles.differential import DifferentialStyle
from openpyxl.styles.fills import Fill, PatternFill
from openpyxl.styles.fonts import Font
from openpyxl.xml.functions import fromstring

from treasury.sheets.archive import Unreadable
from treasury.sheets.hidden_ranges import SHOWN_BY_RULE
from treasury.sheets.number_formats import BUILT_IN, GENERAL, NumberFormat, read_format

RGB = tuple[int, int, int]

MAX_FORMATS = 100_000
"""Formats, fonts, fills and cell formats of a workbook: spreadsheet programs allow 65,490."""
ALIKE = 16
"""How far apart two colours are at least, in red, green or blue (0 to 255), so that one can be seen on the other."""
MIN_SIZE = 3
"""The size of letters, in points, from which they can be seen."""

SAME_COLOUR = "its letters have the colour of what is behind them"
TOO_SMALL = f"its letters are smaller than {MIN_SIZE} points"
BLANK_FORMAT = "its number format shows nothing"
OTHER_FORMAT = "its number format shows something else in its place"
STRUCK_OUT, NOT_SHOWN = "struck_out", "not_shown"
"""Codes of what a conditional format may do to a cell."""

_THEME = ("lt1", "dk1", "lt2", "dk2", *(f"accent{number}" for number in range(1, 7)), "hlink", "folHlink")
"""Names of the colours of a theme, in the order of their numbers."""
_NAMED = ("black", "white", "red", "green", "blue", "yellow", "magenta", "cyan")
"""Names of colours in number formats, in the order of the numbers that a workbook has for them."""
_RGB = re.compile("[0-9A-Fa-f]{6}([0-9A-Fa-f]{2})?")
_KEPT: Mapping[str, tuple[str, ...]] = {
    "font": ("strike", "color", "sz"),
    "rPr": ("strike", "color", "sz"),
    "dxf": ("font", "numFmt", "fill"),
    "si": ("t", "r"),
    "is": ("t", "r"),
}
"""The parts of an element that decide whether something is seen."""


class Colour(NamedTuple):
    """A colour: how it is written, and which one it is where that is certain."""

    said: tuple[str, str, float]
    rgb: RGB | None


PLAIN = Colour(("none", "", 0.0), (255, 255, 255))
"""Behind a cell without a fill."""
_UNSAID = (PatternFill().fgColor, PatternFill().bgColor)
"""openpyxl's colours of a fill that says none."""


class Letters(NamedTuple):
    """How letters look; None where it is not certain, or not said."""

    colour: Colour | None = None
    size: float | None = None
    is_struck: bool = False


class Look(NamedTuple):
    """The format of a cell, and what it does to what is in it."""

    letters: Letters = Letters()
    behind: Colour | None = PLAIN
    """The colour of its fill; None where that is not certain."""
    code: str = GENERAL
    format: NumberFormat = NumberFormat()
    is_doubtful: bool = False
    """True: something may not be seen; else nothing but the number format is asked."""


class RichText(NamedTuple):
    """A text whose pieces have looks of their own."""

    text: str
    letters: frozenset[Letters | None]
    """Of the pieces that hold something; None for those of the cell."""


@dataclass
class Palette:
    """Which colours are meant by the numbers of a workbook."""

    theme: Mapping[int, RGB | None] = field(default_factory=lambda: {0: (255, 255, 255), 1: (0, 0, 0)})
    indexed: Sequence[str] = COLOR_INDEX

    def colour(self, said: Color | None) -> Colour | None:
        """The colour that is said; None for one that depends on the screen, and for none."""
        if said is None or said.type == "auto" or any(said is each for each in _UNSAID):
            return None
        if said.type == "indexed" and not 0 <= said.indexed < len(COLOR_INDEX):
            return None
        rgb = self.theme.get(said.theme) if said.type == "theme" else self._rgb(said)
        return Colour((said.type, str(said.value).upper(), said.tint), None if said.tint else rgb)

    def _rgb(self, said: Color) -> RGB | None:
        if said.type == "rgb":
            return rgb_of(said.rgb)
        return rgb_of(self.indexed[said.indexed]) if said.indexed < len(self.indexed) else None

    def named(self, name: str) -> Colour | None:
        """The colour that a number format names: white, or color2."""
        number = _NAMED.index(name) if name in _NAMED else int(name.removeprefix("color")) + 7
        return PLAIN if name == "white" else self.colour(Color(indexed=number))

    def letters(self, font: Font | None) -> Letters:
        """How letters of a font look."""
        return Letters() if font is None else Letters(self.colour(font.color), font.sz, bool(font.strike))

    def behind(self, fill: Any) -> Colour | None:
        """The colour of a cell's fill; None where it is not certain."""
        if fill is None or getattr(fill, "patternType", "") in (None, "none"):
            return PLAIN
        return self.colour(fill.fgColor) if isinstance(fill, PatternFill) and fill.patternType == "solid" else None

    def text(self, node: Any) -> str | RichText:
        """The text of a cell, or of the table of texts; phonetic hints are no part of it."""
        if len(node) == 1 and local(node[0]) == "t":
            return node[0].text or ""
        text: Any = Text.from_tree(lean(node))
        pieces = [(each.rPr, each.t) for each in text.r if (each.t or "").strip()]
        said = frozenset(None if font is None else self.letters(font) for font, _ in pieces)
        return RichText(text.content, said) if said else text.content


@dataclass
class Styles:
    """The cell formats of a workbook, by number."""

    looks: Sequence[Look] = ()
    by_rule: Sequence[str | None] = ()
    """Of the formats of conditional formatting: the code of what they may do to a cell."""
    palette: Palette = field(default_factory=Palette)
    is_filled: bool = False
    """True: there is a cell format with a fill."""

    def may_do(self, element: Any) -> str | None:
        """The code of what a conditional format may do to a cell."""
        rule: Any = DifferentialStyle.from_tree(element)
        letters = self.palette.letters(rule.font)
        if letters.is_struck:
            return STRUCK_OUT
        shown = read_format(GENERAL if rule.numFmt is None else rule.numFmt.formatCode)
        is_blank = any(each.is_blank for each in (*shown.numbers[:1], *([] if shown.text is None else [shown.text])))
        if rule.fill is None:
            behind = None if self.is_filled else PLAIN
        else:
            behind = self.palette.colour(getattr(rule.fill, "bgColor", None))
        if is_blank or unseen(letters, behind):
            return NOT_SHOWN
        of_amounts = shown.numbers if any(each.condition for each in shown.numbers) else shown.numbers[:1]
        changes = any(each.changes or each.beside or each.is_date for each in of_amounts if not each.is_blank)
        return SHOWN_BY_RULE if changes else None


def read_styles(styles: bytes | None, theme: bytes | None) -> Styles:
    """Return what each cell format shows, and which of them hide what is in a cell, by the parts of a workbook."""
    palette = Palette() if theme is None else Palette(dict(_theme(fromstring(theme))))
    if styles is None:
        return Styles(palette=palette)
    root = lean(fromstring(styles))
    if sum(map(len, root)) > MAX_FORMATS:
        raise Unreadable("more formats than there may be")
    if indexed := [each.get("rgb", "") for each in _members(root, "colors", "indexedColors")]:
        palette.indexed = indexed
    fonts = [palette.letters(Font.from_tree(each)) for each in _members(root, "fonts")]
    fills = [palette.behind(Fill.from_tree(each)) for each in _members(root, "fills")]
    codes = BUILT_IN | {
        int(each.get("numFmtId", "")): each.get("formatCode", GENERAL) for each in _members(root, "numFmts")
    }
    looks = []
    for each in _members(root, "cellXfs"):
        code, font, fill = (int(each.get(name, "0")) for name in ("numFmtId", "fontId", "fillId"))
        letters = fonts[font] if 0 <= font < len(fonts) else Letters()
        behind = fills[fill] if 0 <= fill < len(fills) else None if fill else PLAIN
        shown = read_format(codes.get(code, GENERAL))
        is_doubtful = letters.is_struck or shown.has_colours or unseen(letters, behind) is not None
        looks.append(Look(letters, behind, codes.get(code, GENERAL), shown, is_doubtful))
    made = Styles(looks, palette=palette, is_filled=any(each.behind is not PLAIN for each in looks))
    made.by_rule = [made.may_do(each) for each in _members(root, "dxfs")]
    return made


def _members(root: Any, *path: str) -> Iterator[Any]:
    """The elements of a list within others of these names."""
    found = [root]
    for name in path:
        found = [child for each in found for child in each if local(child) == name]
    return (child for each in found for child in each)


def _theme(root: Any) -> Iterator[tuple[int, RGB | None]]:
    """Number and colour of those of a theme."""
    for scheme in root.iter():
        if local(scheme) == "clrScheme":
            for each in scheme:
                if local(each) in _THEME and len(each):
                    said = each[0].get("lastClr" if local(each[0]) == "sysClr" else "val", "")
                    yield _THEME.index(local(each)), rgb_of(said)


def lean(root: Any) -> Any:
    """Take away from an element what does not decide how something looks, and let each colour be said in one way."""
    for each in root.iter():
        name = local(each)
        if name in _KEPT:
            each[:] = [child for child in each if local(child) in _KEPT[name]]
        elif name in ("color", "fgColor", "bgColor"):
            kind = next((kind for kind in ("rgb", "theme", "indexed") if kind in each.attrib), "auto")
            said = each.get(kind, "1")
            if kind == "rgb" and rgb_of(said) is None:
                kind, said = "auto", "1"
            each.attrib = {kind: said, "tint": each.get("tint", "0")}
    return root


def local(element: Any) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def rgb_of(text: str) -> RGB | None:
    """The colour of six hexadecimal digits, or of eight, the first two of which say nothing; else None."""
    if _RGB.fullmatch(text) is None:
        return None
    value = int(text[-6:], 16)
    return value >> 16, value >> 8 & 255, value & 255


def unseen(letters: Letters, behind: Colour | None) -> str | None:
    """Why letters cannot be seen; None where they can, or where that is not certain."""
    if letters.size is not None and letters.size < MIN_SIZE:
        return TOO_SMALL
    alike = letters.colour is not None and behind is not None and _is_alike(letters.colour, behind)
    return SAME_COLOUR if alike else None


def _is_alike(one: Colour, other: Colour) -> bool:
    if one.said == other.said:
        return True
    if one.rgb is None or other.rgb is None:
        return False
    return all(abs(mine - its) < ALIKE for mine, its in zip(one.rgb, other.rgb, strict=True))
