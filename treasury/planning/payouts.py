"""Pure: rows of a spreadsheet in, a payout plan out."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, overload

from treasury.canonical import canonical_json
from treasury.decisions import Bounds
from treasury.errors import LimitExceeded
from treasury.interface.fiat_payouts import CreateFiatPayout
from treasury.interface.orders import Payout
from treasury.ledger.records import Intent
from treasury.money import canonical, exact, format_amount
from treasury.planning.limits import PayoutLimits, PayoutPolicy, approvals_needed, check_run_total
from treasury.sheets.beneficiaries import PayoutRow, Route


@dataclass(frozen=True)
class PayoutPlan:
    """What a run is going to pay, before anything is sent."""

    run_key: str
    rows: Sequence[PayoutRow]
    debits: Mapping[str, Decimal]
    """Currency -> sum of what is certain to be debited."""
    receipts: Mapping[str, Decimal]
    """Currency -> sum of what beneficiaries receive, where the rows fix that and the debit is quoted later."""
    sha256: str
    policy: PayoutPolicy | None

    @property
    def approvals(self) -> int:
        """How many people besides its maker have to approve it."""
        return 0 if self.policy is None else approvals_needed(self.debits, self.policy.payouts)

    @property
    def limits(self) -> PayoutLimits:
        """The limits of its policy; without one there are none."""
        return PayoutLimits() if self.policy is None else self.policy.payouts

    @property
    def intents(self) -> Sequence[Intent]:
        """The payment of each row."""
        return _Intents(self.rows, self.limits)

    def as_dict(self) -> dict[str, Any]:
        """The plan as people and machines may read it: masked, amounts as text."""
        return {**self.summary(), "rows": [_shown(row) for row in self.rows]}

    def summary(self) -> dict[str, Any]:
        """The plan without its rows."""
        return {
            "run_key": self.run_key,
            "payments": len(self.rows),
            "debits": {currency: format_amount(total) for currency, total in self.debits.items()},
            "receipts": {currency: format_amount(total) for currency, total in self.receipts.items()},
            "limits": "none: no policy was given" if self.policy is None else f"policy {self.policy.version[:12]}",
            "approvals_needed": self.approvals,
            "stop_loss": {"alike": self.limits.stop_after_alike, "percent": self.limits.stop_above_percent},
            "plan_sha256": self.sha256,
        }


@dataclass(frozen=True)
class _Intents(Sequence[Intent]):
    """Intents that are made when they are looked at: all at once they need several times the memory of their rows."""

    rows: Sequence[PayoutRow]
    limits: PayoutLimits

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Intent: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Intent]: ...
    def __getitem__(self, place: int | slice) -> Intent | Sequence[Intent]:
        if isinstance(place, slice):
            return _Intents(self.rows[place], self.limits)
        return plan_row(self.rows[place], self.limits)


@exact
def plan_payouts(run_key: str, rows: Sequence[PayoutRow], policy: PayoutPolicy | None = None) -> PayoutPlan:
    """Plan the payment of these rows: one intent a row, sums per currency, a hash over what a person approves.

    The hash covers the rows' meaning, the bounds of their quotes and the policy's version; not balances, rates or
    times. Raises `LimitExceeded` when the sums are over the policy's limit for a run.
    """
    limits = PayoutLimits() if policy is None else policy.payouts
    debits: dict[str, Decimal] = defaultdict(Decimal)
    receipts: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        most = limits.most_per_payout.get(row.currency)
        if row.amount is not None:
            debits[row.currency] += row.amount
        elif most is not None:
            debits[row.currency] += most  # what its quote may ask at the most
        if row.amount is None and row.receive_amount is not None:
            receipts[row.receive_currency] += row.receive_amount
    over = check_run_total(debits, limits)
    if over is not None:
        raise LimitExceeded(f"run {run_key}: {over}; nothing was sent")
    sha256 = _hash_of(rows, limits, None if policy is None else policy.version)
    return PayoutPlan(run_key, rows, dict(sorted(debits.items())), dict(sorted(receipts.items())), sha256, policy)


def _hash_of(rows: Sequence[PayoutRow], limits: PayoutLimits, version: str | None) -> str:
    """SHA-256 of `{"bounds": {row_ref: bounds}, "policy": version, "rows": {row_ref: meaning}}` as canonical JSON.

    Member by member: the whole text of a large run would need more memory than its rows.
    """
    by_ref = sorted(rows, key=lambda row: row.row_ref)
    found = hashlib.sha256()

    def add(name: str, member: Callable[[PayoutRow], object]) -> None:
        found.update(f'"{name}":{{'.encode())
        for place, row in enumerate(by_ref):
            found.update(f"{',' if place else ''}{canonical_json(row.row_ref)}:{canonical_json(member(row))}".encode())
        found.update(b"}")

    found.update(b"{")
    add("bounds", lambda row: _bounds(row, limits).as_dict() if row.route is Route.QUOTED else None)
    found.update(f',"policy":{canonical_json(version)},'.encode())
    add("rows", lambda row: row.meaning)
    found.update(b"}")
    return found.hexdigest()


OPERATIONS: Mapping[Route, str] = {
    Route.DIRECT: Payout.operation_name(),
    Route.QUOTED: CreateFiatPayout.operation_name(),
}
"""Route -> the operation that moves the money."""


def plan_row(row: PayoutRow, limits: PayoutLimits = PayoutLimits()) -> Intent:
    """The payment a row asks for."""
    payload = dict(row.fields) if row.route is Route.DIRECT else _quoted_payload(row, limits)
    return Intent(
        row_ref=row.row_ref,
        operation=OPERATIONS[row.route],
        payload=payload,
        meaning=row.meaning,
        currency=row.currency,
        amount=row.amount,
        receive_currency=row.receive_currency,
        receive_amount=row.receive_amount,
        alike=_alike(row),
        duplicate_ok=row.duplicate_ok,
    )


def _alike(row: PayoutRow) -> tuple[str, ...]:
    amount, currency = row.amount, row.currency
    if amount is None:
        amount, currency = row.receive_amount, row.receive_currency
    return (row.payee, currency, "" if amount is None else canonical(amount))


def _bounds(row: PayoutRow, limits: PayoutLimits) -> Bounds:
    return Bounds(
        pay_currency=row.currency,
        receive_currency=row.receive_currency,
        pay_amount=row.amount,
        receive_amount=row.receive_amount,
        most_pay=limits.most_per_payout.get(row.currency),
        least_rate=limits.least_rates.get(f"{row.currency}-{row.receive_currency}"),
    )


def _quoted_payload(row: PayoutRow, limits: PayoutLimits) -> dict[str, Any]:
    confirm = {"purpose_code": row.purpose_code, "description": row.description}
    return {
        "quote": dict(row.fields),
        "confirm": {name: value for name, value in confirm.items() if value is not None},
        "bounds": _bounds(row, limits).as_dict(),
    }


def _shown(row: PayoutRow) -> dict[str, Any]:
    amount, receive_amount = row.amount, row.receive_amount
    return {
        "row_ref": row.row_ref,
        "operation": OPERATIONS[row.route],
        "currency": row.currency,
        "amount": None if amount is None else format_amount(amount),
        "receive_currency": row.receive_currency,
        "receive_amount": None if receive_amount is None else format_amount(receive_amount),
    }
