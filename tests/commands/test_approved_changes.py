"""Tests of what else takes approvals by key: withdrawals, rebalancings and policies; and what is said where names are
typed."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

import data
from tests.commands.approvers import HOUR, LIMITS, code_of, key, pay_line, policy, refused, waits, with_people
from tests.commands.office import Office
from tests.moved_clock import MovedClock
from treasury.approving.tokens import read_key
from treasury.errors import InputError
from treasury.ledger.approvals import standing_of, waiting_plans
from treasury.payments import approving
from treasury.sandbox import RunningSandbox

pytestmark = [pytest.mark.prefect, pytest.mark.no_real_pauses]

BY_NAME = "approvals are by name only"


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox()


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    return open_office(sandbox.base_url)


def withdraw_line(reference: str, amount: str) -> list[str]:
    fields = {"request_id": reference, "currency": "USDT_TRC20", "amount": amount, "customer_ref_id": "c"}
    return [
        "call",
        "withdraw",
        "--json",
        json.dumps({**fields, "address": "TVk631BotbQQSHGAUSRhDKGzHomE8EyrCW"}),
        "--yes",
    ]


def test_a_withdrawal_takes_an_approval_by_key(office: Office, sandbox: RunningSandbox) -> None:
    with_people(office)
    line = withdraw_line("w-1", "60")
    code = waits(office, {"w": line})["w"]
    done = office.run_all(
        {
            "show": ["show", "call-w-1"],
            "other": ["approve", "call-w-2", "--plan", code, "--key", key(office, "ben")],
            "maker": ["approve", "call-w-1", "--plan", code, "--key", key(office, "ada")],
            "changed": withdraw_line("w-1", "61"),
            "old": ["approve", "call-w-1", "--plan", code, "--key", key(office, "ben")],
            "again": line,
        }
    )
    for part in ("TVk631BotbQQSHGAUSRhDKGzHomE8EyrCW", "60", code, "above one_approval_above (50)"):
        assert part in done["show"].out
    refused(done["other"], "has no plan that waits")
    refused(done["maker"], "made this plan")
    refused(done["old"], "another plan of run call-w-1 waits")
    newest = code_of(done["again"])
    assert newest != code
    assert sandbox.orders() == []
    approve = ["approve", "call-w-1", "--plan", newest, "--key", key(office, "ben")]
    done = office.run_all({"approve": approve, "call": line, "small": withdraw_line("w-2", "50")})
    assert [ended.code for ended in done.values()] == [0, 0, 0], done
    assert [(each["amount"], each["effects"]) for each in sandbox.orders()] == [(60, 1), (50, 1)]


def test_the_approval_of_a_rebalancing_ends_with_its_day(office: Office, sandbox: RunningSandbox) -> None:
    sample = data.path("treasury_policy.toml").read_text().replace("approvals = 0", "approvals = 1")
    with_people(office, sample + '\n[conversions.one_approval_above]\nUSDT = "1"\nBTC = "0.0001"\n')
    line = ["rebalance", "--yes", "--follow", "20"]
    code = waits(office, {"rebalance": line})["rebalance"]
    desk = office.desk()
    [plan] = waiting_plans(desk.ledger)
    day = datetime.now(ZoneInfo("Asia/Singapore")) + timedelta(days=1)
    midnight = day.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
    assert plan.ends_at == int(midnight.timestamp() * 1000)
    approve = ["approve", plan.run_key, "--plan", code, "--key", key(office, "ben")]
    done = office.run_all({"show": ["show", plan.run_key], "approve": approve})
    assert f"{midnight:%Y-%m-%dT%H:%M:%SZ}" in done["show"].out
    assert done["approve"].code == 0, done["approve"].err
    desk.ledger.clock = ahead = MovedClock(None)
    ahead.move(24 * HOUR / 1000)
    with pytest.raises(InputError, match="the day of the plan is over"):
        approving.approve(desk, plan.run_key, key=read_key(office.home / "keys" / "cleo.key"))
    judged, _ = standing_of(desk.ledger, plan, approving.rules_of(desk, plan))
    assert (judged.counted, judged.refused) == ((), ("ben: the day of the plan is over",))
    desk.close()
    ended = office.run(*line)
    assert ended.code == 0, ended.out + ended.err
    assert {row["approved_by"] for row in office.results(plan.run_key).values()} == {"ben"}


def test_a_policy_is_changed_by_keys_and_a_revoked_key_approves_no_more(office: Office) -> None:
    with_people(office)
    pay = pay_line(office, "run")
    code = waits(office, {"run": pay})["run"]
    made = office.run_all(
        {"new": ["keys", "rotate", "ben"], "yes": ["approve", "run", "--plan", code, "--key", key(office, "ben")]}
    )
    assert [ended.code for ended in made.values()] == [0, 0], made
    wanted = str(policy(office, name="second.toml", ben="ben-2"))
    adopt = ["policy", "adopt", wanted, "--by"]
    done = office.run_all(
        {
            "no key": [*adopt, "ada"],
            "no right": [*adopt, "ben", "--key", key(office, "ben")],
            "a stranger": [*adopt, "mallory", "--key", key(office, "mallory")],
            "another's": [*adopt, "cleo", "--key", key(office, "ada")],
            "ada": [*adopt, "ada", "--key", key(office, "ada")],
        }
    )
    refused(done["no key"], "so a change of it is signed: --key FILE (ada, cleo may)")
    refused(done["no right"], "does not let ben change it")
    refused(done["a stranger"], "does not list this key")
    refused(done["another's"], "this key is ada's, not cleo's")
    change = code_of(done["ada"])
    run_key = done["ada"].err.split("treasury approve ")[1].split()[0]
    approve = ["approve", run_key, "--plan", change, "--key"]
    done = office.run_all(
        {
            "list": ["approvals"],
            "show": ["show", run_key],
            "maker": [*approve, key(office, "ada")],
            "no right": [*approve, key(office, "ben")],
            "early": [*adopt, "ada", "--key", key(office, "ada")],
            "cleo": [*approve, key(office, "cleo")],
            "ada": [*adopt, "ada", "--key", key(office, "ada")],
            "pay": pay,
        }
    )
    assert any(line.startswith(run_key) and "a policy" in line for line in done["list"].out.splitlines())
    assert "change_policy" in done["show"].out
    refused(done["maker"], "made this plan")
    refused(done["no right"], "does not let ben change policy")
    assert done["early"].code == 3
    assert (done["cleo"].code, "adopt the policy again" in done["cleo"].last) == (0, True), done["cleo"].err
    assert done["ada"].code == 0, done["ada"].err
    newest = code_of(done["pay"])  # what the old key approved counts for nothing
    approve = ["approve", "run", "--plan", newest, "--key"]
    done = office.run_all(
        {"old": [*approve, key(office, "ben")], "new": [*approve, key(office, "ben-2")], "list": ["approvals"]}
    )
    refused(done["old"], "does not list this key (it may be revoked)")
    assert done["new"].code == 0
    assert done["list"].last.startswith("waiting: 1 plan")
    assert office.run(*pay).last == "1 settled"


def test_a_recovery_is_ended_by_a_key_that_may_change_the_policy(office: Office, sandbox: RunningSandbox) -> None:
    with_people(office)
    other = str(policy(office, LIMITS.replace('"10"', '"1000"').replace('"100"', '"2000"'), name="other.toml"))
    end = ["policy", "adopt", "--recover", "--cancel", "--by"]
    small = pay_line(office, "small", "5")
    done = office.run_all(
        {
            "recover": ["policy", "adopt", other, "--recover", "--by", "mallory"],
            "pay": small,
            "no key": [*end, "cleo"],
            "no right": [*end, "ben", "--key", key(office, "ben")],
            "end": [*end, "cleo", "--key", key(office, "cleo")],
            "over": [*end, "cleo", "--key", key(office, "cleo")],
        }
    )
    assert [done[name].code for name in ("recover", "pay", "end")] == [0, 3, 0], done
    refused(done["no key"], "--key FILE (ada, cleo may)")
    refused(done["no right"], "does not let ben change it")
    refused(done["over"], "no recovery runs")
    assert sandbox.orders() == []
    assert office.run(*small).last == "1 settled"


def test_where_names_are_typed_every_plan_result_and_report_says_so(office: Office) -> None:
    asks = '[payouts.one_approval_above]\nUSDT_TRC20 = "10"\n'
    line = pay_line(office, "named")
    done = office.run_all(
        {
            "adopt": ["policy", "adopt", str(office.file("policy.toml", asks)), "--by", "Ada Example"],
            "pay": line,
            "show": ["show", "named"],
            "approve": ["approve", "named", "--by", "Bert  Example"],
        }
    )
    assert [ended.code for ended in done.values()] == [0, 3, 0, 0], done
    for text in (done["pay"].out, done["show"].out, (office.home / "runs" / "named" / "plan.html").read_text()):
        assert BY_NAME in text
    done["pay"] = office.run(*line)
    assert done["pay"].last == "1 settled"
    assert BY_NAME in office.summary("named")["approvals"]
    assert office.results("named")["a"]["approved_by"] == "Bert Example"
    assert office.run("reconcile", "--out", office.home / "night").code == 0
    report = json.loads((office.home / "night" / "reconciliation.json").read_text())
    assert "by name only" in json.dumps(report)
    assert "by name only" in (office.home / "night" / "reconciliation.html").read_text()


def test_a_key_signs_only_what_is_named_though_the_run_began(office: Office) -> None:
    with_people(office, LIMITS.replace("approvals = 1", "approvals = 0"))
    line, by = pay_line(office, "begun", "5"), ["--by", "Ada Example"]
    strict = str(policy(office, LIMITS.replace('"10"', '"1"').replace("approvals = 1", "approvals = 0")))
    office.run_all({"stop": ["stop", *by, "--why", "a look first"]})
    assert office.run(*line).code == 4
    done = office.run_all(
        {
            "lift": ["stop", "--lift", "--key", key(office, "ben")],
            "adopt": ["policy", "adopt", strict, "--by", "ada", "--key", key(office, "ada")],
            "pay": line,
            "list": ["approvals"],
            "show": ["show", "begun"],
            "unseen": ["approve", "begun", "--key", key(office, "ben")],
        }
    )
    code = code_of(done["pay"])
    assert done["list"].out.startswith("begun  made by ada  1 payment  5 USDT_TRC20")
    assert code in done["show"].out
    refused(done["unseen"], f"name the plan that you saw: --plan {code}")
    assert office.run("approve", "begun", "--plan", code, "--key", key(office, "ben")).code == 0
    assert office.run(*line).last == "1 settled"


def test_a_run_is_no_change_of_the_policy_whatever_its_key_begins_with(office: Office, sandbox: RunningSandbox) -> None:
    with_people(office)
    pay = pay_line(office, "policy-holders")
    code = waits(office, {"run": pay})["run"]
    approved = office.run("approve", "policy-holders", "--plan", code, "--key", key(office, "ben"))
    assert (approved.code, "start the run again" in approved.out) == (0, True)
    assert office.run(*pay).last == "1 settled"
    change = office.run(
        *("policy", "adopt", policy(office, LIMITS.replace('"10"', '"5"'), "less.toml")),
        *("--by", "ada", "--key", key(office, "ada")),
    )
    run_key = change.err.split("treasury approve ")[1].split()[0]
    refused(office.run(*pay_line(office, run_key, "4")), "is a name for a change of the policy")
    approved = office.run("approve", run_key, "--plan", code_of(change), "--key", key(office, "cleo"))
    assert (approved.code, "adopt the policy again" in approved.out) == (0, True)
    assert sum(order["effects"] for order in sandbox.orders()) == 1


@pytest.mark.parametrize(
    ("run_key", "pays", "said"),
    [
        ("run", "1 payment  20 USDT_TRC20", "at most 20 USDT_TRC20 leave"),
        ("call-w-1", "1 payment", "call-w-1: waits for 1 approval"),
    ],
    ids=["a sheet", "a call"],
)
def test_what_expired_before_it_left_waits_where_approvers_look(
    run_key: str, pays: str, said: str, office: Office, sandbox: RunningSandbox
) -> None:
    with_people(office)
    pay = pay_line(office, "run") if run_key == "run" else withdraw_line("w-1", "60")
    yes = ["approve", run_key, "--key", key(office, "ben"), "--plan"]
    assert office.run(*yes, waits(office, {"run": pay})["run"]).code == 0
    office.run("stop", "--by", "Somebody", "--why", "a look first")
    assert office.run(*pay).code == 4
    assert isinstance(office.clock, MovedClock)
    office.clock.move(73 * 3600)
    office.run("stop", "--lift", "--key", key(office, "cleo"))
    code = waits(office, {"run": pay})["run"]
    assert code_of(office.run(*pay)) == code  # it is proposed again once
    assert f"{run_key}  made by ada  {pays}" in office.run("approvals").out
    assert said in office.run("show", run_key).out
    assert f"{run_key} waits for approvals" in office.run("status").out
    assert office.run(*yes, code).code == 0
    assert (office.run(*pay).code, sum(order["effects"] for order in sandbox.orders())) == (0, 1)
    assert office.run("approvals").last.startswith("waiting: 0 plans")
