"""Each flow as Prefect runs it, in this process, against a real server and the sandbox."""

import importlib
import json
import logging
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import data
from tests.commands.office import PATIENCE, eventually
from tests.flows.deployed import Deployed
from tests.flows.shown import artifact, asked
from tests.listening import Listening
from treasury import files
from treasury.errors import InputError, NeedsAttention, NotWritable
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.operation import Effect
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_flows_tell_one_story_and_leave_artifacts(home: Path, sandbox: RunningSandbox) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries
    from flows.provision_card_users import provision_card_users
    from flows.rebalance_treasury import rebalance_treasury
    from flows.reconcile_transactions import reconcile_transactions

    users = provision_card_users(str(data.path("card_users.csv")))
    assert users["counts"] == {"created": 4}
    trades = rebalance_treasury(str(data.path("treasury_policy.toml")), follow_seconds=120)
    paid = pay_beneficiaries(str(data.path("beneficiaries.csv")), "in-process", follow_seconds=120)
    assert paid["counts"] == {"settled": 12}
    orders = sandbox.orders()
    assert trades["counts"] == {"settled": len(orders) - 12}
    report = reconcile_transactions()
    for key in ("provision-card-users", "rebalance-treasury", "pay-beneficiaries"):
        assert artifact(key)["type"] == "markdown"
        assert json.loads(artifact(f"{key}-rows")["data"])
    assert (report["verdict"], report["counts"]) == ("warnings", {"opening": 1, "matched": len(orders)})
    for file in (*users["files"], *trades["files"], *paid["files"], *report["files"]):
        assert Path(file).is_relative_to(home)
        assert Path(file).stat().st_size
    page = artifact("reconciliation")
    assert page["description"] == "Verdict: warnings"
    assert page["data"].startswith("# Reconciliation: warnings")
    assert [each["class"] for each in json.loads(artifact("reconciliation-breaks")["data"])] == ["opening"]


def test_a_night_ends_in_a_state_named_for_its_verdict_and_tells_what_is_new_once(
    home: Path, sandbox: RunningSandbox
) -> None:
    from prefect.blocks.notifications import CustomWebhookNotificationBlock

    from flows.pay_beneficiaries import pay_beneficiaries
    from flows.reconcile_transactions import reconcile_transactions

    told: list[dict[str, Any]] = []
    hears = Listening(lambda _, body: (told.append(json.loads(body)), (200, b"", {}))[1])
    hook = {
        "name": "night",
        "url": f"{hears.base_url}/hook",
        "json_data": {"subject": "{{subject}}", "body": "{{body}}"},
    }
    CustomWebhookNotificationBlock(**hook).save("night", overwrite=True)
    pay_beneficiaries(str(data.path("beneficiaries.csv")), "nights", follow_seconds=120)
    night: dict[str, Any] = {"notification": "custom-webhook/night", "return_state": True}
    assert reconcile_transactions(**night).name == "Warnings"
    statement = home / "statement.csv"
    statement.write_text("order_no,currency,amount\nX1,USDT,5\n")
    for times in (2, 2):  # the opening was told, too; the second night finds the same break, which is no news
        ended = reconcile_transactions(**night, statement=str(statement))
        assert (ended.name, ended.is_failed()) == ("Breaks", True)
        with pytest.raises(NeedsAttention, match="1 missing_in_ledger") as found:
            ended.result()
        assert found.value.summary["counts"]["missing_in_ledger"] == 1
        assert len(told) == times
    hears.close()
    [_, said] = told
    assert said["subject"] == "Reconciliation: breaks, 1 new"
    assert "missing_in_ledger 5 USDT" in said["body"]
    row = json.loads(artifact("reconciliation-breaks")["data"])[0]
    assert row["lifecycle"] == "persisting"
    assert "## Statement of orders" in artifact("reconciliation")["data"]


def test_paying_again_sends_nothing(home: Path, sandbox: RunningSandbox) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    sheet = str(data.path("beneficiaries.csv"))
    first = pay_beneficiaries(sheet, "again", follow_seconds=120)
    before = len(sandbox.orders()), sandbox.books()
    second = pay_beneficiaries(sheet, "again", follow_seconds=120)
    assert first == second
    assert (len(sandbox.orders()), sandbox.books()) == before


