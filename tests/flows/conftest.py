"""Flows in this process: the shared Prefect server, a sandbox, and a home of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands.office import PARTNER_ID
from treasury.sandbox import RunningSandbox


@pytest.fixture(scope="module")
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    """A sandbox of the module's own."""
    return open_sandbox()


@pytest.fixture
def home(
    prefect_url: str, sandbox: RunningSandbox, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A home whose account is the sandbox's; the desks that flows opened are closed with it."""
    import treasury.runs.desk
    from blocks.desk import open_desk

    monkeypatch.setenv("TREASURY_HOME", str(tmp_path))
    monkeypatch.setenv("TREASURY_BASE_URL", sandbox.base_url)
    monkeypatch.setenv("TREASURY_PARTNER_ID", PARTNER_ID)
    monkeypatch.setenv("TREASURY_PRIVATE_KEY_FILE", str(key_file))
    open_desk.cache_clear()
    yield tmp_path
    open_desk.cache_clear()
    for desk in treasury.runs.desk._desks.values():
        desk.close()
    treasury.runs.desk._desks.clear()
