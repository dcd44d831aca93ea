"""A ledger of an older format is brought up to date when it is opened, whole or not at all, and works on.

The newer format is made up (`tests.next_format`). Ledgers of before the first release are refused at every door.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, inspect, text

from tests.engine.answers import ABSENT, PAYOUT, QUERY, accepted, shown
from tests.engine.planned import PARTNER_ID
from tests.ledgers import STEPS, contents, plain_engine, put_ledger, put_unreleased
from tests.next_format import NEXT, OF_ORDERS, PRESENT, as_next_format
from tests.proofs import tries
from treasury.concurrency.crash_points import POINTS
from treasury.errors import ConfigurationError, WrongAccount, WrongLedgerKey
from treasury.ledger import migrations, schema
from treasury.ledger.ledger import Ledger
from treasury.ledger.migrations import tables_of
from treasury.orders.states import State
from treasury.payments.desk import Desk

pytestmark = pytest.mark.both_databases

ROOT = Path(__file__).parents[2]
ACCOUNT = "http://127.0.0.1:1|1"
OpenLedger = Callable[..., Ledger]
ORDERS = len(STEPS) + 1


@pytest.fixture
def postgres(postgres: Callable[..., str]) -> Callable[..., str]:
    """Databases without tables: a ledger is put there."""
    return partial(postgres, empty=True)


@pytest.fixture
def old_ledger(ledger_url: str, tmp_path: Path) -> str:
    """A ledger of the present format, for the program of the next one; its URL."""
    put_ledger(ledger_url, ACCOUNT, tmp_path / "ledger.key")
    return ledger_url


@pytest.fixture
def newer() -> Iterator[None]:
    """The program of the next format, in this process."""
    with as_next_format():
        yield


def shape(engine: Engine) -> dict[str, Any]:
    """Return what a database is: tables, columns, types, what may be null, keys, indexes, uniques."""
    seen = inspect(engine)
    return {
        name: {
            "columns": {each["name"]: (str(each["type"]), each["nullable"]) for each in seen.get_columns(name)},
            "key": seen.get_pk_constraint(name)["constrained_columns"],
            "indexes": sorted((str(each["name"]), each["column_names"]) for each in seen.get_indexes(name)),
            "uniques": sorted(each["column_names"] for each in seen.get_unique_constraints(name)),
            "references": sorted(
                (each["constrained_columns"], each["referred_table"]) for each in seen.get_foreign_keys(name)
            ),
        }
        for name in seen.get_table_names()
        if name != "alembic_version"
    }


@pytest.fixture
def empty_url(request: pytest.FixtureRequest, ledger_url: str, tmp_path: Path) -> str:
    """Another database of the same kind."""
    if ledger_url.startswith("sqlite"):
        return f"sqlite:///{tmp_path / 'other.db'}"
    url: str = request.getfixturevalue("postgres")()
    return url


def test_a_migrated_ledger_and_a_new_one_have_the_same_tables(
    old_ledger: str, newer: None, empty_url: str, open_ledger: OpenLedger, tmp_path: Path
) -> None:
    open_ledger()
    Ledger(empty_url, ACCOUNT, tmp_path / "ledger.key").close()
    migrated, new = shape(plain_engine(old_ledger)), shape(plain_engine(empty_url))
    assert migrated == new
    assert new.keys() == schema.metadata.tables.keys()


def test_the_revisions_lead_from_an_empty_database_to_the_tables_of_a_new_ledger(
    newer: None, ledger_url: str, empty_url: str, open_ledger: OpenLedger
) -> None:
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    with plain_engine(empty_url).begin() as connection:
        context = MigrationContext.configure(connection)
        with Operations.context(context):
            for script in reversed(list(migrations._scripts().iterate_revisions("head", "base"))):
                script.module.upgrade()
    open_ledger()
    assert shape(plain_engine(empty_url)) == shape(plain_engine(ledger_url))


def test_what_the_old_ledger_held_is_all_there(old_ledger: str, newer: None, open_ledger: OpenLedger) -> None:
    before = contents(old_ledger)
    open_ledger()
    after = contents(old_ledger)
    assert after.keys() - before.keys() == {"alembic_version", "made_up"}
    for name, rows in before.items():
        pairs = list(zip(rows, after[name], strict=True)) if name != "meta" else []
        more = set(OF_ORDERS) if name == "orders" else set()
        assert all(new.keys() - old.keys() == more for old, new in pairs), name
        assert all(old[each] == new[each] for old, new in pairs for each in old), name
    meta = {row["key"]: row["value"] for row in before["meta"]}
    assert {row["key"]: row["value"] for row in after["meta"]} == meta | {"schema": NEXT}
    assert {row["state"] for row in after["orders"]} == {state.value for state in State}
    assert all((row["made_up"], row["made_up_note"]) == (row["sends"], row["row_ref"]) for row in after["orders"])
    assert {row["name"] for row in after["made_up"]} == {"november", "october"}


def test_open_orders_of_an_old_ledger_are_finished(
    ledger_url: str, open_desk: Callable[..., Desk], service: Any, tmp_path: Path
) -> None:
    put_ledger(ledger_url, f"{service.base_url}|{PARTNER_ID}", tmp_path / "ledger.key")
    with as_next_format():
        desk = open_desk(service.base_url)
    orders = {order.row_ref: order for order in desk.ledger.orders()}
    service.plan(QUERY, shown(99))
    assert desk.submission.ask(orders["accepted"]).state is State.SETTLED
    service.plan(QUERY, ABSENT)
    service.plan(PAYOUT, accepted)
    sent = desk.submission.submit(orders["prepared"])
    assert (sent.state, sent.sends) == (State.ACCEPTED, 1)
    assert service.sent_to(PAYOUT)[0]["account_no"] == "123456789012"
    service.plan(QUERY, shown(22, order_no="P2"))
    service.requests.clear()
    with desk.hold("november"):
        assert desk.ledger.orders(reference="sending")[0].state is State.UNKNOWN
        asked = desk.submission.submit(orders["unknown"])
    assert asked.state is State.ACCEPTED
    assert [(path, body["request_id"]) for path, body in service.requests] == [(QUERY, asked.request_id)]


def started(spec: Mapping[str, Any]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.engine.opening", json.dumps(spec)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=ROOT, **pipes)
    if "kill_each" not in spec:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    return process


@pytest.fixture
def start(old_ledger: str, tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts a process that opens the old ledger once a line is sent to it."""
    spec = {"url": old_ledger, "account": ACCOUNT, "key": str(tmp_path / "ledger.key"), "next_format": True}
    with ExitStack() as running:

        def start_one(**options: Any) -> "subprocess.Popen[str]":
            process = running.enter_context(started({**spec, **options}))
            running.callback(process.kill)
            return process

        yield start_one


