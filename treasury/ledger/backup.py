"""Backups: ledger, ledger key and tokens in one file, made while runs go on, and verified before any of it is used.

A ZIP archive: `manifest.json`, `ledger.db` (a SQLite file, whatever the ledger is kept in), `ledger.key`, and
`tokens/...`. The private signing key and `account.json` are not in it.
"""

import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, MetaData, create_engine, func, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from treasury.clock import MACHINE, Clock
from treasury.concurrency.crash_points import crash_point
from treasury.errors import ConfigurationError, InputError, WrongLedgerKey
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey, no_key
from treasury.ledger.database import open_engine, serialize, sqlite_file
from treasury.ledger.failures import CLOSED, OPEN_IT, in_a_line
from treasury.ledger.migrations import check_readable, last_reader, read_meta, tables_of
from treasury.private_files import make_folder, read_private, why_unread
from treasury.settings import Settings

AT_ONCE = 1_000
"""Rows in memory at a time."""


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def copy_ledger(url: str, copy: Path) -> dict[str, str]:
    """Copy the ledger into a new SQLite file while others write to it; its `meta`.

    Raises `ConfigurationError` when there is no ledger, or it cannot be read.
    """
    file = sqlite_file(url)
    with _as_configuration(f"the ledger {file or 'on its server'} cannot be copied"):
        if file is None:
            return _copy_postgresql(url, copy)
        if not file.exists():
            raise ConfigurationError(f"there is no ledger {file}")
        name = f"{file.absolute().as_uri()}?mode=rw"  # never made
        with closing(sqlite3.connect(name, uri=True, timeout=60)) as ledger, closing(sqlite3.connect(copy)) as target:
            ledger.backup(target)  # all pages in one step: a single moment, without blocking writers
            target.execute("PRAGMA journal_mode=DELETE")
        with open_copy(copy) as connection:
            return _readable_meta(connection, url)


def _copy_postgresql(url: str, copy: Path) -> dict[str, str]:
    with connected(url, writes=False) as plain, open_copy(copy) as target:
        ledger = plain.execution_options(isolation_level="REPEATABLE READ")
        found = _readable_meta(ledger, url)
        tables = tables_of(found["schema"])
        tables.create_all(target)
        _copy_rows(ledger, target, tables)
        return found


@contextmanager
def connected(url: str, *, writes: bool) -> Iterator[Connection]:
    """A connection to a ledger, and nothing left of it after that; one transaction where it `writes`."""
    engine = open_engine(url, writes=writes)
    try:
        with engine.begin() if writes else engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _readable_meta(connection: Connection, url: str) -> dict[str, str]:
    found = read_meta(connection)
    if not found:
        raise ConfigurationError(f"there is no ledger in {sqlite_file(url) or 'this database'}")
    check_readable(found)
    return found


def open_copy(copy: Path) -> AbstractContextManager[Connection]:
    """A copy, for one transaction."""
    return create_engine(f"sqlite:///{copy}", poolclass=NullPool).begin()


def _copy_rows(source: Connection, target: Connection, tables: MetaData) -> None:
    for table in tables.sorted_tables:
        rows = source.execute(select(table).execution_options(yield_per=AT_ONCE))
        for part in rows.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in part])


def check_copy(copy: Path) -> None:
    """Raise `ConfigurationError` when SQLite finds the file damaged."""
    with _as_configuration("the copy of the ledger is damaged"), closing(sqlite3.connect(copy)) as ledger:
        [found] = ledger.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise ConfigurationError(f"the copy of the ledger is damaged: {found}")


def count_rows(copy: Path) -> dict[str, int]:
    """How many runs, orders and steps a copy holds."""
    with open_copy(copy) as connection:
        tables = (schema.runs, schema.orders, schema.journal)
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables
        }


def place_copy(copy: Path, url: str) -> None:
    """Make a copy the ledger of this URL, completely or not at all. Raises `ConfigurationError` where one exists."""
    file = sqlite_file(url)
    with _as_configuration("the ledger cannot be restored"):
        if file is None:
            _place_in_postgresql(copy, url)
            return
        copy.chmod(0o600)
        sync(copy)
        os.link(copy, file)  # fails where there is one
        sync(file.parent)


