"""`treasury.testing`: the README's test of a flow of one's own passes as it stands, and what the fixtures promise."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import pytest

import treasury.payments.desk
from treasury.payments.desk import Desk
from treasury.provider.client import Account
from treasury.sandbox import RunningSandbox

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = ("own_flow.py", "conftest.py", "test_own_flow.py")
"""The README's pieces of Python, in their order there."""


def run_pytest(folder: Path, files: Mapping[str, str], **environ: str) -> subprocess.CompletedProcess[str]:
    """These tests, by somebody who has the package and a treasury of their own."""
    for name, text in files.items():
        (folder / name).write_text(text)
    real = {"TREASURY_HOME": str(folder / "real"), "TREASURY_LEDGER_URL": f"sqlite:///{folder / 'real.db'}"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), **real, **environ},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.prefect
@pytest.mark.proof
@pytest.mark.costly("pytest with a Prefect of its own")
def test_the_readmes_test_of_a_flow_of_ones_own_passes(tmp_path: Path) -> None:
    pieces = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert all(f"`{name}`" in README for name in FILES)
    done = run_pytest(tmp_path, dict(zip(FILES, pieces, strict=True)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^1 passed", done.stdout, re.MULTILINE), done.stdout
    assert not list(tmp_path.glob("real*"))


OWN = """
import pytest

pytest_plugins = ["treasury.testing"]


@pytest.fixture
def treasury_sandbox_settings():
    return {"balances": {"EUR": 5}}


def test_own(treasury_desk, treasury_sandbox):
    assert "EUR" in treasury_sandbox.books()["balances"]["available"]
    assert "USDT" not in treasury_sandbox.books()["balances"]["available"]
    import sys
    assert "prefect" not in sys.modules
"""


def test_settings_of_the_sandbox_are_replaced_and_prefect_is_not_needed(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, {"test_own.py": OWN})
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_home_is_empty_the_account_the_sandboxs_and_the_desk_the_one_of_the_tasks(
    treasury_home: Path, treasury_sandbox: RunningSandbox, treasury_account: Account, treasury_desk: Desk
) -> None:
    from blocks.desk import open_desk

    assert open_desk() is treasury_desk
    assert treasury_desk.account.identity == treasury_account.identity
    assert treasury_account.identity.startswith(treasury_sandbox.base_url)
    assert treasury_desk.settings.home == treasury_home
    assert (treasury_sandbox.orders(), treasury_desk.ledger.orders()) == ([], [])


@pytest.fixture
def somebody() -> Iterator[None]:
    """Whose treasury this is; when the home is gone, what they set stands again, and no desk is left."""
    with pytest.MonkeyPatch.context() as sets:
        for name in ("TREASURY_LEDGER_URL", "TREASURY_HASH", "TREASURY_TOKEN_FOLDER"):
            sets.setenv(name, "postgresql://real")
        yield
        assert os.environ["TREASURY_LEDGER_URL"] == "postgresql://real"
        assert treasury.payments.desk._desks == {}


def test_what_a_person_has_set_is_not_there(somebody: None, treasury_desk: Desk, treasury_home: Path) -> None:
    assert treasury_desk.settings.ledger_url == f"sqlite:///{treasury_home / 'ledger.db'}"
    assert treasury_desk.settings.token_folder == treasury_home / "tokens"
    assert {name for name in os.environ if name.startswith("TREASURY_")} == {
        *("TREASURY_HOME", "TREASURY_BASE_URL", "TREASURY_PARTNER_ID", "TREASURY_PRIVATE_KEY_FILE")
    }


def test_further_sandboxes_know_the_same_partner(
    open_treasury_sandbox: Callable[..., RunningSandbox], treasury_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from blocks.desk import open_desk

    poor = open_treasury_sandbox(balances={"USDT": Decimal(1)})
    monkeypatch.setenv("TREASURY_BASE_URL", poor.base_url)
    assert open_desk().client.read_clock() is not None
    assert poor.books()["balances"]["available"]["USDT"] == 1
