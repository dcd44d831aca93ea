"""A folder of nights, one JSON file each, `YYYY-MM-DD.json`: written each night, replayed by a backtest."""

import json
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path

from treasury.errors import InputError
from treasury.planning.backtest import PlayedNight

_NAME = re.compile(r"\d{4}-\d{2}-\d{2}\.json")


def read_nights(folder: Path) -> Sequence[PlayedNight]:
    """The nights of a folder in order of their day; other files are left alone.

    Raises `InputError` for a folder without nights, and for a file that is not one or is another day's.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder of nights")
    nights = []
    for file in sorted(each for each in folder.iterdir() if _NAME.fullmatch(each.name)):
        try:
            night = PlayedNight.from_dict(json.loads(file.read_text(encoding="utf-8"), parse_float=Decimal))
        except (InputError, ValueError, TypeError) as error:
            raise InputError(f"{file}: {error}") from None
        if night.day.isoformat() != file.stem:
            raise InputError(f"{file}: is the night of {night.day}")
        nights.append(night)
    if not nights:
        raise InputError(f"{folder}: holds no night (YYYY-MM-DD.json)")
    return nights


def write_nights(folder: Path, nights: Iterable[PlayedNight]) -> None:
    """Write each night to its file. Raises `InputError` for a day that is already there: no record is overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    for night in nights:
        file = folder / f"{night.day}.json"
        try:
            with file.open("x", encoding="utf-8") as out:
                out.write(json.dumps(night.as_dict(), indent=2) + "\n")
        except FileExistsError:
            raise InputError(f"{file}: is already there, and stays as it is") from None
