"""docs/operating.md: its section on backups is followed as it stands, with its places moved into a temporary folder."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.office import PARTNER_ID, Office
from tests.engine.intents import commit
from tests.packaging.reader import ROOT, Reader
from treasury.account_file import AccountFile
from treasury.sandbox import RunningSandbox

PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Backup and restore\n")[2].partition("\n## ")[0]
BLOCKS = [block.splitlines() for block in re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)]


@pytest.fixture
def reader(
    tmp_path: Path, key_file: Path, open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> Reader:
    """Somebody with an account, and a ledger with two payments that wait."""
    sandbox = open_sandbox()
    reader = Reader(tmp_path, "http://127.0.0.1:9/api")
    reader.changes = {"https://api.example.com": sandbox.base_url, "1234567": PARTNER_ID}
    (tmp_path / "private_key.pem").touch(mode=0o600)
    (tmp_path / "private_key.pem").write_text(key_file.read_text())
    office = open_office(sandbox.base_url, prefect=False, TREASURY_HOME=str(tmp_path / ".treasury"))
    desk = office.desk()
    commit(desk.ledger, "one", "other")
    desk.close()
    return reader


@pytest.mark.prefect
def test_the_section_on_backups_works_as_written(reader: Reader, prefect_url: str) -> None:
    reader.environ["PREFECT_API_URL"] = prefect_url
    [[backup], [export, restore, *rest]] = BLOCKS
    said = reader.types(backup)
    assert "2 orders" in said
    assert "Not in it: your private signing key and account.json" in said
    name, value = export.removeprefix("export ").split("=")
    reader.environ[name] = value.replace("~", str(reader.home))
    said = reader.types(restore)
    assert "Not restored: your private signing key and account.json" in said
    assert [line.split()[1] for line in rest] == re.findall(r"treasury ([a-z]+)", said)
    assert "connected: " in reader.types(rest[0])
    assert "all is well" in reader.types(rest[1])
    reader.types(rest[2])
    with sqlite3.connect(reader.home / "treasury-restored" / "ledger.db") as ledger:
        states = dict(ledger.execute("SELECT row_ref, state FROM orders"))
    ledger.close()
    assert states.keys() == {"one", "other"}


def test_what_stands_in_the_way_ends_the_command_with_code_2(reader: Reader, tmp_path: Path) -> None:
    [[backup], [_, restore, *_]] = BLOCKS
    reader.types(backup)
    reader.codes |= {backup: [2], restore: [2]}
    content = next((tmp_path / "backups").iterdir()).read_bytes()
    reader.types(backup)
    reader.types(restore)  # into the home that it was made from
    assert next((tmp_path / "backups").iterdir()).read_bytes() == content


def test_the_table_of_settings_is_what_the_program_reads() -> None:
    """Every variable that settings.py names stands in the table, and no other."""
    table = PAGE.partition("## Settings\n")[2].partition("\n\nThe environment wins")[0]
    shown = {
        row.split("|")[1].strip().strip("`"): row.split("|")[2].strip().strip("`") for row in table.splitlines()[3:]
    }
    source = (ROOT / "treasury" / "settings.py").read_text(encoding="utf-8")
    assert set(shown) == set(re.findall(r'"(TREASURY_[A-Z_]*[A-Z])"', source))
    assert {key for key in shown.values() if key} == set(AccountFile.model_fields) - {"service"}


def test_every_line_of_the_section_is_one_that_is_run() -> None:
    assert SECTION.count("```sh") == 2
    assert all(line.startswith(("treasury ", "export ")) for block in BLOCKS for line in block)
