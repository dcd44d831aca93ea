"""The check that the sandbox has a table of requests and a handler for every operation, at import."""

from treasury.provider.catalogue import CATALOGUE
from treasury.sandbox.forms import REQUESTS
from treasury.sandbox.handlers import HANDLERS

PAGE = "docs/adding-an-operation.md"


def check_complete() -> None:
    """Raise `TypeError` that names an operation which the sandbox does not answer."""
    for name in CATALOGUE:
        if name not in REQUESTS:
            raise TypeError(f"the sandbox has no table of requests for {name} ({PAGE})")
        if REQUESTS[name] not in HANDLERS:
            raise TypeError(f"the sandbox has no handler for {name} ({PAGE})")
