"""docs/adding-an-operation.md, followed to the letter in a copy of the project."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.office import PARTNER_ID

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "adding-an-operation.md").read_text(encoding="utf-8")
FLOORS = ("treasury", "flows", "tasks", "blocks", "data")
STEP = re.compile(
    r"(?P<verb>Append to|In|Create)\s+`(?P<file>[\w/]+\.py)`[^`]*?:\n\n(?P<blocks>(?:```(?:python|diff)\n.*?```\n+)+)",
    re.DOTALL,
)
BLOCK = re.compile(r"```(python|diff)\n(.*?)```", re.DOTALL)


def steps() -> Iterator[tuple[str, str, str]]:
    """Verb, file and code of each step of the page."""
    for step in STEP.finditer(PAGE):
        for _, code in BLOCK.findall(step["blocks"]):
            yield step["verb"], step["file"], code


def follow(project: Path, verb: str, file: str, code: str) -> None:
    """Do one step in a copy of the project."""
    path = project / file
    if verb == "Create":
        path.write_text(code)
        return
    text = path.read_text()
    if verb == "Append to":
        path.write_text(f"{text}\n\n{code}")
        return
    old = "".join(f"{line[1:]}\n" for line in code.splitlines() if line.startswith("-"))
    new = "".join(f"{line[1:]}\n" for line in code.splitlines() if line.startswith("+"))
    assert text.count(old) == 1, (file, old)
    path.write_text(text.replace(old, new))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project with its bytecode: what a step changes is compiled again."""
    folder = tmp_path / "project"
    for floor in FLOORS:
        shutil.copytree(ROOT / floor, folder / floor)
    return folder


def python(project: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A Python of which the copy is the project."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_page_has_every_step() -> None:
    assert [(verb, file.rsplit("/", 2)[-1]) for verb, file, _ in steps()] == [
        ("Append to", "orders.py"),
        ("In", "catalogue.py"),
        ("Create", "gifts.py"),
        ("In", "__init__.py"),
        ("In", "__init__.py"),
        ("In", "operations.py"),
        ("In", "operations.py"),
    ]


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        (1, "SendGift of treasury.provider.orders is not in the catalogue"),
        (3, "the sandbox has no handler for send_gift"),
        (6, "SendGift has no task: add `send_gift = as_task(SendGift)` to tasks/operations.py"),
    ],
)
def test_a_step_that_is_left_out_is_named_at_import(project: Path, left_out: int, said: str) -> None:
    for number, step in enumerate(steps()):
        if number != left_out:
            follow(project, *step)
    done = python(project, "-c", "import treasury.sandbox.app, tasks.operations")
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("fact", ["reference", "asked_with", "due_hours"])
def test_an_operation_that_moves_money_says_how_it_is_known_asked_about_and_late(project: Path, fact: str) -> None:
    for step in steps():
        follow(project, *step)
    file = project / "treasury/provider/orders.py"
    head, gift = file.read_text().split("class SendGift")
    file.write_text(f"{head}class SendGift" + re.sub(rf"    {fact} = .*\n", "", gift))
    done = python(project, "-c", "import treasury.provider.catalogue")
    assert f"SendGift moves money and does not say {fact}" in done.stderr


@pytest.mark.prefect
@pytest.mark.proof
@pytest.mark.costly("six processes, in a copy of the packages")
def test_the_operation_that_the_page_adds_is_sent_once_asked_about_and_reported(
    project: Path, tmp_path: Path, key_file: Path, key_pair: tuple[str, str], prefect_url: str
) -> None:
    for step in steps():
        follow(project, *step)
    home, public = tmp_path / "home", tmp_path / "public.pem"
    public.write_text(key_pair[1])
    serves = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "flows",
            "sandbox",
            "--partner-id",
            PARTNER_ID,
            "--public-key",
            str(public),
            "--settle",
            "0",
        ],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert serves.stdout is not None
        line = serves.stdout.readline()
        account = {
            "TREASURY_HOME": str(home),
            "TREASURY_BASE_URL": line[line.index("http://") :].strip(),
            "TREASURY_PARTNER_ID": PARTNER_ID,
            "TREASURY_PRIVATE_KEY_FILE": str(key_file),
        }
        gift = {"request_id": "gift-1", "currency": "USDT_TRC20", "amount": "5", "customer_ref_id": "c-1"}
        call = ["-m", "flows", "call", "send_gift", "--json", json.dumps(gift), "--yes"]
        for _ in range(2):
            sent = python(project, *call, **account)
            assert sent.returncode == 0, sent.stdout + sent.stderr
        night = python(project, "-m", "flows", "reconcile", "--out", str(tmp_path / "out"), **account)
        assert (night.returncode, night.stdout.splitlines()[-1]) == (0, "warnings: 1 opening, 1 matched"), night.stderr
        report = json.loads((tmp_path / "out" / "reconciliation.json").read_text())
        assert report["settings"]["due_hours.send_gift"] == "12"
        task = "import tasks.operations; print(tasks.operations.send_gift.name, tasks.operations.send_gift.retries)"
        assert python(project, "-c", task).stdout == "send_gift 0\n"
        meaning = (
            "from treasury.errors import Refused; from treasury.provider.service_rules import ServiceRules\n"
            "for name in ('send_gift', 'payout'): print(ServiceRules().kind_of(Refused(name, 200, '299001', '')).name)"
        )
        assert python(project, "-c", meaning).stdout == "FINAL\nUNDECIDED\n"
    finally:
        serves.terminate()
        serves.wait()
        if serves.stdout is not None:
            serves.stdout.close()
