"""Both sides of one order, as the comparison takes them."""

from typing import Any

from treasury.reconciliation.sides import COLUMNS

AS_OF = 1_795_230_000_000
"""2026-11-21T03:00:00Z in Unix ms."""

HOUR = 3_600_000


def side(**changes: Any) -> dict[str, Any]:
    ours: dict[str, Any] = {"request_id": "r1", "run_key": "run", "row_ref": "a", "operation": "payout"}
    ours |= {
        "state": "accepted",
        "currency": "USDT",
        "amount": "10.00",
        "receive_currency": "IDR",
        "receive_amount": None,
    }
    ours |= {"created_at": AS_OF - 2 * HOUR, "sent_at": AS_OF - HOUR}
    theirs: dict[str, Any] = {"answer": "found", "status": 22, "order_no": "P1", "seen_currency": "USDT"}
    theirs |= {"seen_amount": "10"}
    return {**dict.fromkeys(COLUMNS), **ours, **theirs, **changes}


def absent(**changes: Any) -> dict[str, Any]:
    gone = dict.fromkeys(("status", "order_no", "seen_currency", "seen_amount"))
    return side(answer="absent", **{**gone, **changes})
