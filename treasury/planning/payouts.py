"""Pure: rows of a spreadsheet in, a payout plan out."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from treasury.decisions import Bounds
from treasury.interface.fiat_payouts import CreateFiatPayout, FiatPayoutQuote
from treasury.interface.operation import mask_fields
from treasury.interface.orders import Payout
from treasury.ledger.records import Intent
from treasury.money import format_amount
from treasury.sheets.beneficiaries import PayoutRow, Route


@dataclass(frozen=True)
class PayoutPlan:
    """What a run is going to pay, before anything is sent."""

    run_key: str
    intents: Sequence[Intent]
    debits: Mapping[str, Decimal]
    """Currency -> sum of what is certain to be debited."""
    receipts: Mapping[str, Decimal]
    """Currency -> sum of what beneficiaries receive, where the rows fix that and the debit is quoted later."""
    sha256: str

    def as_dict(self) -> dict[str, Any]:
        """The plan as people and machines may read it: masked, amounts as text."""
        return {
            "run_key": self.run_key,
            "payments": len(self.intents),
            "debits": {currency: format_amount(total) for currency, total in self.debits.items()},
            "receipts": {currency: format_amount(total) for currency, total in self.receipts.items()},
            "limits": "none: this run has no policy limits",
            "plan_sha256": self.sha256,
            "rows": [_row(intent) for intent in self.intents],
        }


def plan_payouts(run_key: str, rows: Sequence[PayoutRow]) -> PayoutPlan:
    """Plan the payment of these rows: one intent a row, sums per currency, a hash over what they mean."""
    debits: dict[str, Decimal] = defaultdict(Decimal)
    receipts: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        if row.amount is not None:
            debits[row.currency] += row.amount
        elif row.receive_amount is not None:
            receipts[row.receive_currency] += row.receive_amount
    meanings = {row.row_ref: row.meaning for row in rows}
    text = json.dumps(meanings, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return PayoutPlan(
        run_key,
        [plan_row(row) for row in rows],
        dict(sorted(debits.items())),
        dict(sorted(receipts.items())),
        hashlib.sha256(text.encode()).hexdigest(),
    )


def plan_row(row: PayoutRow) -> Intent:
    """The payment a row asks for."""
    if row.route is Route.DIRECT:
        operation, payload = Payout.operation_name(), dict(row.fields)
        masked = mask_fields(Payout, row.fields)
    else:
        operation, payload = CreateFiatPayout.operation_name(), _quoted_payload(row)
        masked = mask_fields(FiatPayoutQuote, row.fields) | payload["confirm"]
    return Intent(
        row_ref=row.row_ref,
        operation=operation,
        payload=payload,
        meaning=row.meaning,
        masked=masked,
        currency=row.currency,
        amount=row.amount,
        receive_currency=row.receive_currency,
        receive_amount=row.receive_amount,
    )


def _quoted_payload(row: PayoutRow) -> dict[str, Any]:
    bounds = Bounds(
        pay_currency=row.currency,
        receive_currency=row.receive_currency,
        pay_amount=row.amount,
        receive_amount=row.receive_amount,
    )
    confirm = {"purpose_code": row.purpose_code, "description": row.description}
    return {
        "quote": dict(row.fields),
        "confirm": {name: value for name, value in confirm.items() if value is not None},
        "bounds": bounds.as_dict(),
    }


def _row(intent: Intent) -> dict[str, Any]:
    return {
        "row_ref": intent.row_ref,
        "operation": intent.operation,
        "currency": intent.currency,
        "amount": None if intent.amount is None else format_amount(intent.amount),
        "receive_currency": intent.receive_currency,
        "receive_amount": None if intent.receive_amount is None else format_amount(intent.receive_amount),
    }
