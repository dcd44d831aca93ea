"""Files and folders for their owner alone: how they are made, when one is refused, and which ones others may open.

A file that others can read, or that anybody else can write, holds no secret and is not to be believed. One that a group
can read is not refused: containers hand secrets over so.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from treasury.errors import ConfigurationError

_BEYOND = stat.S_IRWXG | stat.S_IRWXO
_READ_BY_OTHERS = stat.S_IROTH
_WRITTEN_BY_ANYBODY = stat.S_IWGRP | stat.S_IWOTH


def be_private() -> None:
    """Have this process, and those it starts, make files and folders for their owner alone."""
    os.umask(0o077)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, each for its owner alone. Raises `OSError`."""
    if not folder.exists():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def make_empty(file: Path) -> None:
    """Make an empty file for its owner alone, unless it is there. Raises `OSError`."""
    make_folder(file.parent)
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def make_once(file: Path, content: bytes) -> None:
    """Make a file for its owner alone, whole and on the disk, unless another process was first. Raises `OSError`."""
    make_folder(file.parent)
    handle, fresh = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        with suppress(FileExistsError):
            os.link(fresh, file)
    finally:
        Path(fresh).unlink()
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # a file whose name a power cut takes was never made
    finally:
        os.close(folder)


MAX_SMALL_BYTES = 1_000_000
"""Bytes of a policy, a key, a token, or the fields of an operation."""


class FileTooLarge(OSError):
    """A file does not end within its bound; a device never does."""


def read_bounded(file: Path, most: int = MAX_SMALL_BYTES) -> bytes:
    """Return the content of a file. Raises `OSError`, among them `FileTooLarge` for more than so many bytes.

    A pipe is read to its end; one that nobody writes into is not waited for, and is no empty file.
    """
    with _opened(file) as opened:
        return _read(opened, most)


def why_unread(error: Exception) -> str:
    """Return in words why a file that should hold text cannot be read."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "it holds no plain text"


def read_private(file: Path, what: str) -> bytes:
    """Return what a file holds that only its owner may know. Raises `OSError`, and `ConfigurationError` when it is
    open."""
    with _opened(file) as opened:
        mode = os.fstat(opened.fileno()).st_mode  # of the very file that is read
        if stat.S_ISREG(mode):
            _check(file, mode, what)
        return _read(opened, MAX_SMALL_BYTES)


def _opened(file: Path) -> BinaryIO:
    opened = open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))  # noqa: SIM115 - theirs
    os.set_blocking(opened.fileno(), True)
    return opened


def _read(opened: BinaryIO, most: int) -> bytes:
    content = opened.read(most + 1)
    if len(content) > most:
        raise FileTooLarge(errno.EFBIG, f"it has more than {most:,} bytes")
    if not content and not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        raise OSError(errno.ENODATA, "it is no file, and holds nothing")
    return content


def _check(file: Path, mode: int, what: str) -> None:
    if mode & _READ_BY_OTHERS:
        raise ConfigurationError(f"the {what} {file} can be read by others: chmod 600 {file}")
    if mode & _WRITTEN_BY_ANYBODY:
        raise ConfigurationError(f"the {what} {file} can be written by others: chmod 600 {file}")
    folder = file.resolve().parent
    above = folder.stat().st_mode
    if above & stat.S_IWOTH and not above & stat.S_ISVTX:
        raise ConfigurationError(f"the {what} {file} can be replaced by others: chmod o-w {folder}")


@dataclass(frozen=True)
class Opening:
    """A file or folder that more than its owner can open."""

    path: Path
    mode: int

    @property
    def is_grave(self) -> bool:
        """Tell whether others can open it or its group can write it; else its group can read it."""
        return bool(self.mode & (stat.S_IRWXO | stat.S_IWGRP))

    @property
    def remedy(self) -> str:
        """The command that mends it."""
        return f"chmod {'700' if stat.S_ISDIR(self.mode) else '600'} {self.path}"

    def __str__(self) -> str:
        who = "others" if self.mode & stat.S_IRWXO else "its group"
        can = "written" if self.mode & _WRITTEN_BY_ANYBODY else "read"
        return f"{self.path} can be {can} by {who}: {self.remedy}"


def openings(*paths: Path) -> Iterator[Opening]:
    """Yield what of these files, and of these folders with all that is in them, more than its owner can open.

    Links are left out: what they lead to has a mode of its own.
    """
    for path in paths:
        try:
            mode = path.lstat().st_mode
            inside = sorted(path.iterdir()) if stat.S_ISDIR(mode) else []
        except OSError:
            continue  # it went meanwhile, or we cannot look either
        if mode & _BEYOND and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            yield Opening(path, mode)
        yield from openings(*inside)


def close_to_others(paths: Iterable[Path]) -> None:
    """Take from everybody else what is ours of these files and folders; links are left as they are."""
    for path in paths:
        with suppress(OSError):
            found = path.lstat()
            ours = found.st_uid == os.geteuid() and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))
            if ours and found.st_mode & _BEYOND:
                path.chmod(stat.S_IMODE(found.st_mode) & ~_BEYOND)
