"""A running sandbox, whose clock stands still, and a client of it."""

from collections.abc import Iterator

import pytest

from tests.sandbox.builders import START, client_of, settings
from treasury.provider.client import Client
from treasury.sandbox import RunningSandbox, SandboxClock, running_sandbox


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningSandbox]:
    """One sandbox for all tests of a module that only add orders under names of their own."""
    with running_sandbox(settings(), SandboxClock(start=START)) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def client(shared: RunningSandbox) -> Iterator[Client]:
    """A client of the shared sandbox."""
    with client_of(shared) as client:
        yield client


@pytest.fixture
def sandbox() -> Iterator[RunningSandbox]:
    """A sandbox of the test's own, where orders take 3 seconds."""
    with running_sandbox(settings(settle_seconds=3.0), SandboxClock(start=START)) as sandbox:
        yield sandbox


@pytest.fixture
def teller(sandbox: RunningSandbox) -> Iterator[Client]:
    """A client of the test's own sandbox."""
    with client_of(sandbox) as client:
        yield client
