"""Restoring a backup into an empty home, on either database.

The ledger is placed first and is marked as being restored until the end, so that no program uses it before. A restore
that was cut off is resumed by giving the same backup again.
"""

import os
import shutil
import sqlite3
import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path

from sqlalchemy import inspect
from sqlalchemy.exc import DBAPIError

from treasury.clock import MACHINE, Clock
from treasury.concurrency.crash_points import crash_point
from treasury.errors import ConfigurationError, InputError
from treasury.ledger.backup import (
    KEY,
    Backup,
    Manifest,
    connected,
    open_backup,
    open_copy,
    place_copy,
    place_of,
    sync,
    token_files,
)
from treasury.ledger.database import sqlite_file
from treasury.ledger.failures import in_a_line
from treasury.ledger.migrations import RESTORING, read_meta, set_meta
from treasury.private_files import make_folder
from treasury.settings import Settings

RESTORED_AT = "restored_at"
"""Row of `meta`: when the ledger was restored, Unix ms."""

_UNFINISHED = ".restore-"
"""Folders beside the ledger, only while a restore is under way."""


def restore_backup(settings: Settings, file: Path, *, clock: Clock = MACHINE) -> Manifest:
    """Restore ledger, key and tokens into an empty home.

    Raises `InputError` when something is in the way or the file is no whole backup, and `ConfigurationError` when the
    ledger or a file cannot be written.
    """
    with open_backup(file) as backup:
        begun = _check_empty(settings, backup)
        try:
            if not begun:
                _place_ledger(settings, backup, clock)
            crash_point("restore.ledger")
            for part, content in backup.small.items():
                _place(place_of(settings, part), content)
        except OSError as error:
            raise ConfigurationError(f"{error.filename} cannot be written: {error.strerror}") from None
        crash_point("restore.placed")
        _finish(settings.ledger_url)
        return backup.manifest


def _check_empty(settings: Settings, backup: Backup) -> bool:
    """Tell whether a restore of this backup was begun before. Raises `InputError` that names what is in the way."""
    in_the_way, restoring = _ledger_in_the_way(settings.ledger_url)
    begun = restoring == backup.manifest.digest
    if begun:
        in_the_way = []
    elif restoring is not None:
        raise InputError(
            f"a restore of another backup was cut off here: give that one again, or remove {', '.join(in_the_way)}"
        )
    places = {place_of(settings, part): part for part in (KEY, *backup.small)}
    places |= {token: part for part, token in token_files(settings).items()}
    for place, part in places.items():
        # A restore of this backup that was cut off left the same files that this one writes; and its key may be where
        # secrets are kept. An older token would count less than this machine sent.
        if place.exists() and not ((begun or part == KEY) and _holds(place, backup.small.get(part))):
            in_the_way.append(str(place))
    if in_the_way:
        raise InputError(
            f"a backup is restored into an empty home only; in the way: {', '.join(in_the_way)}. "
            "Give an empty folder as TREASURY_HOME, or move these away; nothing was restored"
        )
    return begun


def _holds(place: Path, content: bytes | None) -> bool:
    try:
        return content is not None and place.read_bytes().strip() == content.strip()
    except OSError:  # a folder, or another user's: it is in the way
        return False


def _ledger_in_the_way(url: str) -> tuple[list[str], str | None]:
    """The ledger that is in the way, if any, and the backup whose restore into it was cut off, if any."""
    file = sqlite_file(url)
    if file is not None:
        # SQLite would apply a leftover log to the restored ledger.
        found = [file.with_name(file.name + end) for end in ("", "-wal", "-journal")]
        names = [str(each) for each in found if each.exists()]
        try:
            with open_copy(file) if file.exists() else nullcontext() as connection:
                return names, None if connection is None else read_meta(connection).get(RESTORING)
        except DBAPIError:
            return names, None  # no ledger, and in the way
    try:
        with connected(url, writes=False) as connection:
            tables = sorted(inspect(connection).get_table_names())
            names = [f"tables {', '.join(tables)} in the database of TREASURY_LEDGER_URL"] if tables else []
            return names, read_meta(connection).get(RESTORING)
    except DBAPIError as error:
        raise ConfigurationError(f"the ledger cannot be opened: {in_a_line(error)}") from None


def _place_ledger(settings: Settings, backup: Backup, clock: Clock) -> None:
    file = sqlite_file(settings.ledger_url)
    folder = settings.home if file is None else file.parent
    make_folder(settings.home)
    make_folder(folder)
    for left in folder.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=folder) as unpacked:
        copy = Path(unpacked) / "ledger.db"
        backup.unpack_ledger(copy)
        with open_copy(copy) as connection:
            rows = {RESTORED_AT: str(int(clock.wall() * 1000)), RESTORING: backup.manifest.digest}
            set_meta(connection, rows)  # the restored tokens agree with the restored ledger, so it says so itself
        place_copy(copy, settings.ledger_url)


def _place(place: Path, content: bytes) -> None:
    """Write a file for its owner alone, completely or not at all. An existing one is the same (`_check_empty`)."""
    if place.exists():  # perhaps where nobody may write
        return
    make_folder(place.parent)
    fresh = place.with_name(f".restoring-{place.name}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    try:
        with suppress(FileExistsError):
            os.link(fresh, place)
    finally:
        fresh.unlink()
    sync(place.parent)


def _finish(url: str) -> None:
    try:
        with connected(url, writes=True) as connection:
            set_meta(connection, {RESTORING: None})
    except (DBAPIError, sqlite3.Error) as error:
        said = in_a_line(error) if isinstance(error, DBAPIError) else error
        raise ConfigurationError(f"the restore cannot be finished: {said}; give the same backup again") from None
