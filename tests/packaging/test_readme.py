"""The README: every command line in it is run as it stands, with its places moved into a temporary folder."""

import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.commands.prefect_server import free_port
from tests.commands.office import eventually, processes_with
from tests.packaging.reader import ROOT, Reader
from treasury.sandbox import RunningSandbox

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    [line for line in block.splitlines() if line and not line.startswith("#")]
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
]
ELSEWHERE = "treasury serve"
"""Run by tests/flows."""


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
@pytest.mark.costly("every command of the section, as processes")
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
    assert said["treasury rebalance --balances data/balances.csv --yes"].strip().endswith("settled")
    assert last["treasury provision data/card_users.csv"] == "4 created"
    assert last["treasury reconcile"].startswith("warnings: 1 opening, ")
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
    files = (ROOT / "README.md", ROOT / "data" / "README.md", *(ROOT / "docs").glob("*.md"))
    pages = {file: file.read_text(encoding="utf-8") for file in files}
    for page, text in pages.items():
        for target, anchor in re.findall(r"\]\((?![a-z]+://)([^)#]*)(?:#([^)]*))?\)", text):
            there = page if not target else (page.parent / target).resolve()
            assert there.exists(), f"{page.name} links to {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)$", pages[there], re.MULTILINE)
                anchors = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
                assert anchor in anchors, f"{page.name} links to {target}#{anchor}"
    commands: dict[str, Any] = __import__("flows.commands", fromlist=["COMMANDS"]).COMMANDS
    named = {name for text in pages.values() for name in re.findall(r"`treasury ([a-z-]+)", text)}
    assert named <= set(commands) | {"command"}, named - set(commands)
