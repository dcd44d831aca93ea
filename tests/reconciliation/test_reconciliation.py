"""Every order in exactly one class, and a verdict that is never better than the worst of them."""

import itertools
import random
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

from tests.proofs import ALL
from tests.reconciliation.arrivals import ARRIVALS
from tests.reconciliation.parts import in_parts
from tests.reconciliation.sides import AS_OF, HOUR, absent, side
from treasury.orders.states import State
from treasury.reconciliation.classes import BY_NAME, CLASSES, UNREMARKABLE, Verdict
from treasury.reconciliation.findings import of_card_users, of_notices, of_receipts
from treasury.reconciliation.report import ReconciliationInput, build_report
from treasury.reconciliation.sides import COLUMNS
from treasury.reports.machine import as_machine, funnel_of
from treasury.reports.reconciliation import as_markdown

D = Decimal


def report(*rows: dict[str, Any]) -> dict[str, Any]:
    frame = pd.DataFrame(list(rows), columns=list(COLUMNS), dtype=object)
    return as_machine(build_report(ReconciliationInput(AS_OF, in_parts(frame))))


CONVERTED = {"operation": "conversion_execute", "seen_fee": "1"}
BOUGHT = CONVERTED | {"receive_currency": "BTC", "receive_amount": "5", "fee": "1", "fee_currency": "BTC"}
"""A conversion as most are: its fee is taken from what it brings."""

