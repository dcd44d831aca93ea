"""Payments that come back from a hold are judged by every other rule before they leave: none judged them meanwhile."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.judged import PERSON, adopt, start
from tests.engine.runs import sheet
from treasury.errors import ApprovalNeeded, NotConnected, PolicyChanged
from treasury.orders.states import Hold
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders
from treasury.provider.client import Signed
from treasury.provider.orders import Payout

OpenDesk = Callable[..., Desk]
NEW_ABOVE = {"new_payee_above": {"USDT_TRC20": "50"}}


def test_a_payee_that_is_not_new_any_more_is_not_paid_the_same_twice(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    adopt(desk, payouts=NEW_ABOVE)
    one = sheet(tmp_path, ("a", "60", "12345670001"))
    two = sheet(tmp_path, ("b", "60", "12345670001"), name="two.csv")
    assert (start(desk, one, "one"), start(desk, two, "two")) == ({"a": "held"}, {"b": "held"})
    release_orders(desk, "b", None, **PERSON)
    assert start(desk, two, "two") == {"b": "settled"}
    assert start(desk, one, "one") == {"a": "held"}
    [held] = desk.ledger.orders(reference="a")
    assert held.hold_kind == Hold.DUPLICATE
    assert len(sandbox.orders()) == 1


def test_a_payee_that_is_not_held_any_more_is_judged_by_the_limits_of_the_policy(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    adopt(desk, payouts=NEW_ABOVE)
    file = sheet(tmp_path, ("a", "60", "12345670001"))
    assert start(desk, file, "run") == {"a": "held"}
    adopt(desk, payouts={"max_per_payout": {"USDT_TRC20": "10"}})
    assert start(desk, file, "run") == {"a": "held"}
    [held] = desk.ledger.orders(reference="a")
    assert held.hold_kind == Hold.LIMIT
    assert sandbox.orders() == []


TWO = (("a", "60", "12345670001"), ("b", "60", "12345670002"))


@pytest.mark.both_databases
def test_rows_that_are_held_are_judged_by_the_approvals_of_another_policy_together(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    adopt(desk, payouts=NEW_ABOVE)
    whole = sheet(tmp_path, *TWO)
    assert start(desk, whole, "run") == {"a": "held", "b": "held"}
    adopt(desk, payouts={**NEW_ABOVE, "one_approval_above": {"USDT_TRC20": "100"}})
    with pytest.raises(PolicyChanged, match="whole sheet"):
        start(desk, sheet(tmp_path, TWO[0], name="part.csv"), "run")
    release_orders(desk, "run:run", None, **PERSON)
    with pytest.raises(ApprovalNeeded):
        start(desk, whole, "run")
    assert sandbox.orders() == []


def test_a_part_of_a_sheet_counts_what_its_run_debited_before(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    paid, held = ("a", "40", "12345670001"), ("b", "70", "12345670002")
    adopt(desk, payouts=NEW_ABOVE)
    assert start(desk, sheet(tmp_path, paid, held), "run") == {"a": "settled", "b": "held"}
    adopt(desk, payouts={**NEW_ABOVE, "max_per_run": {"USDT_TRC20": "100"}})
    release_orders(desk, "b", None, **PERSON)
    assert start(desk, sheet(tmp_path, held, name="part.csv"), "run") == {"a": "settled", "b": "held"}
    [order] = desk.ledger.orders(reference="b")
    assert "the run debits 110 USDT_TRC20" in str(order.reason)
    assert len(sandbox.orders()) == 1


def test_what_made_no_connection_is_judged_by_the_payees_of_another_policy(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    adopt(desk, payouts={"new_payee_above": {"USDT_TRC20": "100"}})
    file, transmit = sheet(tmp_path, ("a", "60", "12345670001")), desk.client.transmit

    def breaks(signed: Signed[Any]) -> Any:
        if isinstance(signed.operation, Payout):
            raise NotConnected("nobody listens")
        return transmit(signed)

    with monkeypatch.context() as broken:
        broken.setattr(desk.client, "transmit", breaks)
        assert start(desk, file, "run") == {"a": "not_sent"}
    adopt(desk, payouts=NEW_ABOVE)
    assert start(desk, file, "run") == {"a": "held"}
    [held] = desk.ledger.orders()
    assert (held.hold_kind, held.sends > 0, sandbox.orders()) == (Hold.PAYEE, True, [])
    release_orders(desk, "a", None, **PERSON)
    assert start(desk, file, "run") == {"a": "settled"}
