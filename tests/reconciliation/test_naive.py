"""Random ledgers, judged by the program and by the plain loops written from the page: they agree on every order."""

import random
from collections import Counter
from decimal import Decimal, localcontext
from typing import Any

import pandas
import pytest

from tests.proofs import tries
from tests.reconciliation import naive
from tests.reconciliation.parts import build_with_orders, in_parts
from treasury.reconciliation.report import ReconciliationInput
from treasury.reconciliation.sides import COLUMNS

AS_OF = 1_795_230_000_000
LEDGERS = tries("LEDGERS", 125, 4_000)
PARTS = LEDGERS // 125
NO_BREAK = ("matched", "in_progress", "quote_expired_unused")

STATES = (
    "prepared",
    "sending",
    "unknown",
    "accepted",
    "settled",
    "failed",
    "closed",
    "rejected",
    "held",
    "superseded",
)
STATUSES = (None, 0, 11, 22, 44, 77, 88, 99)
ANSWERS = ("found", "absent", "failed", None)
CURRENCIES = ("USDT", "USDT_TRC20", "USD", "THB")
AMOUNTS = ("100", "0", "0.01", "2000000", "7.123456789012345678", "12345678901234567890.123456789012345678")
TINY = Decimal("0.000000000000000001")
STATUS_OF = {"settled": 99, "failed": 44, "closed": 88, "accepted": 22}


def some(dice: random.Random, share: float, value: Any) -> Any:
    """The value, in this share of cases; else it is not known."""
    return value if dice.random() < share else None


def rewritten(dice: random.Random, text: str | None) -> str | None:
    """Return the same amount, or one just beside it, or quite another; most are the same, some written otherwise."""
    if text is None:
        return some(dice, 0.3, dice.choice(AMOUNTS))
    with localcontext(naive.EXACT):
        value = Decimal(text)
        plain = f"{value:f}"
        return dice.choices(
            (
                text,
                plain + ("00" if "." in plain else ".00"),
                f"{value:E}",
                f"{value + dice.choice((-1, 1)) * TINY:f}",
                dice.choice(AMOUNTS),
                None,
            ),
            (50, 20, 5, 5, 10, 10),
        )[0]


def other_name(dice: random.Random, name: str | None) -> str | None:
    """Mostly the same name."""
    return name if dice.random() < 0.85 else dice.choice((None, *CURRENCIES))


def beside(dice: random.Random, text: str | None, base: str | None) -> str | None:
    """A fee or rate at, just within, or just beyond the tolerance of its base."""
    if text is None or base is None or dice.random() < 0.4:
        return rewritten(dice, text)
    with localcontext(naive.EXACT):
        border = Decimal(base) * 5 / 10_000
        return f"{Decimal(text) + dice.choice((-1, 1)) * (border + dice.choice((-1, 0, 0, 1)) * TINY):f}"


