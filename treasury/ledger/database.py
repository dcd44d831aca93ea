"""The ledger's database: opens it, and writes to it in groups from a single thread."""

import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.util import LRUCache

from treasury.clock import MACHINE
from treasury.concurrency.crash_points import crash_point
from treasury.concurrency.turns import Deliver, await_result
from treasury.errors import ConfigurationError, LedgerLost, LedgerPutBack
from treasury.ledger import sessions
from treasury.ledger.continuity import LedgerToken, SeenFile
from treasury.ledger.failures import IN_VAIN, in_a_line, names_of, unusable
from treasury.ledger.mapping import TABLES, with_columns
from treasury.ledger.statements import RowChange, S, change_all, change_one, insert_all

T = TypeVar("T")

_Item = tuple[Callable[[Connection], Any], Deliver]
"""Work of one caller, and where its result is delivered."""

SERIAL_LOCK = 7_265_001
"""PostgreSQL advisory lock that serializes making tables, judging intents and beginning epochs."""

OPEN_SECONDS = 60.0
"""How long one process waits for another that opens or writes the same file."""

CHECKPOINT_MS = 1_000
"""How long closing the ledger waits for readers of other processes."""

GROUP = 200
"""Most steps that share one commit."""


class _Compiled(LRUCache[Any, Any]):
    """Statements compiled for one kind of database: kept once for all ledgers that this process opens.

    SQLAlchemy keeps them for each engine: a key begins with that engine's dialect; the rest of it names the statement.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key[1:], value)


_COMPILED = {"sqlite": _Compiled(500), "postgresql": _Compiled(500)}


def _parse(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError:
        raise ConfigurationError(
            "TREASURY_LEDGER_URL is not a database URL: sqlite:////folder/ledger.db or postgresql://user@host/name"
        ) from None


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite ledger; None for another database. Raises `ConfigurationError` for no URL, or no whole path:
    a relative one is another ledger in each folder that a command starts in."""
    parsed = _parse(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    file = Path(parsed.database)
    if not file.is_absolute():
        raise ConfigurationError(
            f"TREASURY_LEDGER_URL names the ledger {file} without its whole path, so that it would be another one in "
            "each folder that a command starts in: write it with four slashes, as sqlite:////folder/ledger.db"
        )
    return file


def open_engine(url: str, *, writes: bool) -> Engine:
    """Open the database. SQLite: WAL, every commit synced, writers wait for each other instead of failing."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(url, writes=writes)
    if parsed.get_backend_name() != "postgresql":
        raise ConfigurationError(f"a ledger is kept in SQLite or PostgreSQL, not {parsed.get_backend_name()}")
    try:
        engine = create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_size=4,
            pool_timeout=2 * sessions.LOCK_SECONDS,  # who waits for a connection waits for others who wait for a lock
            connect_args=sessions.connect_args(parsed.query),
            isolation_level=sessions.ISOLATION,
            execution_options={"compiled_cache": _COMPILED["postgresql"]},
        )
    except (ArgumentError, NoSuchModuleError) as error:
        raise ConfigurationError(f"the ledger cannot be opened: {error}") from None

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        sessions.configure(connection)
        if writes:  # what such a database holds by now is still read, and backed up
            sessions.check_encoding(connection)
            sessions.check_direct(connection)

    return engine


def _open_sqlite(url: str, *, writes: bool) -> Engine:
    file = sqlite_file(url)
    if file is None:
        raise ConfigurationError("a ledger needs a file: sqlite:////path/to/ledger.db")
    engine = create_engine(
        url,
        connect_args={"timeout": OPEN_SECONDS, "check_same_thread": False},
        execution_options={"compiled_cache": _COMPILED["sqlite"]},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # SQLAlchemy sends BEGIN; the driver would send it too late
        _use_write_ahead_log(connection)
        for pragma in ("synchronous=FULL", "foreign_keys=ON", "busy_timeout=60000"):
            connection.execute(f"PRAGMA {pragma}")

    def begin(dbapi_connection: PoolProxiedConnection) -> None:
        # A writer takes its lock at the start: upgrading a read lock later can fail with "database is locked".
        dbapi_connection.cursor().execute("BEGIN IMMEDIATE" if writes else "BEGIN")

    engine.dialect.do_begin = begin  # type: ignore[method-assign]  # SQLAlchemy's event costs as much as a query
    return engine


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    # Race: of two processes that open a new ledger, SQLite tells one that it is locked at once, whatever its timeout.
    deadline = MACHINE.monotonic() + OPEN_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or MACHINE.monotonic() > deadline:
                raise
            MACHINE.sleep(0.02)
        else:
            return


def _checkpoint(connection: Connection) -> None:
    """Move SQLite's write-ahead log into the ledger's file, unless a reader in another process prevents it."""
    if connection.dialect.name != "sqlite":
        return
    with suppress(DBAPIError, sqlite3.Error):
        driver: Any = connection.connection.driver_connection
        driver.execute(f"PRAGMA busy_timeout={CHECKPOINT_MS}")
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


class in_code_points(FunctionElement[str]):  # noqa: N801 - stands in a query, as functions do
    """Order a text column as Python orders texts, by code points, whatever the database's locale is."""

    inherit_cache = True


@compiles(in_code_points)
def _as_it_is(element: "in_code_points", compiler: SQLCompiler, **named: Any) -> str:
    return compiler.process(element.clauses, **named)


@compiles(in_code_points, "postgresql")
def _collated(element: "in_code_points", compiler: SQLCompiler, **named: Any) -> str:
    return f'{compiler.process(element.clauses, **named)} COLLATE "C"'


def serialize(connection: Connection) -> None:
    """Serialize the rest of this transaction among processes; SQLite's writers are serialized anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": SERIAL_LOCK})


class _Moved(Exception):
    """A row of the group was no longer as expected."""


class Group:
    """The steps that share one transaction.

    With `together`, changes of rows are assumed to succeed and executed at the end, one statement for all changes of
    the same kind. If a row is no longer as expected, the transaction is rolled back, and each step is made again alone.
    """

    def __init__(self, connection: Connection, *, together: bool) -> None:
        self._connection = connection
        self._together = together
        self._changes: dict[RowChange, list[tuple[Any, ...]]] = {}
        self._new: dict[tuple[Table, tuple[str, ...]], list[tuple[Any, ...]]] = {}
        self.not_stopped: int | None = None
        """Since when, Unix ms, this transaction found that no policy took effect and that no stop is in force."""
        self.believed_until = inf
        """Until when that is believed, on the monotonic clock; `check_again` looks again."""
        self.check_again: Callable[[], None] | None = None
        self.marks = 0
        """Number of sends that this transaction marks, and of what people decided."""
        self.is_decided = False
        """True once it holds what a person decided."""

    def decide(self) -> None:
        """Count what a person decided: a ledger that forgot it is older than this machine knows."""
        self.marks += 1
        self.is_decided = True

    def change(
        self, row: S, known: Mapping[str, Any], values: Mapping[str, Any], counted: tuple[str, ...] = ()
    ) -> S | None:
        """Set these columns of a row if all of `known` still holds; returns the row after it, else None.

        `known`: every column that others may have changed since the row was read. `counted`: columns that go up by one.
        """
        if not self._together:
            return change_one(self._connection, type(row), known, values, counted)
        kind = RowChange(TABLES[type(row)], tuple(known), tuple(values), counted)
        self._changes.setdefault(kind, []).append((*known.values(), *values.values()))
        return with_columns(row, {**values, **{name: getattr(row, name) + 1 for name in counted}})

    def insert(self, table: Table, row: Mapping[str, Any]) -> None:
        """Insert a row; with `together`, in one statement with all rows of these columns."""
        if not self._together:
            insert_all(self._connection, table, tuple(row), [tuple(row.values())])
            return
        self._new.setdefault((table, tuple(row)), []).append(tuple(row.values()))

    def finish(self) -> None:
        """Execute what was gathered, inserts first because the same group may change them. Raises `_Moved`."""
        try:
            for (table, columns), rows in self._new.items():
                insert_all(self._connection, table, columns, rows)
        except IntegrityError:  # also of a row that is gone
            raise _Moved from None
        for kind, rows in self._changes.items():
            if change_all(self._connection, kind, rows) != len(rows):
                raise _Moved


def group_of(connection: Connection) -> Group:
    """The group of this transaction; only inside the work of a `Writer`."""
    group: Group = connection.info["group"]
    return group


VICTIM = {"40001", "40P01"}
"""Codes of a transaction that PostgreSQL ended in favour of another one: made again, it succeeds."""
VICTIM_TRIES = 5


class Writer:
    """The thread of this process that writes. Steps that arrive together share one synced commit.

    The connection is opened once and never silently replaced: on PostgreSQL it also carries the locks of the runs
    this process holds, so a process that lost its session can record nothing, and therefore sends nothing.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._lost: Exception | None = None
        self._file = sqlite_file(engine.url.render_as_string(hide_password=False))
        self.token: LedgerToken | None = None
        """Counts marked sends, once this machine is registered in the ledger."""
        self.seen: SeenFile | None = None
        """Keeps what this machine saw of decisions and policies."""
        try:
            self._connection = engine.connect()
        except DBAPIError as error:
            raise unusable("opened", error, self._file) from None
        self._opened = self._inode()
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do `work` in a transaction and return its result once that is on disk.

        An error raised by `work` undoes what it did and reaches this caller alone; `work` may be called again when
        another work of its transaction fails. A nested `write` belongs to the same transaction.
        """
        if threading.current_thread() is self._thread:
            return work(self._connection)
        result: T = await_result(lambda deliver: self._queue.put((work, deliver)))
        return result

    @property
    def is_lost(self) -> bool:
        """Tell whether nothing more can be recorded: the connection was lost, or the file is another one by now."""
        return self._lost is not None or self._inode() != self._opened

    def check_place(self) -> None:
        """Raise `LedgerLost` for another file by now (SQLite goes on with the old), and rows that were put back."""
        if isinstance(self._lost, LedgerPutBack):
            raise self._lost
        if self._inode() != self._opened:
            raise LedgerLost(f"{self._file} was moved away or replaced")

    def _inode(self) -> tuple[int, int] | None:
        """The device and number of the ledger's file; None where there is none."""
        with suppress(OSError):
            found = None if self._file is None else self._file.stat()
            return None if found is None else (found.st_dev, found.st_ino)
        return None

    def close(self, seconds: float | None = None) -> None:
        """Finish what is queued and close. `seconds`: the longest wait; the next opening finds everything committed."""
        self._queue.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive() or self._connection.closed:
            return
        _checkpoint(self._connection)
        self._connection.close()
        self._engine.dispose()

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            group, ends = [first], False
            while len(group) < GROUP and not self._queue.empty():
                item = self._queue.get()
                if item is None:
                    ends = True
                    break
                group.append(item)
            self._commit(group)
            if ends:
                return

    def _commit(self, group: list[_Item], *, together: bool = True, tries: int = VICTIM_TRIES) -> None:
        if self._lost is not None:
            self._refuse(group)
            return
        answers: list[tuple[Deliver, Any]] = []
        try:
            with self._connection.begin():
                shared = self._connection.info["group"] = Group(self._connection, together=together)
                for work, deliver in group:
                    answers.append((deliver, work(self._connection)))
                shared.finish()
                if shared.check_again is not None and MACHINE.monotonic() > shared.believed_until:
                    shared.check_again()
                token = self.token if shared.marks > 0 else None
                count = None if token is None else token.count(self._connection, shared.marks)
                seen = None if self.seen is None or not shared.is_decided else self.seen.look(self._connection, count)
                crash_point("writer.before")
        except _Moved:
            for item in group:
                self._commit([item], together=False)
            return
        except Exception as error:
            if len(group) == 1 and tries > 1 and names_of(error) & VICTIM:
                # Race: another machine changed the same rows in another sequence.
                self._commit(group, together=together, tries=tries - 1)
            else:
                self._fail(group, error)
            return
        crash_point("writer.committed")
        try:
            self.check_place()
        except LedgerLost as error:  # what was committed stands in a file that nobody will read
            self._lost = error
            self._refuse(group)
            return
        if token is not None and count is not None:
            token.write(count)
        if self.seen is not None and seen is not None:
            self.seen.write(seen)
        for deliver, result in answers:
            deliver(result, None)

    def _refuse(self, group: list[_Item]) -> None:
        for _, deliver in group:
            deliver(None, self._lost)

    def _fail(self, group: list[_Item], error: Exception) -> None:
        """Handle a group that was rolled back: try its steps one by one, so that one failure does not affect others."""
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            self._lost = LedgerLost(in_a_line(error))
        elif isinstance(error, LedgerPutBack):
            self._lost = error
            self._connection.invalidate()  # with the runs that its session holds
        if len(group) > 1 and not names_of(error) & IN_VAIN:  # each would wait as long again
            for item in group:
                self._commit([item])
            return
        reason = self._lost or error
        if isinstance(reason, DBAPIError):
            reason = unusable("written", reason, self._file)
        for _, deliver in group:
            deliver(None, reason)