def test_a_bad_file_fails_the_flow_with_an_error_that_names_the_place(home: Path, sandbox: RunningSandbox) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries
    from treasury.errors import InvalidSheet

    orders = len(sandbox.orders())
    bad = home / "bad.csv"
    bad.write_text(data.path("beneficiaries.csv").read_text().replace("1250.00", "twelve"))
    with pytest.raises(InvalidSheet, match="EMP-001"):
        pay_beneficiaries(str(bad), "bad")
    assert len(sandbox.orders()) == orders


@pytest.mark.parametrize("kind", ["pay", "provision"])
def test_a_bad_file_ends_rejected_with_a_copy_to_mend(kind: str, home: Path, sandbox: RunningSandbox) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries
    from flows.provision_card_users import provision_card_users

    bad, out = home / "bad.csv", home / "elsewhere"
    if kind == "pay":
        bad.write_text(data.path("beneficiaries.csv").read_text().replace("1250.00", "twelve"))
        ended = pay_beneficiaries(str(bad), "bad", str(out), return_state=True)
    else:
        bad.write_text(data.path("card_users.csv").read_text().replace("ines@example.com", "nobody"))
        ended = provision_card_users(str(bad), str(out), return_state=True)
    assert (ended.name, ended.is_failed()) == ("InputRejected", True)
    assert ended.message is not None
    assert ended.message.endswith(f"corrected copy: {out / 'corrected-me.csv'}")
    assert "wrong" in (out / "corrected-me.csv").read_text()
    assert (out / "errors.csv").exists()
    assert len(json.loads(artifact("input-problems")["data"])) == 1


def test_a_task_is_not_tried_again_for_a_wrong_sheet_and_prefect_logs_no_traceback_of_it() -> None:
    """Prefect logs the traceback of a task only once its retries are used up."""
    from prefect.states import Failed

    from tasks.payouts import plan_payouts
    from tasks.provisioning import look_up_users
    from treasury.errors import InvalidSheet

    for task in (plan_payouts, look_up_users):
        again: Any = task.retry_condition_fn
        assert task.retries == 1
        assert not again(task, None, Failed(data=InvalidSheet("sheet.csv", [])))
        assert again(task, None, Failed(data=OSError()))


def test_a_question_that_is_refused_for_good_is_asked_once(home: Path, sandbox: RunningSandbox) -> None:
    from prefect import flow
    from prefect.states import Failed

    from tasks.operations import OPERATION_TASKS, conversion_rate
    from tasks.rebalancing import fetch_rates, read_position
    from treasury.errors import OutcomeUnknown, Refused

    asking: list[Any] = [*OPERATION_TASKS.values(), read_position, fetch_rates]
    for task in asking:
        again = task.retry_condition_fn
        for code, http_status, passes in (("202211", 200, False), ("429", 429, True), (None, 503, True)):
            assert again(task, None, Failed(data=Refused("x", http_status, code, "no"))) == passes
        assert again(task, None, Failed(data=OutcomeUnknown("x", "no answer")))

    @flow
    def asks() -> str:
        ended: Any = conversion_rate({"symbol": "NO-SUCH", "side": "BUY"}, return_state=True)
        assert ended.is_failed()
        return str(ended.state_details.task_run_id)

    run = {"id": {"any_": [asks()]}}
    recorded: list[dict[str, Any]] = []

    def ended() -> bool:  # the server records task runs late
        recorded[:] = asked("task_runs", task_runs=run)
        return [each["state_type"] for each in recorded] == ["FAILED"]

    eventually(ended, PATIENCE)
    assert recorded[0]["run_count"] == 1


def test_every_deployment_keeps_its_result_and_says_what_left_where_it_moves_money() -> None:
    from flows.commands.deployments import MOVES_MONEY, read_deployments
    from tasks.ended import say_what_left
    from tasks.outcomes import give_result_back

    moving = []
    for each in read_deployments():
        module, _, name = each["entrypoint"].rpartition(".")
        flow = getattr(importlib.import_module(module), name)
        told = [say_what_left] if MOVES_MONEY in each["tags"] else []
        moving += told
        assert flow.on_completion_hooks == [give_result_back], name
        assert flow.on_failure_hooks == [give_result_back, *told], name
        assert flow.on_cancellation_hooks == flow.on_crashed_hooks == told, name
    assert len(moving) == 5


