"""Held payments count on no day, unless they may have left; once released they are judged by the day's account again.

A payment that may be quoted again counts at its ceiling.
"""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine import answers, paying
from tests.engine.judged import PERSON, adopt, start
from tests.engine.runs import sheet
from tests.moved_clock import clock_of
from treasury.errors import LimitExceeded
from treasury.ledger.debits import recorded_debits
from treasury.ledger.intents import commit_plan
from treasury.orders.payment_decisions import Bounds
from treasury.orders.records import Intent
from treasury.orders.states import Hold, State
from treasury.payments.desk import Desk
from treasury.payments.governing import govern
from treasury.payments.resolving import release_orders

OpenDesk = Callable[..., Desk]


@pytest.mark.both_databases
def test_what_was_held_is_judged_by_the_day_again_once_it_is_released(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, payouts={"max_per_day": {"USDT_TRC20": "100"}, "new_payee_above": {"USDT_TRC20": "50"}})
    new = sheet(tmp_path, ("a", "60", "12345670001"))
    assert start(desk, new, "new") == {"a": "held"}
    assert start(desk, sheet(tmp_path, ("b", "50", "12345670002"), name="b.csv"), "other") == {"b": "settled"}
    release_orders(desk, "a", None, **PERSON)
    assert start(desk, new, "new") == {"a": "held"}
    [held] = desk.ledger.orders(reference="a")
    assert held.hold_kind == Hold.LIMIT
    assert "50 count already, and it adds 60" in str(held.reason)


def test_a_duplicate_that_its_row_excuses_is_judged_by_the_day_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, payouts={"max_per_day": {"USDT_TRC20": "100"}})
    row = ("a", "40", "12345670001")
    assert start(desk, sheet(tmp_path, row), "first") == {"a": "settled"}
    assert start(desk, sheet(tmp_path, row), "again") == {"a": "held"}
    assert start(desk, sheet(tmp_path, ("b", "60", "12345670002"), name="b.csv"), "other") == {"b": "settled"}
    assert start(desk, sheet(tmp_path, row, why="paid twice"), "again") == {"a": "held"}
    [held] = desk.ledger.orders(run_key="again")
    assert held.hold_kind == Hold.LIMIT


def test_what_is_held_because_the_service_knows_it_counts_on_its_day(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    desk = open_desk(service.base_url)
    adopt(desk, payouts={"max_per_day": {"USDT_TRC20": "100"}})
    service.plan(answers.QUERY, answers.shown(22, order_amount="60", currency="USDT_TRC20"))
    assert start(desk, sheet(tmp_path, ("a", "60", "12345670001")), "one") == {"a": "held"}
    [held] = desk.ledger.orders()
    assert held.hold_kind == Hold.KNOWN
    with pytest.raises(LimitExceeded, match="60 count already, and this run adds 50"):
        paying.commit(desk, sheet(tmp_path, ("b", "50", "12345670002"), name="b.csv"), "two")


def dest_payout() -> Intent:
    """A payout that fixes what is received, and may debit 110 at the most."""
    quote = {**answers.fiat_payout().payload["quote"], "quote_mode": "dest", "receive_amount": "95.00"}
    del quote["pay_amount"]
    bounds = Bounds("USDT", "EUR", receive_amount=Decimal("95.00"), max_pay=Decimal(110))
    payload = {"quote": quote, "confirm": {"purpose_code": "30"}, "bounds": bounds.as_dict()}
    received: dict[str, Any] = {"receive_currency": "EUR", "receive_amount": Decimal("95.00")}
    return Intent("a", "create_fiat_payout", payload, payload, "USDT", ceiling=Decimal(110), **received)


def test_what_may_be_quoted_again_counts_at_its_ceiling(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    adopt(desk, payouts={"max_per_day": {"USDT": "200"}})
    rules = govern(desk).rules(desk, "payouts", {}, {})
    service.plan(answers.QUOTE, answers.fiat_quote(pay_amount="90.00"), answers.fiat_quote(pay_amount="110.00"))
    service.plan(answers.CREATE, "drop", lambda body: answers.ok(order_no=body["order_no"], status=22))
    service.plan(answers.FIAT_QUERY, answers.ABSENT)
    commit_plan(desk.ledger, "one", "payout", {}, "0" * 64, [dest_payout()], rules)
    [order] = desk.ledger.orders()
    order = desk.submission.submit(order)
    assert (order.state, order.amount) == (State.UNKNOWN, Decimal("90.00"))
    assert recorded_debits(desk.ledger, "one").sums == {"USDT": Decimal(110)}
    more = Intent("b", "payout", answers.PAYOUT_FIELDS, answers.PAYOUT_FIELDS, "USDT", Decimal(110))
    with pytest.raises(LimitExceeded, match="110 count already"):
        commit_plan(desk.ledger, "two", "payout", {}, "1" * 64, [more], rules)
    for _ in range(3):
        clock_of(desk).move(700)
        order = desk.submission.submit(order)
    assert (order.state, order.amount) == (State.ACCEPTED, Decimal("110.00"))
