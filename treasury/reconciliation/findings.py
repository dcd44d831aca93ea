"""Pure: everything remarkable of a night, from orders, card users, statement and balances, in words and money."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pandas as pd

from treasury.money import ZERO, canonical, exact, format_amount, is_same_currency, parse_reply_amount
from treasury.orders.states import State
from treasury.provider.card_users import JUDGED, NOT_SET, PASSED, REFUSED
from treasury.provider.status import OrderStatus
from treasury.reconciliation.balances import BalanceAccount, Lot
from treasury.reconciliation.breaks import DAY_MS, RESOLVED, Break, Finding
from treasury.reconciliation.classes import ABOVE_BOUND, BALANCE_CLASSES, CHANGED, UNREMARKABLE, Answer
from treasury.reconciliation.entries import INCOMING, Name, Numbers, StatementEntry, names_of, told_apart

_LEFT = (State.SENDING, State.UNKNOWN, State.ACCEPTED, State.SETTLED)
"""States in which our books have the amount as gone, or on its way."""


@exact
def difference(record: Mapping[str, Any]) -> Decimal:
    """How much more left than the ledger says (negative: less), in the order's currency; zero where unclear."""
    name, ours = record["class"], _decimal(record["amount"])
    seen = None if record["only_quoted"] else _decimal(record["seen_amount"])
    stated = _decimal(record.get("line_amount"))
    if name == "amount_mismatch":
        shown = seen if seen is not None and seen != ours else stated
        return shown - ours if shown is not None and ours is not None else ZERO
    if name in ("partial", ABOVE_BOUND):
        return _beyond(record)
    if name in ("orphan_success", "duplicate_effect"):
        return next((whole for whole in (seen, stated, ours) if whole is not None), ZERO)
    if name == "missing_in_statement" and ours is not None:
        return -ours
    if name in ("missing_at_service", "reversed_after_final") and record["state"] in _LEFT:
        return -next((whole for whole in (ours, seen) if whole is not None), ZERO)
    return ZERO


def _beyond(record: Mapping[str, Any]) -> Decimal:
    """Return what was debited beyond the bound; of one that arrived in part what arrived less what should have."""
    if record["class"] == ABOVE_BOUND:
        return _decimal(record["over_bound"]) or ZERO
    arrived, should = _decimal(record["arrive_amount"]), _decimal(record["should_arrive"])
    return ZERO if arrived is None or should is None else arrived - should


def evidence(record: Mapping[str, Any]) -> str:
    """Both sides in words, and the statement's where there is one."""
    names = ("state", "amount", "currency", "receive_amount", "receive_currency")
    ours = _side(*(record[name] for name in names))
    quoted = _terms(record["fee"], record["fee_currency"], record["rate"])
    quoted += f", at most {_amount(record['bound'])} with its fee" if record["class"] == ABOVE_BOUND else ""
    told = [f"ledger: {ours}{quoted}", f"service: {_service(record)}"]
    if record.get("changed"):
        told.append(f"changed in the database: {record['changed']}")
    if record.get("line_words"):
        told.append(f"statement: {record['line_words']}")
    elif record.get("line_lacks"):
        told.append("statement: no such order")
    return "; ".join(told)


def _service(record: Mapping[str, Any]) -> str:
    if record["answer"] == Answer.ABSENT:
        return "no such order"
    if record["answer"] != Answer.FOUND:
        return f"could not be asked ({record['seen_reason'] or 'no answer'})"
    status = None if record["status"] is None else OrderStatus(int(record["status"]))
    shown = "no status" if status is None else f"{int(status)} {status.name.lower()}"
    names = ("seen_amount", "seen_currency", "seen_receive_amount", "seen_receive_currency")
    said = _side(shown, *(record[name] for name in names))
    said += _terms(record["seen_fee"], record["seen_fee_currency"], record["seen_rate"])
    if record["arrive_amount"] is not None and status is OrderStatus.SUCCESS:
        said += f", {_amount(record['arrive_amount'])} arrived"
    if record["order_no"] is not None and record["known_order_no"] not in (None, record["order_no"]):
        said += f", as order {record['order_no']} instead of {record['known_order_no']}"
    if record["seen_request_id"] is not None:
        said += f", as request id {record['seen_request_id']}"
    if record["unreadable"]:
        said += f", unreadable {record['unreadable']}"
    return said + (f" ({record['seen_reason']})" if record["seen_reason"] else "")


def _side(state: object, amount: object, currency: str | None, receive: object, receive_currency: str | None) -> str:
    money = "" if amount is None else f" {_amount(amount)} {currency or ''}".rstrip()
    arrives = "" if receive is None else f" for {_amount(receive)} {receive_currency or ''}".rstrip()
    return f"{state}{money}{arrives}"


