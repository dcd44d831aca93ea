"""Tests of what Prefect shows: the mission's sentence as tasks and edges, honest states, what happened in the run's
log."""

import csv
import io
import itertools
import logging
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import data
from tests.commands.office import eventually, quoted_sheet
from tests.engine.rounds import policy
from tests.engine.runs import sheet
from tests.flows.graph import Graph
from tests.flows.shown import artifact, artifacts
from tests.listening import kept_port
from treasury.errors import ApprovalNeeded, InputError, NeedsAttention
from treasury.sandbox import RunningSandbox, SandboxSettings, running_sandbox

pytestmark = pytest.mark.prefect

SHEET = data.path("beneficiaries.csv")


def test_a_payout_run_reads_as_fetch_fiat_quotes_then_create_payouts(home: Path, sandbox: RunningSandbox) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    graph = Graph(pay_beneficiaries(str(SHEET), "graph", follow_seconds=120, return_state=True))
    direct, quoted = (
        sum(f",{route}," in line for line in SHEET.read_text().splitlines()) for route in ("direct", "quoted")
    )
    send, fetch, create = f"send payouts 1-{direct}", f"fetch fiat quotes 1-{quoted}", f"create payouts 1-{quoted}"
    assert list(graph.tasks) == [
        *("plan graph", "ask for approvals of graph", "record graph", "check funds of graph"),
        *(send, fetch, create, "follow graph", "write results graph"),
    ]
    assert graph.edges() == {
        ("plan graph", "ask for approvals of graph"),
        ("plan graph", "record graph"),
        ("plan graph", "check funds of graph"),
        ("plan graph", "write results graph"),
        ("ask for approvals of graph", "record graph"),
        ("record graph", "check funds of graph"),
        ("check funds of graph", send),
        ("check funds of graph", fetch),
        ("check funds of graph", create),
        (fetch, create),
        (send, "follow graph"),
        (create, "follow graph"),
        ("follow graph", "write results graph"),
    }
    assert graph.run["name"] == "pay graph"
    assert (graph.run["state_name"], graph.run["state_type"]) == ("Settled", "COMPLETED")
    eventually(lambda: "run graph: 12 settled" in graph.log(), 20)
    log = graph.log()
    assert "run graph: 12 payments" in log
    assert "quotes USDT-EUR: rate" in log