def _place_in_postgresql(copy: Path, url: str) -> None:
    with connected(url, writes=True) as ledger, open_copy(copy) as source:
        serialize(ledger)
        if inspect(ledger).get_table_names():
            raise ConfigurationError("the database of TREASURY_LEDGER_URL holds tables by now; nothing was done")
        tables = tables_of(read_meta(source)["schema"])
        tables.create_all(ledger)
        _copy_rows(source, ledger, tables)
        for table in tables.sorted_tables:
            if table.autoincrement_column is not None:
                _go_on_counting(ledger, table.name, table.autoincrement_column.name)


def _go_on_counting(ledger: Connection, table: str, column: str) -> None:
    """Advance the id sequences, which the copied rows bypassed."""
    sequence = ledger.execute(text("SELECT pg_get_serial_sequence(:t, :c)"), {"t": table, "c": column}).scalar_one()
    if sequence is not None:
        last = f"SELECT setval(:s, m) FROM (SELECT max({column}) AS m FROM {table}) AS ids WHERE m IS NOT NULL"  # noqa: S608 - names of our own tables
        ledger.execute(text(last), {"s": sequence})


@contextmanager
def _as_configuration(what: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise ConfigurationError(f"{what}: {in_a_line(error)}") from None
    except sqlite3.Error as error:
        why = f": {OPEN_IT}" if str(getattr(error, "sqlite_errorname", "")).startswith(CLOSED) else ""
        raise ConfigurationError(f"{what}: {error}{why}") from None
    except OSError as error:
        raise ConfigurationError(f"{what}: {error.strerror}: {error.filename}") from None


FORMAT = 1
MANIFEST, LEDGER, KEY = "manifest.json", "ledger.db", "ledger.key"
TOKENS = "tokens/"
LAST_BACKUP = "last_backup.json"
"""File of the home in which `treasury backup` keeps when it made its last one, and where."""
RESTORED = ".restored"
"""Ends the name of the file beside a backup that says when it was last restored."""

_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError),
    *(ValueError, KeyError, TypeError, AttributeError),
)
"""Errors that a damaged archive or manifest raises."""


@dataclass(frozen=True)
class Manifest:
    """The manifest of a backup."""

    format: int
    schema: str
    """Number of the ledger's format."""
    account: str
    created_at: int
    """Unix ms."""
    counts: Mapping[str, int]
    """Rows of `runs`, `orders` and `journal`."""
    sha256: Mapping[str, str]
    """Of every part, by its name."""

    @property
    def digest(self) -> str:
        """A hash that identifies this backup."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def token_files(settings: Settings) -> dict[str, Path]:
    """The tokens of a home: name of the part -> file."""
    folder = settings.token_folder
    if not folder.is_dir():
        return {}
    return {TOKENS + file.name: file for file in sorted(folder.glob("[!.]*")) if file.is_file()}


def place_of(settings: Settings, part: str) -> Path:
    """The file that a part (the key or a token) belongs in."""
    if part == KEY:
        return settings.ledger_key_file
    return settings.token_folder / part.removeprefix(TOKENS)


def make_backup(settings: Settings, file: Path, *, clock: Clock = MACHINE) -> Manifest:
    """Write a backup to a new file, mode 0600, completely or not at all.

    Raises `InputError` when the file exists, `ConfigurationError` when ledger or key cannot be read.
    """
    _refuse_existing(file)
    try:
        make_folder(file.parent)
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
            whole = Path(folder) / "backup"
            manifest = _write(settings, Path(folder) / LEDGER, whole, clock)
            sync(whole)
            crash_point("backup.written")
            try:
                os.link(whole, file)
            except FileExistsError:
                _refuse_existing(file)
        sync(file.parent)
    except OSError as error:
        raise ConfigurationError(f"the backup {file} cannot be written: {error.strerror}") from None
    return manifest


def _refuse_existing(file: Path) -> None:
    if file.exists() or file.is_symlink():
        raise InputError(f"{file} exists already, and a backup replaces nothing: give another name")


def _write(settings: Settings, copy: Path, whole: Path, clock: Clock) -> Manifest:
    meta = copy_ledger(settings.ledger_url, copy)
    check_copy(copy)
    # Race: tokens are read after the ledger, so they can only be ahead of it. That begins an epoch, which is safe.
    small = {KEY: _read_key(settings.ledger_key_file, meta)}
    small |= {name: token.read_bytes() for name, token in token_files(settings).items()}
    with copy.open("rb") as ledger:
        sha256 = {LEDGER: hashlib.file_digest(ledger, "sha256").hexdigest()}
    sha256 |= {name: hashlib.sha256(content).hexdigest() for name, content in small.items()}
    created_at = int(clock.wall() * 1000)
    manifest = Manifest(FORMAT, meta["schema"], meta["account"], created_at, count_rows(copy), sha256)
    handle = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with (
        os.fdopen(handle, "wb") as out,
        zipfile.ZipFile(out, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        archive.writestr(MANIFEST, json.dumps(asdict(manifest), indent=2) + "\n")
        archive.write(copy, LEDGER)
        for name, content in small.items():
            archive.writestr(name, content)
    return manifest


def _read_key(file: Path, meta: Mapping[str, str]) -> bytes:
    try:
        content = read_private(file, "ledger key file")
    except FileNotFoundError:
        raise WrongLedgerKey(no_key(file)) from None
    except OSError as error:
        raise ConfigurationError(f"the ledger key file {file} cannot be read: {why_unread(error)}") from None
    if LedgerKey.of(content.strip(), file).fingerprint != meta["key"]:
        raise WrongLedgerKey(f"{file} is not the key of this ledger: point TREASURY_LEDGER_KEY_FILE at it")
    return content


class Backup:
    """A backup that was read and verified."""

    def __init__(self, archive: zipfile.ZipFile, manifest: Manifest) -> None:
        self._archive = archive
        self.manifest = manifest
        self.small = {part: archive.read(part) for part in manifest.sha256 if part != LEDGER}
        """The key and the tokens, by the names of their parts."""

    def unpack_ledger(self, copy: Path) -> None:
        """Write the ledger's part to a file. Raises `ConfigurationError` unless it is what the manifest says."""
        with self._archive.open(LEDGER) as packed, copy.open("wb") as out:
            shutil.copyfileobj(packed, out, 1 << 20)
        check_copy(copy)
        if count_rows(copy) != self.manifest.counts:
            raise ConfigurationError("the backup's ledger does not hold what its manifest says")


