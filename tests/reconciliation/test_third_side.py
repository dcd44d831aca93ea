"""The service's statement: a third side of every order, and entries of the balance accounts."""

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

from tests.reconciliation.parts import build_with_orders, in_parts
from tests.reconciliation.sides import AS_OF, side
from treasury.policy.model import Policy
from treasury.provider.status import OrderStatus
from treasury.reconciliation.balances import BalanceAccount, Night
from treasury.reconciliation.entries import StatementEntry
from treasury.reconciliation.report import ReconciliationInput
from treasury.reconciliation.rolling import roll_forward
from treasury.reconciliation.sides import COLUMNS
from treasury.reconciliation.third_side import with_entries

D = Decimal
DAY = 86_400_000

SETTLED = {"state": "settled", "status": 99, "known_order_no": "P1", "final_at": AS_OF - 1, "seen_fee": "1"}


def entry(order_no: str = "P1", amount: str = "10", **more: Any) -> StatementEntry:
    given: dict[str, Any] = {"currency": "USDT", "order_type": "payout", "status": OrderStatus(99), "request_id": None}
    return StatementEntry(line=2, order_no=order_no, amount=D(amount), **{**given, **more})


def classed(row: dict[str, Any], *entries: StatementEntry) -> str:
    rows = [row, side(**SETTLED | {"request_id": "r2", "known_order_no": "P2", "order_no": "P2"})]
    frame = pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)
    given = [*entries, entry("P2")]
    night = ReconciliationInput(AS_OF, in_parts(frame, 1), entries=given, known_numbers={"P1", "P2", "r1"})
    return str(build_with_orders(night)[1]["class"].iloc[0])


@pytest.mark.parametrize(
    ("expected", "entries"),
    [
        ("matched", [entry()]),
        ("matched", [entry(fee=D("1.00"), booked_on=date(2026, 11, 21))]),
        ("amount_mismatch", [entry(amount="900")]),
        ("currency_mismatch", [entry(currency="USDC")]),
        ("status_conflict", [entry(status=OrderStatus(44))]),
        ("matched", [entry(status=OrderStatus(22))]),
        ("statement_variance", [entry(fee=D("1.01"))]),
        ("statement_variance", [entry(booked_on=date(2026, 11, 18))]),
        ("statement_variance", [entry(booked_on=date(2026, 12, 18))]),
        ("missing_in_statement", []),
        ("missing_in_statement", [entry("P3")]),
        ("duplicate_effect", [entry(), entry("P3", request_id="r1")]),
        ("status_conflict", [entry(), entry("P3", request_id="r1", order_type="charge")]),
        ("status_conflict", [entry("P3", request_id="r1", order_type="charge")]),
        ("matched", [entry(), entry("P3", request_id="r1", order_type="charge", currency="EUR")]),
    ],
)
def test_an_order_is_compared_with_its_line(expected: str, entries: list[StatementEntry]) -> None:
    assert classed(side(**SETTLED), *entries) == expected


def test_an_order_whose_number_the_ledger_does_not_know_is_found_by_the_one_that_the_service_shows() -> None:
    assert classed(side(**SETTLED | {"known_order_no": None}), entry(amount="900")) == "amount_mismatch"


def test_a_line_that_names_another_order_by_its_request_id_is_of_that_one_alone() -> None:
    """A service that counts the orders of each operation by themselves has one number twice."""
    other = SETTLED | {"request_id": "r2", "operation": "withdraw", "currency": "ETH", "seen_currency": "ETH"}
    frame = pd.DataFrame([side(**SETTLED), side(**other)], columns=list(COLUMNS), dtype=object)
    given = [entry(request_id="r2", order_type="extract", currency="ETH")]
    night = ReconciliationInput(AS_OF, in_parts(frame, 1), entries=given, known_numbers={"P1", "r1", "r2"})
    assert list(build_with_orders(night)[1]["class"]) == ["matched", "matched"]


