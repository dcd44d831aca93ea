"""Ledgers with planted truth: orders that agree, and differences of every class whose names are known beforehand.

Nothing here uses the comparison: each planting is a change of single fields, with the class it makes by the docs.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

HOUR = 3_600_000
AS_OF = 1_795_230_000_000
"""2026-11-21T03:00:00Z in Unix ms."""

Row = dict[str, Any]

DUE = {"payout": 72, "withdraw": 24, "create_fiat_payout": 120, "conversion_execute": 24, "submit_scan_to_pay": 24}

AMOUNTS = ("10", "0.000000000000000001", "123456789012345678.123456789012345678", "5000", "99.99", "1E2", "250000000")


@dataclass(frozen=True)
class Plant:
    """A difference. `touches`: what it changes, so that two which leave each other alone can be planted together."""

    name: str
    touches: frozenset[str]
    change: Callable[[Row, random.Random], None]
    kinds: tuple[str, ...] = ("payout", "withdraw", "create_fiat_payout", "conversion_execute")


ENDINGS = (
    (99, "settled", "matched"),
    (99, "accepted", "matched"),
    (99, "unknown", "matched"),
    (44, "failed", "matched"),
    (88, "closed", "matched"),
    (22, "accepted", "in_progress"),
    (11, "accepted", "in_progress"),
)


def good_order(number: int, dice: random.Random) -> tuple[Row, str]:
    """An order on which both sides agree, and its class."""
    kind = dice.choice(tuple(DUE))
    amount = format(Decimal(dice.choice(AMOUNTS)), "f")
    row: Row = {
        "request_id": f"r-{number:06d}",
        "run_key": f"run-{number % 7}",
        "row_ref": f"row-{number}",
        "operation": kind,
        "created_at": AS_OF - dice.randrange(2, 20) * HOUR,
        "answer": "found",
        "order_no": f"P{number}",
        "known_order_no": f"P{number}",
        "seen_currency": dice.choice(("USDT", "ETH", "JPY")),
        "seen_amount": amount,
    }
    row["sent_at"] = row["created_at"] + 1000
    if kind != "submit_scan_to_pay":
        row |= {"currency": row["seen_currency"], "amount": amount + ("" if "." in amount else ".00")}
    if kind in ("create_fiat_payout", "conversion_execute"):
        row |= {"receive_currency": "EUR", "receive_amount": "100", "seen_receive_currency": "EUR"}
        row |= {"seen_receive_amount": "100.0", "rate": "1000", "seen_rate": "1000"}
    if row.get("amount"):
        row |= {"fee": "0", "fee_currency": row["currency"], "seen_fee": "0.0"}
    ending, state, name = dice.choice(ENDINGS)
    return {**row, "status": ending, "state": state}, name


def _settle(row: Row) -> None:
    row |= {"status": 99, "state": "settled"}


def _set(**changes: Any) -> Callable[[Row, random.Random], None]:
    def change(row: Row, _: random.Random) -> None:
        row.update(changes)

    return change


def _settled(**changes: Any) -> Callable[[Row, random.Random], None]:
    def change(row: Row, _: random.Random) -> None:
        _settle(row)
        row.update(changes)

    return change


def _amount(row: Row, dice: random.Random) -> None:
    step = Decimal(dice.choice(("0.000000000000000001", "-0.000000000000000001", "1000", "0.01")))
    row["seen_amount"] = format(Decimal(row["amount"]) + step, "f") if step > 0 else "0"


def _gone(row: Row, _: random.Random) -> None:
    row |= {"answer": "absent", "status": None, "order_no": None, "seen_currency": None, "seen_amount": None}
    row |= {"seen_receive_amount": None, "seen_receive_currency": None, "seen_fee": None, "seen_rate": None}


def _missing(row: Row, dice: random.Random) -> None:
    _gone(row, dice)
    row["state"] = dice.choice(("accepted", "settled", "failed", "closed"))


def _unknown(row: Row, dice: random.Random) -> None:
    _gone(row, dice)
    row["state"] = dice.choice(("unknown", "sending"))


def _late(row: Row, dice: random.Random) -> None:
    row |= {"status": dice.choice((11, 22)), "state": "accepted"}
    row["sent_at"] = AS_OF - DUE[row["operation"]] * HOUR - 1


def _in_time(row: Row, dice: random.Random) -> None:
    _late(row, dice)
    row["sent_at"] += 1


def _fee(row: Row, basis: Decimal) -> None:
    """A fee that is off the quoted one by so much of a hundred-thousandth of the amount."""
    row |= {"amount": "100000.00", "seen_amount": "100000", "fee": "7", "fee_currency": row["currency"]}
    row["seen_fee"] = str(Decimal(7) + basis)


_PAID = frozenset({"status"})
_FEE = frozenset({"fee", "amount"})

PLANTS: tuple[Plant, ...] = (
    Plant("query_failed", frozenset({"all"}), _set(answer="failed", status=None, seen_reason="no answer")),
    Plant("query_failed", frozenset({"all"}), _set(answer=None, status=None)),
    Plant("duplicate_effect", frozenset({"order_no"}), _set(order_no="another"), ("payout", "withdraw")),
    Plant("duplicate_effect", frozenset({"line"}), _set(line_orders=2)),
    Plant("orphan_success", _PAID, _set(state="failed", status=99)),
    Plant("orphan_success", _PAID, _set(state="closed", status=99)),
    Plant("orphan_success", _PAID, _set(state="rejected", status=99)),
    Plant("orphan_success", _PAID | {"line"}, _set(state="failed", status=44, line_orders=1, line_status=99)),
    Plant("missing_at_service", frozenset({"all"}), _missing, ("payout", "withdraw", "create_fiat_payout")),
    Plant("currency_mismatch", frozenset({"currency"}), _set(seen_currency="USDC")),
    Plant("currency_mismatch", frozenset({"line"}), _set(line_orders=1, line_currency="USDC")),
    Plant(
        "currency_mismatch",
        frozenset({"receives"}),
        _set(seen_receive_currency="USD"),
        ("create_fiat_payout", "conversion_execute"),
    ),
    Plant("amount_mismatch", frozenset({"amount", "fee"}), _amount),
    Plant("amount_mismatch", frozenset({"line"}), _set(line_orders=1, line_amount="0.5")),
    Plant(
        "amount_mismatch",
        frozenset({"receives"}),
        _set(seen_receive_amount="100.000000000000000001"),
        ("create_fiat_payout", "conversion_execute"),
    ),
    Plant("reversed_after_final", _PAID, _set(state="settled", status=44)),
    Plant("reversed_after_final", _PAID, _set(state="settled", status=88)),
    Plant("reversed_after_final", _PAID, _set(state="failed", status=88)),
    Plant("status_conflict", _PAID, _set(state="settled", status=22)),
    Plant("status_conflict", _PAID, _set(state="rejected", status=22)),
    Plant("status_conflict", _PAID, _set(state="held", status=22)),
    Plant("unknown_outcome", frozenset({"all"}), _unknown),
    Plant(
        "partial", _PAID | _FEE, _settled(seen_fee="0.5", arrive_amount="0", fee=None, amount="10", seen_amount="10")
    ),
    Plant("above_bound", _PAID | _FEE, _settled(amount="10", seen_amount="10", seen_fee=None, fee=None, bound="9.99")),
    Plant("changed_in_ledger", _PAID, _set(state="settled", status=99, changed="its record")),
    Plant("unclassified_status", _PAID, _set(state="accepted", status=12)),
    Plant("unclassified_status", _PAID, _set(state="settled", status=55)),
    Plant("unclassified_status", _PAID, _set(state="accepted", status=None)),
    Plant("fee_variance", _FEE, lambda row, _: _fee(row, Decimal("50.000001"))),
    Plant("fee_variance", _FEE, _set(seen_fee_currency="BTC", fee="1", seen_fee="1")),
    Plant("rate_variance", frozenset({"rate"}), _set(seen_rate="1000.500001"), ("create_fiat_payout",)),
    Plant("rate_variance", frozenset({"rate"}), _set(seen_rate="999.499999"), ("conversion_execute",)),
    Plant("pending_late", _PAID, _late),
    Plant("unreadable_metadata", frozenset({"metadata"}), _set(unreadable="metadata")),
)
"""Differences that are breaks."""

BORDERS: tuple[Plant, ...] = (
    Plant("matched", _PAID | _FEE, lambda row, _: (_settle(row), _fee(row, Decimal(50)))[1]),
    Plant("matched", _PAID | {"rate"}, _settled(seen_rate="1000.5"), ("create_fiat_payout", "conversion_execute")),
    Plant("matched", _PAID | {"rate"}, _settled(seen_rate="999.5"), ("create_fiat_payout", "conversion_execute")),
    Plant(
        "matched",
        _PAID | _FEE,
        _settled(seen_fee="0.5", arrive_amount="9.5", fee=None, amount="10", seen_amount="10.000"),
    ),
    Plant("matched", _PAID | _FEE, _settled(amount="10", seen_amount="10", seen_fee=None, fee=None, bound="10.00")),
    Plant("in_progress", _PAID, _in_time, ("payout", "withdraw", "conversion_execute")),
)
"""Cases on the border of a tolerance or a due time, which are no breaks."""


def plant_ledger(orders: int, seed: int, priority: dict[str, int]) -> tuple[list[Row], dict[str, str]]:
    """So many orders, and the class of each: a quarter with differences, a third of those with two at once."""
    dice = random.Random(seed)
    rows, truth = [], {}
    for number in range(orders):
        row, name = good_order(number, dice)
        if dice.random() < 0.25 or row["operation"] == "submit_scan_to_pay":
            row, name = _plant(row, name, dice, priority)
        rows.append(row)
        truth[row["request_id"]] = name
    dice.shuffle(rows)
    return rows, truth


def _plant(row: Row, name: str, dice: random.Random, priority: dict[str, int]) -> tuple[Row, str]:
    if row["operation"] == "submit_scan_to_pay":
        return row, name
    fitting = [each for each in (*PLANTS, *BORDERS) if row["operation"] in each.kinds]
    chosen = [dice.choice(fitting)]
    if "all" not in chosen[0].touches and dice.random() < 0.33:
        others = [each for each in fitting if not each.touches & (chosen[0].touches | {"all"})]
        chosen += [dice.choice(others)] if others else []
    for plant in chosen:
        plant.change(row, dice)
    names = [plant.name for plant in chosen]
    if not any("status" in plant.touches or "all" in plant.touches for plant in chosen):
        names.append(name)  # where it stands is as it was
    return row, min(names, key=priority.__getitem__)
