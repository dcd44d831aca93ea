"""An XLSX file as a zip archive of XML parts: read part by part, bounded, and without a document type."""

import posixpath
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from treasury.errors import InvalidSheet
from treasury.sheets.cells import MAX_UNPACKED, file_problem

MAX_PARTS = 10_000
MAX_SMALL_PART = 20_000_000
"""Bytes of a part that describes the others."""
MAX_DEPTH = 100_000
"""Elements inside each other, roughly: a parser remembers each."""
MAX_TOKEN = 1_000_000
"""Bytes without the begin of an element: a parser keeps them together."""
_CHUNK = 1 << 16
_SPREADSHEET_ODS = b"application/vnd.oasis.opendocument"

Started = Callable[[str, dict[str, str]], None]
Ended = Callable[[str], None]

BROKEN = (zipfile.BadZipFile, zlib.error, expat.ExpatError, EOFError, NotImplementedError, RuntimeError, OSError)
"""What a damaged archive or part raises, an encrypted one too."""


class Unreadable(Exception):
    """A part is not what a workbook's should be."""


class Package:
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

    def unreadable(self) -> InvalidSheet:
        """The error for a file that no spreadsheet program wrote."""
        return file_problem(self.path, "is not a readable .xlsx workbook", "not_a_workbook")

    def too_big(self) -> InvalidSheet:
        """The error for a file that is small only as long as it is packed."""
        rule = f"unpacks to more than {MAX_UNPACKED // 1_000_000} MB: copy the cells that are needed into a new file"
        return file_problem(self.path, rule, "too_big")

    def chunks(self, name: str, most: int = MAX_SMALL_PART) -> Iterator[bytes]:
        """A part, piece by piece, of at most so many bytes. What its header says of its size is not believed."""
        taken = depth = since = 0
        with self._zip.open(self.names[name]) as part:
            while chunk := part.read(_CHUNK):
                taken += len(chunk)
                if taken > most:
                    raise self.too_big()
                depth += chunk.count(b"<") - 2 * chunk.count(b"</") - chunk.count(b"/>")
                last = chunk.rfind(b"<")
                since = since + len(chunk) if last < 0 else len(chunk) - last
                if depth > MAX_DEPTH or since > MAX_TOKEN:
                    raise Unreadable("no sheet is like this")
                yield chunk

    def other_format(self) -> str | None:
        """Return what to do with an archive that is another program's sheet; None where it is not known as one."""
        if "mimetype" in self.names and next(self.chunks("mimetype"), b"").startswith(_SPREADSHEET_ODS):
            return "is an OpenDocument sheet (.ods): save it as .xlsx"
        if any(name.endswith("workbook.bin") for name in self.names):
            return "is a binary workbook (.xlsb): save it as .xlsx"
        if any(name.startswith("Index/") for name in self.names):
            return "is a Numbers document: export it as .xlsx"
        return None

    def parse(
        self,
        name: str,
        started: Started,
        ended: Ended,
        text: Callable[[str], None] | None = None,
        most: int = MAX_SMALL_PART,
    ) -> None:
        """Read a part whole."""
        parser = new_parser(started, ended, text)
        for chunk in self.chunks(name, most):
            parser.Parse(chunk, False)
        parser.Parse(b"", True)

    def relations(self, name: str) -> Mapping[str, tuple[str, str]]:
        """Id -> (kind, part) of the parts that a part refers to; kind is the last word of its type."""
        folder, file = posixpath.split(name)
        found: dict[str, tuple[str, str]] = {}

        def started(tag: str, attributes: dict[str, str]) -> None:
            if local(tag) == "Relationship" and attributes.get("TargetMode") != "External":
                target = attributes.get("Target", "")
                joined = target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
                kind = attributes.get("Type", "").rpartition("/")[2]
                found[attributes.get("Id", "")] = (kind, posixpath.normpath(joined))

        relations = f"{folder}/_rels/{file}.rels".lstrip("/")
        if relations in self.names:
            self.parse(relations, started, nothing)
        return found


def nothing(_: str) -> None:
    """Return what ends without a meaning."""


def local(tag: str) -> str:
    """The name of an element without its prefix."""
    return tag.rpartition(":")[2] if ":" in tag else tag


def new_parser(started: Started, ended: Ended, text: Callable[[str], None] | None = None) -> expat.XMLParserType:
    """A parser that calls these, and refuses a document type: with it come entities, which no workbook has."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = started
    parser.EndElementHandler = ended
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = _refuse
    return parser


def _refuse(*_: object) -> NoReturn:
    raise Unreadable("a document type")