def test_a_process_whose_output_nobody_reads_any_more_goes_on(tmp_path: Path) -> None:
    """The log of a run goes to whoever started it, such as `treasury serve`, which may be killed."""
    done = tmp_path / "done"
    code = (
        "import tasks, pathlib\nfrom rich.console import Console\n"
        "for _ in range(3): Console().print('a line')\n"
        f"pathlib.Path({str(done)!r}).touch()"
    )
    reads, writes = os.pipe()
    os.close(reads)
    subprocess.run([sys.executable, "-c", code], stdout=writes, check=False, timeout=PATIENCE)
    os.close(writes)
    assert done.exists()


def test_a_run_whose_results_cannot_be_written_says_what_left(
    home: Path, sandbox: RunningSandbox, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    log = logging.getLogger("prefect.flow_runs")
    caplog.set_level(logging.WARNING, log.name)
    log.addHandler(caplog.handler)
    (home / "runs" / "odd" / "results.csv").mkdir(parents=True)  # nobody can write there
    for kind in (NotWritable, OSError):  # an error of ours, and then by none of ours
        state = pay_beneficiaries(str(data.path("beneficiaries.csv")), "odd", follow_seconds=120, return_state=True)
        assert (state.name, isinstance(state.result(raise_on_failure=False), kind)) == ("Failed", True)
        assert any("run odd: 12 settled; results could not be written: " in each for each in caplog.messages)
        caplog.clear()
        monkeypatch.setattr(files, "UNUSABLE", frozenset())
    log.removeHandler(caplog.handler)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("{home}/a-file/deep", "a-file is a file, and not a folder"),
        ("{home}/" + "x" * 300, "can be no path: it is too long"),
    ],
)
def test_what_can_be_no_folder_for_results_is_refused_before_anything_is_sent(
    out: str, said: str, home: Path, sandbox: RunningSandbox
) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    (home / "a-file").touch()
    before = len(sandbox.orders())
    sheet = str(data.path("beneficiaries.csv"))
    state = pay_beneficiaries(sheet, "no-folder", out.format(home=home), return_state=True)
    assert (state.name, said in str(state.message)) == ("InputRejected", True), state.message
    assert len(sandbox.orders()) == before


@pytest.mark.parametrize(
    ("given", "said"),
    [("a\0b", "'a\\x00b' can be no path: it holds a character"), ("x" * 4000, "it is too long")],
)
def test_what_can_be_no_path_is_refused_wherever_a_flow_takes_one(
    given: str, said: str, home: Path, sandbox: RunningSandbox
) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries
    from flows.reconcile_transactions import reconcile_transactions

    before, sheet = len(sandbox.orders()), str(data.path("beneficiaries.csv"))
    states = [
        pay_beneficiaries(given, "no-path", return_state=True),
        pay_beneficiaries(sheet, "no-path", given, return_state=True),
        pay_beneficiaries(sheet, "no-path", policy=given, return_state=True),
        reconcile_transactions(statement=given, return_state=True),
    ]
    for state in states:
        assert (state.name, said in str(state.message)) == ("InputRejected", True), state.message
    assert len(sandbox.orders()) == before


@pytest.mark.parametrize("offline", [False, True])
def test_a_night_of_a_run_or_a_currency_that_is_mistyped_says_so(offline: bool, home: Path) -> None:
    from flows.reconcile_transactions import reconcile_transactions

    names: tuple[dict[str, str], ...] = ({"run_key": "no-such"}, {"currency": "usdt"})
    for each, said in zip(
        names, ("the ledger knows no run no-such", "the currency must be written in capitals"), strict=True
    ):
        state = reconcile_transactions(**each, offline=offline, return_state=True)
        assert (state.name, said in str(state.message)) == ("InputRejected", True), state.message


