"""Flows in this process: the shared Prefect server, a sandbox, and a home of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from treasury.sandbox import RunningSandbox


@pytest.fixture(scope="module")
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    """A sandbox of the module's own."""
    return open_sandbox()


@pytest.fixture(scope="module")
def treasury_sandbox(sandbox: RunningSandbox) -> RunningSandbox:
    """The one that `treasury_home` pays at."""
    return sandbox


@pytest.fixture
def home(prefect_url: str, treasury_home: Path) -> Iterator[Path]:
    """A home whose account is the sandbox's; its flows report to the shared server, with a tag of the test's own."""
    from prefect import tags

    with tags(str(treasury_home)):
        yield treasury_home
