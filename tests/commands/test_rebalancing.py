"""`treasury rebalance` as a treasurer leaves it alone: days, second starts, costs, explanations."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.commands.office import Ended, Office
from tests.engine.rounds import available, policy
from treasury.sandbox import RunningSandbox

pytestmark = [pytest.mark.prefect, pytest.mark.no_real_pauses]

D = Decimal
BTC = ("0.2", "0.4", "0.6")
DOGE = ("1000", "2000", "4000")


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox(balances={"USDT": D(600), "BTC": D(1), "DOGE": D(0), "USDT_TRC20": D(10_000)})


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office], prefect_url: str) -> Office:
    return open_office(sandbox.base_url)


def decisions(office: Office) -> dict[str, object]:
    [file] = (office.home / "runs").glob("rebalance-*/decisions.json")
    return dict(json.loads(file.read_text()))


def flow(office: Office, call: str) -> Ended:
    return office.python(f"from flows.rebalance_treasury import rebalance_treasury\nprint({call})\n")


def test_a_day_of_two_starts_is_told_as_it_was(office: Office, sandbox: RunningSandbox, tmp_path: Path) -> None:
    rules = policy(tmp_path, BTC=BTC, DOGE=DOGE)
    dry = office.run("rebalance", "--policy", rules, "--dry-run")
    assert (dry.code, dry.last) == (0, "1 trade planned, nothing was traded")
    assert "once what pays for it is settled" in dry.out
    assert dry.out.startswith(f"policy: {rules}, for none is in force\n")
    assert sandbox.orders() == []
    first = office.run("rebalance", "--policy", rules, "--yes", "--follow", "20")
    assert (first.code, first.last) == (0, "2 settled"), first.out + first.err
    assert (available(sandbox, "BTC"), available(sandbox, "DOGE") >= 1000) == (D("0.6"), True)
    assert first.out.count("/decisions.json\n") == 1
    again = office.run("rebalance", "--policy", rules, "--yes", "--follow", "20")
    assert (again.code, again.last) == (0, "2 settled"), again.out + again.err
    assert "today so far: 2 settled" in again.out
    assert "BTC: nothing to do, because 0.6 is inside its band, 0.2 to 0.6" in again.out
    sandbox.deposit("BTC", "1")
    noon = office.run("rebalance", "--policy", rules, "--yes", "--follow", "20")
    assert (noon.code, noon.last) == (0, "1 settled"), noon.out + noon.err
    assert available(sandbox, "BTC") == D("0.6")
    rows = office.results(next((office.home / "runs").glob("rebalance-*")).name)
    assert [row["outcome"] for row in rows.values()] == ["settled"] * len(rows)
    [kept] = (office.home / "runs").glob("rebalance-*/decisions.json")
    newest = kept.read_text()
    sandbox.deposit("BTC", "1")
    assert office.run("rebalance", "--policy", rules, "--dry-run").code == 0
    assert kept.read_text() == newest  # what a dry start decided stands in its own folder alone
    assert len(list(kept.parent.glob("starts/*/decisions.json"))) == 5
    sandbox.deposit("BTC", "-1")
    costs = office.run("rebalance", "--costs")
    assert costs.last.startswith("3 trades settled, cost ")
    assert {"BTC-USDT", "DOGE-USDT"} <= set(costs.out.split())
    key = str(decisions(office)["run_key"])
    explained = office.run("rebalance", "--explain", key)
    assert (explained.code, explained.last) == (0, f"{key}: planned again from its decisions, with the same result")
    assert office.run("rebalance", "--explain", "rebalance-1999-01-01").code == 2


def test_trades_have_the_value_date_of_their_policy(office: Office, tmp_path: Path) -> None:
    """Their run key has the day of the policy's time zone, where that of UTC is another one."""
    zone = "Pacific/Kiritimati" if datetime.now(UTC).hour >= 10 else "Pacific/Pago_Pago"  # 14 h ahead, 11 h behind
    rules = policy(tmp_path, BTC=BTC)
    said = f'no_limits = "a test"\ntime_zone = "{zone}"'
    rules.write_text(re.sub('time_zone = ".*"', said, rules.read_text()))
    assert office.run("policy", "adopt", rules, "--by", "Ada Example").code == 0
    assert office.run("rebalance", "--yes", "--follow", "20").last == "1 settled"
    [run_key] = [each.name for each in (office.home / "runs").glob("rebalance-*")]
    for _ in range(2):
        dates = {f"rebalance-{row['value_date']}" for row in office.results(run_key).values()}
        assert dates == {run_key}
        assert office.run("results", run_key).code == 0


def test_what_was_wanted_and_not_done_ends_with_four_and_says_what(
    office: Office, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    rules = policy(tmp_path, BTC=BTC, NOCOIN=("1", "2", "3"))
    ended = office.run("rebalance", "--policy", rules, "--yes", "--follow", "20")
    assert (ended.code, ended.last) == (4, "1 settled, 1 not sent"), ended.out + ended.err
    [row] = [
        row
        for row in office.results(next((office.home / "runs").glob("rebalance-*")).name).values()
        if row["outcome"] == "not_sent"
    ]
    assert (row["row_ref"], "could not be had" in row["reason"]) == ("buy-NOCOIN", True)


def test_a_dry_start_proposes_nothing(office: Office, sandbox: RunningSandbox, tmp_path: Path) -> None:
    rules = policy(tmp_path, tail='[conversions.one_approval_above]\nUSDT = "10"\nBTC = "0.01"\n', BTC=BTC)
    assert office.run("policy", "adopt", rules, "--by", "A Tester").code == 0
    dry = office.run("rebalance", "--dry-run")
    assert dry.out.startswith("policy: the one in force, ")
    assert (dry.code, dry.last) == (0, "1 trade planned, nothing was traded"), dry.err
    assert "rebalance-" not in office.run("approvals").out
    assert office.run("rebalance", "--yes").code == 3
    assert "rebalance-" in office.run("approvals").out


def test_the_deployed_flow_does_the_same(office: Office, sandbox: RunningSandbox, tmp_path: Path) -> None:
    rules = policy(tmp_path, BTC=BTC, DOGE=DOGE)
    call = f"rebalance_treasury({str(rules)!r}, follow_seconds=20)['counts']"
    ended = flow(office, call)
    assert ended.out.strip().endswith("{'settled': 2}"), ended.out + ended.err
    again = flow(office, call)
    assert again.out.strip().endswith("{}"), again.out + again.err
    assert len(sandbox.orders()) == 2


def test_an_old_balances_file_is_refused_where_it_stands(
    office: Office, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    rules = policy(tmp_path, BTC=BTC)
    old = office.file("balances.csv", "currency,available,as_of\nUSDT,5000,2019-06-08\nBTC,9,2019-06-08\n")
    refused = office.run("rebalance", "--policy", rules, "--balances", old, "--yes")
    assert (refused.code, "too old" in refused.err, "2019-06-08" in refused.err) == (2, True, True), refused.err
    assert sandbox.orders() == []
