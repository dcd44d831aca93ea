"""One run for an approval: a deployed run is suspended with a form, and goes on when the ledger has the approvals."""

import base64
import json
import time
import tomllib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from flows.commands import resuming
from flows.commands.prefect_server import identification, kept_password, remember_server
from flows.commands.schedules import serve_alone, served_api
from tests.commands.office import Office
from tests.engine.approvers import ASKS, KEYS, PEOPLE, token_of
from tests.engine.funded import above
from tests.engine.rounds import policy
from tests.flows.deployed import Deployed
from tests.flows.graph import Graph
from tests.flows.waiting import adopted, desk, effects, paying, rebalancing, sheet, trading
from tests.listening import Listening
from treasury.approving.tokens import Verb, read_token, sign
from treasury.ledger.approvals import reject_plan, waiting_plan, waiting_plans
from treasury.ledger.policies import adopt_policy
from treasury.ledger.proposals import WaitingPlan
from treasury.ledger.stops import stop_sending
from treasury.payments.approving import approve
from treasury.payments.cancelling import cancel
from treasury.policy.model import parse_policy
from treasury.sandbox import RunningSandbox
from treasury.settings import os_user

pytestmark = pytest.mark.prefect


@pytest.fixture
def by_name(home: Path) -> Path:
    """A home whose policy lists nobody, so that typed names count."""
    adopted()
    return home


@pytest.fixture
def by_key(home: Path) -> Path:
    """A home of people with keys; whoever starts a deployment is none of them, so its plan needs two of them."""
    adopted(people=PEOPLE, approval_hours=5)
    return home


def waiting(run_key: str) -> WaitingPlan:
    found = waiting_plan(desk().ledger, run_key)
    assert found is not None
    return found


def token(name: str, run_key: str, **changed: Any) -> str:
    return str(token_of(waiting(run_key), name, **changed))


def test_a_run_is_suspended_with_its_totals_and_pays_once_a_name_was_given(
    by_name: Path, sandbox: RunningSandbox
) -> None:
    before, run = effects(sandbox), paying(by_name, "one-run")
    state = run.go()
    assert (state.name, state.type.value) == ("Suspended", "PAUSED")
    for part in ("Plan of one-run waits for approval", "Debits at most: 20 USDT_TRC20", "by name only"):
        assert part in run.form()
    assert effects(sandbox) == before
    graph = Graph(state)
    asking = graph.tasks["ask for approvals of one-run"]
    assert (asking["state_name"], asking["state_type"]) == ("WaitingForApproval", "CANCELLED")
    ended = run.resumed(name="Checker")
    assert (ended.name, ended.type.value) == ("Settled", "COMPLETED"), ended.message
    assert effects(sandbox) == before + 1
    assert run.resume(name="Checker") == "ABORT"  # resumed twice: it waits for nothing
    kept = json.dumps(run.inputs()) + json.dumps(run.run.parameters) + graph.log()
    assert [each for each in ("Checker", "Example Person", "12345670009", "0812000") if each in kept] == []


def test_a_resume_alone_is_no_yes_and_two_approvers_are_two_inputs(by_key: Path, sandbox: RunningSandbox) -> None:
    before, run = effects(sandbox), paying(by_key, "two-people")
    run.go()
    other = paying(by_key, "another-plan")
    other.go()
    refused = {
        "no token and no name was given": {},
        "this approval is a typed name": {"name": "ben"},
        "this is no token that --print made": {"token": "yes"},
        "the token is for run another-plan": {"token": token("ben", "another-plan")},
        "the policy in force does not list this key": {"token": token("mallory", "two-people")},
        "the signature is not genuine": {"token": token("ben", "two-people", purpose=Verb.REJECT)},
    }
    for why, given in refused.items():
        state = run.resumed(**given)
        assert (state.name, effects(sandbox)) == ("Suspended", before), why
        assert why in run.form().partition("\n")[0], run.form()
    first = run.state.state_details.pause_key
    assert run.resumed(token=token("ben", "two-people")).name == "Suspended"
    assert "Approved by: ben" in run.form()
    assert "Not approved" not in run.form()
    assert run.state.state_details.pause_key != first
    until = run.state.state_details.pause_timeout
    assert until is not None
    assert 4.9 < (until.timestamp() - time.time()) / 3600 < 5
    assert "approved this plan already" in form_after(run, token=token("ben", "two-people"))
    assert run.resumed(token=token("cleo", "two-people")).name == "Settled"
    assert effects(sandbox) == before + 1
    assert other.state.name == "Suspended"


