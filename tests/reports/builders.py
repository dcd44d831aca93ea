"""Machine forms of a reconciliation, as rich and as hostile as they come, and the frames of orders beside them."""

import hashlib
import random
from typing import Any

import pandas as pd

from treasury.reports.figures import ListedOrders

SHEETS = ["Summary", "Breaks", "Accepted", "Resolved", "Statement", "In flight", "Matched", "Settings", "Figures"]
"""Of the workbook, in their order."""

COLUMNS = (
    *("request_id", "run_key", "row_ref", "operation", "class", "state", "currency", "amount", "receive_currency"),
    *("receive_amount", "answer", "status", "order_no", "seen_currency", "seen_amount", "seen_receive_currency"),
    *("seen_receive_amount", "seen_fee", "seen_fee_currency", "seen_rate", "seen_reason", "fee", "fee_currency"),
    *("rate", "created_at", "sent_at", "final_at"),
)

CLASSES: dict[str, tuple[str, str]] = {
    "query_failed": ("the service could not be asked", "run the reconciliation again"),
    "duplicate_effect": ("the service acted twice on one order", "stop the run and ask the service"),
    "orphan_success": ("we recorded a failure, the service paid", "do not send it again; ask the service"),
    "missing_at_service": ("the service does not know an order it accepted", "ask with order number and request id"),
    "missing_in_ledger": ("the statement has a line that nobody here meant", "find out who sent it"),
    "currency_mismatch": ("the two sides name different currencies", "ask the service; do not resend"),
    "amount_mismatch": ("the two sides name different amounts", "ask the service; do not resend"),
    "reversed_after_final": ("the service changed its mind after a final status", "find out why"),
    "status_conflict": ("the two sides cannot both be right", "ask the service; do not resend"),
    "balance_gap": ("money left the balance that no order explains", "ask the service for its transactions"),
    "partial": ("less arrived than was sent", "ask the service for the rest"),
    "unknown_outcome": ("sent, and nobody knows yet whether it acted", "wait: it is asked about every night"),
    "pending_late": ("past its due time", "ask the service when it will be done"),
    "fee_variance": ("the fee is not the quoted one", "compare with the price list"),
    "rate_variance": ("the rate is not the quoted one", "compare with the quote"),
    "unreadable_metadata": ("the answer could not be read in part", "none yet"),
    "quote_expired_unused": ("a quote that nobody confirmed", "none"),
    "unclassified_status": ("a status that is not in the published list", "none yet: it counts as not final"),
    "in_progress": ("on its way, or not sent yet", "none: it is followed"),
    "matched": ("both sides agree", "none"),
}

MEANINGS = {name: meaning for name, (meaning, _) in CLASSES.items()}

HOSTILE = (
    '=HYPERLINK("http://203.0.113.9/x","click")',
    "</script><img src=x onerror=alert(1)>",
    "a\x00b\x1b[31m\ud800",
    '"><svg onload=alert(1)> {{ 7*7 }} {% x %}',
    "+62811@cmd",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "\u202egpj.exe Zoë 名前 😀",
)

LONG = "-123456789012345678.123456789012345678"


def empty_machine(**changes: Any) -> dict[str, Any]:
    """The machine form of a ledger that holds nothing."""
    machine = {
        "verdict": "reconciled",
        "rehearsal": None,
        "older": None,
        "as_of": "2026-11-20T05:30:00Z",
        "since": None,
        "missed_days": [],
        "not_asked": {"orders": 0, "rule": None},
        "scope": {"run_key": None, "currency": None, "window_days": None, "statement": None},
        "counts": {},
        "statement": [],
        "balances": [],
        "breaks": [],
        "by_day": [],
        "fees": [],
        "rates": [],
        "settings": {},
        **changes,
    }
    return {"orders": sum(machine["counts"].values()), **machine}


