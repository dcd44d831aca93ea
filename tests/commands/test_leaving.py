"""When a command has ended, the ledger's file alone holds everything it wrote."""

import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.commands.office import Office
from treasury.ledger.ledger import Ledger
from treasury.sandbox import RunningSandbox


def alone(office: Office, query: str) -> list[tuple[object, ...]]:
    """Return what a copy of `ledger.db`, and of nothing beside it, answers."""
    copy = office.home / "copy" / "ledger.db"
    copy.parent.mkdir(exist_ok=True)
    shutil.copy(office.home / "ledger.db", copy)
    with closing(sqlite3.connect(copy)) as ledger, ledger:
        rows = ledger.execute(query).fetchall()
    ledger.close()
    return rows


@pytest.fixture
def own_office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    return open_office(sandbox.base_url, prefect=False)


def test_what_a_command_wrote_is_in_the_ledgers_file(own_office: Office) -> None:
    assert own_office.run("stop", "--by", "Ada", "--why", "wrong list").code == 0
    assert alone(own_office, "SELECT why FROM decisions") == [("wrong list",)]
    assert not (own_office.home / "ledger.db-wal").exists()


def test_what_a_command_that_failed_wrote_is_there_too_and_its_exit_code_stays(own_office: Office) -> None:
    assert own_office.run("resolve", "nothing", "--as", "sent", "--by", "Ada", "--why", "seen").code == 2
    assert alone(own_office, "SELECT value FROM meta WHERE key = 'schema'") != []


def test_it_is_there_while_another_process_has_the_ledger_open(own_office: Office) -> None:
    desk = own_office.desk()
    desk.ledger.runs()
    assert own_office.run("stop", "--by", "Ada", "--why", "wrong list").code == 0
    assert alone(own_office, "SELECT why FROM decisions") == [("wrong list",)]
    desk.close()


@pytest.mark.prefect
def test_what_a_flow_wrote_is_in_the_ledgers_file(office: Office) -> None:
    file = office.sheet(("a", "10", "12345670001"), ("b", "20", "12345670001"))
    assert office.run("pay", file, "--run-key", "leaving", "--yes").code == 0
    assert alone(office, "SELECT count(*) FROM orders WHERE run_key = 'leaving' AND state = 'settled'") == [(2,)]


def test_the_end_of_a_process_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}", "http://one|1", tmp_path / "key")
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as other, other:
        other.execute("BEGIN IMMEDIATE")
        ledger._writer._queue.put((lambda connection: connection.execute(text("SELECT 1")), lambda *_: None))
        began = time.monotonic()
        ledger.close(0.2)
        assert time.monotonic() - began < 5
    other.close()
    ledger.close()
