"""Pure: everything remarkable of a night, from orders, card users, the statement and the balances."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pandas as pd

from treasury.money import canonical
from treasury.reconciliation.balances import BalanceAccount, Lot
from treasury.reconciliation.breaks import RESOLVED, Break, Finding
from treasury.reconciliation.classes import BALANCE_CLASSES, UNREMARKABLE, Answer
from treasury.reconciliation.entries import StatementEntry
from treasury.reconciliation.evidence import difference, evidence

ZERO = Decimal(0)

PASSED = "3"
"""`kyc_status` of a card user who passed (public fact 2.4)."""


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


def of_receipts(receipts: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Find pay-ins of ours that could not be asked about, or that the service does not know."""
    for receipt in receipts:
        if receipt.get("answer") == Answer.FOUND:
            continue
        name, said = "query_failed", f"could not be asked ({receipt.get('seen_reason') or 'no answer'})"
        if receipt.get("answer") == Answer.ABSENT:
            name, said = "missing_at_service", "the service knows no such pay-in: its request may have been lost"
        amount, named = Decimal(receipt["amount"]), (receipt["request_id"], receipt["currency"])
        yield Finding(
            named[0], name, *named, amount, ZERO, f"pay-in {named[0]}: {said}", operation=receipt["operation"]
        )


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


def of_balances(accounts: Sequence[BalanceAccount]) -> Iterator[Finding]:
    """Find the lots of the balance accounts: what no order and no person explains; those of a pooled balance once."""
    return (of_lot(account, lot) for account in accounts if _is_first(account) for lot in account.lots)


def _is_first(account: BalanceAccount) -> bool:
    return account.currency == account.codes[0]


def of_openings(accounts: Sequence[BalanceAccount], as_of: int, accepted: Collection[str]) -> Iterator[Finding]:
    """Openings of balance accounts that nobody has accepted before this report, one finding for each report that opened
    any: what is judged from then on rests on them."""
    opened: dict[int, list[BalanceAccount]] = {}
    for account in accounts:
        if account.opened_at is not None and _is_first(account):
            opened.setdefault(account.opened_at, []).append(account)
    for at, some in opened.items():
        found = Finding(f"opening {at}", "opening", None, None, None, ZERO, _opened_with(at, some))
        if at == as_of or found.id not in accepted:
            yield found


def _opened_with(at: int, accounts: Sequence[BalanceAccount]) -> str:
    words = ", ".join(f"{canonical(each.opening or ZERO)} {' = '.join(each.codes)}" for each in accounts)
    named = list(dict.fromkeys(name for each in accounts for name in each.open_then))
    words = f"the balances at {_when(at)}: {words}"
    if named:
        words += f"; open at that time, so that their debit may be inside or still to come: {', '.join(named)}"
    return words


def of_lot(account: BalanceAccount, lot: Lot) -> Finding:
    """Return a lot as a finding; its subject names the balance and the report that found it."""
    found, at = canonical(abs(lot.amount)), _when(lot.at)
    words = f"{found} more {'came in' if lot.amount > 0 else 'left'} than the orders explain, found {at}; the account "
    words += f"was opened {_when(account.opened_at or lot.at)} with {canonical(account.opening or ZERO)}"
    if len(account.codes) > 1:
        words += f"; {' and '.join(account.codes)} show one balance"
    if lot.fees and abs(lot.amount) == abs(lot.fees):
        words += "; it is the sum of the fees of what arrived: see fee_on_top in the account's [service]"
    if lot.ruled and abs(lot.amount) == lot.ruled:
        words += "; it is the sum of what was on its way: see debited_when in the account's [service]"
    return Finding(
        subject=f"balance {account.codes[0]} {lot.at}",
        name="unexplained_inflow" if lot.amount > 0 else "balance_gap",
        request_id=None,
        currency=account.codes[0],
        amount=abs(lot.amount),
        difference=-lot.amount,
        evidence=words,
    )


def with_what_ended_it(each: Break, accounts: Sequence[BalanceAccount]) -> Break:
    """Return a break; where it is a lot that entries of this report ended, its evidence names them."""
    if each.lifecycle != RESOLVED or each.accepted is not None or each.found.name not in BALANCE_CLASSES:
        return each
    flows = [account.last.flows for account in accounts if account.currency == each.found.currency]
    orders = ", ".join(name for some in flows for name in some.late_named)
    lines = ", ".join(f"{canonical(line.amount)} of a statement" for some in flows for line in some.lines)
    said = "; ".join(filter(None, (f"{each.found.evidence}; ended by entries of this report", orders, lines)))
    return replace(each, found=replace(each.found, evidence=said))


def _when(unix_ms: int) -> str:
    return f"{datetime.fromtimestamp(unix_ms // 1000, UTC):%Y-%m-%d %H:%M} UTC"
