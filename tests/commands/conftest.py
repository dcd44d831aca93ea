"""Offices of the command tests: one sandbox for all of them, and one that nothing may ever reach."""

from collections.abc import Callable

import pytest

from tests.commands.office import Office
from treasury.sandbox import RunningSandbox


@pytest.fixture(scope="module")
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    """A sandbox of the module's own, where orders settle at once."""
    return open_sandbox()


@pytest.fixture(scope="module")
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    """A home at this sandbox that uses the shared Prefect server."""
    return open_office(sandbox.base_url)