@pytest.mark.costly("a migration, killed again and again")
def test_killed_before_any_statement_the_old_ledger_is_as_it_was_and_the_next_opening_finishes(
    old_ledger: str, newer: None, start: Callable[..., "subprocess.Popen[str]"], open_ledger: OpenLedger
) -> None:
    step = tries("STATEMENTS", 8, 1)
    process = start(kill_each=step)
    killed = int(process.communicate(timeout=400)[0])
    assert process.returncode == 0
    assert killed * step > 10, "a migration is more statements than that"
    assert len(open_ledger().orders()) == ORDERS


@pytest.mark.parametrize("point", [name for name in POINTS if name.startswith("migration.")])
def test_killed_at_a_point_of_the_migration_nothing_is_changed(
    old_ledger: str, newer: None, start: Callable[..., "subprocess.Popen[str]"], open_ledger: OpenLedger, point: str
) -> None:
    held = contents(old_ledger)
    process = start(point=point)
    process.communicate("\n", timeout=60)
    assert process.returncode == -9
    assert contents(old_ledger) == held
    assert len(open_ledger().orders()) == ORDERS


def test_of_two_processes_that_open_an_old_ledger_one_migrates_it_and_the_other_waits(
    old_ledger: str, newer: None, start: Callable[..., "subprocess.Popen[str]"], open_ledger: OpenLedger
) -> None:
    processes = [start(slow=0.05), start(slow=0.05), start()]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    changes = sorted(int(process.communicate(timeout=60)[0]) for process in processes)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert changes[:2] == [0, 0]
    assert changes[2] > 5
    assert len(open_ledger().orders()) == ORDERS


