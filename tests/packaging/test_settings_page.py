"""docs/ledger.md and docs/settings.md: the section on backups is followed as it stands, with its places moved into a
temporary folder; the table of settings is what the program reads."""

import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.commands.office import PARTNER_ID, Office
from tests.engine.intents import commit
from tests.packaging.reader import ROOT, Reader
from treasury.account_file import AccountFile
from treasury.sandbox import RunningSandbox
from treasury.settings import PROCESSES, home_folder, read_settings

PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
SECTION = (
    (ROOT / "docs" / "ledger.md")
    .read_text(encoding="utf-8")
    .partition("## Backup and restore\n")[2]
    .partition("\n## ")[0]
)
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
    with closing(sqlite3.connect(reader.home / "treasury-restored" / "ledger.db")) as ledger, ledger:
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


def _settings_table() -> dict[str, tuple[str, str]]:
    """Each variable's key in the account file, and its default in words."""
    table = PAGE.partition("# Settings\n")[2].partition("\n\nThe environment wins")[0]
    cells = ([cell.strip().strip("`") for cell in line.split("|")[1:4]] for line in table.splitlines()[3:])
    return {variable: (key, default) for variable, key, default in cells}


def test_the_table_of_settings_is_what_the_program_reads() -> None:
    """Every variable that settings.py names stands in the table, and no other."""
    shown = _settings_table()
    source = (ROOT / "treasury" / "settings.py").read_text(encoding="utf-8")
    assert set(shown) == set(re.findall(r'"(TREASURY_[A-Z_]*[A-Z])"', source))
    assert {key for key, _ in shown.values() if key} == set(AccountFile.model_fields) - {"service"}


def test_the_defaults_of_the_table_are_those_of_an_empty_environment(tmp_path: Path) -> None:
    empty = read_settings({"TREASURY_HOME": str(tmp_path)})
    assert {
        name: default.replace("$TREASURY_HOME", str(tmp_path)) for name, (_, default) in _settings_table().items()
    } == {
        "TREASURY_HOME": "~/.treasury",
        "TREASURY_BASE_URL": str(empty.base_url).lower(),
        "TREASURY_PARTNER_ID": str(empty.partner_id).lower(),
        "TREASURY_PRIVATE_KEY_FILE": str(empty.private_key_file).lower(),
        "TREASURY_PLATFORM_KEY_FILE": str(empty.platform_key_file).lower(),
        "TREASURY_LEDGER_URL": empty.ledger_url,
        "TREASURY_LEDGER_KEY_FILE": str(empty.ledger_key_file),
        "TREASURY_RESEND_AFTER_SECONDS": f"{empty.resend_after_seconds:g}",
        "TREASURY_QUOTE_MARGIN_SECONDS": "TREASURY_RESEND_AFTER_SECONDS",
        "TREASURY_TOKEN_FOLDER": str(empty.token_folder),
        "TREASURY_MAX_CLOCK_SKEW_SECONDS": f"{empty.max_clock_skew_seconds:g}",
        "TREASURY_IN_FLIGHT": f"{empty.in_flight}",
        "TREASURY_HTTP_ENGINE": "pyreqwest, else httpx",
        "TREASURY_MAX_REPLY_BYTES": f"{empty.limits.max_bytes:,}",
        "TREASURY_EXCHANGE_SECONDS": f"{empty.limits.exchange_seconds:g}",
        "TREASURY_NOTIFY_URL": str(empty.notify_url).lower(),
        "TREASURY_OUT_FOLDERS": "none",
        "TREASURY_NOTICES": "none",
        "TREASURY_PING_URL": str(empty.ping_url).lower(),
        "TREASURY_ALARM_BLOCK": str(empty.alarm_block).lower(),
        "TREASURY_ALARM_REPORT_HOURS": f"{empty.alarm_hours.report:g}",
        "TREASURY_ALARM_WAITING_HOURS": f"{empty.alarm_hours.waiting:g}",
        "TREASURY_ALARM_UNKNOWN_HOURS": f"{empty.alarm_hours.unknown:g}",
        "TREASURY_ALARM_LATE_HOURS": f"{empty.alarm_hours.late:g}",
        "TREASURY_ALARM_SILENT_HOURS": f"{empty.alarm_hours.silent:g}",
        "TREASURY_PROCESSES": f"one for each core, at most {PROCESSES}",
        "TREASURY_RUNNER": "by size",
        "TREASURY_DASK_SCHEDULER": str(empty.dask_scheduler).lower(),
    }
    assert empty.runner is None
    assert home_folder({}) == Path.home() / ".treasury"
    assert empty.http_engine is None
    assert empty.evidence(empty.service).quote_margin_seconds == empty.resend_after_seconds
    assert empty.processes == min(os.cpu_count() or 1, PROCESSES)


def test_every_line_of_the_section_is_one_that_is_run() -> None:
    assert SECTION.count("```sh") == 2
    assert all(line.startswith(("treasury ", "export ")) for block in BLOCKS for line in block)
