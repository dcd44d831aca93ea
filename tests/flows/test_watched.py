"""The end of a flow as others are told of it: pings over real HTTP, "Required actions" and events on a real server."""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import data
from tests.commands.office import HEADER, Office, eventually
from tests.engine.own_process import in_own_process
from tests.engine.rounds import policy
from tests.flows.shown import artifact, told
from tests.listening import Answer, Listening
from treasury.errors import ConfigurationError
from treasury.nights.standing import standing_of
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk, desk_of
from treasury.pings import PING_SECONDS, WHOLE_SECONDS, ping
from treasury.sandbox import RunningSandbox
from treasury.settings import read_settings

pytestmark = pytest.mark.prefect


class Watcher:
    """A watcher outside: what it was told, as path and body."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.status = 200
        self._server = Listening(self._answer)
        self.url = self._server.base_url

    def _answer(self, path: str, body: bytes) -> Answer:
        self.told.append((path, body.decode()))
        return self.status, b"", {}

    def take(self) -> list[tuple[str, str]]:
        """Return what it was told since it was asked last."""
        told, self.told = self.told, []
        return told

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def watcher(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[Watcher]:
    """A watcher that the home's jobs tell, each under its own name."""
    watcher = Watcher()
    monkeypatch.setenv("TREASURY_PING_URL", f"{watcher.url}/key/{{job}}/?create=1")
    yield watcher
    watcher.close()


def actions() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(artifact("required-actions")["data"])
    return rows


def test_a_night_and_a_rebalancing_tell_their_start_and_end(watcher: Watcher, home: Path) -> None:
    from flows.rebalance_treasury import rebalance_treasury
    from flows.reconcile_transactions import reconcile_transactions

    assert reconcile_transactions(return_state=True).name in ("Warnings", "Reconciled")
    started, ended = watcher.take()
    assert started == ("/key/reconcile-transactions/start?create=1", "")
    assert ended[0] == "/key/reconcile-transactions?create=1"
    assert ended[1] in ("Warnings", "Reconciled")
    rebalance_treasury(str(data.path("treasury_policy.toml")), follow_seconds=120)
    paths = [path for path, _ in watcher.take()]
    assert paths == ["/key/rebalance-treasury/start?create=1", "/key/rebalance-treasury?create=1"]
    statement = home / "statement.csv"
    statement.write_text("order_no,currency,amount\nX1,USDT,5\n")
    assert reconcile_transactions(statement=str(statement), return_state=True).name == "Breaks"
    assert watcher.take()[1:] == [("/key/reconcile-transactions/fail?create=1", "Breaks")]
    with pytest.raises(ConfigurationError):
        rebalance_treasury("block:none")
    assert watcher.take()[1:] == [("/key/rebalance-treasury/fail?create=1", "Failed")]


def test_a_rebalancing_of_the_command_line_that_has_nothing_to_trade_is_told_as_done(
    watcher: Watcher, sandbox: RunningSandbox, open_office: Callable[..., Office]
) -> None:
    office = open_office(sandbox.base_url, TREASURY_PING_URL=f"{watcher.url}/{{job}}")
    policy = data.path("treasury_policy.toml")
    assert office.run("rebalance", "--policy", policy, "--yes", "--follow", "60").code == 0
    watcher.take()
    ended = office.run("rebalance", "--policy", policy, "--yes")
    assert (ended.code, "0 trades" in ended.out) == (0, True)
    assert watcher.take() == [("/rebalance-treasury", "NothingToTrade")]
    office.run("rebalance", "--policy", policy, "--dry-run")
    assert watcher.take() == []


def test_a_rebalancing_that_has_nothing_to_trade_tells_a_trade_of_its_day_that_is_unknown(
    watcher: Watcher,
    open_sandbox: Callable[..., RunningSandbox],
    open_office: Callable[..., Office],
    tmp_path: Path,
) -> None:
    """It ended with 0, and the watcher heard that all was done."""
    sandbox = open_sandbox()  # the day of another home is known at the other one
    office = open_office(sandbox.base_url, TREASURY_PING_URL=f"{watcher.url}/{{job}}")
    spec = {"act": "rebalance", "home": str(office.home), "base_url": sandbox.base_url, "seconds": 5}
    spec |= {"key": office.environ["TREASURY_PRIVATE_KEY_FILE"], "point": "send.marked", "hits": 1}
    spec |= {"rules": str(data.path("treasury_policy.toml")), "out": str(tmp_path / "killed")}
    killed = in_own_process(spec)
    assert killed.returncode == -9, killed.stdout + killed.stderr
    watcher.take()
    idle = policy(tmp_path, BTC=("0", "1", "100000"))
    idle.write_text(idle.read_text("utf-8").replace('"UTC"', '"Asia/Singapore"'), "utf-8")  # the day of both is one
    ended = office.run("rebalance", "--policy", idle, "--yes")
    assert (ended.code, "1 unknown" in ended.out) == (4, True), ended
    assert watcher.take() == [("/rebalance-treasury/fail", "NeedsAttention")]
    ended = office.python(
        f"from flows.rebalance_treasury import rebalance_treasury as run\nprint(run({str(idle)!r}))\n"
    )
    assert "NeedsAttention" in ended.err