def an_order(dice: random.Random, request_id: str) -> naive.Row:
    """One order, both sides mostly alike, anything possible."""
    state = dice.choice(STATES)
    operation = dice.choice(tuple(naive.DUE_HOURS))
    if state == "superseded":
        operation = dice.choice(naive.CONFIRM_A_QUOTE)
    due = naive.DUE_HOURS[operation] * naive.HOUR
    border = AS_OF - due + dice.choice((-due, -1, 0, 1, due))
    status = STATUS_OF.get(state)
    if status is None or dice.random() < 0.5:
        status = dice.choice(STATUSES)
    currency, receive_currency = some(dice, 0.95, dice.choice(CURRENCIES)), some(dice, 0.5, dice.choice(CURRENCIES))
    amount, receive_amount = some(dice, 0.9, dice.choice(AMOUNTS)), some(dice, 0.4, dice.choice(AMOUNTS))
    fee = some(dice, 0.5, dice.choice(("0", "1", "1.25", "0.000000000000000003")))
    fee_currency = some(dice, 0.5, dice.choice((currency, receive_currency, *CURRENCIES)))
    rate = some(dice, 0.4, dice.choice(("0", "1", "36.55", "0.000000000000000001", "0.0273")))
    order_no = some(dice, 0.7, f"N{dice.randrange(50)}")
    row: naive.Row = {
        "request_id": request_id,
        "run_key": f"run{dice.randrange(3)}",
        "row_ref": f"row{dice.randrange(60)}",
        "operation": operation,
        "state": state,
        "currency": currency,
        "amount": amount,
        "receive_currency": receive_currency,
        "receive_amount": receive_amount,
        "fee": fee,
        "fee_currency": fee_currency,
        "rate": rate,
        "known_order_no": order_no,
        "created_at": some(dice, 0.9, border - dice.choice((0, 0, 1, 5000))),
        "sent_at": some(dice, 0.6, border),
        "final_at": some(dice, 0.3, AS_OF - dice.randrange(10**9)),
        "answer": dice.choices(ANSWERS, (70, 24, 4, 2))[0],
    }
    if row["answer"] == "found":
        row |= {
            "status": status,
            "seen_request_id": "another" if dice.random() < 0.05 else None,
            "order_no": order_no if dice.random() < 0.9 else some(dice, 0.8, f"N{dice.randrange(50)}"),
            "seen_currency": other_name(dice, currency),
            "seen_amount": amount if dice.random() < 0.6 else rewritten(dice, amount),
            "seen_receive_currency": other_name(dice, receive_currency),
            "seen_receive_amount": receive_amount if dice.random() < 0.6 else rewritten(dice, receive_amount),
            "seen_fee": beside(dice, fee, dice.choice((amount, receive_amount, fee))),
            "seen_fee_currency": other_name(dice, fee_currency),
            "seen_rate": beside(dice, rate, rate),
            "unreadable": some(dice, 0.2, "metadata"),
            "seen_reason": some(dice, 0.1, "because"),
        }
        row["arrive_amount"] = some(dice, 0.5, at_border(dice, row, -1))
        row["changed"] = some(dice, 0.05, "its record")
        row["bound"] = some(dice, 0.5, at_border(dice, row, dice.choice((0, 1))))
    if dice.random() < 0.25:
        row |= {
            "line_orders": dice.choices((1, 2, 3), (8, 1, 1))[0],
            "line_currency": other_name(dice, currency),
            "line_amount": amount if dice.random() < 0.7 else rewritten(dice, amount),
            "line_status": status if dice.random() < 0.6 else dice.choice(STATUSES),
            "line_fee": some(dice, 0.3, fee),
            "line_fee_currency": currency,
            "line_is_off": some(dice, 0.05, True),
        }
    elif dice.random() < 0.1:
        row["line_lacks"] = True
    return row


def at_border(dice: random.Random, row: naive.Row, fees: int) -> str | None:
    """Return the amount with so many times the fee added, or just beside it."""
    amount, fee = (row.get("seen_amount") or row["amount"]), (row.get("seen_fee") or row["fee"] or "0")
    if amount is None:
        return dice.choice(AMOUNTS)
    with localcontext(naive.EXACT):
        return f"{Decimal(amount) + fees * Decimal(fee) + dice.choice((-1, -1, 0, 1)) * TINY:f}"


def a_ledger(dice: random.Random) -> list[naive.Row]:
    """Up to about 30 orders; some are quotes of one row."""
    rows: list[naive.Row] = []
    for number in range(dice.choice((0, 1, 2, 5, 10, 20, 26))):
        row = an_order(dice, f"r{number}")
        rows.append(row)
        for earlier in range(dice.choice((1, 1, 2))):
            if row["operation"] in naive.CONFIRM_A_QUOTE and dice.random() < 0.5:
                quote = an_order(dice, f"r{number}q{earlier}")
                quote |= {name: row[name] for name in ("run_key", "row_ref", "operation")}
                if dice.random() < 0.9:
                    quote["state"] = "superseded"
                rows.append(quote)
    dice.shuffle(rows)
    return rows


def disagreements(rows: list[naive.Row]) -> list[tuple[Any, Any, naive.Row]]:
    """Return what the page says, what the program says, and the order, for each one on which they differ."""
    frame = pandas.DataFrame(rows, columns=list(COLUMNS), dtype=object)
    report, orders = build_with_orders(ReconciliationInput(AS_OF, in_parts(frame, 20)))
    classes = list(zip(orders["request_id"], orders["class"], strict=True))
    judged = {str(request_id): str(name) for request_id, name in classes}
    breaks = {item.found.request_id: (str(item.found.name), item.found.difference) for item in report.breaks}
    assert report.orders.orders == len(orders) == len(judged) == len(rows)
    assert len(report.breaks) == len(breaks)
    found: list[tuple[Any, Any, naive.Row]] = []
    for row in rows:
        key, name = row["request_id"], naive.judge(row, rows, AS_OF)
        a_break = None if name in NO_BREAK else (name, naive.difference(row, name))
        if judged.pop(key) != name or breaks.pop(key, None) != a_break:
            found.append((a_break or name, report_of(report, classes, key), known_of(row)))
    assert not judged
    assert found or report.orders.classes == naive.sums(rows, AS_OF)
    return found


