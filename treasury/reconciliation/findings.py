"""Pure: everything remarkable of a night, from orders, card users, the statement and the balances."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pandas as pd

from treasury.reconciliation.balances import BalanceLine, Judgement
from treasury.reconciliation.breaks import Finding
from treasury.reconciliation.classes import UNREMARKABLE, Answer
from treasury.reconciliation.entries import StatementEntry
from treasury.reconciliation.evidence import difference, evidence

ZERO = Decimal(0)

PASSED = "3"
"""`kyc_status` of a card user who passed (public fact 2.4)."""

BALANCE_CLASSES = {Judgement.OUTFLOW: "balance_gap", Judgement.INFLOW: "unexplained_inflow"}


def records(orders: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of a frame, one by one."""
    names = [str(name) for name in orders.columns]
    for values in zip(*(orders[name] for name in names), strict=True):
        yield dict(zip(names, values, strict=True))


def of_orders(orders: pd.DataFrame) -> Iterator[Finding]:
    """Orders whose class is remarkable."""
    for record in records(orders[~orders["class"].isin(UNREMARKABLE)]):
        amount = record["amount"] if record["amount"] is not None else record["seen_amount"]
        yield Finding(
            subject=record["request_id"],
            name=record["class"],
            request_id=record["request_id"],
            currency=record["currency"] or record["seen_currency"],
            amount=None if amount is None else Decimal(amount),
            difference=difference(record),
            evidence=evidence(record),
            run_key=record["run_key"],
            row_ref=record["row_ref"],
            operation=record["operation"],
            order_no=record["order_no"] or record["known_order_no"],
        )


def of_card_users(users: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Card users who could not be asked, are gone, or whose passed identity check is no more."""
    for user in users:
        before, now = user.get("kyc_status"), user.get("seen_kyc_status")
        if user.get("answer") == Answer.ABSENT:
            name, said = "missing_at_service", "the service knows no such card user"
        elif user.get("answer") != Answer.FOUND:
            name, said = "query_failed", f"could not be asked ({user.get('seen_reason') or 'no answer'})"
        elif before == PASSED and now != PASSED:
            name, said = "status_conflict", f"the identity check was passed (3), and is {now} now"
        else:
            continue
        subject = user["request_id"]
        yield Finding(subject, name, subject, None, None, ZERO, f"card user {user['user_xid']}: {said}")


def of_statement(entries: Sequence[StatementEntry], known_numbers: Collection[str]) -> Iterator[Finding]:
    """Transactions of the statement behind which no intent of this ledger stands."""
    for entry in entries:
        if entry.has_effect and entry.request_id not in known_numbers and entry.order_no not in known_numbers:
            yield Finding(
                subject=f"statement {entry.order_no}",
                name="missing_in_ledger",
                request_id=entry.request_id,
                currency=entry.currency,
                amount=entry.amount,
                difference=entry.amount,
                evidence=f"statement: {entry.words}; ledger: no such order",
                order_no=entry.order_no,
            )


def of_balances(balances: Sequence[BalanceLine]) -> Iterator[Finding]:
    """Balances that changed by more than the orders explain."""
    for line in balances:
        if line.judgement in BALANCE_CLASSES and line.unexplained is not None:
            said = line.as_text()
            words = (
                f"balance {said['opening']} at the last report, {said['closing']} now: {said['change']}; "
                f"the orders explain {said['explained_low']} to {said['explained_high']}"
            )
            yield Finding(
                subject=f"balance {line.currency}",
                name=BALANCE_CLASSES[line.judgement],
                request_id=None,
                currency=line.currency,
                amount=abs(line.unexplained),
                difference=-line.unexplained,
                evidence=words,
            )