def test_what_is_no_job_is_not_told_and_one_url_is_about_the_night(
    watcher: Watcher, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries
    from flows.reconcile_transactions import reconcile_transactions
    from tasks.watched import watched

    pay_beneficiaries(str(data.path("beneficiaries.csv")), "told-nobody", follow_seconds=120)
    reconcile_transactions(run_key="told-nobody", return_state=True)
    assert watcher.take() == []
    monkeypatch.setenv("TREASURY_PING_URL", watcher.url)
    ping("rebalance-treasury", "/start")
    assert watcher.take() == []

    def ends() -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watched("reconcile-transactions", {}, ends)
    assert watcher.take() == [("/start", ""), ("/fail", "KeyboardInterrupt")]


@contextmanager
def dripping() -> Iterator[int]:
    """A server, by its port, whose answer has a header more every half second, and no end."""
    ended = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not ended.wait(0.5):
                connection.sendall(b"X-More: 1\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        dripper = threading.Thread(target=drip, args=(server,))
        dripper.start()
        yield server.getsockname()[1]
        ended.set()
        dripper.join()


def test_a_ping_that_fails_is_one_line_and_changes_nothing(
    watcher: Watcher, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody listens, an answer that is no success, an address that is none, and a server that never answers."""
    from flows.reconcile_transactions import reconcile_transactions

    reported = reconcile_transactions(return_state=True)
    watcher.status = 404
    with caplog.at_level(logging.WARNING, "treasury"), socket.create_server(("127.0.0.1", 0)) as silent:
        assert reconcile_transactions(return_state=True).name == reported.name
        watcher.take()
        for url in (
            "http://127.0.0.1:9/secret",
            f"http://127.0.0.1:{silent.getsockname()[1]}/secret",
            "http://[::/secret",
        ):
            monkeypatch.setenv("TREASURY_PING_URL", url)
            began = time.monotonic()
            ping("reconcile-transactions", "/start")
            assert time.monotonic() - began < 4 * PING_SECONDS
        monkeypatch.setenv("TREASURY_PING_URL", "example.com/secret")
        ping("reconcile-transactions", "/fail")
        with dripping() as port:
            monkeypatch.setenv("TREASURY_PING_URL", f"http://127.0.0.1:{port}/secret")
            began = time.monotonic()
            ping("reconcile-transactions", "/fail")
            assert time.monotonic() - began < 2 * WHOLE_SECONDS
    said = [record.getMessage() for record in caplog.records if "ping" in record.getMessage()]
    assert [each.split(" did not arrive: ")[1].split(";")[0] for each in said] == [
        *["it was answered with 404"] * 2,
        *("ConnectError", "ReadTimeout", "InvalidURL", "ConfigurationError", "no answer within 6 s"),
    ]
    assert [each for each in said if "secret" in each or "\n" in each] == []


def waits(home: Path) -> None:
    """Start a run that waits for an approval."""
    from flows.pay_beneficiaries import pay_beneficiaries

    limit, sheet = home / "limit.toml", home / "rows.csv"
    limit.write_text('[payouts.one_approval_above]\nUSDT_TRC20 = "1"\n')
    row = "a,direct,12,USDT_TRC20,IDR,bank_transfer,12345670009,Example Person,ID,1000120,0812000,p@example.com"
    sheet.write_text(f"{HEADER}\n{row}\n")
    ended = pay_beneficiaries(str(sheet), "waits", policy=str(limit), return_state=True)
    assert ended.name == "WaitingForApproval"


def desk() -> Desk:
    settings = read_settings()
    return desk_of(settings.account(), settings)


def test_required_actions_are_what_the_status_says(home: Path) -> None:
    from flows.reconcile_transactions import reconcile_transactions

    waits(home)
    [said] = [each for each in actions() if "treasury approve waits --plan 1-" in each["command"]]
    assert said["command"].endswith(" --by NAME")
    assert said["what"].startswith("waits waits for approvals since ")
    assert (said["for"], said["since"]) == ("an approver", said["what"].split()[-1])
    reconcile_transactions(return_state=True)
    found = standing_of(desk())
    assert [f"{each['what']}: {each['command']}" for each in actions()] == found["needs"]
    assert artifact("required-actions")["description"].startswith(f"{len(found['needs'])} to do, as of ")
    assert "Example Person" not in artifact("required-actions")["data"]
    cancel(desk(), "waits", by="Ana", why="a test")
    reconcile_transactions(return_state=True)
    assert len(actions()) == len(standing_of(desk())["needs"]) == len(found["needs"]) - 1


def test_a_run_that_waits_its_end_and_a_night_with_breaks_are_events(home: Path) -> None:
    from flows.reconcile_transactions import reconcile_transactions

    before = told("treasury.run.waits").get("treasury.run.waiting", {})
    waits(home)
    since = standing_of(desk())["waiting_approvals"][0]["since"]
    eventually(
        lambda: told("treasury.run.waits").get("treasury.run.waiting", {}).get("treasury.since") == since != before,
        60,
        "nobody was told that it waits",
    )
    cancel(desk(), "waits", by="Ana", why="a test")
    statement = home / "statement.csv"
    statement.write_text("order_no,currency,amount\nX1,USDT,5\n")
    assert reconcile_transactions(statement=str(statement), return_state=True).name == "Breaks"
    [folder] = (home / "nights").iterdir()
    night = f"treasury.night.{folder.name}"
    eventually(lambda: told(night).keys() == {"treasury.night.reported", "treasury.breaks.found"}, 60, "no night")
    decided = "treasury.run.decided"
    eventually(lambda: told("treasury.run.waits").get(decided, {}).get("treasury.since") == since, 60, "no end")
