"""A state file loses nothing, even when the process is killed; `serve` says where it listens."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.sandbox.builders import (
    PRIVATE,
    PUBLIC,
    card_user,
    client_of,
    convert,
    fiat_quote,
    pay,
    payout,
    query,
    refused,
    settings,
    withdraw,
)
from treasury.errors import TreasuryError
from treasury.provider.card_users import QueryCardUser
from treasury.provider.client import Account, Client
from treasury.provider.conversion import ConversionExecute
from treasury.provider.fiat_payouts import CreateFiatPayout
from treasury.sandbox import running_sandbox

PROGRAM = """
import sys
from pathlib import Path
from treasury.sandbox import SandboxSettings, serve
serve(SandboxSettings(public_key=sys.argv[1], state=Path(sys.argv[2]), settle_seconds=1000.0))
"""


@contextmanager
def served(state: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A sandbox in a process of its own, and where it says it listens."""
    command = [sys.executable, "-c", PROGRAM, PUBLIC, str(state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline().strip()
            assert line.startswith("sandbox listening on http://127.0.0.1:")
            yield process, line.removeprefix("sandbox listening on ")
        finally:
            process.kill()


def truth(url: str) -> tuple[Any, Any]:
    """Books and orders over HTTP, without the pages, whose port changes."""
    orders = httpx.get(f"{url}/sandbox/orders").json()
    return httpx.get(f"{url}/sandbox/books").json(), [order | {"page": None} for order in orders]


def test_nothing_is_lost_by_a_sigkill(tmp_path: Path) -> None:
    with served(tmp_path / "state.db") as (process, url), Client(Account(url, "900001", PRIVATE)) as client:
        client.send(withdraw("w-1"))
        client.send(pay("in-1"))
        client.send(card_user("u-1"))
        executed = ConversionExecute(quote_id=client.send(convert("x-1")).quote_id)
        client.send(executed)
        open_quote = client.send(fiat_quote("open"))
        httpx.post(f"{url}/sandbox/clock", json={"advance_seconds": 5})
        last = client.send(payout("p-1"))
        httpx.post(f"{url}/sandbox/clock", json={"advance_seconds": 2})  # at rest: nothing more happens for long
        before, key = truth(url), httpx.get(f"{url}/sandbox/platform-key").text
        process.send_signal(signal.SIGKILL)
    with served(tmp_path / "state.db") as (_, url), Client(Account(url, "900001", PRIVATE)) as client:
        assert truth(url) == before
        assert httpx.get(f"{url}/sandbox/platform-key").text == key
        assert refused(client, payout("p-1")).code == "202224"
        assert refused(client, executed).code == "202224"
        assert query(client, "p-1").order_no == last.order_no
        assert client.send(QueryCardUser(user_xid="u-1")).document_number == "P1234567"
        client.send(CreateFiatPayout(order_no=open_quote.order_no, purpose_code="30"))
        httpx.post(f"{url}/sandbox/clock", json={"advance_seconds": 2000})
        assert query(client, "w-1").status == 99
        assert set(truth(url)[0]["sums"].values()) == {"0"}


def test_time_does_not_run_back_over_a_restart(tmp_path: Path) -> None:
    for advanced in (1000, 2000):
        with running_sandbox(settings(state=tmp_path / "state.db")) as sandbox:
            sandbox.advance(1000)
            assert sandbox.clock.advanced == advanced


def test_a_nonce_is_remembered_over_a_restart(tmp_path: Path) -> None:
    body: dict[str, Any] = {}
    answers = []
    for _ in range(2):
        with running_sandbox(settings(state=tmp_path / "state.db")) as sandbox, client_of(sandbox) as client:
            body = body or client.signed_body(withdraw("w-1"))
            answers.append(str(httpx.post(f"{sandbox.base_url}/v1/order/withdraw", json=body).json()["code"]))
    assert answers == ["200", "412"]


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_serve_stops_when_told_to(tmp_path: Path, stop: signal.Signals) -> None:
    with served(tmp_path / "state.db") as (process, url):
        assert httpx.get(f"{url}/sandbox/books").status_code == 200
        process.send_signal(stop)
        assert process.wait(timeout=10) in (0, -stop)


def test_what_was_answered_is_there_after_a_sigkill_under_load(tmp_path: Path) -> None:
    answered: list[str] = []

    def send(number: int) -> None:
        try:
            client.send(payout(f"p-{number}"))
        except TreasuryError:
            return
        answered.append(f"p-{number}")
        if len(answered) == 100:
            process.kill()

    with served(tmp_path / "state.db") as (process, url), Client(Account(url, "900001", PRIVATE)) as client:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(send, range(400)))
        assert 100 <= len(answered) < 400
    with served(tmp_path / "state.db") as (_, url):
        books, orders = truth(url)
        assert set(answered) <= {order["request_id"] for order in orders}
        assert Decimal(books["balances"]["hold"]["USDT"]) == 50 * len(orders)


def test_the_package_imports_no_server() -> None:
    unwanted = "('uvicorn', 'starlette', 'prefect')"
    code = f"import sys, treasury.sandbox; sys.exit(any(name in sys.modules for name in {unwanted}))"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize(
    "content", ['{"advance_seconds": -1}', '{"advance_seconds": "x"}', "{}", "[]", "{", '{"advance_seconds": 1e99}']
)
def test_the_clock_moves_forward_only(content: str) -> None:
    with running_sandbox(settings()) as sandbox:
        assert httpx.post(f"{sandbox.base_url}/sandbox/clock", content=content).status_code == 400
