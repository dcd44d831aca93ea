"""Releases and cancellations while the ledger is found to be older than the service: it is asked first."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.judged import PERSON, adopt, start
from tests.engine.meanwhile import meanwhile
from tests.engine.runs import sheet
from treasury.ledger.epoch import ABSENCES
from treasury.orders.records import Order
from treasury.orders.states import Hold
from treasury.payments import cancelling
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders

pytestmark = pytest.mark.both_databases

OpenDesk = Callable[..., Desk]


def test_a_release_at_the_moment_of_an_epoch_lets_nothing_leave_unasked(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    url = start_sandbox().base_url
    desk, other = open_desk(url), open_desk(url)
    adopt(desk, payouts={"new_payee_above": {"USDT_TRC20": "50"}})
    assert start(desk, sheet(tmp_path, ("a", "60", "12345670001")), "run") == {"a": "held"}
    with meanwhile("SELECT meta.value", lambda: other.begin_epoch("a test")):
        release_orders(desk, "a", None, **PERSON)
    [order] = desk.ledger.orders(reference="a")
    assert order.hold_kind == Hold.OLDER or order.absences_needed == ABSENCES


def test_what_is_cancelled_at_the_moment_of_an_epoch_is_asked_about_first(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = start_sandbox().base_url
    desk, other = open_desk(url), open_desk(url)
    adopt(desk, payouts={"new_payee_above": {"USDT_TRC20": "50"}})
    assert start(desk, sheet(tmp_path, ("a", "60", "12345670001")), "run") == {"a": "held"}
    asks, asked = desk.submission.known_at_service, list[str]()

    def begin_meanwhile(*_: Any) -> bool:
        other.begin_epoch("a test")
        return False

    def known(order: Order) -> Any:
        asked.append(order.row_ref)
        return asks(order)

    monkeypatch.setattr(desk.submission, "known_at_service", known)
    monkeypatch.setattr(cancelling, "_has_quote_of_others", begin_meanwhile)
    [decision] = cancelling.cancel(desk, "a", **PERSON).decisions
    assert (decision.done, asked) == (True, ["a"])
