"""PostgreSQL servers with settings of their own: a session of a ledger sets what it needs, or says what is missing."""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url, text

from tests.engine.intents import commit, intent
from tests.engine.meanwhile import about_to_commit
from tests.parts import on_server
from treasury.errors import ConfigurationError
from treasury.ledger.intents import commit_plan
from treasury.ledger.ledger import Ledger
from treasury.orders.states import State

pytestmark = [pytest.mark.both_databases, pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)]

OpenLedger = Callable[..., Ledger]


def set_by_default(url: str, **settings: str) -> None:
    """Give every new session of the ledger's database these settings."""
    name = make_url(url).database
    on_server(url, *(f"ALTER DATABASE \"{name}\" SET {setting} = '{value}'" for setting, value in settings.items()))


def elsewhere(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_of_two_payments_to_one_payee_one_is_held_whatever_isolation_is_the_default(
    isolation: str, open_ledger: OpenLedger, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waited for the other one's record judged by what had been there before it, and both left."""
    set_by_default(ledger_url, default_transaction_isolation=isolation)
    one, other = open_ledger(), open_ledger()

    def pays(ledger: Ledger, run: str) -> None:
        same = intent(run, duplicate_key=("payee", "USDT", "10"))
        commit_plan(ledger, run, "payout", {}, "0" * 64, [same])

    with about_to_commit(one, lambda: pays(one, "first"), monkeypatch) as go_on:
        threading.Timer(0.3, go_on.set).start()
        pays(other, "second")
    assert [order.state for order in other.orders()] == [State.PREPARED, State.HELD]


def test_a_session_that_is_silent_is_not_ended_by_the_server(open_ledger: OpenLedger, ledger_url: str) -> None:
    """It carries the locks of the runs: each run ended as if the ledger had been lost, and none could be paid."""
    limits = ("idle_session_timeout", "idle_in_transaction_session_timeout", "statement_timeout", "lock_timeout")
    set_by_default(ledger_url, **dict.fromkeys(limits, "400ms"))
    ledger = open_ledger()
    with ledger.hold("run"):
        commit(ledger, "a")
        with psycopg.connect(elsewhere(ledger_url, "postgres")) as watching:
            watching.execute("SELECT pg_sleep(0.6)")
        commit(ledger, "b", run_key="another")
    assert [order.row_ref for order in ledger.orders()] == ["a", "b"]
    assert ledger.read(text("SELECT pg_sleep(0.6)"))


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_name_is_refused(encoding: str, ledger_url: str, tmp_path: Path) -> None:
    """A name that its encoding lacks ended a run with a traceback, and with the name in it."""
    name = f"{make_url(ledger_url).database}_{encoding.lower()}"
    on_server(ledger_url, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
    with pytest.raises(ConfigurationError, match=rf"{encoding}.*ENCODING 'UTF8'") as refused:
        Ledger(elsewhere(ledger_url, name), "http://127.0.0.1:1|1", tmp_path / "other.key")
    assert "\n" not in str(refused.value)


def test_every_name_is_kept_whatever_the_machine_writes(
    open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    ledger = open_ledger()
    commit(ledger, "Nguyễn")
    assert [order.row_ref for order in ledger.orders()] == ["Nguyễn"]


def test_a_user_who_may_make_no_tables_is_told_so_in_a_line(ledger_url: str, tmp_path: Path) -> None:
    """The user of a new database, as PostgreSQL 15 and later make it."""
    name = f"{make_url(ledger_url).database}_bare"
    on_server(ledger_url, f"CREATE DATABASE {name} TEMPLATE template0", f"CREATE ROLE {name} LOGIN")
    url = make_url(elsewhere(ledger_url, name)).set(username=name).render_as_string(hide_password=False)
    with pytest.raises(ConfigurationError, match=r"permission denied.*ALTER DATABASE name OWNER") as told:
        Ledger(url, "http://127.0.0.1:1|1", tmp_path / "other.key")
    assert "LINE" not in str(told.value)


def test_a_database_that_has_a_table_meta_of_another_program_is_refused(ledger_url: str, tmp_path: Path) -> None:
    with psycopg.connect(ledger_url) as connection:
        connection.execute("ALTER TABLE meta RENAME COLUMN key TO number")
    with pytest.raises(ConfigurationError, match=r"another program's.*database of its own"):
        Ledger(ledger_url, "http://127.0.0.1:1|1", tmp_path / "other.key")


def test_a_standby_is_told_to_be_none_that_takes_writes(ledger_url: str, tmp_path: Path) -> None:
    set_by_default(ledger_url, default_transaction_read_only="on")
    with pytest.raises(ConfigurationError, match=r"read-only transaction: .* the server that takes writes"):
        Ledger(ledger_url, "http://127.0.0.1:1|1", tmp_path / "other.key")


def test_a_pooler_is_refused(ledger_url: str, tmp_path: Path) -> None:
    """It gave each transaction another session, and two processes held one run."""
    with socket.create_server(("127.0.0.1", 0)) as pooler:
        threading.Thread(target=answer_as_a_pooler, args=(pooler, ledger_url), daemon=True).start()
        url = make_url(ledger_url).set(host="127.0.0.1", port=pooler.getsockname()[1], query={"sslmode": "disable"})
        given = url.render_as_string(hide_password=False)
        with pytest.raises(ConfigurationError, match=r"pooler.*host and port of the PostgreSQL server itself"):
            Ledger(given, "http://127.0.0.1:1|1", tmp_path / "other.key")


def answer_as_a_pooler(pooler: socket.socket, ledger_url: str) -> None:
    """Pass one connection on to the server, under a process number that is not the session's own, as PgBouncer does."""
    folder = make_url(ledger_url).query["host"]
    with pooler.accept()[0] as client, socket.socket(socket.AF_UNIX) as server:
        server.connect(f"{folder}/.s.PGSQL.5432")
        threading.Thread(target=pass_on, args=(client, server), daemon=True).start()
        while not (begins := server.recv(65536)).endswith(b"Z\x00\x00\x00\x05I"):
            client.sendall(begins)
        number = begins.rindex(b"K\x00\x00\x00") + 5
        client.sendall(begins[:number] + struct.pack("!I", 999_999) + begins[number + 4 :])
        pass_on(server, client)


def pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while content := one.recv(65536):
            other.sendall(content)
        other.shutdown(socket.SHUT_WR)
