"""A payment that is held because the service may have it is not paid again under another run key."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.judged import PERSON, adopt, start
from tests.engine.runs import sheet
from treasury.orders.states import Hold
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders

OpenDesk = Callable[..., Desk]
ROW = ("a", "40", "12345670001")


@pytest.mark.both_databases
def test_what_waited_when_a_ledger_was_found_to_be_older_is_not_paid_under_another_run_key(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    paying.commit(desk, sheet(tmp_path, ROW), "one")
    desk.begin_epoch("a test")
    for _ in range(3):  # in an epoch each row is asked about twice
        assert start(desk, sheet(tmp_path, ROW, name="two.csv"), "two") == {"a": "held"}
    first, second = desk.ledger.orders()
    assert (first.hold_kind, second.hold_kind) == (Hold.OLDER, Hold.DUPLICATE)
    assert first.request_id in str(second.reason)
    assert sandbox.orders() == []


def test_what_a_restored_ledger_forgot_to_have_paid_is_not_paid_under_another_run_key(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    url = f"sqlite:///{tmp_path / 'home.db'}"
    desk = open_desk(sandbox.base_url, ledger=url)
    paying.commit(desk, sheet(tmp_path, ROW), "one")
    desk.close()
    shutil.copy(tmp_path / "home.db", tmp_path / "backup.db")
    desk = open_desk(sandbox.base_url, ledger=url)
    assert start(desk, sheet(tmp_path, ROW), "one") == {"a": "settled"}
    desk.close()
    shutil.copy(tmp_path / "backup.db", tmp_path / "home.db")
    desk = open_desk(sandbox.base_url, ledger=url)
    for _ in range(3):
        assert start(desk, sheet(tmp_path, ROW, name="two.csv"), "two") == {"a": "held"}
    assert len(sandbox.orders()) == 1


def test_what_the_service_knows_is_not_paid_under_another_run_key(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    assert start(open_desk(sandbox.base_url), sheet(tmp_path, ROW), "one") == {"a": "settled"}
    other = open_desk(sandbox.base_url, ledger=f"sqlite:///{tmp_path / 'other.db'}")
    assert start(other, sheet(tmp_path, ROW), "one") == {"a": "held"}
    for _ in range(3):
        assert start(other, sheet(tmp_path, ROW, name="two.csv"), "two") == {"a": "held"}
    first, second = other.ledger.orders()
    assert (first.hold_kind, second.hold_kind) == (Hold.KNOWN, Hold.DUPLICATE)
    assert len(sandbox.orders()) == 1


@pytest.mark.both_databases
@pytest.mark.parametrize("how", ["by a person", "by the policy"])
def test_what_comes_back_from_a_hold_is_compared_with_all_that_is_about_to_leave(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, how: str
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    adopt(desk, payouts={"new_payee_above": {"USDT_TRC20": "30"}})
    one, two = sheet(tmp_path, ROW), sheet(tmp_path, ("b", *ROW[1:]), name="two.csv")
    assert start(desk, one, "one") == {"a": "held"}
    if how == "by a person":
        assert start(desk, two, "two") == {"b": "held"}
        release_orders(desk, "b", None, **PERSON)
        [ids] = paying.commit(desk, two, "two")  # it is about to leave
        release_orders(desk, "a", None, **PERSON)
    else:
        adopt(desk, payouts={"new_payee_above": {"USDT_TRC20": "50"}})
        [ids] = paying.commit(desk, two, "two")
    assert start(desk, one, "one") == {"a": "held"}
    [held] = desk.ledger.orders(reference="a")
    assert held.hold_kind == Hold.DUPLICATE
    execution.send_orders(desk, "two", ids)
    assert start(desk, two, "two") == {"b": "settled"}
    assert len(sandbox.orders()) == 1