@pytest.mark.parametrize("out", ["/tmp/elsewhere", "..", "{home}/../x", "{link}"])
def test_the_form_of_a_deployed_flow_names_no_folder_outside_the_home(
    out: str,
    home: Path,
    sandbox: RunningSandbox,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from flows.provision_card_users import provision_card_users

    link, allowed = home / "link", tmp_path_factory.mktemp("allowed")
    link.symlink_to(allowed)
    named = out.format(home=home, link=link / "x")
    sheet = home / "bad.csv"
    sheet.write_text("nothing\n")
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "a-deployment")
    ended = provision_card_users(str(sheet), named, return_state=True)
    assert (ended.name, "is not inside" in str(ended.message)) == ("InputRejected", True)
    monkeypatch.setenv("TREASURY_OUT_FOLDERS", f"{allowed}:/nowhere")
    for inside in (home / "x", allowed / "deep", None):
        ended = provision_card_users(str(sheet), None if inside is None else str(inside), return_state=True)
        assert (ended.name, "is not inside" in str(ended.message)) == ("InputRejected", False)
    monkeypatch.delenv("PREFECT__RUNTIME__DEPLOYMENT__ID")
    ended = provision_card_users(str(sheet), str(tmp_path_factory.mktemp("free")), return_state=True)
    assert (ended.name, "is not inside" in str(ended.message)) == ("InputRejected", False)
    link.unlink()


@pytest.fixture
def own_flow(home: Path) -> dict[str, Any]:
    """The README's flow of one's own, exactly as it stands there."""
    code = README.read_text().partition("```python\n")[2].partition("```")[0]
    file = home / "own_flow.py"
    file.write_text(code)
    names: dict[str, Any] = {"__name__": "own_flow", "__file__": str(file)}
    exec(compile(code, str(file), "exec"), names)
    return names


def test_the_readmes_flow_works_and_moves_money_once(own_flow: dict[str, Any], sandbox: RunningSandbox) -> None:
    sweep = own_flow["sweep_to_cold_storage"]
    assert sweep("2026-11-20", "40.5") in ("in_progress", "settled")
    books = len([order for order in sandbox.orders() if order["request_id"] == "cold-2026-11-20"])
    assert sweep("2026-11-20", "40.5") in ("in_progress", "settled")
    [order] = [order for order in sandbox.orders() if order["request_id"] == "cold-2026-11-20"]
    assert books == 1
    assert (order["amount"], order["effects"]) == (Decimal("40.5"), 1)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_operation_is_a_task_and_only_reads_are_retried(name: str) -> None:
    from prefect import Task
    from prefect.cache_policies import NO_CACHE

    import tasks.operations

    operation, task = CATALOGUE[name], getattr(tasks.operations, name)
    assert isinstance(task, Task)
    assert task.name == name
    assert task.cache_policy == NO_CACHE
    assert bool(task.retries) == (operation.effect is Effect.READS)
    assert task.description


def test_a_task_of_one_operation_is_taken_for_no_other(home: Path, sandbox: RunningSandbox) -> None:
    """A worker that serves several tasks finds one by its key, and a cache by its source."""
    from prefect import flow
    from prefect.cache_policies import DEFAULT

    from tasks.operations import OPERATION_TASKS

    assert len({task.task_key for task in OPERATION_TASKS.values()}) == len(CATALOGUE)
    purposes, countries = (
        OPERATION_TASKS[name].with_options(cache_policy=DEFAULT, persist_result=True)
        for name in ("remittance_purposes", "supported_countries")
    )

    @flow(name="cached")
    def cached() -> list[Any]:
        return [task({}, return_state=True) for task in (purposes, countries, purposes)]

    states = cached()
    assert [state.name for state in states] == ["Completed", "Completed", "Cached"]
    answers = [state.result() for state in states]
    assert answers[0] == answers[2] != answers[1]


MONEY_TASKS = (
    *("send_orders", "send_payouts", "fetch_fiat_quotes", "create_payouts", "record_payouts"),
    *("propose", "record_trades", "quote_conversion", "judge_quote", "execute_conversion", "create_or_link_users"),
)


