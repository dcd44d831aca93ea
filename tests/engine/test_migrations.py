"""A ledger that older code wrote is brought up to date when it is opened, whole or not at all, and works on."""

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
from tests.ledger_fixture import contents, plain_engine, put_old_ledger
from tests.proofs import tries
from treasury.concurrency.crash_points import POINTS
from treasury.errors import ConfigurationError, WrongAccount, WrongLedgerKey
from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.ledger.migrations import tables_of
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.runs.desk import Desk

pytestmark = pytest.mark.both_databases

ROOT = Path(__file__).parents[2]
ACCOUNT = "http://127.0.0.1:1|1"
OpenLedger = Callable[..., Ledger]
KEYED = "keyed_decisions"
ADDED = (
    "hosts",
    "seen_statuses",
    "proofs",
    "adoptions",
    "policies",
    "consents",
    "decisions",
    "snapshots",
    "statement_lines",
    KEYED,
)
"""Tables that came after the first format."""
DROPPED = {"approvals"}
"""Tables of the first format that are gone."""


@pytest.fixture
def postgres(postgres: Callable[..., str]) -> Callable[..., str]:
    """Databases without tables: an older version's ledger is put there, or a backup."""
    return partial(postgres, empty=True)


@pytest.fixture
def old_ledger(ledger_url: str, tmp_path: Path) -> str:
    """A ledger of revision 0001; its URL."""
    put_old_ledger(ledger_url, ACCOUNT, tmp_path / "ledger.key")
    return ledger_url


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
    old_ledger: str, empty_url: str, open_ledger: OpenLedger, tmp_path: Path
) -> None:
    open_ledger()
    Ledger(empty_url, ACCOUNT, tmp_path / "ledger.key").close()
    migrated, new = shape(plain_engine(old_ledger)), shape(plain_engine(empty_url))
    assert migrated == new
    assert new.keys() == schema.metadata.tables.keys()


def test_a_migrated_ledger_in_postgresql_has_the_defaults_of_a_new_one(
    postgres: Callable[[], str], tmp_path: Path
) -> None:
    """SQLite keeps those with which it added columns; nothing is written that leaves them out."""
    old, new = postgres(), postgres()
    put_old_ledger(old, ACCOUNT, tmp_path / "ledger.key")
    for url in (old, new):
        Ledger(url, ACCOUNT, tmp_path / "ledger.key").close()

    def defaults(url: str) -> dict[tuple[str, str], Any]:
        seen = inspect(plain_engine(url))
        names = schema.metadata.tables
        return {(name, each["name"]): each["default"] for name in names for each in seen.get_columns(name)}

    assert {name: str(each).replace("public.", "") for name, each in defaults(old).items()} == {
        name: str(each).replace("public.", "") for name, each in defaults(new).items()
    }


def test_the_first_revision_is_what_the_old_code_made(old_ledger: str, empty_url: str) -> None:
    engine = plain_engine(empty_url)
    tables_of("1").create_all(engine)
    assert shape(engine) == shape(plain_engine(old_ledger))


def test_what_the_old_ledger_held_is_all_there(old_ledger: str, open_ledger: OpenLedger) -> None:
    before = contents(old_ledger)
    open_ledger()
    after = contents(old_ledger)
    for name, rows in before.items():
        if name in {"meta", *DROPPED}:
            continue
        pairs = list(zip(rows, after[name], strict=True))
        dropped = {"ask_first"} if name == "orders" else set()
        assert all(old.keys() - new.keys() == dropped for old, new in pairs), name
        assert all(old[each] == new[each] for old, new in pairs for each in old.keys() - dropped)
    meta = {row["key"]: row["value"] for row in before["meta"]}
    changed = {"schema": schema.VERSION, "migrated_from": "0001"}
    assert {row["key"]: row["value"] for row in after["meta"]} == meta | changed
    assert all(after[name] == [] for name in ADDED if name != "decisions")
    [old], [taken] = before["approvals"], after["decisions"]
    [plan] = (plan for plan in after["plans"] if plan["id"] == taken["proposal"])
    assert (plan["run_key"], plan["plan_sha256"]) == (old["run_key"], old["plan_sha256"])
    assert (taken["decision"], taken["name"], taken["at"]) == ("approve", old["approved_by"], old["approved_at"])
    assert {row["state"] for row in after["orders"]} == {state.value for state in State} - {"cancelled"}