CASES = [
    ("in_progress", side()),
    ("in_progress", side(status=11)),
    ("in_progress", side(state="unknown")),
    ("in_progress", absent(state="prepared")),
    ("in_progress", absent(state="held")),
    ("matched", side(status=99)),
    ("matched", side(state="settled", status=99)),
    ("matched", side(state="failed", status=44)),
    ("matched", side(state="closed", status=88)),
    ("matched", side(state="unknown", status=99)),
    ("matched", absent(state="rejected")),
    ("matched", absent(state="settled", operation="conversion_execute")),
    ("in_progress", absent(operation="conversion_execute")),
    ("unknown_outcome", absent(state="unknown", operation="conversion_execute")),
    ("quote_expired_unused", absent(state="superseded", operation="create_fiat_payout")),
    ("quote_expired_unused", side(state="superseded", operation="create_fiat_payout", status=11)),
    ("unknown_outcome", absent(state="unknown")),
    ("unknown_outcome", absent(state="sending")),
    ("unknown_outcome", side(state="unknown", operation="create_fiat_payout", status=11)),
    ("unknown_outcome", side(state="unknown", operation="create_fiat_payout", status=12)),
    ("missing_at_service", absent()),
    ("missing_at_service", absent(state="settled")),
    ("missing_at_service", absent(state="failed")),
    ("amount_mismatch", side(status=99, seen_amount=D("9.99"))),
    ("amount_mismatch", side(state="settled", status=99, seen_amount=D("10.000000000000000001"))),
    ("amount_mismatch", side(receive_amount=D(5), seen_receive_amount=D(6))),
    ("currency_mismatch", side(status=99, seen_currency="USDC")),
    ("currency_mismatch", side(status=99, seen_currency="USDC", seen_amount=D(9))),
    ("currency_mismatch", side(seen_receive_currency="EUR")),
    ("reversed_after_final", side(state="settled", status=44)),
    ("reversed_after_final", side(state="settled", status=88)),
    ("reversed_after_final", side(state="failed", status=88)),
    ("orphan_success", side(state="failed", status=99)),
    ("orphan_success", side(state="closed", status=99)),
    ("orphan_success", side(state="rejected", status=99)),
    ("orphan_success", side(state="held", status=99)),
    ("orphan_success", side(state="superseded", operation="create_fiat_payout", status=99)),
    ("orphan_success", absent(state="failed", line_orders=1, line_status=99)),
    ("duplicate_effect", side(state="settled", status=99, known_order_no="P0")),
    ("other_record", side(state="unknown", status=99, seen_request_id="r9")),
    ("amount_mismatch", side(status=99, seen_fee="1", arrive_amount="10.01")),
    ("duplicate_effect", side(state="settled", status=99, line_orders=2)),
    ("matched", side(state="settled", status=99, known_order_no="P1", line_orders=1, line_status=99)),
    ("amount_mismatch", side(state="settled", status=99, line_orders=1, line_amount="10.01")),
    ("currency_mismatch", side(state="settled", status=99, line_orders=1, line_currency="USDC")),
    ("status_conflict", side(state="settled", status=99, line_orders=1, line_status=44)),
    ("missing_in_statement", side(state="settled", status=99, line_lacks=True)),
    ("statement_variance", side(state="settled", status=99, line_is_off=True)),
    ("changed_in_ledger", side(state="settled", status=99, changed="its steps")),
    ("statement_variance", side(state="settled", status=99, seen_fee="1", line_fee="2")),
    ("partial", side(status=99, seen_fee="1", arrive_amount="8.99")),
    ("above_bound", side(status=99, bound="9.99")),
    ("above_bound", side(status=22, operation="submit_scan_to_pay", amount=None, seen_amount="10.01", bound="10")),
    ("matched", side(status=99, seen_fee="1", bound="10")),
    ("matched", side(state="failed", status=44, bound="1")),
    ("matched", side(status=99, seen_fee="1", arrive_amount="9")),
    ("matched", side(status=99, seen_fee="1", seen_fee_currency="ETH", arrive_amount="8.99")),
    ("matched", side(status=99, **CONVERTED, receive_amount="8.99", arrive_amount="8.990")),
    ("matched", side(status=99, **CONVERTED, receive_amount="5000", arrive_amount="5000")),
    ("partial", side(status=99, **CONVERTED, receive_amount="8.99", arrive_amount="8.98")),
    ("amount_mismatch", side(status=99, **CONVERTED, receive_amount="8.99", arrive_amount="5000")),
    ("amount_mismatch", side(status=99, **BOUGHT, arrive_amount="4.99")),
    ("amount_mismatch", side(status=99, **BOUGHT, arrive_amount="5.01")),
    ("amount_mismatch", side(status=99, **BOUGHT | {"seen_fee": None}, arrive_amount="0")),
    ("amount_mismatch", side(status=99, **BOUGHT, seen_receive_amount="5", seen_amount=None, arrive_amount="4.99")),
    *(("matched", side(status=99, **BOUGHT, arrive_amount=each)) for each in ("5.0", "10", "9", None)),
    ("in_progress", side(**BOUGHT, arrive_amount="4.99")),
    ("in_progress", side(seen_fee="1", arrive_amount="8.99")),
    ("fee_variance", side(status=99, fee="0.1", fee_currency="USDT", seen_fee="0.105001")),
    ("fee_variance", side(status=99, fee="0.1", fee_currency="USDT", seen_fee="0")),
    ("matched", side(status=99, operation="conversion_execute", fee="3", fee_currency="ETH", seen_fee="0")),
    ("matched", side(status=99, fee="0.1", fee_currency="USDT", seen_fee="0.105")),
    ("matched", side(status=99, fee="0.1", fee_currency="USDT", seen_fee="0.095")),
    ("fee_variance", side(status=99, fee="0.1", fee_currency="USDT", seen_fee="0.1", seen_fee_currency="IDR")),
    ("rate_variance", side(status=99, rate="1000", seen_rate="1000.51")),
    ("matched", side(status=99, rate="1000", seen_rate="999.5")),
    ("pending_late", side(sent_at=AS_OF - 72 * HOUR - 1)),
    ("in_progress", side(sent_at=AS_OF - 72 * HOUR)),
    ("pending_late", absent(state="held", sent_at=None, created_at=AS_OF - 73 * HOUR)),
    ("pending_late", side(operation="withdraw", sent_at=AS_OF - 25 * HOUR)),
    ("unreadable_metadata", side(status=99, unreadable="metadata")),
    ("status_conflict", side(state="settled", status=22)),
    ("status_conflict", side(state="failed", status=11)),
    ("status_conflict", side(state="rejected", status=22)),
    ("status_conflict", side(state="prepared", status=22)),
    ("status_conflict", side(state="superseded", operation="create_fiat_payout", status=22)),
    ("unclassified_status", side(status=12)),
    ("unclassified_status", side(status=None)),
    ("unclassified_status", side(state="settled", status=12)),
    ("unclassified_status", side(state="failed", status=55)),
    ("query_failed", side(answer="failed", status=None)),
    ("query_failed", side(answer=None, status=None)),
]


