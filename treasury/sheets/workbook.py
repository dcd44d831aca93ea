"""XLSX workbooks: which sheet is meant, and its rows as openpyxl reads them, what nobody sees known as such.

Parts are found by their relations, as spreadsheet programs find them. openpyxl's own loader goes by fixed names: a
workbook could show other texts and styles to a person than to us.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openpyxl.packaging.relationship import Relationship, get_dependents, get_rels_path
from openpyxl.utils.cell import range_boundaries
from openpyxl.xml.constants import REL_NS, SHEET_MAIN_NS
from openpyxl.xml.functions import fromstring

from treasury.errors import InvalidSheet
from treasury.sheets.archive import BROKEN, Archive, Unreadable
from treasury.sheets.cells import (
    HEADER_WITHIN,
    HELPER_SHEETS,
    MAX_ROWS,
    MAX_UNPACKED,
    MAX_WORKBOOK_ROWS,
    Line,
    Table,
    file_problem,
)
from treasury.sheets.headers import MAX_NAME
from treasury.sheets.looks import Palette, RichText, local, read_styles
from treasury.sheets.worksheet import Area, SheetReader
from treasury.texts import cut_text

MAX_STRING_BYTES = 200_000_000
MAX_STRING_ELEMENTS = 4_000_000
MAX_TABLES = 100
"""Tables of a sheet whose colours are looked at."""
_LIGHT = re.compile(r"TableStyle(Light[0-9]+|Medium([1-7]|1[5-9]|2[01]))")
"""Styles of tables whose rows, or every second one, are white below the header."""
_SIDES = ("showFirstColumn", "showLastColumn")
"""Columns that some of these styles fill."""
_STRICT = "{http://purl.oclc.org/ooxml/"
"""How the names of elements begin in a variant of the format that openpyxl does not read."""

ODD = (*BROKEN, Unreadable, LookupError, ValueError, TypeError, AttributeError)
"""Errors that a part raises which is not a workbook's, those of openpyxl's objects included."""


@dataclass(frozen=True)
class SheetName:
    """A sheet of a workbook."""

    name: str
    part: str
    hidden: bool


@dataclass(frozen=True)
class Book:
    """A workbook: its sheets with cells, and the parts that are read for each of them."""

    archive: Archive
    sheets: list[SheetName]
    from_1904: bool
    parts: Mapping[str, str]
    """Kind -> part, such as `styles`."""


def read_workbook(path: Path, sheet: str | None) -> Table:
    """The lines of a workbook's sheet, the one of this name or its only one.

    Raises `InvalidSheet` when it is no workbook or too large, and when it is not clear which sheet is meant.
    """
    archive = Archive(path)
    try:
        if (other := archive.other_format()) is not None:
            raise file_problem(path, other, "other_format")
        book = open_book(archive)
    except ODD:
        raise archive.unreadable() from None
    return read_lines(book, choose_sheet(path, book.sheets, sheet))


def read_helper(path: Path, name: str) -> Table | None:
    """The lines of a sheet that is not the table; None for a workbook without it, and for what is no workbook.

    Raises `InvalidSheet` for one that cannot be read.
    """
    try:
        book = open_book(Archive(path))
    except (*ODD, InvalidSheet):
        return None
    found = next((each for each in book.sheets if each.name == name), None)
    return None if found is None else read_lines(book, found)


def open_book(archive: Archive) -> Book:
    """The workbook of an archive. Raises one of `ODD` for what is none."""
    main = next((each.target for each in _related(archive, "") if _kind(each) == "officeDocument"), "")
    related = {each.Id: each for each in _related(archive, main)}
    root = fromstring(archive.read(main))
    if root.tag.startswith(_STRICT):
        rule = "is a Strict Open XML workbook: save it as an ordinary Excel workbook (.xlsx)"
        raise file_problem(archive.path, rule, "other_format")
    sheets = []
    for each in root.iter(f"{{{SHEET_MAIN_NS}}}sheet"):
        relation = related.get(each.get(f"{{{REL_NS}}}id", ""))
        if relation is not None and _kind(relation) == "worksheet":
            hidden = each.get("state", "visible") != "visible"
            sheets.append(SheetName(each.get("name", ""), relation.target, hidden))
    if not sheets:
        raise Unreadable("no sheets")
    says = root.find(f"{{{SHEET_MAIN_NS}}}workbookPr")
    from_1904 = says is not None and is_true(says.get("date1904", "0"))
    parts = {_kind(each): each.target for each in reversed(related.values()) if each.target in archive.names}
    return Book(archive, sheets, from_1904, parts)


def read_lines(book: Book, sheet: SheetName) -> Table:
    """The lines of a sheet. Raises `InvalidSheet` for one that cannot be read, or is too large."""
    archive = book.archive
    rule = (
        f"has more than {MAX_WORKBOOK_ROWS:,} rows in the sheet {cut_text(sheet.name, MAX_NAME)}: save it as CSV UTF-8 "
        f"(which may have {MAX_ROWS:,}), or divide it into several files"
    )
    try:
        if archive.check(sheet.part, MAX_UNPACKED, in_sheet=True) > MAX_WORKBOOK_ROWS + HEADER_WITHIN:
            raise file_problem(archive.path, rule, "too_many_rows")
        looks = (archive.read(book.parts[kind]) if kind in book.parts else None for kind in ("styles", "theme"))
        styles = read_styles(*looks)
        strings = list(_strings(archive, book.parts.get("sharedStrings"), styles.palette))
        painted = list(_painted(archive, sheet.part))
    except ODD:
        raise archive.unreadable() from None
    reader = SheetReader(archive.path, sheet.name, strings, styles, painted, from_1904=book.from_1904)
    return Table(
        _lines(archive, sheet.part, reader),
        title=sheet.name,
        max_rows=MAX_WORKBOOK_ROWS,
        too_many_rows=rule,
        hidden_columns=reader.hidden_columns,
        hidden_ranges=reader.hidden_ranges,
    )


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
        if len(found) > 1:
            alike = ", ".join(repr(cut_text(each.name, MAX_NAME)) for each in found)
            raise file_problem(path, f"has several sheets named like {name!r}: say which ({alike})", "several_sheets")
        if found[0].hidden:
            raise file_problem(path, f"hides the sheet {name!r}: show it, look at it, save the file", "hidden_sheet")
        return found[0]
    if not visible:
        raise file_problem(path, "has no visible sheet: show the one that is meant, save the file", "hidden_sheet")
    if len(visible) > 1:
        rule = (
            f"has {len(visible)} sheets ({names}): save the one that is meant as a file of its own, or say which it is "
            "(--sheet)"
        )
        raise file_problem(path, rule, "several_sheets")
    if sheets[0].hidden:
        first = cut_text(sheets[0].name, MAX_NAME)
        rule = (
            f"begins with a hidden sheet ({first}): delete it or show it, save the file, or say which sheet is meant "
            f"(--sheet {names!r})"
        )
        raise file_problem(path, rule, "hidden_sheet")
    return visible[0]


def _related(archive: Archive, part: str) -> Sequence[Relationship]:
    """The relations of a part to others of the archive; none where it has none."""
    name: str = get_rels_path(part)  # type: ignore[no-untyped-call]
    found: Any = get_dependents(archive, name) if name in archive.names else []  # type: ignore[arg-type]
    return [each for each in found if each.TargetMode != "External"]


def _kind(relation: Relationship) -> str:
    return str(relation.Type).rpartition("/")[2]


def is_true(text: str) -> bool:
    """A boolean of XML."""
    return text in ("1", "true", "on")


def _painted(archive: Archive, part: str) -> Iterator[Area]:
    """Yield where tables of a sheet may have a colour behind cells: their headers, and all of them where they are
    dark."""
    parts = [each.target for each in _related(archive, part) if _kind(each) == "table" and each.target in archive.names]
    for each in parts[:MAX_TABLES]:
        table = fromstring(archive.read(each))
        style: Mapping[str, str] = next((child.attrib for child in table if local(child) == "tableStyleInfo"), {})
        if not style.get("name") or not table.get("ref"):
            continue
        left, top, right, bottom = (each or 0 for each in range_boundaries(table.get("ref", "")))
        is_light = _LIGHT.fullmatch(style.get("name", "")) and not any(is_true(style.get(side, "0")) for side in _SIDES)
        yield left, top, right, top if is_light else bottom


def _strings(archive: Archive, part: str | None, palette: Palette) -> Iterator[str | RichText]:
    """Yield the table of texts that cells point into."""
    if part is None:
        return
    archive.check(part, MAX_STRING_BYTES, MAX_STRING_ELEMENTS)
    with closing(archive.elements(part)) as elements:
        for element in elements:
            if local(element) == "si":
                yield palette.text(element)
                element.clear()


def _lines(archive: Archive, part: str, reader: SheetReader) -> Iterator[Line]:
    try:
        with closing(archive.elements(part)) as elements:
            yield from reader.lines(elements)
    except InvalidSheet:
        raise
    except ODD:
        raise archive.unreadable() from None
    finally:
        archive.close()
