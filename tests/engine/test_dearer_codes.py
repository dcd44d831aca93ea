"""A QR code is asked about again right before it is paid: it must not cost more than its plan allows for."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.answers import ok
from tests.moved_clock import clock_of
from treasury.orders.states import State
from treasury.pay import payouts
from treasury.pay.payout_plans import PayRequest, make_plan
from treasury.payments.desk import Desk
from treasury.payments.execution import follow_orders, send_orders
from treasury.payments.offers import OfferQuestions, terms_of_code
from treasury.promptpay import build_promptpay

D = Decimal
CODE = build_promptpay("0812345678")
LINE = f"q,{CODE},100000,owner-1,https://hooks.example.com/p"


def cost(desk: Desk) -> Decimal:
    terms = terms_of_code(OfferQuestions(desk), CODE, D(100_000), "q")
    assert terms is not None
    return terms.amount + terms.fee


@pytest.mark.sqlite_alone
@pytest.mark.parametrize(
    ("said", "is_known"),
    [
        ({}, True),
        ({"amount": "100000.00", "fee_amount": None}, True),
        ({"amount": "1000"}, False),
        ({"order_amount": "0"}, False),
        ({"order_amount": "-3000"}, False),
        ({"fee_amount": "-1"}, False),
        ({"fee_amount": "0.00", "fee_currency": "THB"}, True),
        ({"fee_amount": "5", "fee_currency": "THB"}, False),
    ],
)
def test_terms_of_another_payment_are_none(
    open_desk: Callable[..., Desk], service: Any, said: dict[str, Any], is_known: bool
) -> None:
    """Its ceiling would be too low, and no limit would stop it."""
    terms = {"amount": "100000", "currency": "THB", "order_amount": "3000", "order_currency": "USDT", "fee_amount": "1"}
    service.plan("/v1/scanPay/info", ok(**{**terms, "fee_currency": "USDT", "exchange_rate": "33", **said}))
    found = terms_of_code(OfferQuestions(open_desk(service.base_url)), CODE, D(100_000), "q")
    assert (found is not None) is is_known


def recorded(desk: Desk, tmp_path: Path) -> list[int]:
    """A code that may cost what it costs now, and no more."""
    rules = tmp_path / "policy.toml"
    rules.write_text('[payouts]\nestimate_margin_percent = "0"\n')
    sheet = tmp_path / "codes.csv"
    sheet.write_text(f"row_ref,qrcode,amount,user_xid,notify_url\n{LINE}\n")
    made = make_plan(desk, PayRequest(sheet, "codes", rules, kind="scan-to-pay"))
    [ids] = payouts.commit_payouts(desk, made)
    return ids


def move_until(desk: Desk, *, dearer: bool) -> None:
    bound = desk.ledger.orders(run_key="codes")[0].bound
    assert bound is not None
    while (cost(desk) > bound) is not dearer:
        clock_of(desk).move(3600)


def test_one_that_was_lost_is_asked_about_and_not_sent_again_while_it_costs_more(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(balances={"USDT": D(9000)}, faults={"drop_before": 1.0}).base_url)
    ids = recorded(desk, tmp_path)
    send_orders(desk, "codes", ids)
    move_until(desk, dearer=True)
    for _ in range(4):
        follow_orders(desk, "codes", ids, 0)
    [order] = desk.ledger.orders(run_key="codes")
    assert (order.state, order.sends) == (State.UNKNOWN, 1)
    move_until(desk, dearer=False)
    for _ in range(4):
        follow_orders(desk, "codes", ids, 0)
    assert desk.ledger.orders(run_key="codes")[0].sends > 1


def test_it_waits_until_it_costs_no_more(open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(balances={"USDT": D(9000)})
    desk = open_desk(sandbox.base_url)
    ids = recorded(desk, tmp_path)
    move_until(desk, dearer=True)
    assert send_orders(desk, "codes", ids) == 0
    [order] = desk.ledger.orders(run_key="codes")
    assert (order.state, sandbox.orders()) == (State.PREPARED, [])
    assert order.reason is not None
    assert order.reason.startswith("its code costs ")
    written = paying.write(desk, "codes", tmp_path / "out")
    assert written["counts"] == {"not_sent": 1}
    assert "once it costs less" in (tmp_path / "out" / "results.csv").read_text()
    move_until(desk, dearer=False)
    assert send_orders(desk, "codes", ids) == 1
