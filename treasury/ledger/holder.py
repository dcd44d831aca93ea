"""One holder per run: an OS file lock beside a SQLite ledger, a session lock on PostgreSQL.

Both are released when their process ends, and need no timeout.
"""

import errno
import hashlib
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, text

from treasury.clock import MACHINE
from treasury.errors import ConfigurationError, LedgerLost, RunHeld
from treasury.ledger.database import Writer
from treasury.private_files import make_folder
from treasury.texts import cut_text


class FileLock:
    """`flock` on a file for each run that is held; it says who holds it, and goes when its lock is released."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        """`prefix`: begins what the name of a file is the hash of, before the run key."""
        self._folder = folder
        self._prefix = prefix
        self._open: dict[str, tuple[int, Path]] = {}

    def acquire(self, run_key: str) -> None:
        """Take it, or raise `RunHeld`."""
        import fcntl

        file = self._file(run_key)
        try:
            self._make_folder()
            while True:
                descriptor = self._open_file(file)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # Race: the holder removes the file on release, so the lock taken may be of a removed file.
                    if _is_still(file, descriptor):
                        break
                except BlockingIOError:
                    holder = os.pread(descriptor, MAX_HOLDER, 0)
                    os.close(descriptor)
                    raise RunHeld(run_key, _describe(holder)) from None
                except OSError:
                    os.close(descriptor)
                    raise
                os.close(descriptor)
        except OSError as error:
            raise ConfigurationError(
                f"runs cannot be locked in {self._folder}: {error.strerror}; nothing was sent"
            ) from None
        os.ftruncate(descriptor, 0)
        here = {
            "process": str(os.getpid()),
            "host": socket.gethostname(),
            "since": f"{MACHINE.now():%Y-%m-%dT%H:%M:%SZ}",
        }
        os.pwrite(descriptor, json.dumps(here).encode(), 0)
        self._open[run_key] = descriptor, file

    def release(self, run_key: str) -> None:
        """Let it go."""
        descriptor, file = self._open.pop(run_key)
        with suppress(OSError):
            file.unlink()  # removed while still locked: a process that waits for this file then sees that it is gone
        os.close(descriptor)

    def _file(self, run_key: str) -> Path:
        return self._folder / f"{hashlib.sha256((self._prefix + run_key).encode()).hexdigest()[:32]}.lock"

    def _make_folder(self) -> None:
        make_folder(self._folder)

    def _open_file(self, file: Path) -> int:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


MAX_HOLDER = 1000
"""Bytes that are read of who holds a lock."""


def _describe(holder: bytes) -> str:
    said = _read_holder(holder)
    return f"process {said['process']} on {said['host']} since {said['since']}" if said else "another process"


def _read_holder(content: bytes) -> dict[str, str]:
    """Who holds a lock, cleaned; empty for what no holder wrote: any user may write into a lock that all share."""
    try:
        holder = json.loads(content)
        return {name: cut_text(str(holder[name]), 100) for name in ("process", "host", "since")}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}


SHARED_FOLDER = Path("/tmp/treasury-flows.locks")  # noqa: S108 - its files are locks: nothing is read from them but a name
"""The lock folder that all homes of a machine share, whoever their user is."""


class MachineLock(FileLock):
    """A lock file that all homes of a machine share, named by account and run: one home at a time holds a run."""

    def __init__(self, account: str, folder: Path | None = None) -> None:
        super().__init__(folder or SHARED_FOLDER, f"{account}|")
        self._holds = Holds(self)

    def hold(self, run_key: str) -> AbstractContextManager[bool]:
        """Hold a run on this machine. Raises `RunHeld`."""
        return self._holds.hold(run_key)

    def seems_held(self, run_key: str) -> bool:
        """Tell whether a process of this machine that lives says that it holds a run; asking keeps nobody out."""
        try:
            # A pipe, which cannot be read at a place, is not waited for, and no link is followed.
            descriptor = os.open(self._file(run_key), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                holder = os.pread(descriptor, MAX_HOLDER, 0)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        try:
            os.kill(int(_read_holder(holder)["process"]), 0)
        except PermissionError:  # it lives, and is another user's
            return True
        except (OSError, ValueError, LookupError, OverflowError):
            return False
        return True

    def _make_folder(self) -> None:
        with suppress(FileExistsError):
            self._folder.mkdir()
            self._folder.chmod(0o1777)  # writable by all users; sticky, so nobody removes another's file
        if self._folder.is_symlink() or not self._folder.is_dir():
            raise ConfigurationError(f"{self._folder} is no folder, so runs cannot be locked; nothing was sent")

    def _open_file(self, file: Path) -> int:
        try:
            # Not with O_CREAT at first: in a sticky folder the kernel refuses that for a file of another user.
            descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            with suppress(PermissionError):
                os.fchmod(descriptor, 0o666)  # whatever the umask is
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise
            raise ConfigurationError(_not_ours(file, str(error.strerror))) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ConfigurationError(_not_ours(file, "it is no file"))
        return descriptor


def _not_ours(file: Path, why: str) -> str:
    return f"runs cannot be locked by {file}, which another user made ({why}): have it removed; nothing was sent"


def _is_still(file: Path, descriptor: int) -> bool:
    try:
        return file.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


class SessionLock:
    """A PostgreSQL advisory lock on the very session that writes: a lost session can record and send nothing."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def acquire(self, run_key: str) -> None:
        """Take it, or raise `RunHeld`."""

        taken: list[int] = []

        def take(connection: Connection) -> str | None:
            number = self._number(run_key)
            # A transaction that is rolled back and made again leaves its session the lock, counted, but not the name.
            if not taken and connection.execute(text("SELECT pg_try_advisory_lock(:n)"), {"n": number}).scalar_one():
                taken.append(number)
            if taken:
                name = f"treasury {os.getpid()} {socket.gethostname()}"[:63]
                connection.execute(text("SELECT set_config('application_name', :name, false)"), {"name": name})
                return None
            who = connection.execute(
                text(
                    "SELECT a.application_name, a.backend_start FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
                    " WHERE l.locktype = 'advisory' AND l.granted"
                    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
                    " AND ((l.classid::bigint << 32) | l.objid::bigint) = :n"
                ),
                {"n": number},
            ).first()
            return "another process" if who is None else f"{who[0]} since {who[1]:%Y-%m-%dT%H:%M:%SZ}"

        holder = self._writer.write(take)
        if holder is not None:
            raise RunHeld(run_key, holder)

    def release(self, run_key: str) -> None:
        """Let it go; a session that was lost has done so."""
        number = self._number(run_key)
        with suppress(LedgerLost):
            self._writer.write(
                lambda connection: connection.execute(text("SELECT pg_advisory_unlock(:n)"), {"n": number}).scalar_one()
            )

    @staticmethod
    def _number(run_key: str) -> int:
        """A non-negative 63-bit number, which both halves in `pg_locks` can be joined to."""
        return int.from_bytes(hashlib.sha256(run_key.encode()).digest()[:8], "big") >> 1


class Holds:
    """The runs this process holds. A flow holds a run for all its tasks; its tasks may take it again."""

    def __init__(self, lock: FileLock | SessionLock) -> None:
        self._lock = lock
        self._counts: dict[str, int] = {}
        self._guard = threading.Lock()

    @property
    def is_empty(self) -> bool:
        """Tell whether this process holds nothing."""
        return not self._counts

    @contextmanager
    def hold(self, run_key: str) -> Iterator[bool]:
        """Hold a run; yields whether it was just taken. Raises `RunHeld` when another process has it."""
        with self._guard:
            fresh = run_key not in self._counts
            if fresh:
                self._lock.acquire(run_key)
            self._counts[run_key] = self._counts.get(run_key, 0) + 1
        try:
            yield fresh
        finally:
            with self._guard:
                self._counts[run_key] -= 1
                if not self._counts[run_key]:
                    del self._counts[run_key]
                    self._lock.release(run_key)
