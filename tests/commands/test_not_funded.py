"""A run is sent when its money is there: else it waits and says what it lacks, or leaves as far as it is funded."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.commands.office import Ended, Office, one_line_error
from tests.engine.rounds import available
from treasury.sandbox import RunningSandbox
from treasury.sandbox.behaviour import Behaviour

pytestmark = [pytest.mark.prefect, pytest.mark.no_real_pauses]

D = Decimal
OpenSandbox = Callable[..., RunningSandbox]
OpenOffice = Callable[..., Office]
ROWS = (("a", "300", "12345670001"), ("b", "400", "12345670101"), ("c", "500", "12345670201"))


@pytest.fixture
def open_one(open_sandbox: OpenSandbox, open_office: OpenOffice, prefect_url: str) -> Callable[..., Any]:
    """Opens a home at a sandbox that holds so much USDT_TRC20."""

    def one(held: str, **more: Any) -> tuple[Office, RunningSandbox]:
        sandbox = open_sandbox(balances={"USDT_TRC20": D(held)}, **more)
        return open_office(sandbox.base_url), sandbox

    return one


def pay(office: Office, *more: object, run_key: str = "run", rows: tuple[tuple[str, str, str], ...] = ROWS) -> Ended:
    return office.run("pay", office.sheet(*rows), "--run-key", run_key, "--yes", "--follow", "20", *more)


def outcomes(office: Office, run_key: str = "run") -> dict[str, tuple[str, str]]:
    return {ref: (row["outcome"], row["reason"]) for ref, row in office.results(run_key).items()}


def test_a_run_that_lacks_money_is_not_sent_and_says_what_it_lacks(open_one: Callable[..., Any]) -> None:
    office, sandbox = open_one("1195.9")
    ended = pay(office)
    assert (ended.code, ended.last) == (4, "0 settled, 3 not sent")
    assert set(outcomes(office).values()) == {("not_sent", "not funded: lacks 4.1 USDT_TRC20")}
    assert sandbox.orders() == []
    assert (pay(office).code, sandbox.orders()) == (4, [])
    sandbox.deposit("USDT_TRC20", "4.1")
    done = pay(office)
    assert (done.code, done.last) == (0, "3 settled")
    assert available(sandbox, "USDT_TRC20") == 0


def test_what_is_funded_leaves_in_the_order_of_the_sheet(open_one: Callable[..., Any]) -> None:
    office, sandbox = open_one("800")
    shown = office.run("pay", office.sheet(*ROWS), "--run-key", "run", "--partly", "--dry-run")
    assert "where the balance does not reach" in shown.out
    ended = pay(office, "--partly", rows=(*ROWS, ("d", "50", "12345670301")))
    assert (ended.code, ended.last) == (4, "2 settled, 2 not sent")
    said = outcomes(office)
    assert [ref for ref, (outcome, _) in said.items() if outcome == "settled"] == ["a", "b"]
    assert {said[ref] for ref in "cd"} == {("not_sent", "not funded: lacks 450 USDT_TRC20")}  # d overtakes nobody
    sandbox.deposit("USDT_TRC20", "460")
    done = pay(office, rows=(*ROWS, ("d", "50", "12345670301")))
    assert (done.code, done.last) == (0, "4 settled")


def test_a_balance_that_is_not_said_stops_a_run_unless_the_policy_says_otherwise(
    open_one: Callable[..., Any], tmp_path: Path
) -> None:
    office, _ = open_one("5000", behaviour=Behaviour(success_false=frozenset({"partner_balance"})))
    rules = tmp_path / "policy.toml"
    rules.write_text("[payouts]\nduplicate_days = 0\n")
    ended = pay(office, "--policy", rules)
    assert (ended.code, ended.last) == (4, "0 settled, 3 not sent")
    why = "not funded: the service does not say the balance of USDT_TRC20"
    assert set(outcomes(office).values()) == {("not_sent", why)}
    rules.write_text("[payouts]\nduplicate_days = 0\nsend_when_funding_is_unknown = true\n")
    assert pay(office, "--policy", rules).last == "3 settled"
    assert pay(office, run_key="more", rows=(("x", "7", "12345670401"),)).last == "1 settled"  # without a policy


def test_of_two_runs_the_one_that_was_recorded_first_has_the_money(open_one: Callable[..., Any]) -> None:
    office, sandbox = open_one("1000")
    assert pay(office).last == "0 settled, 3 not sent"  # 1200
    ended = pay(office, run_key="second", rows=(("x", "700", "12345670301"),))
    assert (ended.code, outcomes(office, "second")["x"]) == (4, ("not_sent", "not funded: lacks 900 USDT_TRC20"))
    assert office.run("cancel", "run", "--by", "Ada Example", "--why", "next month").code == 0
    assert pay(office, run_key="second", rows=(("x", "700", "12345670301"),)).last == "1 settled"
    assert available(sandbox, "USDT_TRC20") == 300


def approved_above(office: Office, amount: str) -> None:
    """The whole sheet is approved, for its run is above this amount, and waits for money."""
    rules = office.file("policy.toml", f'[payouts.one_approval_above]\nUSDT_TRC20 = "{amount}"\n')
    assert office.run("policy", "adopt", rules, "--by", "Ada Example").code == 0
    assert pay(office).code == 3
    assert office.run("approve", "run", "--by", "Ben Example").code == 0
    assert pay(office).last == "0 settled, 3 not sent"


def test_a_run_that_was_approved_as_a_whole_does_not_leave_in_parts(open_one: Callable[..., Any]) -> None:
    office, sandbox = open_one("800")
    approved_above(office, "100")
    ended = pay(office, "--partly")
    assert (ended.code, "was approved as a whole" in one_line_error(ended)) == (2, True)
    assert sandbox.orders() == []
    fund = office.run("pay", office.sheet(*ROWS), "--run-key", "x", "--partly", "--fund", "--yes")
    assert (fund.code, "choose one of them" in one_line_error(fund)) == (2, True)


def test_a_part_of_a_sheet_that_was_approved_as_a_whole_does_not_leave_alone(open_one: Callable[..., Any]) -> None:
    office, sandbox = open_one("800")
    approved_above(office, "350")
    below = pay(office, "--partly", rows=ROWS[:1])
    assert (below.code, "was approved as a whole" in one_line_error(below)) == (2, True)
    above = pay(office, rows=ROWS[1:2])
    assert (above.code, above.last) == (4, "0 settled, 1 not sent")
    assert ("lacks 400 USDT_TRC20" in above.out, "approved by Ben Example" in above.out) == (True, True)
    assert sandbox.orders() == []


def test_a_part_of_a_sheet_overtakes_no_row_that_waits_for_money(open_one: Callable[..., Any]) -> None:
    office, sandbox = open_one("200")
    assert pay(office, "--partly").last == "0 settled, 3 not sent"
    sandbox.deposit("USDT_TRC20", "450")
    assert pay(office, "--partly", rows=ROWS[1:2]).last == "0 settled, 1 not sent"  # a comes first
    assert pay(office, "--partly").last == "1 settled, 2 not sent"
    assert {outcome for outcome, _ in outcomes(office).values()} == {"settled", "not_sent"}
    assert available(sandbox, "USDT_TRC20") == 350