@pytest.mark.parametrize(("name", "row"), CASES)
def test_an_order_is_in_the_class_of_what_happened_to_it(name: str, row: dict[str, Any]) -> None:
    said = report(row)
    assert said["counts"] == {name: 1}
    assert said["verdict"] == BY_NAME[name].verdict
    if name in UNREMARKABLE:
        assert said["breaks"] == []
    else:
        [found] = said["breaks"]
        assert (found["class"], found["request_id"]) == (name, "r1")
        assert found["evidence"].startswith(f"ledger: {row['state']}")


def user(status: str | None, **more: Any) -> dict[str, Any]:
    """A card user who is found with a status, known for ten days."""
    days = {"first_at": AS_OF - 240 * HOUR, "since": AS_OF - 240 * HOUR, "passed_at": None, "passed_level": None}
    seen = {"answer": "found", "seen_kyc_status": status, "seen_kyc_level": None}
    return {"request_id": "card user u", "user_xid": "u", "kyc_status": "0", **days, **seen, **more}


PASSED_ONCE = {"passed_at": AS_OF - 100 * HOUR, "passed_level": "2"}

USERS: list[tuple[str | None, dict[str, Any]]] = [
    ("kyc_refused", user("4")),
    ("kyc_unused", user("0")),
    ("kyc_unused", user(None, first_at=AS_OF - 7 * 24 * HOUR)),
    (None, user("0", first_at=AS_OF - 7 * 24 * HOUR + 1)),
    (None, user("0", first_at=None)),
    (None, user("1")),
    (None, user("3")),
    ("status_conflict", user("4", kyc_status="3")),
    ("status_conflict", user("0", kyc_status="0", **PASSED_ONCE)),
    ("status_conflict", user("3", seen_kyc_level="1", **PASSED_ONCE)),
    ("status_conflict", user("2", seen_kyc_level="1", **PASSED_ONCE)),
    (None, user("2", seen_kyc_level="2", **PASSED_ONCE)),
    (None, user("3", seen_kyc_level="2", **PASSED_ONCE)),
    (None, user("3", **PASSED_ONCE)),
    ("missing_at_service", user(None, answer="absent")),
    ("query_failed", user(None, answer="failed")),
]


@pytest.mark.parametrize(("name", "seen"), USERS)
def test_a_card_user_is_named_for_what_somebody_has_to_do(name: str | None, seen: dict[str, Any]) -> None:
    assert [each.name for each in of_card_users([seen], AS_OF, 7)] == ([] if name is None else [name])


def paid(amount: str | None = None, **more: Any) -> dict[str, Any]:
    asked = {"request_id": "i", "operation": "receipt", "currency": "USDT", "amount": "100", "order_type": "pay"}
    return {**asked, "answer": "found", "status": 99, "seen_currency": "USDT", "seen_amount": amount, **more}


RECEIPTS: list[tuple[str | None, dict[str, Any]]] = [
    ("paid_otherwise", paid("99.99")),
    ("paid_otherwise", paid("100", arrive_amount="98", seen_fee="1")),
    ("paid_otherwise", paid("100", arrive_amount="100", seen_fee="1")),
    (None, paid("100.00", arrive_amount="99", seen_fee="1")),
    (None, paid("100", arrive_amount="99", seen_fee="0.0003", seen_fee_currency="ETH")),
    (None, paid("100.00")),
    (None, paid()),
    (None, paid("1", seen_currency="THB")),
    (None, paid("1", status=88)),
    (None, paid("1", order_type="charge")),
]


@pytest.mark.parametrize(("name", "seen"), RECEIPTS)
def test_an_invoice_that_was_paid_otherwise_is_named(name: str | None, seen: dict[str, Any]) -> None:
    found = list(of_receipts([seen], {}))
    assert [each.name for each in found] == ([] if name is None else [name])
    assert all(
        each.difference == D(100) - D(seen["arrive_amount"] or seen["seen_amount"]) - D(seen["seen_fee"] or 0)
        for each in found
        if seen.get("arrive_amount")
    )


@pytest.mark.parametrize(
    ("kind", "name", "difference"),
    [
        ("charge", "unexpected_deposit", "0"),
        ("pay", "unexpected_deposit", "0"),
        ("withdraw", "missing_in_ledger", "50"),
    ],
)
def test_a_notification_of_money_that_came_in_is_no_payment(kind: str, name: str, difference: str) -> None:
    notice = {"request_id": None, "order_no": "N1", "amount": "50", "currency": "USDT", "order_type": kind}
    [found] = of_notices([{**notice, "status": "99", "received_at": AS_OF}], set())
    assert (found.name, found.difference, found.amount) == (name, D(difference), 50)


