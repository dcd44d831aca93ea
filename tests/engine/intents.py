"""Orders that a ledger is given."""

from decimal import Decimal
from typing import Any

from treasury.ledger.intents import commit_plan
from treasury.ledger.ledger import Ledger
from treasury.orders.records import Intent, Order


def intent(ref: str, amount: str = "10.00", **changes: Any) -> Intent:
    payload = {"amount": amount, "account_no": "123456789012"}
    values: dict[str, Any] = {
        "row_ref": ref,
        "operation": "payout",
        "payload": payload,
        "bound_content": payload,
        "currency": "USDT",
        "amount": Decimal(amount),
        **changes,
    }
    return Intent(**values)


def commit(ledger: Ledger, *refs: str, run_key: str = "run") -> list[Order]:
    commit_plan(ledger, run_key, "payout", {}, "0" * 64, [intent(ref) for ref in refs])
    return ledger.orders(run_key=run_key)
