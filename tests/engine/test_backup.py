"""A backup holds one moment of ledger, key and tokens, also while money leaves; what is restored works on."""

import json
import random
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text

from tests.engine.intents import commit, intent
from tests.engine.planned import PARTNER_ID
from tests.ledgers import STEPS, contents, plain_engine, put_ledger
from tests.moved_clock import RUNS
from tests.next_format import NEXT, PRESENT, as_next_format
from tests.parts import sheet
from tests.proofs import ALL, tries
from treasury.errors import ConfigurationError, InputError, WrongLedgerKey
from treasury.ledger import schema
from treasury.ledger.backup import make_backup
from treasury.ledger.intents import commit_plan
from treasury.ledger.ledger import Ledger
from treasury.ledger.restore import restore_backup
from treasury.orders.states import Event, State
from treasury.settings import Settings, read_settings

pytestmark = pytest.mark.both_databases

ROOT = Path(__file__).parents[2]
ACCOUNT = "http://127.0.0.1:1|1"

ROWS = tries("BACKUP_ROWS", 250, 1_200)


def home_of(folder: Path, ledger_url: str | None = None) -> Settings:
    """A home in this folder, which is not made."""
    environ = {"TREASURY_HOME": str(folder)}
    return read_settings(environ | ({} if ledger_url is None else {"TREASURY_LEDGER_URL": ledger_url}))


@pytest.fixture
def postgres(postgres: Callable[..., str]) -> Callable[..., str]:
    """Databases without tables: a ledger is put there, or a backup."""
    return partial(postgres, empty=True)


@pytest.fixture
def home(ledger_url: str, tmp_path: Path) -> Settings:
    """A home with a ledger that has an order in every state, a key and two tokens."""
    folder = tmp_path / "home"
    (folder / "tokens").mkdir(parents=True)
    (folder / "tokens" / "machine").write_text("17\n")
    settings = home_of(folder, ledger_url if ledger_url.startswith("postgresql") else None)
    put_ledger(settings.ledger_url, ACCOUNT, settings.ledger_key_file)
    return settings