def test_old_orders_and_quotes_say_in_new_words_what_they_said(old_ledger: str, open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    orders = by_ref(ledger)
    assert {ref: order.absences_needed for ref, order in orders.items() if order.absences_needed} == {"asked-first": 2}
    assert {ref: order.hold_kind for ref, order in orders.items() if order.hold_kind} == {
        "duplicate": "duplicate",
        "known": "known",
    }
    assert {(order.first_answer, order.personal) for order in orders.values()} == {(None, None)}
    quotes = [(quote.quote and quote.quote[:2], quote.stage, quote.asks) for quote in ledger.quotes()]
    assert quotes == [("Q1", "done", 1), (None, "asked", 1), ("Q2", "answered", 1), ("Q-", "answered", 1)]
    assert {(quote.ends_at, quote.service_ends_at) for quote in ledger.quotes()} == {(None, None)}


def test_an_answered_quote_that_another_followed_is_done(old_ledger: str, open_ledger: OpenLedger) -> None:
    with plain_engine(old_ledger).begin() as connection:
        connection.execute(text("UPDATE quotes SET note = NULL"))
    assert [quote.stage for quote in open_ledger().quotes()] == ["done", "asked", "answered", "answered"]


def by_ref(ledger: Ledger) -> dict[str, Order]:
    return {order.row_ref: order for order in ledger.orders()}


def test_open_orders_of_an_old_ledger_are_finished(
    ledger_url: str, open_desk: Callable[..., Desk], service: Any, tmp_path: Path
) -> None:
    put_old_ledger(ledger_url, f"{service.base_url}|{PARTNER_ID}", tmp_path / "ledger.key")
    desk = open_desk(service.base_url)
    orders = by_ref(desk.ledger)
    service.plan(QUERY, shown(99))
    assert desk.submission.ask(orders["accepted"]).state is State.SETTLED
    service.plan(QUERY, ABSENT)
    service.plan(PAYOUT, accepted)
    sent = desk.submission.submit(orders["prepared"])
    assert (sent.state, sent.sends) == (State.ACCEPTED, 1)
    assert service.sent_to(PAYOUT)[0]["account_no"] == "123456789012"
    service.plan(QUERY, shown(22))
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
    spec = {"url": old_ledger, "account": ACCOUNT, "key": str(tmp_path / "ledger.key")}
    with ExitStack() as running:

        def start_one(**options: Any) -> "subprocess.Popen[str]":
            process = running.enter_context(started({**spec, **options}))
            running.callback(process.kill)
            return process

        yield start_one


@pytest.mark.costly("a migration, killed again and again")
def test_killed_before_any_statement_the_old_ledger_is_as_it_was_and_the_next_opening_finishes(
    old_ledger: str, start: Callable[..., "subprocess.Popen[str]"], open_ledger: OpenLedger
) -> None:
    step = tries("STATEMENTS", 8, 1)
    process = start(kill_each=step)
    killed = int(process.communicate(timeout=400)[0])
    assert process.returncode == 0
    assert killed * step > 20, "a migration is more statements than that"
    assert len(open_ledger().orders()) == 16


@pytest.mark.parametrize("point", [name for name in POINTS if name.startswith("migration.")])
def test_killed_at_a_point_of_the_migration_nothing_is_changed(
    old_ledger: str, start: Callable[..., "subprocess.Popen[str]"], open_ledger: OpenLedger, point: str
) -> None:
    held = contents(old_ledger)
    process = start(point=point)
    process.communicate("\n", timeout=60)
    assert process.returncode == -9
    assert contents(old_ledger) == held
    assert len(open_ledger().orders()) == 16


def test_of_two_processes_that_open_an_old_ledger_one_migrates_it_and_the_other_waits(
    old_ledger: str, start: Callable[..., "subprocess.Popen[str]"], open_ledger: OpenLedger
) -> None:
    processes = [start(slow=0.05), start(slow=0.05), start()]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    changes = sorted(int(process.communicate(timeout=60)[0]) for process in processes)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert changes[:2] == [0, 0]
    assert changes[2] > 10
    assert len(open_ledger().orders()) == 16


def test_a_ledger_that_is_newer_than_the_program_is_refused_with_the_remedy(
    open_ledger: OpenLedger, ledger_url: str
) -> None:
    open_ledger()
    with plain_engine(ledger_url).begin() as connection:
        connection.execute(text("UPDATE meta SET value = '99' WHERE key = 'schema'"))
    held = contents(ledger_url)
    with pytest.raises(ConfigurationError, match=rf"has format 99, .* reads up to {schema.VERSION}: install a newer"):
        open_ledger()
    assert contents(ledger_url) == held


def test_an_old_ledger_of_another_account_or_key_is_refused_before_it_is_changed(
    old_ledger: str, open_ledger: OpenLedger
) -> None:
    held = contents(old_ledger)
    with pytest.raises(WrongAccount):
        open_ledger(account="http://two|2")
    with pytest.raises(WrongLedgerKey):
        open_ledger(key="other.key")
    assert contents(old_ledger) == held


def test_a_migrated_ledger_is_opened_as_any_other(old_ledger: str, open_ledger: OpenLedger) -> None:
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
    tables = set(schema.metadata.tables) | DROPPED
    later = ("snapshots", "statement_lines", KEYED)
    assert set(tables_of("1").tables) == tables - set(ADDED)
    assert set(tables_of("2").tables) == tables - {"proofs", "adoptions", "policies", "consents", "decisions", *later}
    third, fourth = tables_of("3"), tables_of("4")
    assert set(third.tables) == tables - {"policies", "consents", "decisions", *later}
    assert set(fourth.tables) == tables - {"decisions", *later}
    columns, told = set(schema.orders.c.keys()), ("told_fee", "told_fee_currency")
    assert columns - set(fourth.tables["orders"].c.keys()) == {"payee_name", "checksum", "replaces", *told}
    assert columns - set(third.tables["orders"].c.keys()) == {
        *("released", "counted_on", "ceiling", "payee", "payee_name", "checksum", "replaces", *told),
    }
    assert tables_of(schema.VERSION) is schema.metadata