@pytest.mark.parametrize(
    ("order_type", "expected"),
    [
        ("payout", "amount_mismatch"),
        ("Payout", "amount_mismatch"),
        ("extract", "missing_in_statement"),
        ("charge", "missing_in_statement"),
        (None, "amount_mismatch"),
        ("no type of the list", "amount_mismatch"),
    ],
)
@pytest.mark.parametrize("ours", [{}, {"known_order_no": None}])
def test_a_number_counts_for_the_operation_that_its_line_names(
    order_type: str | None, expected: str, ours: dict[str, Any]
) -> None:
    """An order type that is not in the published list may be of any operation, as none is."""
    assert classed(side(**SETTLED | ours), entry(amount="900", order_type=order_type)) == expected


def test_a_line_of_another_operation_that_names_our_request_id_is_of_ours() -> None:
    assert classed(side(**SETTLED), entry(amount="900", request_id="r1", order_type="extract")) == "amount_mismatch"


def test_between_two_statements_nothing_is_missing() -> None:
    """One file shows an order of three weeks before, another one of today: neither is about the days between."""
    weeks = 21 * DAY
    early = SETTLED | {"request_id": "r3", "known_order_no": "P3", "order_no": "P3"}
    early |= {"created_at": AS_OF - weeks, "final_at": AS_OF - weeks + 1}
    between = SETTLED | {"created_at": AS_OF - 10 * DAY, "final_at": AS_OF - 10 * DAY + 1}
    late = SETTLED | {"request_id": "r2", "known_order_no": "P2", "order_no": "P2"}
    frame = pd.DataFrame([side(**row) for row in (between, late, early)], columns=list(COLUMNS), dtype=object)
    for files, expected in ((("one", "two"), "matched"), (("one", "one"), "missing_in_statement")):
        given = [entry("P3", file=files[0]), entry("P2", file=files[1])]
        night = ReconciliationInput(AS_OF, in_parts(frame, 1), entries=given, known_numbers={"P1", "P2", "P3"})
        assert build_with_orders(night)[1]["class"].iloc[0] == expected


@pytest.mark.parametrize(("given_at", "expected"), [(AS_OF - 2, "matched"), (AS_OF, "missing_in_statement")])
def test_a_statement_from_before_an_order_ended_does_not_lack_it(given_at: int, expected: str) -> None:
    """It was given in the morning, and the payment left in the afternoon of the same day."""
    rows = [side(**SETTLED), side(**SETTLED | {"request_id": "r2", "known_order_no": "P2", "order_no": "P2"})]
    frame = pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)
    given = [entry("P2", given_at=given_at)]
    night = ReconciliationInput(AS_OF, in_parts(frame, 1), entries=given, known_numbers={"P1", "P2"})
    assert build_with_orders(night)[1]["class"].iloc[0] == expected


@pytest.mark.parametrize(("given_at", "expected"), [(AS_OF - DAY, "matched"), (AS_OF, "orphan_success")])
def test_a_line_from_before_an_order_came_back_says_nothing_about_its_end(given_at: int, expected: str) -> None:
    came_back = side(**SETTLED | {"state": "failed", "status": 44})
    assert classed(came_back, replace(entry(), given_at=given_at)) == expected


@pytest.mark.parametrize("status", [44, 88])
def test_an_order_whose_line_came_back_in_the_same_statement_was_not_paid(status: int) -> None:
    came_back = side(**SETTLED | {"state": "failed" if status == 44 else "closed", "status": status})
    assert classed(came_back, entry()) == "orphan_success"
    assert classed(came_back, entry(), entry("P3", request_id="r1", order_type="charge")) == "matched"


def test_what_a_statement_cannot_show_is_not_missing_in_it() -> None:
    for row in (side(), side(**SETTLED | {"currency": "BTC"}), side(**SETTLED | {"operation": "withdraw"})):
        assert classed(row) != "missing_in_statement"
    earlier = SETTLED | {"created_at": AS_OF - 40 * DAY, "sent_at": AS_OF - 40 * DAY, "final_at": AS_OF - 39 * DAY}
    assert classed(side(**earlier)) == "matched"


