"""Starts that an error ends after they sent something: each says what it did, where it is written, what is next."""

from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from tests.commands.office import PATIENCE, Ended, Office, eventually
from tests.engine.funded import PAYOUTS, ROWS
from tests.engine.rounds import kinds, policy
from treasury.ledger.policies import adopt_policy
from treasury.policy_file import read_policy
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

D = Decimal
BTC = ("0.2", "0.4", "0.9")
BY = ("--by", "Owner")


def ended_by_another_policy(
    office: Office, sandbox: RunningSandbox, rules: Path, begun: Callable[[], bool], *line: object
) -> Ended:
    """A start, while which somebody puts another policy in force."""
    assert office.run("policy", "adopt", rules, *BY).code == 0
    other = rules.with_name("other.toml")
    other.write_text(rules.read_text().replace('min_trade = "10"', 'min_trade = "11"'))
    with office.running(*line) as process, closing(office.desk()) as desk:
        eventually(begun, PATIENCE)
        adopt_policy(desk.ledger, read_policy(other), "other.toml", by="Owner", os_user="owner")
        out, err = process.communicate(timeout=120)
    return Ended(process.returncode, out, err)


@pytest.mark.costly("a command as a process, and a run")
def test_a_policy_that_is_adopted_after_the_conversions(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], tmp_path: Path
) -> None:
    sandbox = open_sandbox(balances={"USDT": D(5000), "BTC": D("0.8"), "USDT_TRC20": D(200)}, settle_seconds=6)
    office, rules = open_office(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    line = ("pay", office.sheet(*ROWS), "--run-key", "payroll", "--yes", "--fund", "--follow", "20")
    ended = ended_by_another_policy(office, sandbox, rules, lambda: bool(kinds(sandbox)), *line)
    assert (ended.code, ended.last) == (4, "0 settled, 3 not sent"), ended.out + ended.err
    assert (
        "conversions: 1 settled; run payroll: 0 settled, 3 not sent; then: run payroll was recorded under" in ended.err
    )
    assert "nothing was sent" not in ended.err
    assert [row["outcome"] for row in office.results("payroll").values()] == ["not_sent"] * 3
    assert [row["outcome"] for row in office.results("payroll", "funding/results.csv").values()] == ["settled"]
    again = office.run(*line)
    assert (again.code, again.last) == (0, "3 settled"), again.out + again.err
    assert kinds(sandbox).count("conversion_execute") == 1


@pytest.mark.costly("a command as a process, and 300 rows twice")
def test_a_policy_that_is_adopted_between_payments(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], tmp_path: Path
) -> None:
    sandbox = open_sandbox(balances={"USDT_TRC20": D(50_000)}, faults={"slow": 1.0}, slow_seconds=0.2)
    office, rules = open_office(sandbox.base_url), policy(tmp_path, tail="[payouts]\nduplicate_days = 0\n", BTC=BTC)
    rows = [(f"r{number}", "1", f"1234{number:07}") for number in range(100, 400)]
    line = ("pay", office.sheet(*rows), "--run-key", "payroll", "--yes", "--follow", "20")
    ended = ended_by_another_policy(office, sandbox, rules, lambda: len(kinds(sandbox)) > 20, *line)
    assert ended.code == 4, ended.out + ended.err
    assert "not sent" in ended.last
    assert "put another policy in force: nothing more was sent" in ended.err
    outcomes = [row["outcome"] for row in office.results("payroll").values()]
    assert len(outcomes) == 300
    assert 0 < outcomes.count("not_sent") < 280
    again = office.run(*line)
    assert (again.code, len(kinds(sandbox))) == (0, 300), again.out + again.err


def test_a_second_round_that_waits_for_an_approval(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], tmp_path: Path
) -> None:
    sandbox = open_sandbox(balances={"USDT": D(600), "BTC": D(1), "DOGE": D(0)})
    office = open_office(sandbox.base_url)
    tail = '[conversions.one_approval_above]\nUSDT = "10"\n'
    rules = policy(tmp_path, tail=tail, BTC=("0.2", "0.4", "0.6"), DOGE=("1000", "2000", "4000"))
    assert office.run("policy", "adopt", rules, *BY).code == 0
    waits = office.run("rebalance", "--yes", "--follow", "20")
    assert waits.code == 3, waits.out + waits.err
    assert "1 settled, 1 not sent; then: run rebalance-" in waits.err
    assert "nothing was sent" not in waits.err
    assert "results.csv" in waits.out
    [folder] = (office.home / "runs").glob("rebalance-*")
    rows = {row["row_ref"]: row for row in office.results(folder.name).values()}
    assert rows["sell-BTC"]["outcome"] == "settled"
    assert "needs 1 approval" in rows["buy-DOGE"]["reason"]
    assert "then rebalance again" in rows["buy-DOGE"]["next_action"]
    [key] = [word for word in office.run("approvals").out.split() if word.startswith("rebalance-")]
    assert office.run("approve", key, "--by", "Checker").code == 0
    done = office.run("rebalance", "--yes", "--follow", "20")
    assert done.code == 0, done.out + done.err
    assert kinds(sandbox) == ["conversion_execute"] * 2
