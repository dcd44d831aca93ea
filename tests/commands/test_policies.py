"""The policy in force: adopted by a person, it applies at every door, and a left-out option walks around nothing."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

import data
from tests.commands.office import Ended, Office
from tests.crash.payments import QUOTED
from treasury.sandbox import RunningSandbox

pytestmark = [pytest.mark.prefect, pytest.mark.no_real_pauses]

BY = ("--by", "Ada Example")
ADDRESS = "TVk631BotbQQSHGAUSRhDKGzHomE8EyrCW"


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox()


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office], prefect_url: str) -> Office:
    return open_office(sandbox.base_url)


def adopt(office: Office, text: str, *more: str, name: str = "policy.toml") -> Ended:
    return office.run("policy", "adopt", office.file(name, text), *BY, *more)


def pay(office: Office, key: str, *rows: tuple[str, str, str], more: tuple[str, ...] = ()) -> Ended:
    sheet = office.sheet(*rows, name=f"{key}.csv")
    return office.run("pay", sheet, "--run-key", key, "--yes", "--follow", "20", *more)


def withdraw(office: Office, reference: str, amount: str, address: str = ADDRESS) -> Ended:
    fields = {"request_id": reference, "currency": "USDT_TRC20", "amount": amount, "customer_ref_id": "c"}
    return office.run("call", "withdraw", "--json", json.dumps({**fields, "address": address}), "--yes")


def row(number: int, amount: str) -> tuple[str, str, str]:
    return f"r{number}", amount, f"12345678{number:03d}"


def paid(sandbox: RunningSandbox) -> int:
    return sum(order["effects"] for order in sandbox.orders())


def test_one_account_of_the_day_counts_payouts_and_withdrawals(office: Office, sandbox: RunningSandbox) -> None:
    limits = '[payouts.max_per_day]\nUSDT_TRC20 = "100"\n[withdrawals.max_per_day]\nUSDT_TRC20 = "100"\n'
    assert adopt(office, limits).code == 0
    assert pay(office, "one", row(1, "60")).last == "1 settled"
    over = pay(office, "two", row(2, "50"))
    assert (over.code, "the limit of" in over.err) == (2, True)
    refused = withdraw(office, "w-1", "50")
    assert (refused.code, "the limit of" in refused.err) == (2, True)
    assert withdraw(office, "w-2", "40").code == 0
    assert pay(office, "three", row(3, "1")).code == 2
    assert paid(sandbox) == 2


def test_a_left_out_or_another_policy_walks_around_nothing(office: Office, sandbox: RunningSandbox) -> None:
    strict = '[payouts]\ncurrencies = ["USDT_TRC20"]\n[payouts.one_approval_above]\nUSDT_TRC20 = "10"\n'
    assert adopt(office, strict).code == 0
    waiting = pay(office, "waits", row(1, "20"))
    assert (waiting.code, "waiting for an approval" in waiting.err) == (3, True)
    lax = office.file("lax.toml", '[payouts]\ncurrencies = ["USDT_TRC20"]\n')
    other = pay(office, "waits", row(1, "20"), more=("--policy", str(lax)))
    assert (other.code, "is not the policy in force" in other.err) == (2, True)
    named = pay(office, "waits", row(1, "20"), more=("--policy", str(office.home / "policy.toml")))
    assert named.code == 3
    code = f"""
from flows.pay_beneficiaries import pay_beneficiaries
from treasury.errors import ApprovalNeeded
try:
    pay_beneficiaries({str(office.home / "waits.csv")!r}, "waits")
except ApprovalNeeded:
    print("it waits")
