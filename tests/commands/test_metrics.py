"""`/metrics` over real HTTP: each figure is the one of `treasury status`, of the report, or of the orders."""

import json
import shutil
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from flows.commands.metrics import serving_metrics
from tests.commands.listener import trusting
from tests.commands.office import Office, one_line_error
from tests.ledgers import put_ledger
from treasury.errors import ConfigurationError
from treasury.nights import metrics as figures
from treasury.orders.states import Event, State
from treasury.payments.desk import Desk, desk_of
from treasury.sandbox import RunningSandbox
from treasury.settings import read_settings
from treasury.testing import forget_desks

Samples = dict[tuple[str, ...], float]
"""Name, then the values of its labels -> figure."""


def scrape(address: str) -> Samples:
    answer = httpx.get(address, trust_env=False, timeout=30)
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    samples = [sample for family in families for sample in family.samples]
    return {(each.name, *(value for _, value in sorted(each.labels.items()))): each.value for each in samples}


@contextmanager
def measured(desk: Desk, capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    """Metrics of a desk, and their address."""
    with serving_metrics("0", lambda: desk):
        yield capsys.readouterr().out.split()[-1]


def of(samples: Samples, name: str) -> dict[str, float]:
    """Label -> figure, of a metric with one label."""
    return {labels[1]: value for labels, value in samples.items() if labels[0] == name}


@pytest.mark.prefect
def test_every_figure_is_the_one_of_the_status_and_the_report(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], capsys: pytest.CaptureFixture[str]
) -> None:
    sandbox = open_sandbox(balances={"USDT_TRC20": Decimal(1000), "USDT": Decimal(0)})
    office = open_office(sandbox.base_url)
    sheet = office.sheet(("a", "10", "12345670001"), ("b", "20", "12345670022"))
    assert office.run("pay", sheet, "--run-key", "run", "--yes", "--follow", "2").code == 0
    assert office.run("reconcile").code == 0
    sandbox.deposit("USDT_TRC20", "-5")
    assert office.run("reconcile").code == 5
    status: dict[str, Any] = json.loads(office.run("status", "--json").out)
    [file] = (office.home / "nights").glob("*/reconciliation.json")
    report = json.loads(file.read_text())
    with closing(office.desk()) as desk, measured(desk, capsys) as address:
        samples = scrape(address)
    assert samples["treasury_ledger_readable",] == 1
    assert samples["treasury_required_actions",] == len(status["needs"]) > 0
    assert samples["treasury_oldest_unknown_seconds",] == status["unknown"]["oldest_seconds"] == 0
    assert 0 <= samples["treasury_report_age_hours",] < 0.1
    assert (
        of(samples, "treasury_unexplained")
        == {"USDT_TRC20": -5.0}
        == {currency: float(amount) for currency, amount in status["unexplained"].items()}
    )
    open_ones = [each for each in report["breaks"] if each["lifecycle"] != "resolved" and each["accepted"] is None]
    assert of(samples, "treasury_open_breaks") == Counter(each["class"] for each in open_ones)
    gross = {key[1:]: value for key, value in samples.items() if key[0] == "treasury_open_breaks_gross"}
    sums = [each for each in open_ones if each["amount"] is not None]
    assert gross == {(each["class"], each["currency"]): abs(float(each["amount"])) for each in sums}
    assert 5.0 in gross.values()
    assert of(samples, "treasury_orders")["settled"] == report["counts"]["matched"] == 1
    assert samples["treasury_sends_total",] == 2
    assert 0 <= samples["treasury_answer_seconds", "0.5"] <= samples["treasury_answer_seconds", "0.99"] < 60