def request_id(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()[:32]


def a_break(number: int, **changes: Any) -> dict[str, Any]:
    """One break; `number` makes its ids."""
    name = changes.get("class", "amount_mismatch")
    return {
        "id": f"B-{hashlib.sha256(request_id(number).encode()).hexdigest()[:12]}",
        "request_id": request_id(number),
        "class": name,
        "currency": "PHP",
        "amount": "1250.00",
        "difference": "-0.50",
        "age_days": number % 40,
        "age_bucket": ("0-1", "2-7", "8-30", "over 30")[number % 4],
        "first_seen": "2026-11-18T05:30:00Z",
        "lifecycle": "new",
        "severity": "medium",
        "accepted": None,
        "run_key": "payroll-2026-11",
        "row_ref": f"EMP-{number:05}",
        "operation": "payout_create",
        "order_no": f"P2611{number:012}",
        "evidence": "ledger: accepted 1250.00 PHP; service: 99 success 1249.50 PHP",
        "next_action": CLASSES.get(name, ("", "look at it"))[1],
        **changes,
    }


def rich_breaks() -> list[dict[str, Any]]:
    """Every class that is a break, every age, severity and lifecycle, and hostile text in every field."""
    money = (("PHP", "12450.00"), ("JPY", "1250000"), ("USDT", LONG.lstrip("-")), ("IDR", "98765432109876.55"))
    breaks, number = [], 0
    for name in [each for each in CLASSES if each not in ("matched", "in_progress")]:
        for copy in range(3):
            currency, amount = money[(number + copy) % 4]
            changes: dict[str, Any] = {"class": name, "currency": currency, "amount": amount}
            changes["severity"] = ("high", "medium", "low")[copy]
            changes["lifecycle"] = ("new", "persisting", "persisting")[copy]
            changes["difference"] = (None, "-0.50", LONG)[copy]
            breaks.append(a_break(number, **changes))
            number += 1
    for text in HOSTILE:
        hostile = dict.fromkeys(("run_key", "row_ref", "order_no", "evidence", "next_action"), text)
        breaks.append(a_break(number, **{"class": "unreadable_metadata"}, currency=None, amount=None, **hostile))
        number += 1
    breaks.append(a_break(number, **{"class": "a_class_of_tomorrow"}, request_id=None, order_no=None))
    who = {"by": "Ana Reyes", "why": "Bank holiday; the bank confirmed by phone", "at": "2026-11-19T08:00:00Z"}
    breaks += [a_break(number + 1, accepted=who), a_break(number + 2, accepted={**who, "why": HOSTILE[0]})]
    breaks += [a_break(number + 3, lifecycle="resolved"), a_break(number + 4, lifecycle="resolved", accepted=who)]
    return breaks


def statement_line(currency: str, amounts: tuple[str, ...]) -> dict[str, str]:
    names = ("opening_in_flight", "sent", "arrived", "fees", "failed_and_returned", "closing_in_flight", "residual")
    said = dict(zip((*names, "breaks_gross", "breaks_net"), amounts, strict=True))
    return {"currency": currency, **said, "fees_beside": "0"}


def rich_machine(verdict: str = "breaks") -> dict[str, Any]:
    """All classes, amounts of 18 digits on both sides of the point, a currency without decimals, hostile text."""
    breaks = rich_breaks()
    counts = dict.fromkeys(CLASSES, 3) | {"a_class_of_tomorrow": 1, "in_progress": 41, "matched": 9_874}
    outcomes = (("settled", 310), ("in_progress", 4), ("failed", 9), ("closed", 3), ("held", 1), ("new_outcome", 2))
    days = [f"2026-10-{day:02}" for day in range(20, 32)] + [f"2026-11-{day:02}" for day in range(1, 21) if day % 7]
    sums = ("1200.00", "482100.55", "470000.00", "1100.55", "9000.00", "3200.00", "0", "1250.00", "-0.50")
    judged = ("explained", "inflow", "outflow", "first", "moving", "unreadable")
    names = ("PHP", "JPY", "USDT", "IDR", "THB", "VND")
    return empty_machine(
        verdict=verdict,
        since="2026-11-19T05:30:00Z",
        missed_days=[],
        scope={"run_key": "payroll-2026-11", "currency": None, "window_days": 45, "statement": "november.csv"},
        counts=counts,
        statement=[
            statement_line("PHP", sums),
            statement_line("JPY", ("0", "1250000", "1250000", "0", "0", "0", "0", "0", "0")),
            statement_line("USDT", (LONG.lstrip("-"),) * 6 + ("0", LONG.lstrip("-"), LONG)),
            statement_line("IDR", (*sums[:6], "0.01" if verdict == "incomplete" else "0", *sums[7:])),
        ],
        balances=[
            {
                "currency": currency,
                "opening": None if judgement in ("first", "unreadable") else "500000.00",
                "closing": None if judgement == "unreadable" else "480000.25",
                "change": None if judgement in ("first", "unreadable") else "-19999.75",
                "explained_low": "-20000.00",
                "explained_high": "-19999.75",
                "unexplained": {"inflow": "1500.00", "outflow": "-300.000000000000000001"}.get(judgement, "0"),
                "adjusted": "0",
                "judgement": judgement,
                "note": "deposits and pay-ins of others are not in the ledger" if judgement == "inflow" else "",
            }
            for currency, judgement in zip(names, judged, strict=True)
        ],
        breaks=breaks,
        by_day=[
            {"day": day, "outcome": outcome, "orders": orders * (1 + place % 4)}
            for place, day in enumerate(days)
            for outcome, orders in outcomes
        ],
        fees=[
            {"currency": "PHP", "orders": 9100, "amount": "470000.00", "fees": "1100.55", "bps": "23.42"},
            {"currency": "JPY", "orders": 120, "amount": "1250000", "fees": "0", "bps": "0"},
            {"currency": "USDT", "orders": 3, "amount": LONG.lstrip("-"), "fees": "12.5", "bps": "7.5"},
        ],
        rates=[
            {"pair": "USDT-PHP", "orders": 410, "lowest": "57.9012", "average": "58.0134", "highest": "58.2000"},
            {"pair": "USDT-JPY", "orders": 12, "lowest": "151.10", "average": "151.32", "highest": "151.40"},
            {"pair": "BTC-USDT", "orders": 1, "lowest": "91234.5", "average": "91234.5", "highest": "91234.5"},
        ],
        settings={
            "fee_tolerance_bps": "5",
            "time_zone": "Asia/Manila",
            "due_payout_create": "2 days",
            "odd": HOSTILE[0],
        },
    )


def one_order_machine() -> dict[str, Any]:
    """A ledger that holds one order, on its way."""
    return empty_machine(
        verdict="pending",
        counts={"in_progress": 1},
        statement=[statement_line("PHP", ("0", "10.00", "0", "0", "0", "10.00", "0", "0", "0"))],
        by_day=[{"day": "2026-11-20", "outcome": "in_progress", "orders": 1}],
    )


def order_frame(in_flight: int, matched: int) -> pd.DataFrame:
    """Orders of both kinds, sorted by request id as the comparison gives them."""
    rows = [_order(number, "in_progress" if number < in_flight else "matched") for number in range(in_flight + matched)]
    frame = pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)
    return frame.sort_values("request_id", ignore_index=True)