"""
    assert "it waits" in office.python(code).out
    assert paid(sandbox) == 0
    assert office.run("approve", "waits", "--by", "Bert Example").code == 0
    assert pay(office, "waits", row(1, "20")).last == "1 settled"


def test_what_is_not_known_beforehand_counts_at_its_ceiling(office: Office, sandbox: RunningSandbox) -> None:
    given = {name: value for name, value in QUOTED.items() if name not in ("quote_mode", "pay_amount")}
    quoted = {**given, "quote_mode": "dest", "receive_amount": "90", "account_no": "DE89370400440532013000"}

    def sheet(name: str, **more: str) -> str:
        fields = {"row_ref": "a", **quoted, **more}
        return str(office.file(name, ",".join(fields) + "\n" + ",".join(fields.values()) + "\n"))

    assert adopt(office, '[payouts.max_per_day]\nUSDT = "150"\n').code == 0
    over = office.run("pay", sheet("b.csv", receive_amount="150"), "--run-key", "b", "--yes")
    assert (over.code, "the limit of" in over.err) == (2, True)
    both = office.run("pay", sheet("c.csv", max_pay_amount="120"), "--run-key", "c", "--yes", "--follow", "20")
    assert both.code == 0, both.out + both.err
    assert office.results("c")["a"]["outcome"] == "settled"
    more = office.run("pay", sheet("d.csv", receive_amount="50"), "--run-key", "d", "--yes")
    assert (more.code, "the limit of" in more.err) == (2, True)


def test_a_call_is_a_run_of_one(office: Office, sandbox: RunningSandbox) -> None:
    assert adopt(office, '[withdrawals.max_per_run]\nUSDT_TRC20 = "30"\n').code == 0
    over = withdraw(office, "w-1", "31")
    assert (over.code, "the limit of 30 per run" in over.err) == (2, True), over.err
    assert withdraw(office, "w-2", "30").code == 0
    assert paid(sandbox) == 1


def test_calls_are_judged_as_runs_are(office: Office, sandbox: RunningSandbox) -> None:
    text = f"""[withdrawals]