def test_states_sends_429_and_the_oldest_unknown_are_those_of_the_orders(
    open_office: Callable[..., Office], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    office = open_office("http://127.0.0.1:9", prefect=False)
    put_ledger(f"sqlite:///{office.home / 'ledger.db'}", office.account().identity, office.home / "ledger.key")
    desk = office.desk()

    def check(too_many: int) -> None:
        samples, orders = scrape(address), desk.ledger.orders()
        counts = Counter(order.state.value for order in orders)
        assert of(samples, "treasury_orders") == {str(state): counts[str(state)] for state in State}
        assert samples["treasury_sends_total",] == sum(order.sends for order in orders) > 0
        assert samples["treasury_answers_429_total",] == too_many
        unknown = [order for order in orders if order.state in (State.UNKNOWN, State.SENDING)]
        oldest = min(order.sent_at or 0 for order in unknown)
        age = samples["treasury_oldest_unknown_seconds",]
        assert (desk.ledger.now() - oldest) / 1000 - 30 < age <= (desk.ledger.now() - oldest) / 1000
        assert samples["treasury_report_age_hours",] == float("inf")  # there are orders, and no report of them

    with closing(desk), measured(desk, capsys) as address:
        check(0)
        monkeypatch.setattr(figures, "RECENT", 3)  # most of the journal is not read again
        check(0)
        [waiting] = [order for order in desk.ledger.orders() if order.row_ref == "other"]
        desk.ledger.step(desk.ledger.step(waiting, Event.SEND), Event.LOSE, cause="a test", code="429")
        check(1)
        check(1)


def test_a_listener_answers_them_on_a_port_of_its_own(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    sandbox = open_sandbox()
    office = trusting(open_office(sandbox.base_url, prefect=False), sandbox.platform_key)
    with office.running("listen", "--port", "0", "--metrics", "127.0.0.1:0") as process:
        assert process.stdout is not None
        measured_at, listening_on = (
            process.stdout.readline().split()[-1],
            process.stdout.readline().split()[2].rstrip(";"),
        )
        assert scrape(measured_at)["treasury_orders", "settled"] == 0
        assert "treasury_orders" not in httpx.get(f"{listening_on}/metrics", trust_env=False).text
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def test_a_ledger_that_cannot_be_read_is_said_and_nothing_else(
    open_office: Callable[..., Office], capsys: pytest.CaptureFixture[str]
) -> None:
    office = open_office("http://127.0.0.1:9", prefect=False)
    desk = office.desk()
    with measured(desk, capsys) as address:
        assert scrape(address)["treasury_ledger_readable",] == 1
        file = office.home / "ledger.db"
        shutil.copy(file.rename(file.with_name("aside.db")), file)  # another one, as a restore puts it there
        assert scrape(address) == {("treasury_ledger_readable",): 0}
    desk.close()


def test_of_a_ledger_that_is_replaced_the_new_one_is_told(
    open_office: Callable[..., Office], capsys: pytest.CaptureFixture[str]
) -> None:
    office = open_office("http://127.0.0.1:9", prefect=False)
    settings = read_settings(office.environ)
    account, file = settings.account(), office.home / "ledger.db"
    desk_of(account, settings)
    forget_desks()
    empty = Path(shutil.copy(file, office.home / "empty.db"))
    put_ledger(settings.ledger_url, desk_of(account, settings).ledger.account, settings.ledger_key_file)
    try:
        with serving_metrics("0", lambda: desk_of(account, settings)):
            address = capsys.readouterr().out.split()[-1]
            assert scrape(address)["treasury_orders", "settled"] == 1
            empty.rename(file)
            assert scrape(address)["treasury_orders", "settled"] == 0
    finally:
        forget_desks()


def test_an_address_that_cannot_be_used_is_refused_in_one_line(open_office: Callable[..., Office]) -> None:
    office = open_office("http://127.0.0.1:9", prefect=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for where in ("a", "127.0.0.1:", "70000", "-1"):
            ended = office.run("serve", "--metrics", where)
            assert (ended.code, "--metrics is a port" in one_line_error(ended)) == (2, True)
        port = taken.getsockname()[1]
        ended = office.run("serve", "--metrics", port)
        assert (ended.code, f"{port} cannot be used" in one_line_error(ended)) == (2, True)
        with pytest.raises(ConfigurationError), serving_metrics(f"127.0.0.1:{port}", office.desk):
            pass
