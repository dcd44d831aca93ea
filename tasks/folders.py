"""Judges the folder that a flow is to write into, before anything is written there."""

from pathlib import Path

from treasury.errors import InputError
from treasury.files import path_of
from treasury.settings import read_settings

MAX_SHOWN = 500
"""Characters of a path that a message shows."""


def check_out(out: str | None, *, is_deployed: bool) -> None:
    """Raise `InputError` for what can be no folder, and for a folder outside the home in a form, which anybody fills in
    who sees the dashboard."""
    if out is None:
        return
    path_of(out)
    if is_deployed:
        read_settings().check_out(out)
    try:
        there = next((each for each in (Path(out), *Path(out).parents) if each.exists()), None)
    except OSError as error:
        raise InputError(f"out: {out[:MAX_SHOWN]} can be no folder: {error.strerror}; nothing was sent") from None
    if there is not None and not there.is_dir():
        raise InputError(f"out: {there} is a file, not a folder; nothing was sent")
