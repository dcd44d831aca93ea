"""When an operation debits a balance: what `debited_when` says is believed, and the ledger's own nights propose it."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.nights import DAY, ROWS, OpenDesk, balance, classes, take
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.payments.desk import Desk
from treasury.provider.service_rules import ServiceRules
from treasury.proving.access import Proof, ProofVerdict
from treasury.proving.history import judge_debits, lone_orders
from treasury.reconciliation.balances import Flows, Night
from treasury.sandbox.behaviour import Behaviour

D = Decimal
WHEN = {"payout": "accepted"}


def proof_of(desk: Desk) -> Proof:
    return judge_debits(desk.account.rules, desk.ledger)


def on_its_way(desk: Desk, folder: Path) -> None:
    """One payment settles, a night opens the account, and another payment stays on its way."""
    pay(desk, sheet(folder, ROWS[0]), folder / "out", seconds=20)
    assert night(desk, folder / "0")["verdict"] == "reconciled"
    clock_of(desk).move(DAY)
    pay(desk, sheet(folder, ROWS[2], name="open.csv"), folder / "open", "open", seconds=0)


@pytest.mark.both_databases
def test_a_service_that_debits_at_once_is_found_out_and_then_an_open_order_hides_nothing(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1, behaviour=Behaviour(debited_when="accepted"))
    desk = open_desk(sandbox.base_url)
    on_its_way(desk, tmp_path)
    shown = balance(night(desk, tmp_path / "1"))
    assert (shown["explained_low"], shown["explained_high"], shown["change"]) == ("-30", "0", "-30")
    proof = proof_of(desk)
    assert (proof.verdict, proof.proposed) == (ProofVerdict.OPEN, WHEN)
    desk.close()
    desk = open_desk(sandbox.base_url, service=ServiceRules(debited_when=WHEN))
    take(desk, "by-hand", "5")
    report = night(desk, tmp_path / "2")
    assert (report["verdict"], balance(report)["unexplained"], balance(report)["note"]) == ("breaks", "-5", "")
    assert proof_of(desk).verdict is ProofVerdict.PROVEN  # by the first of the two nights


def test_a_rule_that_is_wrong_makes_a_lot_of_what_is_on_its_way_and_names_the_setting(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1, behaviour=Behaviour(debited_when="accepted"))
    desk = open_desk(sandbox.base_url, service=ServiceRules(debited_when={"payout": "final"}))
    on_its_way(desk, tmp_path)
    report = night(desk, tmp_path / "1")
    [found] = report["breaks"]
    assert classes(report) == {"USDT_TRC20": "balance_gap new"}
    assert "see debited_when in the account's [service]" in found["evidence"]


def test_what_debits_when_it_is_final_widens_no_range(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url, service=ServiceRules(debited_when={"payout": "final"}))
    on_its_way(desk, tmp_path)
    take(desk, "by-hand", "5")
    report = night(desk, tmp_path / "1")
    shown = balance(report)
    assert (shown["explained_low"], shown["explained_high"], shown["unexplained"]) == ("0", "0", "-5")


def opened(at: int, shown: str, *, frozen: str | None = None, **flows: Any) -> Night:
    return Night(at, D(shown), flows=Flows(**flows), frozen=None if frozen is None else D(frozen))


ONE: dict[str, Any] = {"in_flight": D(30), "open_orders": 1, "open_named": ("tf-a",)}


@pytest.mark.parametrize(
    ("night_of_it", "said"),
    [
        (opened(2, "70", **ONE), ["accepted"]),
        (opened(2, "100", **ONE), ["final"]),
        (opened(2, "100", frozen="30", **ONE), ["final"]),
        (opened(2, "85", **ONE), []),  # something else moved, too
        (opened(2, "60", **ONE), []),
        (opened(2, "70", **{**ONE, "open_orders": 2}), []),
        (opened(2, "100"), []),
    ],
)
def test_only_a_night_on_which_one_order_alone_explains_the_balance_says_when_it_debits(
    night_of_it: Night, said: list[str]
) -> None:
    assert [when for _, when in lone_orders({"USDT": [opened(1, "100"), night_of_it]})] == said