@pytest.mark.parametrize(("kind", "told"), [("charge", ["unexpected_deposit"]), ("withdraw", [])])
def test_a_notification_of_money_that_came_in_is_not_known_by_the_number_of_a_payment(
    kind: str, told: list[str]
) -> None:
    notice = {"request_id": "d-1", "order_no": "N1", "amount": "50", "currency": "USDT", "order_type": kind}
    found = of_notices([{**notice, "status": "99", "received_at": AS_OF}], {"N1"})
    assert [each.name for each in found] == told


def test_card_users_are_counted_by_how_far_they_have_come() -> None:
    users = [user("0"), user("4"), user("3", **PASSED_ONCE), user(None, answer="failed", kyc_status="2"), user("9")]
    found = funnel_of(users, ["card user u"])
    assert found is not None
    assert found["counts"] == {"not set": 1, "in audit": 1, "passed": 1, "refused": 1, "not known": 1}
    assert (found["created"], found["handed_in"], found["passed"], found["median_hours"]) == (5, 4, 1, 140.0)
    assert funnel_of([], []) is None


def test_every_class_has_a_case() -> None:
    others = {"missing_in_ledger", "balance_gap", "unexplained_inflow", "opening"}  # of the statement and the balances
    of_users = {name for name, _ in (*USERS, *RECEIPTS) if name is not None}
    of_arrivals = {name for names, _ in ARRIVALS for name in names.values()}
    assert {name for name, _ in CASES} | others | of_users | of_arrivals == {each.name for each in CLASSES}


@pytest.mark.costly("every status against every state")
def test_every_pair_of_both_sides_has_a_class() -> None:
    states = [*(state.value for state in State), "superseded"]
    for state, status, operation in itertools.product(
        states, (None, 0, 11, 12, 22, 44, 88, 99), ("payout", "create_fiat_payout")
    ):
        assert len(report(side(state=state, status=status, operation=operation))["counts"]) == 1
        assert len(report(absent(state=state, operation=operation))["counts"]) == 1


def test_the_verdict_is_the_worst() -> None:
    """Of two orders: each class beside a matched one, and a class of each verdict beside one of each other; in proofs
    each class beside each."""
    rows, order = dict(CASES), list(Verdict)
    known = [each for each in CLASSES if each.name in rows]
    of_each = list({each.verdict: each for each in known}.values())
    matched = next(each for each in known if each.name == "matched")
    for worse, better in [*((each, matched) for each in known), *itertools.combinations(known if ALL else of_each, 2)]:
        said = report({**rows[worse.name], "request_id": "r1"}, {**rows[better.name], "request_id": "r2"})
        worst = min(worse.verdict, better.verdict, key=order.index)
        assert said["verdict"] == worst, f"{worse.name} and {better.name}"


def test_an_empty_ledger_is_reconciled() -> None:
    said = report()
    assert (said["verdict"], said["counts"], said["breaks"]) == ("reconciled", {}, [])
    assert "no orders" in as_markdown(said)


def test_shuffled_inputs_give_the_same_report() -> None:
    rows = [{**row, "request_id": f"r{number}"} for number, (_, row) in enumerate(CASES)]
    first = report(*rows)
    random.Random(1).shuffle(rows)
    assert report(*rows) == first


def test_a_break_keeps_its_id_when_its_class_changes() -> None:
    one, two = report(absent())["breaks"][0], report(side(seen_amount=D(1)))["breaks"][0]
    assert one["id"] == two["id"]
    assert one["class"] != two["class"]


def test_large_amounts_compare_to_the_last_digit() -> None:
    amount = D("123456789012345678.123456789012345678")
    same = side(amount=amount, seen_amount=D("123456789012345678.123456789012345678"), status=99)
    off = side(amount=amount, seen_amount=D("123456789012345678.123456789012345679"), status=99)
    assert report(same)["counts"] == {"matched": 1}
    [found] = report(off)["breaks"]
    assert found["amount"] == "123456789012345678.123456789012345678"


def test_what_is_to_be_done_is_true_of_a_call_too_which_has_no_run_and_no_sheet() -> None:
    assert "start its run, or send the call, again" in BY_NAME["unknown_outcome"].next_action
    assert "for one of a sheet, `treasury collect`" in BY_NAME["unpaid_invoice"].next_action