def report_of(report: Any, classes: list[tuple[str, str]], key: str) -> Any:
    """The class of one order in the report, with its difference if it is a break."""
    for item in report.breaks:
        if item.found.request_id == key:
            return str(item.found.name), item.found.difference
    return dict(classes)[key]


def known_of(row: naive.Row) -> naive.Row:
    """The fields that say something."""
    return {name: value for name, value in row.items() if value is not None}


@pytest.mark.parametrize("part", range(PARTS))
def test_every_order_is_judged_as_the_page_says(part: int) -> None:
    dice = random.Random(f"naive {part}")
    met: Counter[str] = Counter()
    differ: list[tuple[Any, Any, naive.Row]] = []
    for _ in range(part, LEDGERS, PARTS):
        rows = a_ledger(dice)
        differ += disagreements(rows)
        met.update(naive.sums(rows, AS_OF))
    assert not differ, (len(differ), min(differ, key=lambda one: len(one[2])))
    classes = {rule.__name__ for rule in naive.RULES} | {"matched"}
    assert part or set(met) == classes, "the first part meets every class; a rare one may be lacking in another"


PAID: naive.Row = {
    "request_id": "r",
    "run_key": "run",
    "row_ref": "row",
    "operation": "withdraw",
    "state": "settled",
    "currency": "USDT",
    "amount": "100",
    "answer": "found",
    "status": 99,
}
A_QUOTE = PAID | {"operation": "conversion_execute", "state": "held", "status": 11}
FAR = "100000000000.000000000000000001"


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            A_QUOTE | {"state": "superseded", "unreadable": "metadata"}, id="metadata of an unconfirmed quote"
        ),
        pytest.param(
            A_QUOTE | {"line_orders": 2, "line_amount": "100", "seen_amount": "99"}, id="amount of an unconfirmed quote"
        ),
        pytest.param(
            A_QUOTE | {"line_orders": 1, "line_amount": "98", "seen_amount": "99"},
            id="amount of an unconfirmed quote beside the statement's",
        ),
        pytest.param(
            PAID | {"state": "rejected", "answer": "absent", "line_orders": 1, "line_amount": "98", "line_status": 99},
            id="the statement's amount of an orphan",
        ),
        pytest.param(PAID | {"line_orders": 2, "line_amount": "98"}, id="the statement's amount of a duplicate"),
        pytest.param(
            PAID | {"fee_currency": "THB", "seen_fee": "1", "seen_amount": "100", "arrive_amount": "98"},
            id="a fee quoted in another currency takes nothing from what arrives",
        ),
        pytest.param(
            PAID | {"seen_fee_currency": "USDT", "seen_fee": "1", "seen_amount": "100", "arrive_amount": "98"},
            id="the answer names the fee's currency only",
        ),
        pytest.param(
            PAID | {"amount": None, "receive_currency": "THB", "receive_amount": "10000", "fee": "1", "seen_fee": "2"},
            id="a fee in no known currency is not taken from what arrives",
        ),
        pytest.param(PAID | {"amount": FAR, "answer": "absent"}, id="long amount missing"),
        pytest.param(PAID | {"amount": FAR, "seen_amount": "1"}, id="long amount less another"),
        pytest.param(
            PAID
            | {
                "amount": "12345678901234567890.123456789012345678",
                "seen_amount": "12345678901234567890.123456789012345678",
                "seen_fee": "1",
                "arrive_amount": "12345678901234567889.123456789012345678",
            },
            id="all of a long amount arrived",
        ),
        pytest.param(
            PAID
            | {
                "amount": "12345678901234567890.123456789012345678",
                "fee": "1",
                "seen_fee": "6172839450617284.945061728394506173839",
            },
            id="long fee just past its border",
        ),
    ],
)
def test_one_order_is_judged_as_the_page_says(row: naive.Row) -> None:
    assert disagreements([row]) == []
