"""Days, currencies and amounts at their edges: what the report says of them is exact."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

from tests.reconciliation.parts import in_parts
from tests.reconciliation.planted import AS_OF, good_order
from treasury.policy.model import Policy
from treasury.reconciliation.balances import Flows, Night
from treasury.reconciliation.report import ReconciliationInput, build_report
from treasury.reconciliation.sides import COLUMNS
from treasury.reports.figures import reasons
from treasury.reports.machine import as_machine


def machine(*rows: dict[str, Any], as_of: int = AS_OF, zone: str = "UTC") -> dict[str, Any]:
    frame = pd.DataFrame([{**dict.fromkeys(COLUMNS), **row} for row in rows], columns=list(COLUMNS), dtype=object)
    return as_machine(build_report(ReconciliationInput(as_of, in_parts(frame), Policy(time_zone=zone))))


def payout(made: str = "2026-11-20T12:00:00", **changes: Any) -> dict[str, Any]:
    at = int(datetime.fromisoformat(made).replace(tzinfo=UTC).timestamp() * 1000)
    row: dict[str, Any] = {"request_id": f"r-{made}", "operation": "payout", "state": "settled", "currency": "USDT"}
    row |= {"amount": "10", "answer": "found", "status": 99, "seen_currency": "USDT", "seen_amount": "10.0"}
    return {**row, "created_at": at, "sent_at": at, **changes}


@pytest.mark.parametrize(
    ("zone", "made", "day"),
    [
        ("UTC", "2026-11-30T23:59:59", "2026-11-30"),
        ("Asia/Singapore", "2026-11-30T16:00:00", "2026-12-01"),
        ("Asia/Singapore", "2026-11-30T15:59:59", "2026-11-30"),
        ("America/New_York", "2028-02-29T04:59:59", "2028-02-28"),
        ("America/New_York", "2028-03-01T04:59:59", "2028-02-29"),
        ("Europe/Berlin", "2026-03-28T22:59:59", "2026-03-28"),
        ("Europe/Berlin", "2026-03-28T23:00:00", "2026-03-29"),  # the day that has 23 hours
        ("Europe/Berlin", "2026-03-29T21:59:59", "2026-03-29"),
        ("Europe/Berlin", "2026-03-29T22:00:00", "2026-03-30"),
        ("Europe/Berlin", "2026-10-25T22:59:59", "2026-10-25"),  # the one that has 25
        ("Europe/Berlin", "2026-10-25T23:00:00", "2026-10-26"),
    ],
)
def test_days_are_counted_in_the_policys_time_zone(zone: str, made: str, day: str) -> None:
    assert machine(payout(made), zone=zone)["by_day"] == [{"day": day, "outcome": "settled", "orders": 1}]


def test_lateness_is_counted_in_hours_that_passed_whatever_the_clocks_say() -> None:
    sent = int(datetime(2026, 3, 27, 12, tzinfo=UTC).timestamp() * 1000)  # over the change of clocks in Berlin
    order = payout("2026-03-27T12:00:00", status=22, state="accepted")
    due = sent + 72 * 3_600_000
    assert machine(order, as_of=due, zone="Europe/Berlin")["counts"] == {"in_progress": 1}
    assert machine(order, as_of=due + 1, zone="Europe/Berlin")["counts"] == {"pending_late": 1}


def test_amounts_keep_every_digit_and_currencies_their_decimals() -> None:
    large = "123456789012345678.123456789012345678"
    said = machine(
        payout("2026-11-20T01:00:00", amount=large, seen_amount="123456789012345678.123456789012345679"),
        payout("2026-11-20T02:00:00", currency="JPY", seen_currency="JPY", amount="250000", seen_amount="249999"),
    )
    breaks = {each["currency"]: (each["amount"], each["difference"]) for each in said["breaks"]}
    assert breaks == {"USDT": (large, "0.000000000000000001"), "JPY": ("250000", "-1")}


def test_fees_and_rates_are_summed_exactly() -> None:
    fees = [payout(f"2026-11-20T0{n}:00:00", seen_fee="0.1", amount="0.3", seen_amount="0.3") for n in range(3)]
    rates = {"operation": "create_fiat_payout", "receive_currency": "EUR", "seen_receive_currency": "EUR"}
    fiat = [payout(f"2026-11-20T1{n}:00:00", seen_rate=rate, **rates) for n, rate in enumerate(("0.9", "0.95"))]
    said = machine(*fees, *fiat)
    assert said["fees"] == [{"currency": "USDT", "orders": 3, "amount": "0.9", "fees": "0.3", "bps": "3333.33"}]
    assert said["rates"] == [{"pair": "USDT-EUR", "orders": 2, "lowest": "0.9", "average": "0.925", "highest": "0.95"}]


def test_a_fee_whose_currency_is_not_shown_is_in_the_quoted_one() -> None:
    """As the query shows it of a conversion: the fee alone, which its quote said to be in what is bought."""
    bought = {"operation": "conversion_execute", "receive_currency": "BTC", "receive_amount": "0.5"}
    said = machine(payout(fee="0.001", fee_currency="BTC", seen_fee="0.001", **bought))
    assert said["fees"] == [{"currency": "BTC", "orders": 1, "amount": "0.5", "fees": "0.001", "bps": "20.00"}]


def test_what_a_customer_did_not_pay_is_in_no_sum_of_breaks_and_is_no_lot() -> None:
    """Of 100 that were asked for 50 came, and another program took 70."""
    paid = {"request_id": "in-1", "operation": "pay", "currency": "USDT", "amount": "100", "created_at": AS_OF}
    paid |= {"answer": "found", "status": 99, "seen_currency": "USDT", "seen_amount": "50"}
    nights = [Night(AS_OF - 1, Decimal(1000)), Night(AS_OF, Decimal(980), flows=Flows(unpriced=Decimal(-50)))]
    said = as_machine(
        build_report(
            ReconciliationInput(
                AS_OF, in_parts(pd.DataFrame(columns=list(COLUMNS))), receipts=[paid], balances={"USDT": nights}
            )
        )
    )
    differences = {each["class"]: each["difference"] for each in said["breaks"] if each["class"] != "opening"}
    assert differences == {"paid_otherwise": "50", "balance_gap": "70"}
    [line] = said["statement"]
    assert (line["breaks_gross"], line["breaks_net"]) == ("70", "70")
    assert said["balances"][0]["unexplained"] == "-70"


def test_what_left_and_what_came_in_are_both_said_where_they_are_equal() -> None:
    nights = [Night(at, Decimal(balance)) for at, balance in ((1, 1000), (2, 950), (3, 1000))]
    said = as_machine(
        build_report(ReconciliationInput(3, in_parts(pd.DataFrame(columns=list(COLUMNS))), balances={"USDT": nights}))
    )
    assert (said["verdict"], said["balances"][0]["unexplained"]) == ("breaks", "0")
    assert reasons(said) == ["Balance of USDT: 50 left and 50 came in unexplained."]


def test_one_order_and_none() -> None:
    one, none = machine(payout()), machine()
    assert (one["verdict"], one["counts"], one["breaks"]) == ("reconciled", {"matched": 1}, [])
    assert (none["verdict"], none["counts"], none["by_day"], none["fees"]) == ("reconciled", {}, [], [])


def test_the_work_for_each_order_does_not_grow_with_their_number() -> None:
    import random
    import time

    def cost(orders: int) -> float:
        dice = random.Random(1)
        rows = [good_order(number, dice)[0] for number in range(orders)]
        frame = pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)
        began = time.process_time()
        as_machine(build_report(ReconciliationInput(AS_OF, in_parts(frame, 1_000))))
        return time.process_time() - began

    cost(2_000)  # what is done once is done
    assert cost(25_000) <= 20 * cost(2_500)  # a comparison of all with all: 100