@contextmanager
def open_backup(file: Path) -> Iterator[Backup]:
    """Open a backup and verify every checksum. Raises `InputError` when the file is no backup or is damaged."""
    try:
        archive = zipfile.ZipFile(file)
    except FileNotFoundError:
        raise InputError(f"there is no file {file}") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None
    except _BROKEN:
        raise InputError(f"{file} is not a backup of treasury-flows, or is cut off") from None
    with archive:
        try:
            backup = Backup(archive, _verified(archive, file))
        except (*_BROKEN, OSError) as error:
            raise InputError(f"the backup {file} is damaged ({type(error).__name__}); nothing was restored") from None
        yield backup


def _verified(archive: zipfile.ZipFile, file: Path) -> Manifest:
    if MANIFEST not in archive.namelist():
        raise InputError(f"{file} is not a backup of treasury-flows")
    said: dict[str, Any] = json.loads(archive.read(MANIFEST))
    if (reader := last_reader(said["schema"])) is not None:
        raise InputError(
            f"the backup {file} holds a ledger of format {said['schema']}, of before the first release, and nothing "
            f"was restored: restore it with commit {reader} of treasury-flows, the last that reads it, and "
            "finish or cancel there what is open in it"
        )
    if said["format"] != FORMAT or not said["schema"].isdecimal() or int(said["schema"]) > int(schema.VERSION):
        raise InputError(
            f"the backup {file} has format {said['format']} and ledger format {said['schema']}; this treasury-flows "
            f"reads {FORMAT} and up to {schema.VERSION}: install a newer treasury-flows"
        )
    manifest = Manifest(**said)
    parts = [name for name in archive.namelist() if name != MANIFEST]
    if sorted(parts) != sorted(manifest.sha256) or not {LEDGER, KEY} <= set(parts) or not all(map(_is_part, parts)):
        raise ValueError("other parts than its manifest says")
    for part in parts:
        with archive.open(part) as packed:
            if hashlib.file_digest(packed, "sha256").hexdigest() != manifest.sha256[part]:  # type: ignore[arg-type]  # a file like any other
                raise ValueError("a part that is not what it was")
    return manifest


def _is_part(name: str) -> bool:
    token = name.removeprefix(TOKENS)
    return name in (LEDGER, KEY) or (name != token and token not in ("", ".", "..") and "/" not in token)
