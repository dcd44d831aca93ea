"""Files that flows are given: a path on the machine of the run, or a file in a storage block of Prefect's."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from prefect.blocks.core import Block
from prefect.filesystems import ReadableFileSystem, WritableFileSystem

from blocks.policy import PREFIX
from treasury.errors import ConfigurationError, InputError
from treasury.files import path_of, write_bytes
from treasury.sheets.cells import MAX_BYTES

FORM = f"{PREFIX}TYPE/NAME/PATH"
"""A file in a storage block, such as block:local-file-system/inbox/payroll.xlsx: a worker elsewhere gets it."""


@contextmanager
def file_at_hand(file: str) -> Iterator[Path]:
    """The file that a parameter names, on this machine; one of a storage block is a copy, which ends with the block.

    Raises `ConfigurationError` where there is no such block, and `InputError` for what cannot be read.
    """
    if not file.startswith(PREFIX):
        yield path_of(file)
        return
    kind, _, rest = file.removeprefix(PREFIX).partition("/")
    name, _, path = rest.partition("/")
    content = _read(_storage(f"{kind}/{name}"), path, file)
    with tempfile.TemporaryDirectory(prefix="treasury-") as folder:
        copy = Path(folder) / (PurePosixPath(path).name or "file")
        write_bytes(copy, content)
        yield copy


def _storage(name: str) -> Any:
    try:
        found = Block.load(name)
    except ValueError:
        raise ConfigurationError(f"there is no storage block {name} ({FORM}); nothing was sent") from None
    if not isinstance(found, ReadableFileSystem | WritableFileSystem):
        raise ConfigurationError(f"{name} is no storage block ({FORM}); nothing was sent")
    return found


def _read(storage: Any, path: str, file: str) -> bytes:
    if ".." in unquote(path).replace("\\", "/").split("/"):  # not each kind of storage looks itself
        raise InputError(f"{file} leaves the folder of its block; nothing was sent")
    try:
        content = bytes(storage.read_path(path))
    except Exception as error:  # each storage has errors of its own
        raise InputError(f"{file} cannot be read ({type(error).__name__}); nothing was sent") from None
    if len(content) > MAX_BYTES:
        raise InputError(f"{file} has {len(content):,} bytes, and at most {MAX_BYTES:,} are read; nothing was sent")
    return content