addresses = ["{ADDRESS}", "TOTHER"]
cooling_hours = 5
[withdrawals.max_per_payout]
USDT_TRC20 = "100"
[withdrawals.one_approval_above]
USDT_TRC20 = "50"
[conversions.max_per_trade]
BTC = "1"
"""
    assert withdraw(office, "w-0", "20").code == 0  # no policy yet: a rehearsal
    assert "REHEARSAL" in office.run("policy", "show").out
    assert adopt(office, text).code == 0
    elsewhere = withdraw(office, "w-1", "10", "TNOTLISTED")
    assert (elsewhere.code, "address" in elsewhere.err) == (2, True)
    assert withdraw(office, "w-2", "101").code == 2
    waiting = withdraw(office, "w-3", "60")
    assert waiting.code == 3
    assert office.run("approve", "call-w-3", "--by", "Bert Example").code == 0
    assert withdraw(office, "w-3", "60").code == 0
    assert withdraw(office, "w-4", "60").code == 3
    again = withdraw(office, "w-5", "20")
    assert (again.code, again.last) == (4, "held: w-5")  # the same address and amount as w-0
    cooling = withdraw(office, "w-6", "5", "TOTHER")
    assert (cooling.code, "waits 5 h" in cooling.out) == (4, True)
    assert withdraw(office, "w-6", "5", "TOTHER").code == 4
    assert office.run("release", "w-6", *BY, "--why", "checked by telephone").code == 0
    assert withdraw(office, "w-6", "5", "TOTHER").code == 0
    blind = office.run("call", "conversion_execute", "--json", '{"quoteId": "Q1"}', "--yes")
    assert (blind.code, "not known beforehand" in blind.err) == (2, True)
    assert paid(sandbox) == 3


def test_changing_the_policy_takes_what_the_one_in_force_asks(office: Office) -> None:
    first = (
        '[payouts]\ncurrencies = ["USDT_TRC20"]\n[changes]\napprovals = 1\npeople = ["Ada Example", "Bert Example"]\n'
    )
    nothing = adopt(office, 'time_zone = "UTC"\n', name="nothing.toml")
    assert (nothing.code, "no_limits" in nothing.err) == (2, True)
    assert adopt(office, first).code == 0
    second = office.file("second.toml", '[payouts]\ncurrencies = ["USDT_TRC20", "USDT"]\n')
    stranger = office.run("policy", "adopt", second, "--by", "Cleo Example")
    assert (stranger.code, "does not let Cleo Example" in stranger.err) == (2, True)
    waiting = office.run("policy", "adopt", second, *BY)
    assert waiting.code == 3
    assert "-> " in waiting.out
    assert "of 0 orders of the last 90 days it would have held or refused 0" in waiting.out
    seen = office.run("show", waiting.err.split("treasury approve ")[1].split()[0]).out
    assert ("Changes:" in seen, "Of the past:" in seen, "{'" in seen) == (True, True, False)
    key = waiting.err.split("treasury approve ")[1].split()[0]
    assert office.run("approve", key, *BY).code == 2  # whoever proposed it
    refused = office.run("approve", key, "--by", "Cleo Example")
    assert (refused.code, "does not let Cleo Example change policy" in refused.err) == (2, True)
    assert office.run("policy", "adopt", second, *BY).code == 3
    office.run("approve", key, "--by", "Bert Example")
    assert office.run("policy", "adopt", second, *BY).code == 0
    assert 'payouts.currencies = ["USDT_TRC20", "USDT"]' in office.run("policy", "show").out


def test_while_a_recovery_runs_nothing_leaves(office: Office, sandbox: RunningSandbox) -> None:
    first = '[payouts]\ncurrencies = ["USDT_TRC20"]\n[changes]\npeople = ["Bert Example"]\n'
    assert office.run("policy", "adopt", office.file("policy.toml", first), "--by", "Bert Example").code == 0
    assert adopt(office, '[payouts]\ncurrencies = ["USDT"]\n', "--recover", name="new.toml").code == 0
    for refused in (pay(office, "one", row(1, "5")), withdraw(office, "w-1", "5")):
        assert refused.code == 3, refused.err
        assert "recover" in refused.err
    assert "a recovery runs" in office.run("policy", "show").out
    assert office.run("policy", "adopt", "--recover", "--cancel", *BY).code == 2
    assert office.run("policy", "adopt", "--recover", "--cancel", "--by", "Bert Example").code == 0
    assert pay(office, "one", row(1, "5")).last == "1 settled"


def test_a_stricter_policy_holds_what_waits_of_a_run_that_began(office: Office, sandbox: RunningSandbox) -> None:
    assert adopt(office, '[payouts.max_per_payout]\nUSDT_TRC20 = "100"\n').code == 0
    office.run("stop", *BY, "--why", "a look first")
    assert pay(office, "one", row(1, "5"), row(2, "50")).code == 4
    office.run("stop", "--lift", *BY)
    assert adopt(office, '[payouts.max_per_payout]\nUSDT_TRC20 = "10"\n', name="less.toml").code == 0
    assert pay(office, "one", row(1, "5"), row(2, "50")).last == "1 settled, 1 held"
    assert "over the policy's limit" in office.results("one")["r2"]["reason"]
    assert paid(sandbox) == 1


def test_a_sheet_without_what_left_needs_the_approvals_of_its_run_all_the_same(
    office: Office, sandbox: RunningSandbox
) -> None:
    assert adopt(office, '[payouts.max_per_payout]\nUSDT_TRC20 = "100"\n').code == 0
    twice = ("r3", *row(2, "20")[1:])
    assert pay(office, "one", row(1, "20"), row(2, "20"), twice).last == "2 settled, 1 held"
    assert adopt(office, '[payouts.one_approval_above]\nUSDT_TRC20 = "30"\n', name="less.toml").code == 0
    assert office.run("release", "one", *BY, "--why", "it is meant").code == 0
    waits = pay(office, "one", twice)
    assert (waits.code, "needs 1 approval" in waits.err, paid(sandbox)) == (3, True, 2)
    assert office.run("approve", "one", "--by", "Bert Example").code == 0
    assert pay(office, "one", twice).last == "1 settled"


def test_what_a_policy_would_have_held_is_said_and_nothing_changes(office: Office, sandbox: RunningSandbox) -> None:
    assert pay(office, "one", row(1, "5"), row(2, "50")).code == 0
    said = office.run("policy", "check", office.file("less.toml", '[payouts.max_per_payout]\nUSDT_TRC20 = "10"\n'))
    assert (said.code, said.last) == (0, "of 2 orders of the last 90 days it would have held or refused 1")
    assert "r2 of run one" in said.out
    assert "no policy is in force" in office.run("policy", "show").out


def test_whoever_adopts_a_policy_is_told_what_leaves_without_its_approvals(office: Office) -> None:
    asks = '[payouts.one_approval_above]\nUSDT_TRC20 = "30"\n'
    checked, adopted = office.run("policy", "check", office.file("asks.toml", asks)), adopt(office, asks)
    for said in ("totals in USDT_TRC20 take approvals, in other currencies none", "it has no [withdrawals] table"):
        assert (said in checked.out, said in adopted.out) == (True, True)


def test_a_list_of_a_policy_that_the_past_is_not_judged_by_is_said(office: Office) -> None:
    assert pay(office, "one", row(1, "5")).code == 0
    lists = '[payouts]\ncountries = ["BR"]\n[withdrawals]\naddresses = ["TVk631BotbQQSHGAUSRhDKGzHomE8EyrCW"]\n'
    said = office.run("policy", "check", office.file("less.toml", lists))
    assert said.last.endswith("not judged: payouts.countries, withdrawals.addresses"), said.out + said.err
    none = office.run("policy", "check", office.file("none.toml", '[payouts.max_per_payout]\nUSDT_TRC20 = "10"\n'))
    assert none.last == "of 1 order of the last 90 days it would have held or refused 0"


def test_a_policy_that_was_put_out_of_force_in_the_database_is_told(office: Office) -> None:
    adopt(office, "[payouts.max_per_run]\nUSDT_TRC20 = '1000'\n")
    adopt(office, "[payouts.max_per_run]\nUSDT_TRC20 = '10'\n")
    with closing(sqlite3.connect(office.home / "ledger.db")) as database, database:
        database.execute("UPDATE policies SET ended_at = 1 WHERE id = 2")
    for command in (["policy", "show"], ["doctor"], ["pay", office.sheet(row(1, "500")), "--run-key", "r", "--yes"]):
        ended = office.run(*command)
        assert (ended.code, "a policy was changed or added in the ledger by hand" in ended.out + ended.err) == (2, True)
    refused = adopt(office, "[payouts.max_per_run]\nUSDT_TRC20 = '10'\n")
    assert (refused.code, "nobody can tell who may change the policy" in refused.err) == (2, True)
    assert adopt(office, "[payouts.max_per_run]\nUSDT_TRC20 = '10'\n", "--recover").code == 0


def test_a_service_elsewhere_needs_a_policy(open_office: Callable[..., Office], prefect_url: str) -> None:
    office = open_office("https://pay.example.com")
    refused = pay(office, "one", row(1, "5"))
    assert refused.code == 2
    assert "treasury policy adopt FILE --by NAME" in refused.err
    assert withdraw(office, "w-1", "5").code == 2


def test_what_waits_under_another_policy_is_no_dead_end(office: Office, sandbox: RunningSandbox) -> None:
    sample = data.path("treasury_policy.toml")
    assert office.run("policy", "adopt", sample, *BY).code == 0
    office.run("stop", *BY, "--why", "a look first")
    assert withdraw(office, "w-1", "60").last.startswith("held")  # its address is new
    assert office.run("release", "w-1", *BY, "--why", "checked").code == 0
    assert office.run("rebalance", "--yes", "--follow", "1").code == 4
    office.run("stop", "--lift", *BY)
    other = sample.read_text().replace('USDT_TRC20 = "1000"', 'USDT_TRC20 = "50"', 1)
    assert adopt(office, other, name="other.toml").code == 0
    waiting = withdraw(office, "w-1", "60")
    assert (waiting.code, "waiting for an approval" in waiting.err) == (3, True)
    assert office.run("approve", "call-w-1", "--by", "Bert Example").code == 0
    assert withdraw(office, "w-1", "60").code == 0
    ended = office.run("rebalance", "--yes", "--follow", "1")
    assert "cancelled" in ended.last
    assert "another policy is in force" in next(iter(office.results(next_run(office)).values()))["reason"]
    assert paid(sandbox) == 1


def next_run(office: Office) -> str:
    [folder] = (office.home / "runs").glob("rebalance-*")
    return folder.name


def test_a_dry_run_says_what_the_day_has_no_room_for(office: Office) -> None:
    assert adopt(office, '[payouts.max_per_day]\nUSDT_TRC20 = "100"\n').code == 0
    first = office.sheet(("d1", "80", "12345670101"), name="first.csv")
    assert office.run("pay", first, "--run-key", "one", "--yes", "--follow", "20").code == 0
    second = office.sheet(("d2", "60", "12345670102"), name="second.csv")
    dry, start = (office.run("pay", second, "--run-key", "two", way) for way in ("--dry-run", "--yes"))
    assert (dry.code, start.code) == (2, 2)
    assert "80 count already, and this run adds 60" in dry.err
    assert office.run("pay", first, "--run-key", "one", "--dry-run").code == 0  # what is recorded counts once
