"""Which line of a file names its columns, and which column each of the names means: known, or mapped by a person."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treasury.errors import InputError, RowProblem
from treasury.files import write_json
from treasury.sheets.cell_texts import judge_text
from treasury.sheets.cells import MAX_COLUMNS, TOO_MANY_COLUMNS, Cell, Line, Typed, is_filled
from treasury.sheets.writing import letter_of
from treasury.texts import cut_text

FILE = "mappings.json"
"""In the home: a list of sets of headers, each with what those of them mean that are no columns of the sheet."""


@dataclass(frozen=True)
class Mappings:
    """The confirmed meanings, by the set of headers that they were confirmed for."""

    confirmed: tuple[tuple[frozenset[str], tuple[tuple[str, str], ...]], ...] = ()

    def of(self, headers: Iterable[str]) -> dict[str, str]:
        """Header -> the column that it means, of a sheet with exactly these headers."""
        wanted = frozenset(headers)
        return next((dict(columns) for known, columns in self.confirmed if known == wanted), {})


def read_mappings(home: Path) -> Mappings:
    """Return what was confirmed in a home. Raises `InputError` for a file that cannot be read."""
    return Mappings(
        tuple((frozenset(each["headers"]), tuple(sorted(each["columns"].items()))) for each in _read(home / FILE))
    )


def remember_mapping(home: Path, headers: Iterable[str], columns: Mapping[str, str], by: str) -> Path:
    """Keep what somebody confirmed of these headers; returns the file that holds it."""
    file, names = home / FILE, sorted(headers)
    others = [each for each in _read(file) if each["headers"] != names]
    write_json(file, [*others, {"headers": names, "columns": dict(columns), "confirmed_by": by}])
    return file


def _read(file: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        is_right = all(map(_is_mapping, found))
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError, AttributeError):
        is_right = False
    if not is_right:
        raise InputError(f"{file} cannot be read: delete it, and confirm again what your headers mean")
    return list(found)


def _is_mapping(each: Any) -> bool:
    headers, columns = each["headers"], each["columns"]
    texts = [*headers, *columns.keys(), *columns.values()]
    return all(isinstance(text, str) for text in texts) and columns.keys() <= set(headers)


OWN_PREFIXES = ("note", "#", "_")
"""How the columns begin that people keep for themselves, and those that a corrected copy has besides."""

STATUS, PROBLEM = "_status", "_problem"
"""The columns of a corrected copy that say what is wrong with a row."""

MAX_NAME = 60
"""Characters of a column's name that are shown."""

_SEPARATED = re.compile(r"[\s_\-]+")


@dataclass(frozen=True)
class Layout:
    """Which columns a sheet has."""

    key: str
    """The column that names a row: never blank, never twice, unless it `repeats`."""
    required: tuple[str, ...] = ()
    """Columns that must be there, besides the key."""
    optional: tuple[str, ...] = ()
    free_prefix: str | None = None
    """Columns that begin with this are welcome whatever follows, letter case kept; blank: others are not read."""
    amounts: frozenset[str] = frozenset()
    """Columns that hold amounts."""
    identifiers: frozenset[str] = frozenset()
    """Columns that hold account numbers and other codes, in which every digit and each zero in front counts; those
    with the free prefix do too."""

    repeats: bool = False
    """True when whoever makes the rows tells those of one key apart."""

    synonyms: Mapping[str, str] = field(default_factory=dict)
    """People's names for a column that can be no other: in small letters, words joined by underscores. Where there are
    any, somebody is asked what an unknown name means."""

    @property
    def known(self) -> tuple[str, ...]:
        """All columns that have a fixed name."""
        return (self.key, *self.required, *self.optional)

    def allows(self, column: str) -> bool:
        """Tell whether a sheet may have this column."""
        return column in self.known or self.is_free(column) or self.free_prefix == ""

    def is_free(self, column: str) -> bool:
        """Tell whether the column has the free prefix."""
        return bool(self.free_prefix) and column.startswith(str(self.free_prefix)) and column != self.free_prefix

    def is_read(self, column: str) -> bool:
        """Tell whether what stands in the column counts."""
        return column in self.known or self.is_free(column)

    def is_identifier(self, column: str) -> bool:
        """Tell whether the column holds account numbers or other codes."""
        return column in self.identifiers or self.is_free(column)

    def column_of(self, name: str) -> str:
        """The column that a name in a header means: in any letter case, with spaces, hyphens or underscores."""
        name = name.strip()
        if self.free_prefix and name.casefold().startswith(self.free_prefix):
            return self.free_prefix + name[len(self.free_prefix) :].strip()
        plain = _SEPARATED.sub("_", name.casefold())
        return plain if plain in self.known else name

    def score(self, names: Sequence[str]) -> int:
        """How many different columns of this sheet these cells name."""
        return len({column for column in map(self.column_of, names) if self.is_read(column)})

    def guess(self, names: Sequence[str]) -> int:
        """How many columns of this sheet these cells may name, in other people's words."""
        return len({self.synonyms.get(_SEPARATED.sub("_", name.strip().casefold())) for name in names} - {None})


