"""Judges the folder that a flow is to write into, before anything is written there."""

from pathlib import Path

from treasury.files import check_folder, path_of
from treasury.settings import read_settings


def check_out(out: str | None, *, is_deployed: bool) -> None:
    """Raise `InputError` for what can be no folder, and for a folder outside the home in a form, which anybody fills in
    who sees the dashboard."""
    if out is None:
        return
    path_of(out)
    if is_deployed:
        read_settings().check_out(out)
    check_folder(Path(out))
