"""Which engine is used: the one that is named, else pyreqwest where it is installed, else httpx."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.office import Office
from treasury.errors import ConfigurationError
from treasury.provider.engine import EngineName
from treasury.provider.engine_choice import choose_engine, open_engine
from treasury.provider.httpx_engine import Httpx
from treasury.provider.pyreqwest_engine import Reqwest
from treasury.sandbox import RunningSandbox
from treasury.settings import read_settings


def test_pyreqwest_is_used_where_it_is_installed_and_httpx_where_it_is_named() -> None:
    assert choose_engine(None) == "pyreqwest"
    names: tuple[tuple[EngineName | None, type], ...] = ((None, Reqwest), ("pyreqwest", Reqwest), ("httpx", Httpx))
    for name, kind in names:
        engine = open_engine(1, 1.0, name=name)
        assert isinstance(engine, kind)
        engine.close()


def test_the_setting_takes_the_two_names_and_no_other(tmp_path: Path) -> None:
    home = {"TREASURY_HOME": str(tmp_path)}
    assert read_settings(home).http_engine is None
    assert read_settings({**home, "TREASURY_HTTP_ENGINE": ""}).http_engine is None
    assert read_settings({**home, "TREASURY_HTTP_ENGINE": "httpx"}).http_engine == "httpx"
    with pytest.raises(ConfigurationError, match="TREASURY_HTTP_ENGINE must be pyreqwest or httpx"):
        read_settings({**home, "TREASURY_HTTP_ENGINE": "curl"})


@pytest.mark.parametrize("missing", ["pyreqwest", "uvloop"])
def test_without_the_extra_httpx_is_used_and_the_other_is_told_as_not_installed(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from treasury.provider.engine_choice import open_engine\n"
        "print(type(open_engine(1, 1.0)).__name__)\n"
        "open_engine(1, 1.0, name='pyreqwest')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "Httpx\n"
    assert "is not installed: pip install 'treasury-flows[fast]'" in done.stderr


@pytest.mark.parametrize("engine", ["httpx", "pyreqwest"])
@pytest.mark.parametrize("content", [None, "no certificate\n"])
def test_authorities_that_cannot_be_read_are_named_and_nothing_is_sent(
    engine: EngineName, content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other authorities are taken in their place."""
    file = tmp_path / "authorities.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match=r"cannot be read .*SSL_CERT_FILE.*nothing was sent"):
        open_engine(1, 1.0, name=engine)


@pytest.mark.prefect
@pytest.mark.parametrize("engine", ["httpx", "pyreqwest"])
def test_a_run_and_its_night_work_with_either(
    engine: str, open_office: Callable[..., Office], open_sandbox: Callable[..., RunningSandbox]
) -> None:
    import data

    sandbox = open_sandbox()
    office = open_office(sandbox.base_url, TREASURY_HTTP_ENGINE=engine)
    paid = office.run("pay", str(data.path("beneficiaries.csv")), "--run-key", "run", "--yes", "--follow", "10")
    assert paid.last == "12 settled"
    assert office.run("reconcile").last == "warnings: 1 opening, 12 matched"
    assert {order["effects"] for order in sandbox.orders()} == {1}
