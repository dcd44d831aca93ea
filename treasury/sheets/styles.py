"""The cell formats of a workbook: its part of styles, read once for all cells."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from treasury.sheets.looks import PLAIN, RGB, THEME, Colour, Font, Look, Palette, number_of, rgb_of, unseen
from treasury.sheets.number_formats import BUILT_IN, GENERAL, NumberFormat, read_format
from treasury.sheets.package import Package, Unreadable, local, nothing

MAX_FORMATS = 100_000
"""Formats, fonts, fills and cell formats of a workbook: spreadsheet programs allow 65,490."""

STRUCK_OUT, NOT_SHOWN = "struck_out", "not_shown"
"""Codes of what a conditional format may do to a cell."""


@dataclass
class Styles:
    """The cell formats of a workbook, by number."""

    formats: list[NumberFormat] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    by_rule: list[str | None] = field(default_factory=list)
    """Of the formats of conditional formatting: the code of what they may do to a cell."""
    palette: Palette = field(default_factory=Palette)
    from_1904: bool = False
    doubtful: frozenset[int] = frozenset()
    """Cell formats in which something may not be seen; of all others the look is not asked."""
    is_filled: bool = False
    """Whether there is a cell format with a fill."""

    def finish(self) -> None:
        """Find out what follows from all of them."""
        self.doubtful = frozenset(
            number
            for number, look in enumerate(self.looks)
            if look.is_struck or self.formats[number].has_colours or unseen(look.font, look.behind)
        )
        self.is_filled = any(look.behind is not PLAIN for look in self.looks)


def is_on(attributes: Mapping[str, str]) -> bool:
    """Tell whether an element switches on what it is named for."""
    return attributes.get("val", "1") in ("1", "true", "on")


class Painting:
    """The paint of a font, a fill or a conditional format, from its elements as they begin."""

    def __init__(self) -> None:
        self.is_struck = False
        self.code: str | None = None
        self.hides_value = False
        """Whether icons or bars stand in the place of a value."""
        self._colour: dict[str, str] | None = None
        self._size: str | None = None
        self._pattern: str | None = None
        self._front: dict[str, str] | None = None
        self._back: dict[str, str] | None = None
        self._in_font = False

    def started(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        match name:
            case "font" | "rPr":
                self._in_font = True
            case "fill" | "border":
                self._in_font = False
            case "strike":
                self.is_struck = is_on(attributes)
            case "color" if self._in_font:
                self._colour = attributes
            case "sz" if self._in_font:
                self._size = attributes.get("val")
            case "patternFill" | "gradientFill":
                self._pattern = attributes.get("patternType", "") if name == "patternFill" else name
            case "fgColor":
                self._front = attributes
            case "bgColor":
                self._back = attributes
            case "numFmt":
                self.code = attributes.get("formatCode")
            case "iconSet" | "dataBar":
                self.hides_value |= attributes.get("showValue") in ("0", "false")

    @property
    def has_font(self) -> bool:
        """Tell whether a font is said."""
        return self._in_font

    def font(self, palette: Palette) -> Font:
        """The font."""
        colour = None if self._colour is None else palette.colour(self._colour)
        return Font(colour, None if self._size is None else number_of(self._size))

    def fill(self, palette: Palette) -> Colour | None:
        """The colour of the fill of a cell; None where it is not certain."""
        if self._pattern in (None, "", "none"):
            return PLAIN
        return palette.colour(self._front) if self._pattern == "solid" and self._front is not None else None

    def may_do(self, palette: Palette, *, is_filled: bool) -> str | None:
        """The code of what a conditional format may do to a cell. `is_filled`: whether cells may have a fill."""
        if self.is_struck:
            return STRUCK_OUT
        shown = read_format(GENERAL if self.code is None else self.code)
        is_blank = any(each.is_blank for each in (*shown.numbers[:1], *([] if shown.text is None else [shown.text])))
        if self._pattern is None:
            behind = None if is_filled else PLAIN
        else:
            behind = None if self._back is None else palette.colour(self._back)
        hides = self.hides_value or is_blank or unseen(self.font(palette), behind)
        return NOT_SHOWN if hides else None


class Pieces:
    """The fonts of a text's pieces, from its elements as they begin and end."""

    def __init__(self, palette: Palette) -> None:
        self.piece: Painting | None = None
        self.fonts: set[Font | None] = set()
        """Of those pieces that hold letters; None for the font of the cell."""
        self.is_struck = False
        """Whether one of them is struck out."""
        self._palette = palette

    def letters(self) -> None:
        """The piece holds letters."""
        if self.piece is not None:
            self.fonts.add(self.piece.font(self._palette) if self.piece.has_font else None)
            self.is_struck |= self.piece.is_struck

    def clear(self) -> None:
        """Another text begins."""
        self.fonts, self.is_struck = set(), False


