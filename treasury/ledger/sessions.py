"""Sessions of a ledger in PostgreSQL: alike, whatever the defaults of its server, database, user or machine are."""

from typing import Any

from treasury.errors import ConfigurationError

KEEPALIVES = {
    "keepalives_idle": 60,
    "keepalives_interval": 15,
    "keepalives_count": 4,
    "tcp_user_timeout": 120_000,
}
"""Of a connection to PostgreSQL: after two minutes of silence the other side is gone. By default it takes two hours.

The last one, in milliseconds, is about what was sent and not received."""

ISOLATION = "READ COMMITTED"
"""A transaction that waited for another one judges by what that one wrote; a snapshot would be of before the wait."""

ENCODING = "UTF8"
"""Names of payees and rows are of any script."""

LOCK_SECONDS = 180
"""How long a session waits for what another one holds: longer than it takes until a machine that is gone is noticed."""

_SETTINGS = {
    "synchronous_commit": "on",
    # At the server's end, too: what a machine that is gone held is let go.
    **{f"tcp_{name.removeprefix('tcp_')}": str(value) for name, value in KEEPALIVES.items()},
    # A session that is silent holds runs, and one that waits for another one's record is not stuck for long.
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "transaction_timeout": "0",
    "statement_timeout": "0",
    "lock_timeout": f"{LOCK_SECONDS}s",
}

_SET_IF_KNOWN = (
    "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS given (name, value)"
    " JOIN pg_settings USING (name)"
)
"""PostgreSQL 11 knows no `tcp_user_timeout`, and 16 no `transaction_timeout`."""


def connect_args(given: Any) -> dict[str, Any]:
    """Return what a connection is opened with; `given`: what the URL says itself."""
    return {"client_encoding": ENCODING, **{name: value for name, value in KEEPALIVES.items() if name not in given}}


def configure(connection: Any) -> None:
    """Give a new connection the settings that a ledger needs."""
    with connection.cursor() as cursor:
        cursor.execute(_SET_IF_KNOWN, (list(_SETTINGS), list(_SETTINGS.values())))
    connection.commit()


def check_encoding(connection: Any) -> None:
    """Raise `ConfigurationError` for a database that cannot hold every name."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != ENCODING:
        raise ConfigurationError(
            f"the database of TREASURY_LEDGER_URL is encoded in {encoding}, which cannot hold every name: give the "
            f"ledger another one, made by CREATE DATABASE name TEMPLATE template0 ENCODING '{ENCODING}'"
        )


def check_direct(connection: Any) -> None:
    """Raise `ConfigurationError` where a pooler answers: it gives each transaction another session of the server, so
    that a run which one process holds can be held by a second one."""
    with connection.cursor() as cursor:
        [[process]] = cursor.execute("SELECT pg_backend_pid()").fetchall()
    connection.commit()
    if process != connection.info.backend_pid:
        raise ConfigurationError(
            "TREASURY_LEDGER_URL leads to a pooler of connections, such as PgBouncer, which lets two programs hold a "
            "run: give it the host and port of the PostgreSQL server itself"
        )
