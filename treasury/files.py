"""Files written whole or not at all, readable by their owner alone: bytes, text, JSON."""

import errno
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TextIO

from treasury.errors import DiskFull, InputError, NotWritable, TreasuryError
from treasury.money import format_amount
from treasury.private_files import make_folder


def as_ours(error: Exception) -> TreasuryError:
    """Return an error of ours as it is, and one of ours for a disk or file that cannot be used; raises others."""
    if isinstance(error, TreasuryError):
        return error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(str(error.strerror))
    if isinstance(error, OSError) and error.errno in UNUSABLE and error.filename is not None:
        return NotWritable(str(error.filename2 or error.filename), str(error.strerror))
    if isinstance(error, FileNotFoundError) and _stands_nowhere():
        return NotWritable("the folder that this was started in", "it is there no more")
    raise error


def _stands_nowhere() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - asked for itself
    except FileNotFoundError:
        return True
    return False


UNUSABLE = frozenset(
    (errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
)
"""Errors of a folder that is read-only, somebody else's, no folder, or on a disk or share that fails."""


def path_of(given: str) -> Path:
    """Return the path that somebody typed. Raises `InputError` for what can be no path."""
    try:
        os.lstat(given)
    except ValueError:
        why = "it holds a character that no name has"
    except OSError as error:  # of any other one whoever opens it says more
        why = "it is too long" if error.errno == errno.ENAMETOOLONG else ""
    else:
        why = ""
    if why:
        raise InputError(f"{given[:100]!r} can be no path: {why}; nothing was sent")
    return Path(given)


def check_folder(given: Path) -> None:
    """Raise `InputError` where results cannot be written into a folder of this name."""
    try:
        there = next((each for each in (given, *given.parents) if each.exists()), None)
    except OSError as error:
        raise InputError(f"out: {str(given)[:500]} can be no folder: {error.strerror}; nothing was sent") from None
    if there is not None and not there.is_dir():
        raise InputError(f"out: {there} is a file, and not a folder; nothing was sent")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file of these bytes."""
    with replacing(path) as file:
        file.buffer.write(content)


def write_text(path: Path, text: str) -> None:
    """Write a text file, UTF-8."""
    with replacing(path) as file:
        file.write(text)


def copy_file(source: Path, target: Path) -> None:
    """Write a file with the content of another one."""
    with replacing(target) as file, source.open("rb") as content:
        shutil.copyfileobj(content, file.buffer)


def write_json(path: Path, value: object) -> None:
    """Write a JSON file: amounts as text, dates in ISO form, everything else as JSON has it.

    It is made piece by piece, for the text of a large run is many times its rows. A member that is an iterator becomes
    a list, and only one item of it is there at a time.
    """
    with replacing(path) as file:
        if isinstance(value, Mapping) and any(isinstance(member, Iterator) for member in value.values()):
            file.writelines(_with_iterators(value))
        else:
            file.writelines(_ENCODER.iterencode(value))
        file.write("\n")


def _with_iterators(members: Mapping[str, object]) -> Iterator[str]:
    before = "{"
    for name, member in members.items():
        yield f"{before}\n  {_ENCODER.encode(name)}: "
        before = ","
        if isinstance(member, Iterator):
            items = (_indented(item, 4) for item in member)
            first = next(items, None)
            yield "[]" if first is None else f"[\n    {first}"
            yield from (f",\n    {item}" for item in items)
            yield "" if first is None else "\n  ]"
        else:
            yield _indented(member, 2)
    yield "\n}"


def _indented(value: object, by: int) -> str:
    return _ENCODER.encode(value).replace("\n", "\n" + " " * by)  # no text of JSON holds a line break


def _plain(value: object) -> str:
    if isinstance(value, Decimal):
        return format_amount(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form here")


_ENCODER = json.JSONEncoder(ensure_ascii=False, indent=2, allow_nan=False, default=_plain)


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """A file that takes its place in one step once all of it is on the disk; an error leaves what was there."""
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """A folder that one writer at a time has: what is read while it is held is newer than what others wrote into it."""
    make_folder(folder)
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # of a share that has no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