@dataclass(frozen=True)
class Header:
    """The header of a sheet."""

    line: int
    columns: list[str]
    """Column of each cell; blank where the sheet has none that is read."""
    problems: list[RowProblem]
    above: tuple[int, ...] = ()
    """Lines above it that hold something."""
    is_corrected: bool = False
    """True for that of a copy of ours."""
    mapped: Mapping[str, str] = field(default_factory=dict)
    """Names that are read as a column because somebody confirmed it."""
    proposal: Mapping[str, str] = field(default_factory=dict)
    """Names that are no column and may mean one, where nothing else is wrong with the header."""
    names: frozenset[str] = frozenset()
    """All names but those of columns that people keep for themselves."""


def texts_of(cells: Iterable[Cell]) -> list[str]:
    """The texts of cells; blank for one that has none."""
    return [cell if isinstance(cell, str) else cell.text if isinstance(cell, Typed) else "" for cell in cells]


def find_header(lines: Sequence[Line], layout: Layout, mappings: Mappings = Mappings()) -> Header | None:
    """The header among the first filled lines: the one that names most columns, or may. None where none names any."""
    scores = [layout.score(texts_of(line.cells)) for line in lines]
    if not any(scores):
        scores = [layout.guess(texts_of(line.cells)) for line in lines]
    best = max(scores, default=0)
    if not best and layout.free_prefix != "":
        return None
    place = scores.index(best)
    line = lines[place]
    names = [name.strip() for name in texts_of(line.cells)]
    while names and not names[-1]:
        names.pop()
    if len(names) > MAX_COLUMNS:
        problem = RowProblem(line.number, None, "file", TOO_MANY_COLUMNS, code="too_many_columns")
        return Header(line.number, [], [problem])
    own = frozenset(name for name in names if name and not is_own(name))
    mapped = mappings.of(own)
    if not all(map(layout.is_read, mapped.values())):
        mapped = {}  # it was said of another kind of sheet
    columns = [mapped.get(name) or layout.column_of(name) for name in names]
    proposal = {} if mapped or not layout.synonyms else _proposal(columns, layout)
    problems = _problems(line.number, columns, layout, proposal)
    for above in lines[:place]:
        filled = sum(map(is_filled, above.cells))
        if filled > 3 and filled * 2 > len(columns):
            rule = "stands above the header and looks like a row: move it below the header, or delete it"
            problems.append(RowProblem(above.number, None, "row", rule, code="row_above_header"))
    columns = [column if layout.is_read(column) else "" for column in columns]
    filled_above = tuple(each.number for each in lines[:place])
    return Header(line.number, columns, problems, filled_above, STATUS in names, mapped, proposal, own)


def _proposal(columns: Sequence[str], layout: Layout) -> dict[str, str]:
    """Return what each unknown name can mean, where each can mean one missing column alone, and nothing else is
    wrong."""
    unknown = [name for name in columns if not layout.allows(name) and not is_own(name)]
    missing = [name for name in layout.known if name not in columns]
    found: dict[str, str] = {}
    for name in unknown:
        plain = _SEPARATED.sub("_", name.casefold())
        near = difflib.get_close_matches(plain, missing, cutoff=CLOSE)
        meant = {*near, layout.synonyms.get(plain, name)} & {*missing}
        if len(meant) == 1 and judge_text(name) is None:
            found[name] = meant.pop()
    means = [found.get(name, name) for name in columns]
    is_whole = len(found) == len(set(unknown)) and not _problems(0, means, layout, {})
    return found if is_whole else {}


CLOSE = 0.75
"""How alike a name and a column are, from 0 to 1, so that one may be meant with the other."""


def _problems(number: int, columns: list[str], layout: Layout, proposal: Mapping[str, str]) -> list[RowProblem]:
    problems = [
        RowProblem(number, None, cut_text(name, MAX_NAME), *_unknown(place, name, layout, proposal.get(name)))
        for place, name in enumerate(columns, 1)
        if not layout.allows(name) and not is_own(name)
    ]
    twice = sorted({name for name in columns if layout.is_read(name) and columns.count(name) > 1})
    problems += [RowProblem(number, None, name, "is there twice", code="column_twice") for name in twice]
    missing = [name for name in (layout.key, *layout.required) if name not in columns]
    rule = "this column is missing"
    return problems + [RowProblem(number, None, name, rule, code="column_missing") for name in missing]


def is_own(name: str) -> bool:
    """Tell whether a column is a person's own, and not read."""
    return name.casefold().startswith(OWN_PREFIXES)


def _unknown(place: int, name: str, layout: Layout, meant: str | None) -> tuple[str, None, str]:
    if not name:
        return f"column {letter_of(place - 1)} has no name: name it, or delete it", None, "column_without_name"
    fault = judge_text(name)
    if fault is not None:
        return fault[0], None, fault[1]
    if meant is not None:
        rule = (
            f"is not a column of this sheet: did you mean {meant}? Say so once on a terminal, which asks, or rename it"
        )
        return rule, None, "unknown_column"
    near = difflib.get_close_matches(_SEPARATED.sub("_", name.casefold()), layout.known, n=1)
    hint = f": did you mean {near[0]}?" if near else ": delete it, or let its name begin with note"
    return "is not a column of this sheet" + hint, None, "unknown_column"
