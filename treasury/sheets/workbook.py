"""XLSX workbooks: which sheet is meant, and one streaming pass over its rows, what nobody sees known as such.

openpyxl's streaming reader sees neither; its other one takes 50 times the file's size in memory.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from treasury.errors import InvalidSheet
from treasury.sheets.cells import MAX_CELLS, MAX_ROWS, MAX_UNPACKED, TOO_MANY_ROWS, Line, Table, file_problem
from treasury.sheets.control import HELPER_SHEETS
from treasury.sheets.headers import MAX_NAME
from treasury.sheets.hidden_by_rule import area_of
from treasury.sheets.looks import Palette
from treasury.sheets.package import BROKEN, Package, Unreadable, local, new_parser, nothing
from treasury.sheets.sheet_xml import Area, HidesRows, SheetReader, SheetTooWide, Strings
from treasury.sheets.styles import Painting, Pieces, read_styles
from treasury.texts import cut_text

MAX_STRINGS = 2_000_000
MAX_STRING_CHARACTERS = 100_000_000
MAX_STRING_BYTES = 200_000_000
ELEMENTS_OF_CELL, MIN_ELEMENTS = 30, 4_000_000
"""How many elements a sheet or the table of texts may have for each cell, and in any case."""
MAX_TABLES = 100
"""Tables of a sheet whose colours are looked at."""
_LIGHT = re.compile(r"TableStyle(Light[0-9]+|Medium([1-7]|1[5-9]|2[01]))")
"""Styles of tables whose rows, or every second one, are white below the header."""
_SIDES = ("showFirstColumn", "showLastColumn")
"""Columns that some of these styles fill."""


@dataclass(frozen=True)
class SheetName:
    """A sheet of a workbook."""

    name: str
    relation: str
    hidden: bool


@dataclass
class ReadBook:
    """The content of `workbook.xml`."""

    sheets: list[SheetName] = field(default_factory=list)
    from_1904: bool = False


def read_workbook(path: Path, sheet: str | None) -> Table:
    """The lines of a workbook's sheet, the one of this name or its only one.

    Raises `InvalidSheet` when it is no workbook or too large, and when it is not clear which sheet is meant.
    """
    package = Package(path)
    try:
        if (other := package.other_format()) is not None:
            raise file_problem(path, other, "other_format")
        main = next((part for kind, part in package.relations("").values() if kind == "officeDocument"), "")
        related = package.relations(main)
        book = _read_book(package, main)
        worksheets = _worksheets(book, related)
        chosen = choose_sheet(path, worksheets, sheet)
        part = related[chosen.relation][1]
        cells = _check_size(package, part)
        looks = _part(related, "styles"), _part(related, "theme")
        styles = read_styles(package, *looks, from_1904=book.from_1904)
        most = max(MIN_ELEMENTS, ELEMENTS_OF_CELL * cells)
        strings = _read_strings(package, _part(related, "sharedStrings"), most, styles.palette)
        painted = _read_tables(package, part)
    except (*BROKEN, Unreadable, KeyError, ValueError):
        raise package.unreadable() from None
    reader = SheetReader(strings, styles, painted)
    lines = _lines(package, part, reader, chosen.name)
    return Table(lines, hidden_columns=reader.hidden_columns, hidden_by_rule=reader.hidden_by_rule)


def choose_sheet(path: Path, sheets: list[SheetName], name: str | None) -> SheetName:
    """The sheet of this name; without one the only visible sheet, where no hidden one stands before it.

    Sheets that a template has besides its own are left out.
    """
    sheets = [each for each in sheets if each.name not in HELPER_SHEETS]
    visible = [each for each in sheets if not each.hidden]
    names = ", ".join(cut_text(each.name, MAX_NAME) for each in visible[:20])
    if name is not None:
        found = [each for each in sheets if each.name == name]
        found = found or [each for each in sheets if each.name.casefold().strip() == name.casefold().strip()]
        if not found:
            raise file_problem(path, f"has no sheet named {name!r}: it has {names}", "no_such_sheet")
        if found[0].hidden:
            raise file_problem(path, f"hides the sheet {name!r}: show it, look at it, save the file", "hidden_sheet")
        return found[0]
    if not visible:
        raise file_problem(path, "has no visible sheet: show the one that is meant, save the file", "hidden_sheet")
    if len(visible) > 1:
        rule = (
            f"has {len(visible)} sheets ({names}): save the one that is meant as a file of its own, or say which it is "
            "(treasury pay and provision: --sheet)"
        )
        raise file_problem(path, rule, "several_sheets")
    if sheets[0].hidden:
        first = cut_text(sheets[0].name, MAX_NAME)
        rule = (
            f"begins with a hidden sheet ({first}): delete it or show it, save the file, or say which sheet is meant "
            f"(treasury pay and provision: --sheet {names!r})"
        )
        raise file_problem(path, rule, "hidden_sheet")
    return visible[0]


def _part(related: Mapping[str, tuple[str, str]], wanted: str) -> str | None:
    return next((part for kind, part in related.values() if kind == wanted), None)


def _read_book(package: Package, main: str) -> ReadBook:
    book = ReadBook()

    def started(tag: str, attributes: dict[str, str]) -> None:
        match local(tag):
            case "sheet":
                hidden = attributes.get("state", "visible") != "visible"
                relation = next((value for name, value in attributes.items() if local(name) == "id"), "")
                book.sheets.append(SheetName(attributes.get("name", ""), relation, hidden))
            case "workbookPr":
                book.from_1904 = is_true(attributes.get("date1904", "0"))

    package.parse(main, started, nothing)
    if not book.sheets:
        raise Unreadable("no sheets")
    return book


def _worksheets(book: ReadBook, related: Mapping[str, tuple[str, str]]) -> list[SheetName]:
    """The sheets that have cells, charts left out."""
    found = [each for each in book.sheets if related.get(each.relation, ("", ""))[0] == "worksheet"]
    if not found:
        raise Unreadable("no sheets")
    return found


def is_true(text: str) -> bool:
    """A boolean of XML."""
    return text in ("1", "true", "on")


def _check_size(package: Package, part: str) -> int:
    """The cells of a sheet, counted by looking through it, which takes a tenth of reading it; refused if too many."""
    cells = values = elements = 0
    kept = b""
    for chunk in package.chunks(part, MAX_UNPACKED):
        text = kept + chunk
        end = text.rfind(b"<")
        text, kept = text[:end], text[end:]
        cells += sum(text.count(each) for each in (b"<c ", b"<c>", b"<c/", b":c "))
        values += text.count(b"<v>") + text.count(b"<is>")
        elements += text.count(b"<")
        if cells > MAX_CELLS:
            rule = f"has more than {MAX_CELLS:,} cells: copy those that are needed into a new file"
            raise file_problem(package.path, rule, "too_many_cells")
    if elements > MIN_ELEMENTS + ELEMENTS_OF_CELL * cells:
        raise Unreadable("no sheet is like this")
    if values > MAX_ROWS and _filled_rows(package, part) > MAX_ROWS:
        raise file_problem(package.path, TOO_MANY_ROWS, "too_many_rows")
    return cells


def _filled_rows(package: Package, part: str) -> int:
    found, kept = 0, b""
    for chunk in package.chunks(part, MAX_UNPACKED):
        *whole, kept = (kept + chunk).split(b"</row>")
        found += sum(b"<v>" in row or b"<is" in row for row in whole)
    return found


def _read_tables(package: Package, part: str) -> list[Area]:
    """Return where tables of a sheet may have a colour behind cells: their headers, and all of them where they are
    dark."""
    found: list[Area] = []
    parts = [each for kind, each in package.relations(part).values() if kind == "table" and each in package.names]
    for each in parts[:MAX_TABLES]:
        said = _read_table(package, each)
        area, style = area_of(said.get("ref", "")), said.get("name")
        if area is None or style is None:
            continue
        is_light = _LIGHT.fullmatch(style) and not any(is_true(said.get(side, "0")) for side in _SIDES)
        found.append((area[0], area[1], area[2], area[1]) if is_light else area)
    return found


def _read_table(package: Package, part: str) -> dict[str, str]:
    """Return what is needed of a table: where it is, and its style."""
    said: dict[str, str] = {}

    def started(tag: str, attributes: dict[str, str]) -> None:
        match local(tag):
            case "table":
                said["ref"] = attributes.get("ref", "")
            case "tableStyleInfo":
                said.update({name: attributes[name] for name in ("name", *_SIDES) if name in attributes})

    package.parse(part, started, nothing)
    return said


def _read_strings(package: Package, part: str | None, most: int, palette: Palette) -> Strings:
    """The table of texts that cells point into; phonetic hints are no part of them. `most`: its elements."""
    strings = Strings()
    if part is None or part not in package.names:
        return strings
    too_much = file_problem(
        package.path, "holds too much text: copy the cells that are needed into a new file", "too_big"
    )
    pieces: list[str] = []
    taken = elements = 0
    in_text = in_hint = False
    rich = Pieces(palette)

    def started(tag: str, attributes: dict[str, str]) -> None:
        nonlocal in_text, in_hint, elements
        elements += 1
        if elements > most:
            raise too_much
        match local(tag):
            case "t":
                in_text = not in_hint
            case "si":
                pieces.clear()
            case "rPh":
                in_hint = True
            case "r":
                rich.piece = Painting()
            case name if rich.piece is not None:
                rich.piece.started(name, attributes)

    def text(data: str) -> None:
        nonlocal taken
        if in_text:
            pieces.append(data)
            taken += len(data)
            if taken > MAX_STRING_CHARACTERS or len(strings.texts) > MAX_STRINGS:
                raise too_much
            if rich.piece is not None and data.strip():
                rich.letters()

    def ended(tag: str) -> None:
        nonlocal in_text, in_hint
        match local(tag):
            case "t":
                in_text = False
            case "rPh":
                in_hint = False
            case "r":
                rich.piece = None
            case "si":
                if rich.fonts:
                    strings.keep(rich)
                strings.texts.append("".join(pieces))

    package.parse(part, started, ended, text, MAX_STRING_BYTES)
    return strings


def _lines(package: Package, part: str, reader: SheetReader, name: str) -> Iterator[Line]:
    parser = new_parser(reader.started, reader.ended, reader.text)
    try:
        for chunk in package.chunks(part, MAX_UNPACKED):
            parser.Parse(chunk, False)
            yield from reader.take()
        parser.Parse(b"", True)
        yield from reader.take()
    except InvalidSheet:
        raise
    except HidesRows:
        rule = f"hides the rows of {cut_text(name, MAX_NAME)} by default: show all of its rows, save the file"
        raise file_problem(package.path, rule, "hidden_row") from None
    except SheetTooWide as error:
        raise file_problem(package.path, str(error), "too_many_columns", error.row) from None
    except (*BROKEN, Unreadable, ValueError):
        raise package.unreadable() from None
