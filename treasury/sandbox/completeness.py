"""The check that the sandbox has a handler for every operation, at import."""

from treasury.provider.catalogue import CATALOGUE
from treasury.sandbox.handlers import HANDLERS


def check_complete() -> None:
    """Raise `TypeError` that names an operation which the sandbox does not answer."""
    for name in CATALOGUE:
        if name not in HANDLERS:
            raise TypeError(f"the sandbox has no handler for {name} (docs/adding-an-operation.md)")
