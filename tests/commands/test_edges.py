"""The edges of an installation: how an account is written, and a ledger whose key is gone or another one."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.office import PARTNER_ID, Ended, Office, one_line_error
from treasury.ledger.ledger import Ledger
from treasury.orders.records import derive_request_id
from treasury.sandbox import RunningSandbox


def shouted(base_url: str) -> str:
    """The address of a sandbox as an earlier version took it as it was."""
    return base_url.replace("http://", "HTTP://")


@pytest.mark.prefect
def test_a_ledger_made_under_another_spelling_goes_on_with_its_run(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    sandbox = open_sandbox()
    office = open_office(sandbox.base_url)
    made_for = f"{shouted(sandbox.base_url)}|{PARTNER_ID}"
    Ledger(f"sqlite:///{office.home}/ledger.db", made_for, office.home / "ledger.key").close()
    arguments = ["pay", office.sheet(("a", "10", "12345670001"), ("b", "11", "12345670002")), "--run-key", "r", "--yes"]
    assert office.run("stop", "--by", "Ann", "--why", "a test").code == 0
    ended = office.run(*arguments, TREASURY_BASE_URL=shouted(sandbox.base_url) + "/")
    assert ended.code == 4, ended.out + ended.err
    desk = office.desk()
    ids = {order.row_ref: order.request_id for order in desk.ledger.orders()}
    [operation] = {order.operation for order in desk.ledger.orders()}
    desk.close()
    assert ids == {ref: derive_request_id(made_for, "r", ref, operation, 1) for ref in ("a", "b")}
    assert office.run("stop", "--lift", "--by", "Ann").code == 0
    ended = office.run(*arguments, "--follow", "20")
    assert (ended.code, ended.last) == (0, "2 settled"), ended.out + ended.err
    assert office.run(*arguments, TREASURY_BASE_URL=shouted(sandbox.base_url)).code == 0
    assert {order["request_id"] for order in sandbox.orders()} == set(ids.values())
    assert [order["effects"] for order in sandbox.orders()] == [1, 1]
    assert len(list((office.home / "tokens").iterdir())) == 1


def test_every_way_to_name_an_account_refuses_an_address_without_tls(
    open_office: Callable[..., Office], tmp_path: Path
) -> None:
    office = open_office("http://pay.example.com", prefect=False)
    key = office.environ["TREASURY_PRIVATE_KEY_FILE"]
    said = one_line_error(office.run("runs"))
    assert "write https://pay.example.com " in said
    office.file(
        "account.json", f'{{"base_url": "http://pay.example.com", "partner_id": "1", "private_key_file": "{key}"}}'
    )
    (office.home / "account.json").chmod(0o600)
    nothing = {"TREASURY_BASE_URL": "", "TREASURY_PARTNER_ID": "", "TREASURY_PRIVATE_KEY_FILE": ""}
    ended = office.run("runs", **nothing)
    assert (ended.code, one_line_error(ended)) == (2, said)
    code = (
        "from pydantic import SecretStr\nfrom blocks import PartnerAccount\n"
        "from treasury.errors import ConfigurationError\n"
        "try:\n    PartnerAccount(base_url='http://pay.example.com', partner_id='1', private_key=SecretStr('-'))\n"
        "except ConfigurationError as error:\n    print('treasury:', error)\n"
        "block = PartnerAccount(base_url='HTTPS://Pay.Example.com:443/', partner_id='1', private_key=SecretStr('-'))\n"
        "print(block.get_account().identity)\n"
    )
    ended = office.python(code)
    assert ended.out.splitlines() == [said.strip(), "https://pay.example.com|1"], ended.err
    assert not (office.home / "ledger.db").exists()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_no_key_is_made_where_a_ledger_exists(
    kind: str, sandbox: RunningSandbox, open_office: Callable[..., Office], request: pytest.FixtureRequest
) -> None:
    elsewhere = {} if kind == "sqlite" else {"TREASURY_LEDGER_URL": request.getfixturevalue("postgres")(empty=True)}
    office = open_office(sandbox.base_url, prefect=False, **elsewhere)
    sheet = office.sheet(("a", "10", "12345670001"))
    key, kept = office.home / "ledger.key", office.home / "kept.key"
    assert office.run("runs").code == 0
    commands: dict[str, list[str | Path]] = {
        "runs": ["runs"],
        "show": ["show", "r"],
        "pay": ["pay", sheet, "--run-key", "r", "--yes"],
        "reconcile": ["reconcile", "--offline"],
        "stop": ["stop", "--by", "Ann", "--why", "a test"],
        "backup": ["backup", office.home / "ledger.backup"],
        "doctor": ["doctor"],
    }
    lines = {name: [str(each) for each in line] for name, line in commands.items()}

    def refused(ended: Ended, name: str) -> None:
        said = ended.out if name == "doctor" else one_line_error(ended)
        assert ended.code == 2, (name, ended)
        assert str(key) in said or "another key" in said
        assert "TREASURY_LEDGER_KEY_FILE" in said, (name, said)
        assert not (office.home / "ledger.backup").exists()

    shutil.move(key, kept)
    before = {file.name for file in office.home.iterdir()}
    for name, line in lines.items():
        refused(office.run(*line), name)
        assert not key.exists(), name
    assert {file.name for file in office.home.iterdir()} - before <= {"runs"}
    other = open_office(sandbox.base_url, prefect=False)
    assert other.run("runs").code == 0
    shutil.copy(other.home / "ledger.key", key)
    replaced = key.read_bytes()
    for name, line in lines.items():
        refused(office.run(*line), name)
    assert key.read_bytes() == replaced
    shutil.move(kept, key)
    assert office.run("runs").last == "0 runs"
    assert sandbox.orders() == []


@pytest.mark.prefect
@pytest.mark.parametrize("in_the_way", ["results.csv", "starts"])
def test_a_folder_of_results_that_cannot_be_used_is_one_line(
    in_the_way: str, open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    """As a share that became read-only, or a folder of somebody else: here a name that is taken."""
    sandbox = open_sandbox()
    office = open_office(sandbox.base_url)
    line = ["pay", office.sheet(("a", "10", "12345670001")), "--run-key", "r", "--yes"]
    folder = office.home / "runs" / "r"
    folder.mkdir(parents=True)
    (folder / "results.csv").mkdir() if in_the_way == "results.csv" else (folder / "starts").touch()
    ended = office.run(*line)
    assert (ended.code, "nothing is sent twice" in one_line_error(ended)) == (1, True), ended.err
    assert str(folder / in_the_way) in ended.err
    (folder / "results.csv").rmdir() if in_the_way == "results.csv" else (folder / "starts").unlink()
    assert office.run(*line, "--follow", "20").code == 0
    assert [order["effects"] for order in sandbox.orders()] == [1]


@pytest.mark.parametrize("readers", ["true", "head -1"])
def test_a_reader_that_has_read_enough_is_no_traceback(open_office: Callable[..., Office], readers: str) -> None:
    office = open_office("http://127.0.0.1:9", prefect=False)
    command = f"{sys.executable} -m flows call --list | {readers}"
    done = subprocess.run(
        ["bash", "-c", f"{command}; sleep 0.2"],
        cwd=office.home,
        env=office.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
