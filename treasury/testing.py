"""Fixtures for tests of your own flows: `pytest_plugins = ["treasury.testing"]` in your `conftest.py`.

| fixture | what |
|---|---|
| `treasury_home` | an empty home, and the environment that makes tasks and flows work there, at the sandbox |
| `treasury_sandbox` | the sandbox that it pays at; `treasury_sandbox_settings` says what it is started with |
| `treasury_account` | the account, as tasks find it |
| `treasury_desk` | the desk that tasks work at: its `ledger`, its `client` |
| `treasury_keys`, `treasury_key_file` | the partner's key pair, and the file with the private one |
| `open_treasury_sandbox` | starts further sandboxes of the same partner, which end with the module's tests |

Each test has a sandbox and a home of its own. A fixture of the same name in your `conftest.py` replaces one of these: a
`treasury_sandbox` of a wider scope is shared, `treasury_sandbox_settings` returns what `SandboxSettings` takes. Which
Prefect server the flows report to is not chosen here.

The only module that needs pytest, and the only one of the domain besides the sandbox that knows the sandbox.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import treasury.payments.desk
from treasury.clock import MACHINE, Clock
from treasury.payments.desk import Desk
from treasury.provider.client import Account
from treasury.sandbox import RunningSandbox, SandboxSettings, generate_key_pair, running_sandbox
from treasury.sandbox.clock import SandboxClock
from treasury.settings import read_settings

PARTNER_ID = SandboxSettings().partner_id
"""Who the account is, at every one of these sandboxes."""

QUICK: Mapping[str, Any] = {"settle_seconds": 0.2}
"""The settings that a sandbox of a test is started with, unless told otherwise."""


@pytest.fixture(scope="session")
def treasury_keys() -> tuple[str, str]:
    """The partner's private and public key, PEM."""
    return generate_key_pair()


@pytest.fixture(scope="session")
def treasury_key_file(treasury_keys: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The private key, where commands and tasks find it."""
    file = tmp_path_factory.mktemp("keys") / "private_key.pem"
    file.touch(mode=0o600)
    file.write_text(treasury_keys[0])
    return file


@pytest.fixture(scope="module")
def open_treasury_sandbox(treasury_keys: tuple[str, str]) -> Iterator[Callable[..., RunningSandbox]]:
    """Starts sandboxes in this process, which end with the module; takes what `SandboxSettings` takes, and a clock."""
    with ExitStack() as running:

        def start(*, clock: Clock = MACHINE, **settings: Any) -> RunningSandbox:
            return running.enter_context(running_sandbox(_settings(treasury_keys, settings), SandboxClock(clock)))

        yield start


@pytest.fixture
def treasury_sandbox_settings() -> Mapping[str, Any]:
    """Return what the sandbox of a test is started with; yours replaces it, see `SandboxSettings`."""
    return {}


@pytest.fixture
def treasury_sandbox(
    treasury_keys: tuple[str, str], treasury_sandbox_settings: Mapping[str, Any]
) -> Iterator[RunningSandbox]:
    """A sandbox of the test's own: nothing was paid there yet."""
    with running_sandbox(_settings(treasury_keys, treasury_sandbox_settings)) as sandbox:
        yield sandbox


@pytest.fixture
def treasury_home(
    treasury_sandbox: RunningSandbox, treasury_key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An empty home whose account is the sandbox's; the desks that were opened in it are closed with it.

    Nothing else that the environment says about a treasury is left: neither a real account nor a real ledger.
    """
    for name in [name for name in os.environ if name.startswith("TREASURY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TREASURY_HOME", str(tmp_path))
    monkeypatch.setenv("TREASURY_BASE_URL", treasury_sandbox.base_url)
    monkeypatch.setenv("TREASURY_PARTNER_ID", PARTNER_ID)
    monkeypatch.setenv("TREASURY_PRIVATE_KEY_FILE", str(treasury_key_file))
    forget_desks()
    yield tmp_path
    forget_desks()


@pytest.fixture
def treasury_account(treasury_home: Path) -> Account:  # noqa: ARG001 - it sets the environment
    """The account, as tasks find it."""
    return read_settings().account()


@pytest.fixture
def treasury_desk(treasury_home: Path) -> Desk:  # noqa: ARG001 - it sets the environment
    """The desk that tasks work at. It is closed with the home."""
    settings = read_settings()
    return treasury.payments.desk.desk_of(settings.account(), settings)


def forget_desks() -> None:
    """Close the desks that this process opened; the next one reads its settings again."""
    above = sys.modules.get("blocks.desk")  # a floor above, not imported from here: unless somebody did, it keeps none
    if above is not None:
        above.configured.cache_clear()
    for desk in treasury.payments.desk._desks.values():
        desk.close()
    treasury.payments.desk._desks.clear()


def _settings(keys: tuple[str, str], settings: Mapping[str, Any]) -> SandboxSettings:
    return SandboxSettings(**{"partner_id": PARTNER_ID, "public_key": keys[1], **QUICK, **settings})
