"""Reports a month: every entry of the balance accounts, and what they come to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from treasury.ledger import closing
from treasury.ledger.adjustments import adjustments
from treasury.ledger.bookings import opened_after, order_bookings, receipt_bookings
from treasury.ledger.controls import controls_of
from treasury.ledger.receipts import known_numbers
from treasury.ledger.statement_lines import explaining_lines, last_lines
from treasury.money import ZERO, exact
from treasury.nights.sweep import stored_sweep
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.reconciliation.balances import BalanceAccount
from treasury.reconciliation.entries import StatementEntry
from treasury.reconciliation.months import Booking, EntryKind, draw_month, span_of
from treasury.reconciliation.scope import Scope
from treasury.reconciliation.third_side import is_later_than, roll_accounts
from treasury.reports.month import write_month


@exact
def report_month(desk: Desk, month: str, out: Path | None, policy: Policy) -> Mapping[str, Any]:
    """Write the month (`2026-11`, in the policy's time zone) of every balance account; return its machine form.

    Raises `InputError` for what is no month, and while there is no report of everything.
    """
    ledger, span = desk.ledger, span_of(month, policy.time_zone)
    sweep_id = stored_sweep(desk, Scope())
    nights = closing.balance_nights(ledger, sweep_id)
    lines, ours = explaining_lines(ledger, sweep_id), known_numbers(ledger, sweep_id)
    rolled = roll_accounts(nights, last_lines(lines), ours, policy)
    accounts = [each for each in rolled if each.currency == each.codes[0]]
    leaders = {code: each.codes[0] for each in accounts for code in each.codes}
    steps = opened_after(ledger, {each.opened_at for each in accounts if each.opened_at is not None})
    first_steps = {
        code: steps[each.opened_at] for each in accounts if each.opened_at is not None for code in each.codes
    }
    others = [line for line in lines if not {line.order_no, line.request_id} & ours]
    bookings = [
        *receipt_bookings(ledger, {code: each.opened_at or 0 for each in accounts for code in each.codes}),
        *order_bookings(ledger, first_steps, desk.account.rules.fee_on_top),
        *(booking for each in accounts for booking in _beside_orders(desk, each, others, policy)),
    ]
    bookings = [replace(each, currency=leaders.get(each.currency, each.currency)) for each in bookings]
    first, after = span
    shown = {
        each.currency: night.balance
        for each in accounts
        for night in nights[each.currency]
        if night.balance is not None and first <= night.as_of < after
    }
    drawn, of_month = draw_month(accounts, bookings, shown, span)
    controls = controls_of(ledger, first, after)
    return write_month(out or desk.settings.home / "months" / month, month, policy.time_zone, drawn, of_month, controls)


def _beside_orders(
    desk: Desk, account: BalanceAccount, others: Sequence[StatementEntry], policy: Policy
) -> Iterator[Booking]:
    """Yield the entries of an account that no order of ours made: what its opening lacks of those that end later,
    lines of statements, and what people accepted."""
    if account.debited_then and account.opened_at is not None:
        opened = (account.opened_at, account.currency, EntryKind.PAID, account.debited_then)
        yield Booking(f"O{account.currency}", *opened, "on its way when the account was opened")
    yield from _of_lines(account, others, policy)
    for lot in account.stated:
        kind = EntryKind.RECEIVED if lot.amount > 0 else EntryKind.PAID
        yield Booking(f"S{account.currency}-{lot.at}", lot.at, account.currency, kind, lot.amount, "statement")
    yield from adjustments(desk.ledger, account.currency)


def _of_lines(account: BalanceAccount, others: Sequence[StatementEntry], policy: Policy) -> Iterator[Booking]:
    """Yield what lines of statements say of an account; of a line that corrects an earlier one, what it says more."""
    said: dict[str, Decimal] = {}
    for entry in others:
        is_entry = entry.has_moved and is_later_than(account.opened_at or 0, entry, policy)
        amount = entry.amount if is_entry and entry.currency in account.codes else ZERO
        moved = (amount if entry.is_incoming else -amount) - said.get(entry.order_no, ZERO)
        if moved:
            kind = EntryKind.RECEIVED if entry.is_incoming else EntryKind.PAID
            name = f"S{entry.order_no}-{entry.given_at}" if entry.order_no in said else f"S{entry.order_no}"
            said[entry.order_no] = said.get(entry.order_no, ZERO) + moved
            named = (entry.order_no, None, None, entry.order_no)
            yield Booking(name, entry.given_at, account.currency, kind, moved, *named)