def test_what_was_typed_and_does_not_count_is_not_kept_and_is_no_markup_of_the_next_form(
    by_key: Path, sandbox: RunningSandbox
) -> None:
    run = paying(by_key, "typed")
    run.go()
    assert "this approval is a typed name" in form_after(run, name="Zoe [sign](http://x.example)")
    assert "Zoe" not in json.dumps(run.inputs())
    plan = waiting("typed")
    other = sign(KEYS["ben"], Verb.APPROVE, "[sign here](http://x.example) <b>now</b>", plan.code, plan.proposed_at * 2)
    said = form_after(run, token=str(other)).partition("\n")[0]
    assert r"\[sign here\](http://x.example) \<b\>now" in said


def form_after(run: Deployed, **given: str) -> str:
    assert run.resumed(**given).name == "Suspended"
    return run.form()


def test_a_plan_that_changed_while_its_run_was_suspended_is_asked_about_anew(
    by_key: Path, sandbox: RunningSandbox
) -> None:
    before, run = effects(sandbox), paying(by_key, "changed")
    run.go()
    kept = token("ben", "changed")
    sheet(by_key, "changed", "30")
    said = form_after(run, token=kept)  # the old plan has an approval, and does not exist any more
    assert "Debits at most: 30 USDT_TRC20" in said
    assert "another plan than the one that was shown before" in said.partition("\n")[0]
    assert "Approved by: nobody yet" in said
    assert "the token is for another proposal" in form_after(run, token=kept)
    adopted_again()
    said = form_after(run, token=token("ben", "changed"))
    assert "made under another policy than the one in force" in said
    assert "Approved by: nobody yet" in said
    for name in ("ben", "cleo"):
        run.resumed(token=token(name, "changed"))
    assert (run.state.name, effects(sandbox)) == ("Settled", before + 1)


def adopted_again() -> None:
    adopts = parse_policy({"payouts": {**ASKS, "duplicate_days": 1}, "people": PEOPLE}, "policy.toml")
    adopt_policy(desk().ledger, adopts, "policy.toml", by="ada", os_user="ada", key=KEYS["ada"])


def test_what_a_person_ended_or_stopped_is_not_paid_whatever_is_resumed(by_name: Path, sandbox: RunningSandbox) -> None:
    before, runs = effects(sandbox), {name: paying(by_name, name) for name in ("rejected", "cancelled", "stopped")}
    for run in runs.values():
        assert run.go().name == "Suspended"
    reject_plan(desk().ledger, "rejected", by="Checker", why="no", os_user="x")
    cancel(desk(), "cancelled", by="Checker", why="no")
    stop_sending(desk().ledger, "Checker", "a look first")
    ends = {name: run.resumed(name="Checker") for name, run in runs.items()}
    assert {name: state.name for name, state in ends.items()} == {
        "rejected": "Rejected",
        "cancelled": "InputRejected",
        "stopped": "NeedsAttention",
    }
    assert effects(sandbox) == before


def test_two_suspended_runs_of_one_run_key_pay_once_and_a_decision_elsewhere_counts(
    by_name: Path, sandbox: RunningSandbox
) -> None:
    before, runs = effects(sandbox), [paying(by_name, "twice") for _ in range(2)]
    for run in runs:
        assert run.go().name == "Suspended"
    approve(desk(), "twice", name="Checker")
    assert [run.resumed().name for run in runs] == ["Settled", "Settled"]
    assert effects(sandbox) == before + 1


