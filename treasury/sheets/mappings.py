"""Headers that a person gave columns of their own sheet, and what each means, once somebody confirmed it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treasury.errors import InputError
from treasury.files import write_json

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
