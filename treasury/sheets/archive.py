"""An XLSX file as a zip archive: bounded, and each part looked through before openpyxl reads it.

openpyxl keeps a part as a tree, so what a part may hold is counted in its bytes first; it takes a tenth of the time.
"""

import re
import zipfile
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from treasury.errors import InvalidSheet
from treasury.sheets.cells import MAX_CELLS, MAX_UNPACKED, file_problem

MAX_PARTS = 10_000
MAX_SMALL_PART = 20_000_000
"""Bytes of a part that describes the others."""
LAST_ROW = 1_048_576
MAX_TOKEN = 1_000_000
"""Bytes without the begin of an element: a parser keeps them together."""
MAX_ELEMENTS = 400_000
"""Elements of a part; of a sheet besides its rows, its cells and what is usual in them."""
MAX_ATTRIBUTES = 2_000_000
"""Attributes of a part, besides ten for each row and cell of a sheet."""
_CHUNK = 1 << 16
_PIECE = 1 << 12
_SPREADSHEET_ODS = b"application/vnd.oasis.opendocument"
_ROOT = re.compile(rb"<([A-Za-z_][\w.-]*:)?[A-Za-z_]")
_ENCODING = re.compile(rb"""(?:\xef\xbb\xbf)?<\?xml[^>]*?\sencoding\s*=\s*["'](?!(?i:utf-8|us-ascii)["'])""")

BROKEN = (zipfile.BadZipFile, zlib.error, ParseError, EOFError, NotImplementedError, RuntimeError, OSError)
"""Errors that a damaged or encrypted archive or part raises."""


class Unreadable(Exception):
    """A part is not what a workbook's should be."""


class Archive:
    """The parts of a workbook. Raises `InvalidSheet` for what is none, or unpacks to too much."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except BROKEN:
            raise self.unreadable() from None
        parts = self._zip.infolist()
        self.names = {part.filename.lstrip("/"): part for part in parts}
        if len(parts) > MAX_PARTS or sum(part.file_size for part in parts) > MAX_UNPACKED:
            raise self.too_big()

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def unreadable(self) -> InvalidSheet:
        """The error for a file that no spreadsheet program wrote."""
        return file_problem(self.path, "is not a readable .xlsx workbook", "not_a_workbook")

    def too_big(self) -> InvalidSheet:
        """The error for a file that is small only as long as it is packed."""
        rule = f"unpacks to more than {MAX_UNPACKED // 1_000_000} MB: copy the cells that are needed into a new file"
        return file_problem(self.path, rule, "too_big")

    def other_format(self) -> str | None:
        """Return what to do with an archive that is another program's sheet; None where it is not known as one."""
        if "mimetype" in self.names and next(self._chunks("mimetype", MAX_SMALL_PART), b"").startswith(
            _SPREADSHEET_ODS
        ):
            return "is an OpenDocument sheet (.ods): save it as .xlsx"
        if any(name.endswith("workbook.bin") for name in self.names):
            return "is a binary workbook (.xlsb): save it as .xlsx"
        if any(name.startswith("Index/") for name in self.names):
            return "is a Numbers document: export it as .xlsx"
        return None

    def read(self, name: str) -> bytes:
        """A part that describes others, whole. Raises `KeyError` where there is none of this name."""
        self.check(name, MAX_SMALL_PART)
        return self._zip.read(self.names[name])

    def elements(self, name: str) -> Generator[Element, None, None]:
        """The elements of a part that was looked through, each as it ends.

        Parsed in pieces so small that the few elements that are there at a time start no collection of garbage.
        """
        parser: Any = XMLPullParser(("end",))
        with self._zip.open(self.names[name]) as part:
            while piece := part.read(_PIECE):
                parser.feed(piece)
                yield from (element for _, element in parser.read_events())
        parser.close()
        yield from (element for _, element in parser.read_events())

    def check(self, name: str, most: int, elements: int = MAX_ELEMENTS, *, in_sheet: bool = False) -> int:
        """Look through a part of at most so many bytes and elements; returns how many rows of a sheet hold something.

        Raises `Unreadable` for what no spreadsheet program writes, and `InvalidSheet` for what is too large.
        """
        census = Census()
        for text in self._chunks(name, most):
            census.count(text, in_sheet=in_sheet)
            if census.cells > MAX_CELLS:
                rule = f"has more than {MAX_CELLS:,} cells: copy those that are needed into a new file"
                raise file_problem(self.path, rule, "too_many_cells")
            if census.elements > elements or census.rows > LAST_ROW:
                raise Unreadable("too many elements")
        return census.filled_rows

    def _chunks(self, name: str, most: int) -> Iterator[bytes]:
        """A part of at most so many bytes, piece by piece, each of whole elements' begins. What its header says of its
        size is not believed."""
        taken, kept = 0, b""
        with self._zip.open(self.names[name]) as part:
            while chunk := part.read(_CHUNK):
                taken += len(chunk)
                if taken > most:
                    raise self.too_big()
                text = kept + chunk
                end = max(text.rfind(b"<"), 0)
                kept = text[end:]
                if len(kept) > MAX_TOKEN:
                    raise Unreadable("no part is like this")
                if end:
                    yield text[:end]
        yield kept


class Census:
    """Counts of what is in a part, made of its bytes; where markup is meant to deceive, they are too high."""

    def __init__(self) -> None:
        self.elements = self.attributes = self.cells = self.rows = self.filled_rows = 0
        self._has_value = False
        self._prefix: bytes | None = None

    def count(self, text: bytes, *, in_sheet: bool = False) -> None:
        """Count what begins in the next piece; raises `Unreadable` where nobody could count it, or for what is far
        too much."""
        if self._prefix is None:
            root = _ROOT.search(text)
            self._prefix = b"" if root is None else root[1] or b""
            if _ENCODING.match(text):
                raise Unreadable("not in UTF-8")
        if b"<!DOCTYPE" in text or b"\0" in text:
            raise Unreadable("a document type, and with it entities: no workbook has them")
        self.elements += text.count(b"<") - text.count(b"</")
        self.attributes += text.count(b'="') + text.count(b"='")
        if in_sheet:
            self._count_cells(text, b"<" + self._prefix, b"</" + self._prefix + b"row>")
        if self.attributes > MAX_ATTRIBUTES + 10 * (self.cells + self.rows):
            raise Unreadable("too many attributes")

    def _count_cells(self, text: bytes, begin: bytes, end_of_row: bytes) -> None:
        cells, rows = text.count(begin + b"c"), text.count(begin + b"row")
        self.cells, self.rows = self.cells + cells, self.rows + rows
        self.elements -= cells + rows + sum(min(text.count(begin + each), cells) for each in (b"v", b"is", b"t", b"f"))
        for at, row in enumerate(text.split(end_of_row)):
            self.filled_rows += at > 0 and self._has_value
            self._has_value = (self._has_value and at == 0) or begin + b"v" in row or begin + b"is" in row