def rolled(balances: list[int], *entries: StatementEntry) -> BalanceAccount:
    nights = [Night(AS_OF + number * DAY, D(balance)) for number, balance in enumerate(balances)]
    return roll_forward("USDT", with_entries({"USDT": nights}, entries, {"P1"}, Policy())["USDT"])


def lots(account: BalanceAccount) -> list[int]:
    return [int(lot.amount) for lot in account.lots]


NIGHTS = [AS_OF + number * DAY for number in range(5)]
OPENED = date.fromisoformat(Policy().day_of(AS_OF))
LATER = date(2026, 11, 22)
IN = {"order_type": "charge"}


@pytest.mark.parametrize(
    ("balances", "entries", "expected"),
    [
        # Another program took 50, and a statement shows it the next night: with its day, or without.
        ([100, 50, 50], [entry("X1", "50", given_at=NIGHTS[2])], []),
        ([100, 50, 50], [entry("X1", "50", given_at=NIGHTS[2], booked_on=LATER)], []),
        # The same line once more changes nothing; a line about something else ends only what it shows.
        ([100, 50, 50, 50], [entry("X1", "50", given_at=NIGHTS[1])], []),
        ([100, 50, 50], [entry("X1", "30", given_at=NIGHTS[2])], [-20]),
        # A deposit does not pay back a theft, where the statement tells them apart.
        ([100, 100], [entry("X1", "50", given_at=NIGHTS[1], booked_on=LATER, **IN)], [-50]),
        ([100, 150], [entry("X1", "50", given_at=NIGHTS[1], **IN)], []),
        # What comes in comes less its fee; a fee in another currency is of another balance.
        ([100, 149], [entry("X1", "50", given_at=NIGHTS[1], fee=D(1), **IN)], []),
        ([100, 150], [entry("X1", "50", given_at=NIGHTS[1], fee=D(1), fee_currency="ETH", **IN)], []),
        ([100, 50], [entry("X1", "50", given_at=NIGHTS[1], fee=D(1))], []),
        # What is older than the opening, failed, on its way or ours is no entry.
        ([100, 100, 100], [entry("X1", "50", given_at=NIGHTS[1], booked_on=date(2026, 11, 1))], []),
        # Nor does it end what was found later: one of the opening's day, or of the day before, which may be that day in
        # the service's time zone, ends what the first report after it found.
        ([100, 100, 100, 50], [entry("X1", "50", given_at=NIGHTS[3], booked_on=OPENED)], [-50]),
        ([100, 50, 50, 50], [entry("X1", "50", given_at=NIGHTS[3], booked_on=OPENED)], []),
        ([100, 50, 50], [entry("X1", "50", given_at=NIGHTS[2], booked_on=date(2026, 11, 1))], [-50]),
        ([100, 150, 150], [entry("X1", "50", given_at=NIGHTS[2], booked_on=OPENED - timedelta(days=2), **IN)], [50]),
        ([100, 50, 50], [entry("X1", "50", given_at=NIGHTS[2], booked_on=OPENED - timedelta(days=1))], []),
        ([100, 50, 50], [entry("X1", "50", given_at=NIGHTS[1], status=OrderStatus(44))], [-50]),
        ([100, 50, 50], [entry("X1", "50", given_at=NIGHTS[1], status=OrderStatus(22))], [-50]),
        ([100, 50, 50], [entry("P1", "50", given_at=NIGHTS[1])], [-50]),
    ],
)
def test_a_movement_that_a_statement_shows_is_an_entry(
    balances: list[int], entries: list[StatementEntry], expected: list[int]
) -> None:
    account = rolled(balances, *entries)
    assert lots(account) == expected
    assert account.change is not None
    assert account.explained_low is not None
    assert account.change - account.explained_low == sum(expected)