def listed(orders: pd.DataFrame) -> ListedOrders:
    """These orders as workbook and page list them, added in parts."""
    found = ListedOrders()
    size = len(orders) // 4 + 1
    for start in range(0, len(orders) + 1, size):
        found.add(orders.iloc[start : start + size])
    return found


def _order(number: int, name: str) -> dict[str, Any]:
    is_final = name == "matched"
    made = f"2026-11-{1 + number % 19:02}T{number % 24:02}:15:00Z"
    return {
        "request_id": request_id(number),
        "run_key": "payroll-2026-11",
        "row_ref": HOSTILE[number % len(HOSTILE)] if number < 20 else f"EMP-{number:05}",
        "operation": "payout_create",
        "class": name,
        "state": "settled" if is_final else "accepted",
        "currency": "USDT" if number % 2 else "JPY",
        "amount": "123456789012345678.123456789012345678" if number % 2 else "1250",
        "receive_currency": "PHP" if number % 2 else None,
        "receive_amount": "1234.50" if number % 2 else None,
        "status": "99" if is_final else "22",
        "order_no": f"P2611{number:012}",
        "seen_fee": "0.25",
        "seen_fee_currency": "USDT",
        "seen_rate": "58.013400000000000001" if number % 2 else None,
        "created_at": made,
        "sent_at": made if number % 3 else None,
        "final_at": "2026-11-20T01:02:03Z" if is_final else None,
    }


def shuffled(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the same rows in another order, with another index."""
    order = list(range(len(frame)))
    random.Random(7).shuffle(order)
    return frame.iloc[order]