def _terms(fee: object, fee_currency: str | None, rate: object) -> str:
    said = "" if fee is None else f", fee {_amount(fee)} {fee_currency or ''}".rstrip()
    return said + ("" if rate is None else f", rate {_amount(rate)}")


def _decimal(value: object) -> Decimal | None:
    return None if value is None else Decimal(str(value))


def _amount(value: object) -> str:
    return format_amount(value) if isinstance(value, Decimal) else str(value)


LINE = "statement "
"""Beginning of the subject of what a line of a statement shows."""

NOTIFICATION = "notification "
"""Beginning of the subject of what a notification told."""


def records(orders: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of a frame, one by one."""
    names = [str(name) for name in orders.columns]
    for values in zip(*(orders[name] for name in names), strict=True):
        yield dict(zip(names, values, strict=True))


def of_orders(orders: pd.DataFrame) -> Iterator[Finding]:
    """Orders whose class is remarkable."""
    for record in records(orders[~orders["class"].isin(UNREMARKABLE)]):
        is_of_ours = is_same_currency(record["currency"], record["seen_currency"])
        amount = record["amount"] if record["amount"] is not None else record["seen_amount" if is_of_ours else "bound"]
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


def of_changed(reports: Mapping[int, tuple[int, str]]) -> Iterator[Finding]:
    """Reports that somebody changed in the database: number of the sweep -> when it was made (Unix ms), and what stands
    for what is there now, so that nobody accepts another change with it."""
    for number, (at, now) in reports.items():
        words = f"what the report of {_when(at)} says, which this one adds up, or the rows that it counted (steps of "
        words += "orders, pay-ins, lines of statements, acceptances, the report before it) were changed in the database"
        yield Finding(f"report {number} {now}", CHANGED, None, None, None, ZERO, words)


def of_database(made_by_hand: Mapping[str, str]) -> Iterator[Finding]:
    """Triggers, views and rules that the database should not have, in words -> a hash of what each does."""
    for name, does in made_by_hand.items():
        words = f"the database has the {name}, which this program did not make: it may change what is written and read"
        yield Finding(f"{name} {does}", CHANGED, None, None, None, ZERO, words)


def of_card_users(users: Sequence[Mapping[str, Any]], as_of: int, unused_days: int) -> Iterator[Finding]:
    """Card users who could not be asked, are gone, were refused, lost a check or a level that they had passed, or have
    not used their link for so many days.
    """
    for user in users:
        now, level = user.get("seen_kyc_status"), user.get("seen_kyc_level")
        has_passed = user.get("kyc_status") == PASSED or user.get("passed_at") is not None
        days = (as_of - (user.get("first_at") or as_of)) // DAY_MS
        if user.get("answer") == Answer.ABSENT:
            name, said = "missing_at_service", "the service knows no such card user"
        elif user.get("answer") != Answer.FOUND:
            name, said = "query_failed", f"could not be asked ({user.get('seen_reason') or 'no answer'})"
        elif has_passed and now != PASSED and not _is_judged_again(user):
            name, said = "status_conflict", f"the identity check was passed (3), and is {now} now"
        elif has_passed and level is not None and (user.get("passed_level") or "") > level:
            name, said = "status_conflict", f"passed {user['passed_level']}, and has {level} now"
        elif now == REFUSED:
            name, said = "kyc_refused", "the identity check was refused (4)"
        elif now in (None, NOT_SET) and days >= unused_days:
            name, said = "kyc_unused", f"known for {days} days, and no identity data was handed in"
        else:
            continue
        subject = user["request_id"]
        yield Finding(subject, name, subject, None, None, ZERO, f"card user {user['user_xid']}: {said}")


def _is_judged_again(user: Mapping[str, Any]) -> bool:
    """Tell whether somebody who passed has the level still, and is judged for a higher one."""
    level = user.get("seen_kyc_level")
    return user.get("seen_kyc_status") in JUDGED and level is not None and level >= (user.get("passed_level") or level)


def of_receipts(
    receipts: Sequence[Mapping[str, Any]], taken_back: Mapping[str, tuple[str, Decimal]]
) -> Iterator[Finding]:
    """Find pay-ins and deposits that could not be asked about, that the service does not know, or took back, and
    pay-ins that were paid with another amount than was asked for. `taken_back`: what some had brought before.
    """
    for receipt in receipts:
        if receipt.get("answer") == Answer.FOUND:
            back = taken_back.get(receipt["request_id"])
            yield from _paid_otherwise(receipt) if back is None else [_reversed(receipt, *back)]
            continue
        name, said = "query_failed", f"could not be asked ({receipt.get('seen_reason') or 'no answer'})"
        kind = "deposit" if receipt.get("order_type") == "charge" else "pay-in"
        told = "order_type" in receipt
        why = "a notification of the platform told of it" if told else "its request may have been lost"
        if receipt.get("answer") == Answer.ABSENT:
            name, said = "missing_at_service", f"the service knows no such {kind}: {why}"
        amount, named = Decimal(receipt["amount"]), (receipt["request_id"], receipt["currency"])
        yield Finding(
            named[0], name, *named, amount, ZERO, f"{kind} {named[0]}: {said}", operation=receipt["operation"]
        )


def _reversed(receipt: Mapping[str, Any], currency: str, brought: Decimal) -> Finding:
    named, kind = receipt["request_id"], "deposit" if receipt.get("order_type") == "charge" else "pay-in"
    came, now = f"{canonical(brought)} {currency} had come", f"the service shows {receipt['status']} now"
    said, operation = f"{kind} {named}: {came}, and were taken back: {now}", receipt["operation"]
    return Finding(named, "reversed_after_final", named, currency, brought, brought, said, operation=operation)


@exact
def _paid_otherwise(receipt: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare what a customer paid with the invoice: what arrived and the fee, else the amount that is shown."""
    asked, currency = Decimal(receipt["amount"]), receipt["currency"]
    is_in_kind = receipt.get("seen_fee_currency") in (None, currency)
    arrived, shown = receipt.get("arrive_amount") if is_in_kind else None, receipt.get("seen_amount")
    if receipt.get("order_type") == "charge" or receipt.get("status") != OrderStatus.SUCCESS:
        return
    if receipt.get("seen_currency") not in (None, currency) or (arrived is None and shown is None):
        return
    paid = Decimal(shown or 0) if arrived is None else Decimal(arrived) + Decimal(receipt.get("seen_fee") or 0)
    if paid == asked:
        return
    named, how = receipt["request_id"], "less" if paid < asked else "more"
    said = f"pay-in {named}: {canonical(paid)} {currency} were paid, {how} than the {canonical(asked)} asked for"
    yield Finding(named, "paid_otherwise", named, currency, asked, asked - paid, said, operation=receipt["operation"])


def of_statement(
    entries: Sequence[StatementEntry], known_numbers: Collection[Name]
) -> Iterator[tuple[StatementEntry, Finding]]:
    """Transactions of the statement behind which no intent of this ledger stands: payments, and pay-ins that are done.

    A deposit is not among them: a line says no address, so that it may be to one of a customer.
    """
    for name, entry in told_apart(entries):
        is_unexpected = entry.is_payin and entry.has_moved
        if entry.is_among(known_numbers):
            continue
        if entry.has_effect or is_unexpected:
            yield (
                entry,
                Finding(
                    subject=f"{LINE}{name}",
                    name="unexpected_deposit" if is_unexpected else "missing_in_ledger",
                    request_id=entry.request_id,
                    currency=entry.currency,
                    amount=entry.amount,
                    difference=ZERO if is_unexpected else entry.amount,
                    evidence=f"statement: {entry.words}; ledger: no such {'pay-in' if is_unexpected else 'order'}",
                    order_no=entry.order_no,
                ),
            )


def subjects_of(notices: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the subject of what each notification told."""
    numbers = Numbers()
    named = (numbers.name_of(each["order_no"] or each["request_id"], each["order_type"]) for each in notices)
    return [f"{NOTIFICATION}{name}" for name in named]


def of_notices(notices: Sequence[Mapping[str, Any]], known_numbers: Collection[Name]) -> Iterator[Finding]:
    """Orders that the platform notified us of, and behind which no intent of this ledger stands; of money that came in
    those that cannot be asked about, for lack of a request id that is one."""
    for subject, notice in zip(subjects_of(notices), notices, strict=True):
        kind, is_incoming = notice["order_type"] or "order", notice["order_type"] in INCOMING
        # A service may count what comes in by itself: its number may be that of an order of ours.
        by_number = None if is_incoming and notice["request_id"] else notice["order_no"]
        if any(name in known_numbers for name in names_of(by_number, notice["request_id"], notice["order_type"])):
            continue
        try:
            amount = parse_reply_amount(notice["amount"] or "0")
        except ValueError:
            amount = ZERO
        words = f"{kind}, status {notice['status'] or 'not said'}, last told {_when(notice['received_at'])}"
        yield Finding(
            subject=subject,
            name="unexpected_deposit" if is_incoming else "missing_in_ledger",
            request_id=notice["request_id"],
            currency=notice["currency"],
            amount=amount,
            difference=ZERO if is_incoming else amount,
            evidence=f"notification: {words}; ledger: no such {'receipt' if is_incoming else 'order'}",
            order_no=notice["order_no"],
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
