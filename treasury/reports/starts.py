"""The folder that each start keeps for itself: a folder of its own beside the newest files, never changed
afterwards."""

import functools
import os
from pathlib import Path

from treasury.clock import MACHINE


@functools.cache
def start_folder(folder: Path) -> Path:
    """The folder of this process's start in a folder of results: `starts/<UTC time>-<pid>`, until `end_start`."""
    name = f"{MACHINE.now():%Y-%m-%dT%H-%M-%SZ}-{os.getpid()}"
    taken = len(list((folder / "starts").glob(f"{name}*")))  # by starts of this very second
    return folder / "starts" / (f"{name}-{taken + 1}" if taken else name)


def is_changed(newest: Path) -> bool:
    """Tell whether a newest file is another one than every start wrote: somebody went on with it."""
    content = newest.read_bytes()
    return all(each.read_bytes() != content for each in newest.parent.glob(f"starts/*/{newest.name}"))


def end_start() -> None:
    """The start is over: the next one of this process gets a folder of its own."""
    start_folder.cache_clear()
