"""The README: every command line in it is run as it stands, with its places moved into a temporary folder."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import data
from flows.commands.prefect_server import free_port
from tests.commands.office import eventually, processes_with
from treasury.sandbox import RunningSandbox

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    [line for line in block.splitlines() if line and not line.startswith("#")]
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
]
CODES = {
    "treasury pay november.csv --run-key payroll-2026-11": [3],
    "treasury pay november.csv --run-key payroll-2026-11 --policy data/treasury_policy.toml --yes": [3, 0],
}
"""Where no terminal is, what asks for a yes waits for it; what nobody approved waits for that, and then is sent."""
ELSEWHERE = "treasury serve"
"""Run by tests/flows."""


class Reader:
    """Somebody who types what the README says."""

    def __init__(self, home: Path, prefect_url: str) -> None:
        self.home = home
        self.environ = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PREFECT_API_URL": prefect_url,
            "PREFECT_HOME": str(home / "prefect"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
        }
        self.changes: dict[str, str] = {}
        self.codes = {line: list(codes) for line, codes in CODES.items()}
        (home / "prefect").mkdir()
        (home / "data").mkdir()
        for file in data.path("README.md").parent.glob("*.*"):
            if file.suffix != ".py":
                shutil.copy(file, home / "data")
        sample = data.path("beneficiaries.csv").read_text(encoding="utf-8")
        # Rows of one's own, of more than one person may send alone by the sample policy.
        own = re.sub(r"^(EMP-\d+,direct),[0-9.]+,", r"\1,2000.00,", sample, flags=re.MULTILINE)
        (home / "november.csv").write_text(own, encoding="utf-8")

    def changed(self, line: str) -> str:
        for old, new in self.changes.items():
            line = line.replace(old, new)
        return line

    def types(self, line: str) -> str:
        """Type a line; what it prints. It must end as the README lets one expect."""
        done = subprocess.run(
            ["/bin/bash", "-c", self.changed(line)],
            cwd=self.home,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        expected = self.codes[line].pop(0) if line in self.codes else 0
        assert done.returncode == expected, f"{line}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout


@pytest.fixture
def reader(tmp_path: Path, prefect_url: str) -> Reader:
    return Reader(tmp_path, prefect_url)


@pytest.mark.prefect
def test_the_rehearsal_works_as_written(reader: Reader) -> None:
    (export, sandbox), lines = BLOCKS[0], BLOCKS[1]
    reader.changes = {"9100": str(free_port())}
    name, value = export.removeprefix("export ").split("=")
    reader.environ[name] = value.replace("~", str(reader.home))
    command = reader.changed(sandbox).split()
    with subprocess.Popen(
        command, cwd=reader.home, env=reader.environ, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline(), process.stdout.readline()]
            assert "treasury-rehearsal/sandbox/private_key.pem" in said[0]
            assert reader.changes["9100"] in said[1]
            out = [reader.types(line) for line in lines]
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(10) in (0, -signal.SIGTERM)
    assert out[0].splitlines()[-1].startswith("connected: partner 900001")
    assert out[2].splitlines()[-1] == "12 settled"
    assert out[-1].splitlines()[-1] == "reconciled: 12 matched"
    eventually(lambda: not processes_with(f"HOME={reader.home}"), 10, "something went on running")


@pytest.mark.prefect
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_real_account_works_as_written(reader: Reader, open_sandbox: Callable[..., RunningSandbox]) -> None:
    lines = [line for block in BLOCKS[2:] for line in block]
    for line in lines[:2]:
        assert line.startswith("openssl ")
        reader.types(line)
    sandbox = open_sandbox(partner_id="1234567", public_key=(reader.home / "public_key.pem").read_text())
    reader.changes = {"https://api.example.com": sandbox.base_url}
    said = {line: reader.types(line) for line in lines[2:] if line != ELSEWHERE}
    assert (reader.home / ".treasury" / "account.json").is_file()
    last = {line.partition(" -")[0]: out.strip().splitlines()[-1] for line, out in said.items()}
    assert last["treasury rebalance"].endswith("settled")
    assert last["treasury provision data/card_users.csv"] == "4 created"
    assert last["treasury reconcile"].startswith("reconciled: ")
    for line in re.findall(r"`(treasury call [^`]+)`", README):
        assert reader.types(line)


def test_every_command_line_of_the_readme_is_one_that_is_run() -> None:
    starts = ("treasury ", "openssl ", "export ")
    assert all(line.startswith(starts) for block in BLOCKS for line in block)
    assert BLOCKS[0][0].startswith("export ")
    assert [ELSEWHERE] in BLOCKS
    assert README.count("```sh") == len(BLOCKS)


def test_make_lines_name_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^    |`)make ([a-z]+)", README, re.MULTILINE))
    assert named >= {"demo", "test", "install"}
    assert named <= targets


def test_every_link_and_file_the_docs_name_exists() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
    commands: dict[str, Any] = __import__("flows.commands", fromlist=["COMMANDS"]).COMMANDS
    named = set(re.findall(r"`treasury ([a-z-]+)", README + (ROOT / "docs" / "operating.md").read_text()))
    assert named <= set(commands) | {"command"}, named - set(commands)
