"""Reports a month: every entry of the balance accounts, and what they come to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from treasury.errors import InputError
from treasury.ledger import closing
from treasury.ledger.bookings import adjustments, opened_after, order_bookings, receipt_bookings
from treasury.ledger.counts import controls_of
from treasury.ledger.in_force import rules_at
from treasury.ledger.receipts import learnt_numbers
from treasury.ledger.statement_lines import explaining_lines
from treasury.money import ZERO, exact
from treasury.nights.sweep import stored_sweep
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.reconciliation.balances import BalanceAccount, Lot, Night
from treasury.reconciliation.entries import Name, StatementEntry, last_lines, told_apart
from treasury.reconciliation.months import Booking, EntryKind, draw_month, span_of
from treasury.reconciliation.scope import Scope
from treasury.reconciliation.third_side import is_later_than, roll_accounts
from treasury.reports.month import write_month


@exact
def report_month(desk: Desk, month: str, out: Path | None, policy: Policy) -> Mapping[str, Any]:
    """Write the month (`2026-11`, in the time zone of its policy) of every balance account; return its machine form.

    Raises `InputError` for what is no month, for one that has not begun, and while there is no report of everything.
    """
    ledger = desk.ledger

    def zone_at(moment: int) -> str:
        then = ledger.look(lambda connection: rules_at(connection, ledger.key, moment))
        return (then or policy).time_zone

    span = span_of(month, zone_at)
    if span[0] > ledger.now():
        raise InputError(f"--month {month} has not begun in {policy.time_zone}")
    sweep_id = stored_sweep(desk, Scope())
    nights = closing.balance_nights(ledger, sweep_id)
    lines, learnt = explaining_lines(ledger, sweep_id), learnt_numbers(ledger)
    rolled = roll_accounts(nights, last_lines(lines), learnt, policy)
    accounts = [each for each in rolled if each.currency == each.codes[0]]
    leaders = {code: each.codes[0] for each in accounts for code in each.codes}
    steps = opened_after(ledger, {each.opened_at for each in accounts if each.opened_at is not None})
    first_steps = {
        code: steps[each.opened_at] for each in accounts if each.opened_at is not None for code in each.codes
    }
    others = _Others(lines, learnt)
    stated = others.stated(nights, rolled, policy)
    bookings = [
        *receipt_bookings(ledger, {code: each.opened_at or 0 for each in accounts for code in each.codes}),
        *order_bookings(ledger, first_steps, desk.account.rules.fee_on_top),
        *(booking for each in accounts for booking in _beside_orders(desk, each, others, policy)),
        *(booking for each in accounts for booking in _of_lots(each.currency, stated[each.currency])),
    ]
    bookings = [replace(each, currency=leaders.get(each.currency, each.currency)) for each in bookings]
    first, after = span
    shown = {
        each.currency: night
        for each in accounts
        for together in zip(*(nights[code] for code in each.codes), strict=True)
        for night in together
        if night.balance is not None and first <= night.as_of < after
    }
    drawn, of_month = draw_month(accounts, bookings, shown, span)
    controls = controls_of(ledger, first, after)
    folder = out or desk.settings.home / "months" / month
    return write_month(folder, month, zone_at(after - 1), drawn, of_month, controls)


class _Others:
    """Lines of others' movements, as they were given. One that proves to be ours counts as ours from that moment on."""

    def __init__(self, lines: Sequence[StatementEntry], learnt: Mapping[Name, int]) -> None:
        self.ours_from: dict[str, int] = {}
        """Transaction -> when the ledger learnt that it means this movement, Unix ms."""
        named = list(told_apart(lines))
        for number, line in named:
            for name in learnt.keys() & set(line.names):
                self.ours_from[number] = min(learnt[name], self.ours_from.get(number, learnt[name]))
        self._lines, self._learnt = lines, learnt
        self.lines = [each for each in named if each[1].given_at < self.ours_from.get(each[0], each[1].given_at + 1)]
        """Each with the name of its transaction."""

    def stated(
        self, nights: Mapping[str, Sequence[Night]], rolled: Sequence[BalanceAccount], policy: Policy
    ) -> "dict[str, list[_Stated]]":
        """Return currency -> what lines without a day explained, each when the report said so.

        What a later line corrects, or what proves to be ours, is taken back then: a month that was reported stays.
        """
        undated = {name for name, line in self.lines for each in rolled if not _is_dated(each, line, policy)}
        given: dict[str, list[int]] = {}
        for name, line in self.lines:
            given.setdefault(name, []).append(line.given_at)
        changes = {at for name in undated for at in [*given[name][1:], *filter(None, [self.ours_from.get(name)])]}
        found: dict[str, list[_Stated]] = {each.currency: [] for each in rolled}
        since = 0
        for until in [*sorted(changes), None]:
            accounts = rolled if until is None else self._rolled_before(until, nights, policy)
            for each in accounts:
                booked = found[each.currency]
                said = [(EntryKind.RECEIVED if lot.amount > 0 else EntryKind.PAID, lot) for lot in each.stated]
                for kind in (EntryKind.RECEIVED, EntryKind.PAID):
                    more = sum((lot.amount for its, lot in said if its is kind and lot.at <= since), ZERO)
                    more -= sum((lot.amount for its, lot in booked if its is kind), ZERO)
                    booked += [(kind, Lot(since, more))] if more else []
                booked += [(kind, lot) for kind, lot in said if lot.at > since]
            since = since if until is None else until
        return found

    def _rolled_before(
        self, until: int, nights: Mapping[str, Sequence[Night]], policy: Policy
    ) -> Sequence[BalanceAccount]:
        known = last_lines(line for line in self._lines if line.given_at < until)
        past = {currency: [night for night in some if night.as_of < until] for currency, some in nights.items()}
        return roll_accounts(past, known, {name for name, at in self._learnt.items() if at < until}, policy)


