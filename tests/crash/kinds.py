"""Every kind of row that a crash case may have, by its name."""

from collections.abc import Sequence

from tests.crash.payments import Kind, make_kind
from tests.crash.sheets import SHEETS


def kind_of(name: str, numbers: Sequence[str] = ()) -> Kind:
    """A kind by its name; `numbers`: quotes that were asked for elsewhere."""
    return SHEETS[name]() if name in SHEETS else make_kind(name, numbers)