@dataclass
class _Reading:
    """The part of styles while it is read: what is in it, in its order."""

    codes: dict[int, str] = field(default_factory=lambda: dict(BUILT_IN))
    fonts: list[Painting] = field(default_factory=list)
    fills: list[Painting] = field(default_factory=list)
    rules: list[Painting] = field(default_factory=list)
    cells: list[tuple[int, int, int]] = field(default_factory=list)
    """Of each cell format the numbers of its number format, font and fill."""
    indexed: list[RGB | None] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)

    def started(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        name = local(tag)
        if name in ("fonts", "fills", "cellXfs", "numFmts", "dxfs", "cellStyleXfs", "indexedColors"):
            self.inside.append(name)
        kept = (self.codes, self.fonts, self.fills, self.rules, self.cells, self.indexed)
        if not self.inside:
            return
        if sum(map(len, kept)) > MAX_FORMATS:
            raise Unreadable("more formats than there may be")
        match self.inside[-1], name:
            case "numFmts", "numFmt":
                self.codes[int(attributes["numFmtId"])] = attributes.get("formatCode", GENERAL)
            case "cellXfs", "xf":
                said = [int(attributes.get(each, "0")) for each in ("numFmtId", "fontId", "fillId")]
                self.cells.append((said[0], said[1], said[2]))
            case "indexedColors", "rgbColor":
                self.indexed.append(rgb_of(attributes.get("rgb", "")))
            case ("fonts" | "fills" | "dxfs") as group, _:
                self._paint(group, name, attributes)

    def _paint(self, group: str, name: str, attributes: dict[str, str]) -> None:
        holder, first = {"fonts": (self.fonts, "font"), "fills": (self.fills, "fill"), "dxfs": (self.rules, "dxf")}[
            group
        ]
        if name == first:
            holder.append(Painting())
        if holder:
            holder[-1].started(name, attributes)

    def ended(self, tag: str) -> None:
        """An element ends."""
        if self.inside and local(tag) == self.inside[-1]:
            self.inside.pop()

    def styles(self, palette: Palette) -> Styles:
        """Return what is in it."""
        if self.indexed:
            palette.indexed = self.indexed
        fonts = [each.font(palette) for each in self.fonts]
        fills = [each.fill(palette) for each in self.fills]
        made = Styles(palette=palette)
        for code, font, fill in self.cells:
            made.formats.append(read_format(self.codes.get(code, GENERAL)))
            known = 0 <= font < len(fonts)
            behind = fills[fill] if 0 <= fill < len(fills) else None if fill else PLAIN
            made.looks.append(Look(fonts[font] if known else Font(), behind, known and self.fonts[font].is_struck))
        made.finish()
        made.by_rule = [each.may_do(palette, is_filled=made.is_filled) for each in self.rules]
        return made


def read_styles(package: Package, part: str | None, theme: str | None, *, from_1904: bool) -> Styles:
    """Return what each cell format shows, and which of them hide what is in a cell."""
    reading = _Reading()
    if part is not None and part in package.names:
        package.parse(part, reading.started, reading.ended)
    styles = reading.styles(_read_palette(package, theme))
    styles.from_1904 = from_1904
    return styles


def _read_palette(package: Package, part: str | None) -> Palette:
    """The colours of a theme; those of the usual one where a workbook has none."""
    found: dict[int, RGB] = {}
    place: list[int] = []

    def started(tag: str, attributes: dict[str, str]) -> None:
        name = local(tag)
        if name in THEME:
            place[:] = [THEME[name]]
        elif place and name in ("srgbClr", "sysClr"):
            rgb = rgb_of(attributes.get("lastClr" if name == "sysClr" else "val", ""))
            if rgb is not None:
                found.setdefault(place.pop(), rgb)
        elif name == "fontScheme":
            place.clear()

    if part is None or part not in package.names:
        return Palette()
    package.parse(part, started, nothing)
    return Palette(found)