@pytest.mark.parametrize("decision", ["yes", "no"])
def test_who_decides_while_the_run_is_about_to_be_suspended_is_not_waited_for_again(
    decision: str, by_name: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notices go out before the run is suspended: whoever is told may be faster, and finds no run to resume."""
    from tasks import approval

    before, run, key = effects(sandbox), paying(by_name, f"faster-{decision}"), f"faster-{decision}"

    def decided(*given: Any, **more: Any) -> Any:
        if decision == "yes":
            approve(desk(), key, name="Checker")
        else:
            reject_plan(desk().ledger, key, by="Checker", why="no", os_user="x")
        return real(*given, **more)

    real: Any = vars(approval)["suspend_flow_run"]
    with monkeypatch.context() as patched:
        patched.setattr(approval, "suspend_flow_run", decided)
        assert run.go().name == "Resuming"
    assert run.go().name == {"yes": "Settled", "no": "Rejected"}[decision]
    assert effects(sandbox) == before + (decision == "yes")


def test_an_answer_counts_once(by_name: Path, sandbox: RunningSandbox) -> None:
    """A run that is carried out again after the approvals of its plan ended does not give the old answer again."""
    from prefect.client.orchestration import get_client
    from prefect.states import AwaitingRetry

    run = paying(by_name, "once")
    run.go()
    assert run.resume(name="Checker") == "ACCEPT"
    assert [key for key in run.inputs() if key.endswith("-response")]
    stop_sending(desk().ledger, "Checker", "a look first")
    assert run.go().name == "NeedsAttention"
    assert not [key for key in run.inputs() if key.endswith("-response")]
    adopts = parse_policy({"payouts": {**ASKS, "duplicate_days": 1}}, "policy.toml")
    adopt_policy(desk().ledger, adopts, "policy.toml", by="Owner", os_user="owner")
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run.id, AwaitingRetry(), force=True)
    assert run.go().name == "Suspended"
    assert "Approved by: nobody yet" in run.form()


def test_a_run_that_is_resumed_too_late_sends_nothing(by_name: Path, sandbox: RunningSandbox) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Suspended

    before, run = effects(sandbox), paying(by_name, "late")
    details = run.go().state_details
    over: Any = Suspended(pause_expiration_time=datetime.now(UTC) - timedelta(seconds=1), pause_key=details.pause_key)
    over.state_details.run_input_keyset = details.run_input_keyset
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run.id, over, force=True)
    assert run.resume(name="Checker") == "REJECT"
    assert run.state.type.value == "FAILED"
    assert effects(sandbox) == before


def test_a_start_that_is_no_run_of_a_deployment_is_never_suspended(by_name: Path, sandbox: RunningSandbox) -> None:
    from prefect import flow

    from flows.pay_beneficiaries import pay_beneficiaries

    file = str(sheet(by_name, "in-process"))
    assert pay_beneficiaries(file, "in-process", return_state=True).name == "WaitingForApproval"

    @flow
    def own() -> str:
        ended: Any = pay_beneficiaries(file, "in-process", return_state=True)
        return str(ended.name)

    run = Deployed(own)
    ended = run.go()
    assert (ended.type.value, run.inputs()) == ("COMPLETED", {})


def test_a_run_that_converts_first_is_approved_with_its_conversions_and_goes_on(
    home: Path, open_sandbox: Callable[..., RunningSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    sandbox = open_sandbox(balances={"USDT": Decimal(50000), "USDT_TRC20": Decimal(5), "BTC": Decimal(2)})
    monkeypatch.setenv("TREASURY_BASE_URL", sandbox.base_url)
    rules = policy(home, tail=above("payouts", "USDT_TRC20", "10"), BTC=("0", "0", "999999"))
    file = str(sheet(home, "converts", "500"))
    run = Deployed(pay_beneficiaries, file=file, run_key="converts", policy=str(rules), fund=True, follow_seconds=60)
    assert run.go().name == "Suspended"
    assert "Converted first: " in run.form()
    first = run.state.state_details.pause_key
    assert run.resumed().name == "Suspended"
    assert str(run.state.state_details.pause_key).partition("-")[2] == str(first).partition("-")[2]  # the same plan
    assert sandbox.orders() == []
    ended = run.resumed(name="Checker")
    assert ended.name == "Settled", ended.message
    assert [order["effects"] for order in sandbox.orders() if order["request_id"]].count(1) >= 2


def test_a_script_that_approves_and_pays_is_told_what_lacks_and_is_not_suspended(
    by_key: Path, sandbox: RunningSandbox
) -> None:
    from flows.approve_and_pay import approve_and_pay

    before, run = effects(sandbox), paying(by_key, "scripted")
    run.go()
    first = Deployed(approve_and_pay, run_key="scripted", token=token("ben", "scripted")).go()
    assert (first.name, first.type.value) == ("WaitingForApproval", "FAILED")
    second = Deployed(approve_and_pay, run_key="scripted", token=token("cleo", "scripted")).go()
    assert (second.name, effects(sandbox)) == ("Settled", before + 1), second.message
    assert (run.resumed().name, effects(sandbox)) == ("Settled", before + 1)


def test_a_script_that_ended_after_it_approved_pays_when_it_is_started_again(
    by_key: Path, sandbox: RunningSandbox
) -> None:
    from flows.approve_and_pay import approve_and_pay

    before, run = effects(sandbox), paying(by_key, "cut-off")
    run.go()
    tokens = [token(each, "cut-off") for each in ("ben", "cleo")]
    first = [Deployed(approve_and_pay, run_key="cut-off", token=tokens[0]).go() for _ in range(2)]
    assert [(each.name, "needs 2 approvals" in str(each.message)) for each in first] == [
        ("WaitingForApproval", True)
    ] * 2  # the same approval twice is one
    assert approve(desk(), "cut-off", token=read_token(tokens[1])).lacks == 0  # then its process ended
    assert effects(sandbox) == before
    ended = Deployed(approve_and_pay, run_key="cut-off", token=tokens[1]).go()
    assert (ended.name, effects(sandbox)) == ("Settled", before + 1), ended.message


@pytest.mark.parametrize("people", [{}, PEOPLE], ids=["by name", "by key"])
def test_the_first_rebalancing_of_a_schedule_is_asked_about_with_its_plan_and_no_later_one(
    people: Mapping[str, Any], home: Path, open_sandbox: Callable[..., RunningSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = open_sandbox()
    monkeypatch.setenv("TREASURY_BASE_URL", sandbox.base_url)
    trading(people)
    run = rebalancing()
    assert run.go().name == "Suspended"
    for part in ("Debits at most: ", "Because: nobody said yes to a rebalancing under this policy yet"):
        assert part in run.form()
    [plan] = waiting_plans(desk().ledger)
    assert plan.run_key.startswith("rebalance-")
    for given in [{}, {"name": "Ben"}] if people else [{}]:
        assert run.resumed(**given).name == "Suspended"
        assert "Not approved" in run.form()
        assert sandbox.orders() == []
    for name in ("ben", "cleo") if people else ("Checker",):
        given = {"token": token(name, plan.run_key)} if people else {"name": name}
        ended = run.resumed(**given)
    assert ended.name == "Settled", ended.message
    assert waiting_plans(desk().ledger) == []
    traded = effects(sandbox)
    sandbox.deposit("BTC", "0.2")
    again = rebalancing().go()
    assert again.name == "Settled", again.message
    assert effects(sandbox) > traded


def test_a_later_round_that_needs_an_approval_suspends_the_run_with_its_own_plan(
    home: Path, open_sandbox: Callable[..., RunningSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = open_sandbox(balances={"USDT": Decimal(500), "BTC": Decimal(1), "DOGE": Decimal(0)})
    monkeypatch.setenv("TREASURY_BASE_URL", sandbox.base_url)
    bands: dict[str, Any] = {"BTC": ("0.5", "0.6", "0.8"), "DOGE": ("500", "1000", "2000")}
    asks = '[conversions.one_approval_above]\nUSDT = "20"\n'
    rules = parse_policy(tomllib.loads(policy(home, tail=asks, **bands).read_text()), "policy.toml")
    adopt_policy(desk().ledger, rules, "policy.toml", by="Owner", os_user="owner")
    run = rebalancing()
    assert run.go().name == "Suspended"
    ended = run.resumed(name="Checker")
    assert (ended.name, effects(sandbox)) == ("Suspended", 1), ended.message
    [plan] = waiting_plans(desk().ledger)
    assert plan.run_key.endswith("-2")
    assert "this is another plan than the one that was shown before" in run.form()
    ended = run.resumed(name="Checker")
    assert (ended.name, effects(sandbox)) == ("Settled", 2), ended.message


def test_a_yes_that_only_its_maker_could_give_is_given_at_the_command_line(home: Path) -> None:
    from flows.rebalance_treasury import rebalance_treasury

    none = {"duplicate_days": 0}
    trading({"ada": {**PEOPLE["ada"], "os_users": [os_user()]}}, payouts=none, withdrawals=none)
    ended = rebalance_treasury(return_state=True)
    assert ended.name == "WaitingForApproval"
    assert "treasury rebalance shows the plan and asks" in str(ended.message)


def test_an_approval_on_the_command_line_resumes_the_run_and_so_does_a_no(
    by_name: Path, sandbox: RunningSandbox, key_file: Path, prefect_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is found behind others that are suspended, too, however many a server gives at once."""
    monkeypatch.setattr(resuming, "PAGE", 2)
    office = Office(by_name, sandbox.base_url, key_file, prefect_url, {})
    before, runs = effects(sandbox), {name: paying(by_name, name) for name in ("yes", "no", "never", "alone")}
    for run in runs.values():
        run.go()
    said = office.run("approve", "yes", "--by", "Checker")
    assert (said.code, said.last) == (0, "it has the approvals it needs; its run goes on"), said
    assert "resumed in Prefect: pay yes" in said.out
    assert office.run("reject", "no", "--by", "Checker", "--why", "wrong").code == 0
    assert office.run("cancel", "never", "--by", "Checker", "--why", "wrong").code == 0
    assert {name: run.state.name for name, run in runs.items()} == {
        **dict.fromkeys(("yes", "no", "never"), "Resuming"),
        "alone": "Suspended",
    }
    ends = {name: runs[name].go().name for name in ("yes", "no", "never")}
    assert ends == {"yes": "Settled", "no": "Rejected", "never": "InputRejected"}
    assert effects(sandbox) == before + 1
    said = office.run("approve", "alone", "--by", "Checker", PREFECT_API_URL="http://127.0.0.1:9/api")
    assert (said.code, said.last) == (0, "it has the approvals it needs; start the run again"), said
    assert runs["alone"].state.name == "Suspended"


def test_a_server_that_does_not_resume_is_one_line(by_name: Path, sandbox: RunningSandbox, key_file: Path) -> None:
    refuses = Listening(lambda path, _: (200 if path.endswith("/health") else 500, b"", {}))
    office = Office(by_name, sandbox.base_url, key_file, f"{refuses.base_url}/api", {})
    paying(by_name, "refused").go()
    said = office.run("approve", "refused", "--by", "Checker")
    refuses.close()
    assert (said.code, said.err) == (0, ""), said
    assert f"no run was resumed at {refuses.base_url}/api (HTTPError): resume it in Prefect's dashboard" in said.out


def test_the_server_of_a_serve_at_work_is_found_and_gets_the_password_that_is_kept(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(home))
    assert served_api() is None
    for address in ("http://127.0.0.1:4321", "https://prefect.example.com/api"):
        with serve_alone(address):
            assert served_api() == address.removesuffix("/api") + "/api"
    assert served_api() is None
    ours = "http://127.0.0.1:4321/api"
    assert identification(ours) == {}
    remember_server(ours)
    said = base64.b64encode(kept_password().encode()).decode()
    assert identification(ours) == {"Authorization": f"Basic {said}"}
    assert identification("http://127.0.0.1:4322/api") == {}