def _is_dated(account: BalanceAccount, line: StatementEntry, policy: Policy) -> bool:
    return line.currency not in account.codes or is_later_than(account.opened_at or 0, line, policy)


_Stated = tuple[EntryKind, Lot]
"""A column of the month, and the amount that a line without a day explained in a report adds to it."""


def _of_lots(currency: str, stated: Sequence[_Stated]) -> Iterator[Booking]:
    """Yield what lines without a day explained of an account."""
    seen = set[str]()
    for kind, lot in stated:
        name = f"S{currency}-{lot.at}"
        yield Booking(f"{name}-{kind.value}" if name in seen else name, lot.at, currency, kind, lot.amount, "statement")
        seen.add(name)


def _beside_orders(desk: Desk, account: BalanceAccount, others: _Others, policy: Policy) -> Iterator[Booking]:
    """Yield the entries of an account that no order of ours made: what its opening lacks of those that end later,
    lines of statements, and what people accepted."""
    if account.debited_then and account.opened_at is not None:
        opened = (account.opened_at, account.currency, EntryKind.PAID, account.debited_then)
        yield Booking(f"O{account.currency}", *opened, "on its way when the account was opened")
    yield from _of_lines(account, others, policy)
    yield from adjustments(desk.ledger, account.currency)


def _of_lines(account: BalanceAccount, others: _Others, policy: Policy) -> Iterator[Booking]:
    """Yield what lines of statements say of an account; of a line that corrects an earlier one, what it says more.

    What a line said is taken back when the ledger learns that the movement is one of its own.
    """
    said: dict[str, tuple[EntryKind, Decimal]] = {}
    for name, entry in others.lines:
        is_entry = entry.has_moved and is_later_than(account.opened_at or 0, entry, policy)
        before = said[name][1] if name in said else ZERO
        moved = (entry.moved if is_entry and entry.currency in account.codes else ZERO) - before
        if moved:
            kind = EntryKind.RECEIVED if entry.is_incoming else EntryKind.PAID
            own = f"S{name}-{entry.given_at}" if name in said else f"S{name}"
            said[name] = kind, before + moved
            yield Booking(own, entry.given_at, account.currency, kind, moved, name, None, None, entry.order_no)
    for number, (kind, amount) in said.items():
        if amount and number in others.ours_from:
            at, named = others.ours_from[number], (number, None, None, number)
            yield Booking(f"S{number}-ours", at, account.currency, kind, -amount, *named)