def test_no_task_that_pays_is_cached_or_retried() -> None:
    from prefect import Task
    from prefect.cache_policies import NO_CACHE

    import tasks.orders
    import tasks.payouts
    import tasks.provisioning
    import tasks.rebalancing
    import tasks.reconciliation

    modules = (tasks.orders, tasks.payouts, tasks.provisioning, tasks.rebalancing, tasks.reconciliation)
    found = {name: value for module in modules for name, value in vars(module).items() if isinstance(value, Task)}
    assert len(found) >= 11
    for name, task in found.items():
        assert task.cache_policy == NO_CACHE, name
    for name in MONEY_TASKS:
        assert found[name].retries == 0, name


def test_a_flow_that_leaves_rows_out_ends_in_a_state_that_needs_a_person(home: Path, sandbox: RunningSandbox) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    wrong = home / "wrong.csv"
    wrong.write_text(data.path("beneficiaries.csv").read_text().replace("direct", "by hand", 1))
    before = len(sandbox.orders())
    refused = pay_beneficiaries(str(wrong), "leaves-out", follow_seconds=120, return_state=True)
    assert (refused.name, len(sandbox.orders())) == ("InputRejected", before)
    ended = pay_beneficiaries(str(wrong), "leaves-out", follow_seconds=120, valid_rows_only=True, return_state=True)
    assert (ended.name, ended.message) == ("NeedsAttention", "11 settled, 1 left out")
    with pytest.raises(NeedsAttention) as found:
        ended.result()
    [left] = found.value.summary["left_out"]
    assert left["problem"] == "route: must be direct or quoted"
    assert "| left out | 1 |" in artifact("pay-beneficiaries")["data"]
    assert (home / "runs" / "leaves-out" / "remaining.xlsx").exists()


def test_an_error_of_ours_is_one_line_of_a_runs_log_with_or_without_what_prefect_kept_of_it() -> None:
    from prefect.exceptions import FailedRun

    from tasks.run_log import show_in_run_log

    show_in_run_log()
    log = logging.getLogger("prefect.flow_runs")
    for error, lines in ((InputError("no such block"), 1), (FailedRun("no such block"), 1), (ValueError("a bug"), 2)):
        said = ("Engine execution exited with unexpected exception", "Finished in state Failed")
        told = (type(error), error, None)
        records = [log.makeRecord(log.name, logging.ERROR, __file__, 1, each, (), told) for each in said]
        shown = [record for record in records if log.filter(record)]
        assert [record.msg for record in shown] == list(said[-lines:])
        assert all((record.exc_info is None) == (lines == 1) for record in shown)


def test_a_state_that_a_task_returned_is_logged_without_a_traceback_of_nothing() -> None:
    from tasks.run_log import show_in_run_log

    show_in_run_log()
    log = logging.getLogger("prefect.task_runs")
    told = (None, None, None)  # what `exc_info=True` finds where nothing was raised
    record = log.makeRecord(log.name, logging.ERROR, __file__, 1, "Task run failed with state: Held", (), told)
    assert log.filter(record)
    assert record.exc_info is None


def test_a_flow_of_ones_own_may_log_an_error_itself() -> None:
    """`get_run_logger().exception(error)`: the message of the record is the error."""
    from tasks.run_log import show_in_run_log

    show_in_run_log()
    log, error = logging.getLogger("prefect.flow_runs"), InputError("no such block")
    record = log.makeRecord(log.name, logging.ERROR, __file__, 1, error, (), (InputError, error, None))
    assert log.filter(record)
    assert record.exc_info is None


@pytest.mark.parametrize("deployed", [True, False])
def test_retries_that_somebody_set_leave_a_run_in_the_state_that_says_what_came_of_it(
    home: Path, deployed: bool
) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    retried = pay_beneficiaries.with_options(retries=2)
    given: dict[str, Any] = {"file": str(home / "none.csv"), "run_key": "retried"}
    if deployed:
        assert Deployed(retried, **given).go().name == "InputRejected"
        return
    state: Any = retried(**given, return_state=True)
    assert (state.name, "does not exist" in state.message) == ("InputRejected", True)
    with pytest.raises(InputError):
        retried(**given)