@pytest.fixture(params=["into sqlite", "into postgresql"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """An empty home."""
    url = request.getfixturevalue("postgres")() if request.param == "into postgresql" else None
    return home_of(tmp_path / "elsewhere", url)


@pytest.fixture
def backup(home: Settings, tmp_path: Path) -> Path:
    file = tmp_path / "backups" / "one.backup"
    make_backup(home, file)
    return file


def held(settings: Settings) -> dict[str, Any]:
    """Return what a ledger holds, the rows of `meta` by their keys."""
    found: dict[str, Any] = {
        name: rows for name, rows in contents(settings.ledger_url).items() if name != "alembic_version"
    }
    return found | {"meta": {row["key"]: row["value"] for row in found["meta"]}}


def unmarked(held: dict[str, Any]) -> dict[str, Any]:
    """Without what says that it was restored."""
    return held | {"meta": {key: value for key, value in held["meta"].items() if key != "restored_at"}}


def files_of(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*")} if folder.exists() else set()


def test_what_is_restored_is_what_was_there(home: Settings, backup: Path, elsewhere: Settings) -> None:
    before = held(home)
    manifest = restore_backup(elsewhere, backup)
    after = held(elsewhere)
    assert int(after["meta"]["restored_at"]) >= manifest.created_at
    assert unmarked(after) == unmarked(before)
    assert manifest.counts == {"runs": 2, "orders": len(STEPS) + 1, "journal": len(before["journal"])}
    for name in ("ledger.key", "tokens/machine"):
        assert (elsewhere.home / name).read_bytes() == (home.home / name).read_bytes()
        assert (elsewhere.home / name).stat().st_mode & 0o777 == 0o600
    for folder in (elsewhere.home, elsewhere.home / "tokens"):
        assert folder.stat().st_mode & 0o777 == 0o700
    left = {"ledger.key", "tokens", "tokens/machine"}
    assert files_of(elsewhere.home) == left | ({"ledger.db"} if "sqlite" in elsewhere.ledger_url else set())


def test_a_restored_ledger_goes_on(backup: Path, elsewhere: Settings) -> None:
    restore_backup(elsewhere, backup)
    ledger = Ledger(elsewhere.ledger_url, ACCOUNT, elsewhere.ledger_key_file)
    last = max(order.id for order in ledger.orders())
    [order] = commit(ledger, "new", run_key="after")
    assert order.id == last + 1
    assert ledger.step(order, Event.SEND).state is State.SENDING
    assert ledger.payload(ledger.orders(reference="prepared")[0])["account_no"] == "123456789012"
    ledger.saw_balance("USDT", Decimal(5))
    ledger.close()


def test_a_ledger_of_an_older_format_is_backed_up_as_it_is(
    ledger_url: str, tmp_path: Path, elsewhere: Settings
) -> None:
    old = replace(home_of(tmp_path), ledger_url=ledger_url)
    put_ledger(ledger_url, ACCOUNT, old.ledger_key_file)
    before = held(old)
    with as_next_format():
        assert make_backup(old, tmp_path / "old").schema == PRESENT
        assert held(old) == before
        restore_backup(elsewhere, tmp_path / "old")
        ledger = Ledger(elsewhere.ledger_url, ACCOUNT, elsewhere.ledger_key_file)
        assert {order.state for order in ledger.orders()} == set(State)
        ledger.close()
        assert held(elsewhere)["meta"]["schema"] == NEXT


def test_a_backup_is_its_owners_alone_and_replaces_nothing(home: Settings, backup: Path) -> None:
    assert backup.stat().st_mode & 0o777 == 0o600
    assert backup.parent.stat().st_mode & 0o777 == 0o700
    content = backup.read_bytes()
    with pytest.raises(InputError, match="exists already"):
        make_backup(home, backup)
    assert backup.read_bytes() == content
    assert files_of(backup.parent) == {backup.name}


def test_neither_a_missing_ledger_nor_another_key_is_backed_up(home: Settings, tmp_path: Path, postgres: Any) -> None:
    for url in (None, postgres()):
        with pytest.raises(ConfigurationError, match="there is no ledger"):
            make_backup(home_of(tmp_path / "nothing", url), tmp_path / "file")
    shutil.copy(home.ledger_key_file, tmp_path / "kept")
    home.ledger_key_file.unlink()
    with pytest.raises(WrongLedgerKey, match="key is not there"):
        make_backup(home, tmp_path / "file")
    assert not home.ledger_key_file.exists()
    other = Ledger(f"sqlite:///{tmp_path / 'other.db'}", ACCOUNT, home.ledger_key_file)
    other.close()
    with pytest.raises(WrongLedgerKey, match="TREASURY_LEDGER_KEY_FILE"):
        make_backup(home, tmp_path / "file")
    assert not (tmp_path / "file").exists()
    assert not (tmp_path / "nothing").exists()


SENDING = """
import sys
from pathlib import Path
from tests.engine import paying
from treasury.payments.desk import Desk
from treasury.provider.client import Account
from treasury.payments import execution
from treasury.settings import Settings
base_url, home, ledger_url, sheet = sys.argv[1:]
home = Path(home)
settings = Settings(home, None, None, None, None, ledger_url, home / "ledger.key", in_flight=8)
desk = Desk(Account(base_url, "900001", sys.stdin.read()), settings)
with desk.hold("run"):
    chunks = paying.commit(desk, Path(sheet), "run")
    print("begins", flush=True)
    for ids in chunks:
        execution.send_orders(desk, "run", ids)
desk.close()
"""


@RUNS
@pytest.mark.costly("a process that sends meanwhile")
def test_a_backup_that_is_made_while_rows_are_sent_agrees_with_itself(
    ledger_url: str, start_sandbox: Callable[..., Any], keys: tuple[str, str], tmp_path: Path
) -> None:
    sandbox = start_sandbox(faults={"slow": 1.0}, slow_seconds=0.1)  # it sends for some seconds
    home = replace(home_of(tmp_path / "home"), ledger_url=ledger_url)
    home.home.mkdir()
    rows = sheet(tmp_path, ROWS)
    command = [sys.executable, "-c", SENDING, sandbox.base_url, home.home, ledger_url, rows]
    sent: list[int] = []
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(keys[0])
        process.stdin.close()
        assert process.stdout.readline() == "begins\n"
        while process.poll() is None and sum(0 < count < ROWS for count in sent) < (3 if ALL else 2):
            sent.append(back_up_and_check(home, tmp_path / str(len(sent)), f"{sandbox.base_url}|{PARTNER_ID}"))
        assert process.wait(60) == 0
    assert [count for count in sent if 0 < count < ROWS], sent
    assert sent == sorted(sent)


def back_up_and_check(home: Settings, folder: Path, account: str) -> int:
    """Back up, restore elsewhere, compare orders with their journals; how many were sent by then."""
    make_backup(home, folder / "backup")
    restored = home_of(folder / "home")
    restore_backup(restored, folder / "backup")
    ledger = Ledger(restored.ledger_url, account, restored.ledger_key_file)
    sends = select(schema.journal.c.order_id, func.count().label("sends")).where(schema.journal.c.event == "send")
    journal = {row.order_id: row.sends for row in ledger.read(sends.group_by(schema.journal.c.order_id))}
    orders = {order.id: order.sends for order in ledger.orders() if order.sends}
    assert orders == journal
    ledger.close()
    return len(orders)


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("elsewhere", ["into sqlite"], indirect=True)
def test_a_damaged_backup_is_refused_or_does_no_harm(home: Settings, backup: Path, elsewhere: Settings) -> None:
    """A byte of the archive's own books that nothing depends on may be anything."""
    whole, before = backup.read_bytes(), held(home)
    dice = random.Random(7)
    refused = 0
    ends = [whole[: len(whole) * part // 7] for part in range(7)]
    flips = [damaged(whole, dice.randrange(len(whole))) for _ in range(120)]
    for content in (*ends, *flips, whole[:-1], whole + b"more"):
        backup.write_bytes(content)
        try:
            restore_backup(elsewhere, backup)
        except InputError:
            refused += 1
            assert not elsewhere.home.exists()
        else:
            assert unmarked(held(elsewhere)) == unmarked(before)
            shutil.rmtree(elsewhere.home)
    assert refused > 110


def damaged(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :]


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_what_is_no_backup_of_ours_is_refused(backup: Path, tmp_path: Path) -> None:
    elsewhere = home_of(tmp_path / "elsewhere")
    (tmp_path / "text").write_text("rows")
    with zipfile.ZipFile(tmp_path / "foreign", "w") as archive:
        archive.writestr("other", "content")
    repack(backup, tmp_path / "newer", lambda manifest: manifest | {"format": 2})
    repack(backup, tmp_path / "newer-ledger", lambda manifest: manifest | {"schema": "999"})
    repack(backup, tmp_path / "unreleased", lambda manifest: manifest | {"schema": "9"})
    repack(backup, tmp_path / "of before", lambda manifest: manifest | {"schema": "106"})
    repack(backup, tmp_path / "odd", lambda manifest: [manifest])
    repack(backup, tmp_path / "number", lambda manifest: manifest | {"schema": 2})
    repack(backup, tmp_path / "counts", lambda manifest: manifest | {"counts": {"runs": 1, "orders": 1, "journal": 1}})
    said = {
        "nowhere": "there is no file",
        "text": "not a backup",
        "foreign": "not a backup",
        "newer": "install a newer treasury-flows",
        "newer-ledger": "install a newer treasury-flows",
        "unreleased": "holds a ledger of format 9, .* restore it with commit 6559679 ",
        "of before": "holds a ledger of format 106, .* restore it with commit 35a018f ",
        "odd": "damaged",
        "number": "damaged",
    }
    for name, words in said.items():
        with pytest.raises(InputError, match=words):
            restore_backup(elsewhere, tmp_path / name)
        assert not elsewhere.home.exists()
    with pytest.raises(ConfigurationError, match="does not hold what its manifest says"):
        restore_backup(elsewhere, tmp_path / "counts")
    assert files_of(elsewhere.home) == set()


def repack(backup: Path, file: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, json.dumps(change(json.loads(content))) if name == "manifest.json" else content)


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-wal", "ledger.key", "tokens/other"])
def test_a_home_that_is_not_empty_is_left_alone(backup: Path, tmp_path: Path, name: str) -> None:
    elsewhere = home_of(tmp_path / "elsewhere")
    there = elsewhere.home / name
    there.parent.mkdir(parents=True)
    there.write_text("mine")
    before = files_of(elsewhere.home)
    with pytest.raises(InputError, match=f"in the way: {there}"):
        restore_backup(elsewhere, backup)
    assert files_of(elsewhere.home) == before
    assert there.read_text() == "mine"


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_key_that_cannot_be_read_is_in_the_way(backup: Path, tmp_path: Path) -> None:
    elsewhere = home_of(tmp_path / "elsewhere")
    (elsewhere.home / "ledger.key").mkdir(parents=True)
    with pytest.raises(InputError, match=f"in the way: {elsewhere.home / 'ledger.key'}"):
        restore_backup(elsewhere, backup)


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_the_ledgers_own_key_is_in_nobodys_way(home: Settings, backup: Path, elsewhere: Settings) -> None:
    """It is there before a restore where secrets have a place of their own (units, containers)."""
    secrets = replace(elsewhere, ledger_key_file=home.ledger_key_file)
    number = home.ledger_key_file.stat().st_ino
    restore_backup(secrets, backup)
    assert unmarked(held(secrets)) == unmarked(held(home))
    assert home.ledger_key_file.stat().st_ino == number
    assert not elsewhere.ledger_key_file.exists()


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_database_that_is_not_empty_is_left_alone(backup: Path, tmp_path: Path, postgres: Callable[[], str]) -> None:
    elsewhere = home_of(tmp_path / "elsewhere", postgres())
    with plain_engine(elsewhere.ledger_url).begin() as connection:
        connection.execute(text("CREATE TABLE invoices (id int)"))
    with pytest.raises(InputError, match="tables invoices in the database"):
        restore_backup(elsewhere, backup)
    assert contents(elsewhere.ledger_url) == {"invoices": []}
    assert not elsewhere.home.exists()


KILLED = """
import sys
from pathlib import Path
from treasury.concurrency import crash_points
from treasury.ledger.backup import make_backup
from treasury.ledger.restore import restore_backup
from treasury.settings import read_settings
settings = read_settings({"TREASURY_HOME": sys.argv[1], "TREASURY_LEDGER_URL": sys.argv[2]})
crash_points.arm(sys.argv[3], 1)
(make_backup if sys.argv[3].startswith("backup") else restore_backup)(settings, Path(sys.argv[4]))
"""


def killed_at(point: str, settings: Settings, file: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(settings.home), settings.ledger_url, point, str(file)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("point", ["restore.ledger", "restore.placed"])
def test_a_restore_that_was_killed_is_seen_and_gone_on_with(
    home: Settings, backup: Path, elsewhere: Settings, tmp_path: Path, point: str
) -> None:
    killed_at(point, elsewhere, backup)
    before = files_of(elsewhere.home)
    with pytest.raises(ConfigurationError, match="was cut off: run the same `treasury restore FILE` again"):
        Ledger(elsewhere.ledger_url, ACCOUNT, elsewhere.ledger_key_file)
    make_backup(home, tmp_path / "another")
    with pytest.raises(InputError, match="another backup was cut off here"):
        restore_backup(elsewhere, tmp_path / "another")
    assert {name for name in files_of(elsewhere.home) if name not in ("ledger.db-wal", "ledger.db-shm")} == before
    restore_backup(elsewhere, backup)
    assert unmarked(held(elsewhere)) == unmarked(held(home))
    with pytest.raises(InputError, match="in the way"):
        restore_backup(elsewhere, backup)


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_backup_that_was_killed_has_no_name(home: Settings, tmp_path: Path) -> None:
    killed_at("backup.written", home, tmp_path / "file")
    assert not (tmp_path / "file").exists()
    make_backup(home, tmp_path / "file")
    restore_backup(home_of(tmp_path / "elsewhere"), tmp_path / "file")


def test_a_ledger_whose_key_is_gone_gets_no_new_one(home: Settings) -> None:
    home.ledger_key_file.unlink()
    with pytest.raises(WrongLedgerKey, match="key is not there"):
        Ledger(home.ledger_url, ACCOUNT, home.ledger_key_file)
    assert not home.ledger_key_file.exists()


def test_duplicates_of_before_the_backup_are_held_after_it(backup: Path, elsewhere: Settings) -> None:
    restore_backup(elsewhere, backup)
    ledger = Ledger(elsewhere.ledger_url, ACCOUNT, elsewhere.ledger_key_file)
    again = intent("again", duplicate_key=("payee prepared", "USDT", "10"))
    commit_plan(ledger, "later", "payout", {}, "", [again])
    assert ledger.orders(reference="again")[0].state is State.HELD
    ledger.close()
