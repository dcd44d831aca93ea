"""Sample inputs to edit and run; `README.md` beside them names every column. They ship in the wheel for the demo."""

from pathlib import Path


def path(name: str) -> Path:
    """Return where a sample file is, in a checkout and in an installed wheel alike. Raises `FileNotFoundError`."""
    found = Path(__file__).with_name(name)
    if not found.is_file():
        raise FileNotFoundError(f"there is no sample called {name}")
    return found