def test_the_rows_of_a_long_run_are_quoted_part_by_part(
    home: Path, sandbox: RunningSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import treasury.payments.execution
    from flows.pay_beneficiaries import pay_beneficiaries

    monkeypatch.setattr(treasury.payments.execution, "QUOTED_ROWS", 10)
    graph = Graph(pay_beneficiaries(str(quoted_sheet(tmp_path, 30)), "long", follow_seconds=10, return_state=True))
    rows = ("1-10", "11-20", "21-30")
    assert {name for name in graph.tasks if "1" in name} == {
        f"{verb} {some}" for verb in ("fetch fiat quotes", "create payouts") for some in rows
    }
    assert {(f"fetch fiat quotes {some}", f"create payouts {some}") for some in rows} <= graph.edges()
    assert {(f"create payouts {some}", "follow long") for some in rows} <= graph.edges()
    began = {name: each["start_time"] for name, each in graph.tasks.items()}
    ended = {name: each["end_time"] for name, each in graph.tasks.items()}
    for earlier, later in (("1-10", "11-20"), ("11-20", "21-30")):
        assert began[f"create payouts {earlier}"] < began[f"create payouts {later}"]
        assert ended[f"fetch fiat quotes {earlier}"] <= began[f"fetch fiat quotes {later}"]
    ours = [order for order in sandbox.orders() if order["effects"]]
    assert len({order["request_id"] for order in ours}) == len(ours) >= 30


def test_a_rebalancing_quotes_and_executes_each_trade(home: Path, sandbox: RunningSandbox) -> None:
    from flows.rebalance_treasury import rebalance_treasury

    graph = Graph(rebalance_treasury(str(data.path("treasury_policy.toml")), follow_seconds=120, return_state=True))
    quotes = [name for name in graph.tasks if name.startswith("quote ")]
    assert len(quotes) == 3
    assert {name.split()[1] for name in quotes} <= {"SELL", "BUY"}
    [propose] = [name for name in graph.tasks if name.startswith("propose ")]
    [prove] = [name for name in graph.tasks if name.startswith("prove fills ")]
    [follow] = [name for name in graph.tasks if name.startswith("follow ")]
    expected = set(itertools.pairwise(["read position", "fetch rates", "plan trades", propose, "record trades"]))
    expected |= {("plan trades", each) for each in ("record trades", follow, prove, "write decisions")}
    expected |= {(follow, prove), (prove, "write decisions")}
    for quote in quotes:  # no trade is an edge to another one
        judge, execute = quote.replace("quote ", "judge quote of "), quote.replace("quote", "execute")
        expected |= {("record trades", each) for each in (quote, judge, execute)}
        expected |= {(quote, judge), (judge, execute), (execute, follow)}
        assert graph.tasks[execute]["state_name"] in ("Settled", "InProgress")
    assert graph.edges() == expected
    run_key = propose.removeprefix("propose ")
    assert graph.run["name"].replace(" ", "-") == run_key  # both have the policy's day
    assert graph.run["state_name"] == "Settled"


def test_card_users_and_the_night_read_as_the_sentence_says(home: Path, sandbox: RunningSandbox) -> None:
    from flows.provision_card_users import provision_card_users
    from flows.reconcile_transactions import reconcile_transactions

    graph = Graph(provision_card_users(str(data.path("card_users.csv")), return_state=True))
    assert list(graph.tasks) == ["look up users", "create or link users", "write results"]
    assert graph.edges() == {("look up users", "create or link users"), ("create or link users", "write results")}
    assert graph.run["state_name"] == "Provisioned"
    from flows.pay_beneficiaries import pay_beneficiaries

    pay_beneficiaries(str(SHEET), "night", follow_seconds=120)
    night = Graph(reconcile_transactions(return_state=True))
    names = list(night.tasks)
    assert (names[0], names[-2:]) == ("start sweep", ["end sweep", "write pandas report"])
    [asks] = names[1:-2]
    assert asks.startswith("ask 1-")
    assert {("start sweep", asks), (asks, "end sweep"), ("end sweep", "write pandas report")} <= night.edges()


def test_links_are_nowhere_in_prefect(home: Path, sandbox: RunningSandbox) -> None:
    from flows.provision_card_users import provision_card_users

    state = provision_card_users(str(data.path("card_users.csv")), return_state=True)
    links = [cell for cell in (home / "runs/card-users/card_users.csv").read_text().split(",") if "://" in cell]
    assert links
    graph = Graph(state)
    shown = str(graph.run) + str(graph.tasks) + graph.log() + str(artifacts())
    assert not [link for link in links if link.strip() in shown]


def test_input_that_is_not_accepted_is_a_table_and_no_traceback(home: Path, sandbox: RunningSandbox) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    bad = home / "bad.csv"
    bad.write_text(SHEET.read_text().replace("1250.00", "twelve"))
    state = pay_beneficiaries(str(bad), "refused", return_state=True)
    assert (state.name, state.type) == ("InputRejected", "FAILED")
    assert "EMP-001" in (state.message or "")
    with pytest.raises(InputError, match="EMP-001"):
        state.result()
    assert "EMP-001" in artifact("input-problems")["data"]
    assert "Traceback" not in Graph(state).log()


def test_a_run_that_needs_a_person_is_red_and_says_how_many_rows(
    home: Path, open_sandbox: Callable[..., RunningSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    poor = open_sandbox(balances={"USDT": Decimal(100)})
    monkeypatch.setenv("TREASURY_BASE_URL", poor.base_url)
    state = pay_beneficiaries(str(SHEET), "poor", follow_seconds=2, return_state=True)
    assert (state.name, state.type) == ("NeedsAttention", "FAILED")
    with pytest.raises(NeedsAttention) as found:
        state.result()
    assert sum(found.value.summary["counts"].values()) == 12
    graph = Graph(state)
    eventually(lambda: "next: " in graph.log(), 20)


@pytest.fixture
def two_people(tmp_path: Path) -> Path:
    file = tmp_path / "policy.toml"
    file.write_text("[payouts.one_approval_above]\nUSDT = 1\nUSDT_TRC20 = 1\n[payouts.max_per_payout]\nUSDT = 9999\n")
    return file


def test_a_plan_that_waits_for_an_approval_says_so(home: Path, sandbox: RunningSandbox, two_people: Path) -> None:
    from flows.approve_and_pay import approve_and_pay
    from flows.pay_beneficiaries import pay_beneficiaries

    before = len(sandbox.orders())
    state = pay_beneficiaries(str(SHEET), "waits", policy=str(two_people), return_state=True)
    assert (state.name, state.type) == ("WaitingForApproval", "FAILED")
    with pytest.raises(ApprovalNeeded):
        state.result()
    assert len(sandbox.orders()) == before
    paid = approve_and_pay("waits", name="somebody else", follow_seconds=120, return_state=True)
    assert (paid.name, paid.type) == ("Settled", "COMPLETED"), paid.message


def test_a_run_that_another_process_holds_is_not_red(home: Path, sandbox: RunningSandbox) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries
    from treasury.concurrency.children import child

    code = (
        "import time; from treasury.settings import read_settings; from treasury.payments.desk import desk_of\n"
        "settings = read_settings(); desk = desk_of(settings.account(), settings)\n"
        "with desk.hold('held'): print('held', flush=True); time.sleep(60)"
    )
    file = home / "holder.py"
    file.write_text(code)
    environ = {**os.environ, "PYTHONPATH": str(home)}
    with child("holder", [], environ, stdout=-1) as process:
        assert process.stdout is not None
        assert "held" in process.stdout.readline()
        state = pay_beneficiaries(str(SHEET), "held", return_state=True)
        assert (state.name, state.type) == ("RunHeld", "CANCELLED")
        assert "held by" in (state.message or "")


def test_a_night_that_could_not_ask_is_incomplete_and_red(
    home: Path, key_pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries
    from flows.reconcile_transactions import reconcile_transactions

    with kept_port() as port:
        with running_sandbox(SandboxSettings(public_key=key_pair[1], settle_seconds=0.2, port=port)) as works:
            monkeypatch.setenv("TREASURY_BASE_URL", works.base_url)
            pay_beneficiaries(str(SHEET), "before", follow_seconds=120)
        state = reconcile_transactions(return_state=True)  # nobody is there any more
    assert (state.name, state.type, state.message) == ("Incomplete", "FAILED", "12 query_failed")


PERSONAL = ("account_no", "account_name", "full_name", "phone", "email", "address", "user_name", "document_id")


@pytest.mark.costly("every flow, with all that it logs")
def test_nothing_personal_and_no_secret_is_logged_or_shown_in_prefect(
    home: Path, sandbox: RunningSandbox, key_pair: tuple[str, str]
) -> None:
    """The whole demo, with everything that this process logs."""
    from flows.pay_beneficiaries import pay_beneficiaries
    from flows.provision_card_users import provision_card_users
    from flows.rebalance_treasury import rebalance_treasury
    from flows.reconcile_transactions import reconcile_transactions

    files = (SHEET, data.path("card_users.csv"))
    rows = [row for file in files for row in csv.DictReader(file.read_text().splitlines())]
    values = {row[name] for row in rows for name in PERSONAL if len(row.get(name) or "") > 5}
    assert len(values) > 30
    secrets = {line for line in key_pair[0].splitlines() if len(line) > 40}
    kept = io.StringIO()
    handler = logging.StreamHandler(kept)
    loggers = [logging.getLogger(name) for name in ("", "treasury", "prefect", "httpx", "httpcore", "stamina")]
    levels = [log.level for log in loggers]
    for log in loggers:
        log.addHandler(handler)
        log.setLevel(logging.DEBUG)
    again: dict[str, Any] = {"return_state": True}
    graphs = [
        Graph(provision_card_users(str(files[1]), **again)),
        Graph(rebalance_treasury(str(data.path("treasury_policy.toml")), follow_seconds=2, **again)),
        Graph(pay_beneficiaries(str(SHEET), "private", follow_seconds=2, **again)),
        Graph(reconcile_transactions(**again)),
    ]
    for log, level in zip(loggers, levels, strict=True):
        log.removeHandler(handler)
        log.setLevel(level)
    said = kept.getvalue()
    assert "run private: " in said
    assert len(said.splitlines()) > 50
    shown = "".join(f"{graph.run}{graph.tasks}{graph.log()}" for graph in graphs) + str(artifacts())
    for where, text in (("log", said), ("Prefect", shown)):
        found = [value for value in values | secrets if value in text]
        assert found == [], where


def test_a_run_that_is_funded_first_reads_as_record_convert_check_send(
    home: Path, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    [available] = [each for name, each in sandbox.books()["balances"].items() if "available" in name]
    rules = policy(tmp_path, tail="[payouts]\nduplicate_days = 0\n", BTC=("0", "0", "999999"))
    file = sheet(tmp_path, ("lacks", str(Decimal(available["USDT_TRC20"]) + 500), "12345670001"))
    graph = Graph(pay_beneficiaries(str(file), "funded", policy=str(rules), fund=True, return_state=True))
    [quote] = [name for name in graph.tasks if name.startswith("quote ")]
    execute, prove = quote.replace("quote", "execute"), "prove fills funded.fund"
    in_order = [
        "ask for approvals of funded",
        "record funded",
        "plan conversions for funded, round 1",
        "record funded.fund",
        quote,
    ]
    assert set(itertools.pairwise(in_order)) <= graph.edges()
    ends = {(execute, "follow funded.fund"), ("follow funded.fund", prove), (prove, "check funds of funded")}
    assert ends <= graph.edges()
    assert ("check funds of funded", "send payouts 1-1") in graph.edges()
    assert (graph.run["state_name"], graph.run["name"]) == ("Settled", "pay funded")