def test_a_ledger_that_is_newer_than_the_program_is_refused_with_the_remedy(
    open_ledger: OpenLedger, ledger_url: str
) -> None:
    open_ledger()
    with plain_engine(ledger_url).begin() as connection:
        connection.execute(text("UPDATE meta SET value = '999' WHERE key = 'schema'"))
    held = contents(ledger_url)
    with pytest.raises(ConfigurationError, match=rf"has format 999, .* reads up to {schema.VERSION}: install a newer"):
        open_ledger()
    assert contents(ledger_url) == held


def test_an_old_ledger_of_another_account_or_key_is_refused_before_it_is_changed(
    old_ledger: str, newer: None, open_ledger: OpenLedger
) -> None:
    held = contents(old_ledger)
    with pytest.raises(WrongAccount):
        open_ledger(account="http://two|2")
    with pytest.raises(WrongLedgerKey):
        open_ledger(key="other.key")
    assert contents(old_ledger) == held


def test_a_migrated_ledger_is_opened_as_any_other(old_ledger: str, newer: None, open_ledger: OpenLedger) -> None:
    open_ledger()
    held = contents(old_ledger)
    open_ledger()
    assert contents(old_ledger) == held


def test_alembic_is_imported_only_for_a_migration(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from treasury.ledger.ledger import Ledger\n"
        "for _ in range(2): Ledger(sys.argv[1], 'http://127.0.0.1:1|1', Path(sys.argv[2])).close()\n"
        "sys.exit('alembic' in sys.modules)"
    )
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    done = subprocess.run([sys.executable, "-c", code, url, str(tmp_path / "key")], cwd=ROOT, check=False)
    assert done.returncode == 0


def test_the_tables_of_each_format_are_known() -> None:
    tables, columns = set(schema.metadata.tables), set(schema.orders.c.keys())
    assert tables_of(PRESENT) is schema.metadata
    with as_next_format():
        assert set(tables_of(NEXT).tables) == tables | {"made_up"}
        before = tables_of(PRESENT)
        assert set(before.tables) == tables
        assert set(before.tables["orders"].c.keys()) == columns
        assert "orders_by_made_up" not in {each.name for each in before.tables["orders"].indexes}


def test_a_ledger_of_before_the_first_release_is_refused_by_name_and_nothing_is_written(
    ledger_url: str, open_ledger: OpenLedger, tmp_path: Path
) -> None:
    put_unreleased(ledger_url, "1", ACCOUNT)
    readers = {"1": "6559679", "99": "6559679", "100": "35a018f", "106": "35a018f"}
    for number, reader in readers.items():
        with plain_engine(ledger_url).begin() as connection:
            connection.execute(text("UPDATE meta SET value = :n WHERE key = 'schema'"), {"n": number})
        held, file = contents(ledger_url), (tmp_path / "ledger.db")
        kept = file.read_bytes() if file.exists() else b""
        for account in (ACCOUNT, "http://two|2"):
            with pytest.raises(ConfigurationError, match=rf"has format {number}, .* with commit {reader} "):
                open_ledger(account=account)
        assert contents(ledger_url) == held
        assert (file.read_bytes() if file.exists() else b"") == kept
        assert not (tmp_path / "ledger.key").exists()


@pytest.mark.parametrize("name", ["orders", "balances"])
def test_a_database_with_tables_of_another_program_is_refused(
    name: str, ledger_url: str, open_ledger: OpenLedger
) -> None:
    """They stayed as they were: the ledger was opened, and a run or a night ended once it wrote to one."""
    engine = plain_engine(ledger_url)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, customer TEXT)"))
    with pytest.raises(ConfigurationError, match=r"another program.*give the ledger a database of its own"):
        open_ledger()
    assert inspect(engine).get_table_names() == [name]
