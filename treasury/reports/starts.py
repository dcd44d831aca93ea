"""What each start keeps for itself: a folder of its own beside the newest files, never changed afterwards."""

import functools
import os
from datetime import UTC, datetime
from pathlib import Path


@functools.cache
def start_folder(folder: Path) -> Path:
    """The folder of this process's start in a folder of results: `starts/<UTC time>-<pid>`."""
    return folder / "starts" / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}-{os.getpid()}"
