"""Entries of the balance accounts, read from the ledger: what each order's final step moved, once and for ever."""

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from sqlalchemy import select

from treasury.ledger import schema
from treasury.ledger.closing import openings
from treasury.ledger.last_answers import IS_FOUND, SHOWS_AMOUNT
from treasury.ledger.ledger import Ledger
from treasury.ledger.made_reports import in_sequence
from treasury.ledger.receipts import credit_of, is_inside, receipt_answers
from treasury.ledger.taken_over import is_first_landing, paid_when_opened
from treasury.orders.states import State
from treasury.provider.catalogue import CATALOGUE
from treasury.reconciliation.months import Booking, EntryKind
from treasury.reconciliation.scope import Scope


def opened_after(ledger: Ledger, opened_at: Collection[int]) -> dict[int, int]:
    """Return the time of a report of everything, Unix ms -> the last step of the journal that it holds."""
    table = schema.reports.c
    rows = ledger.read(select(table.as_of, table.journal_id).where(table.books == Scope().books))
    return {row.as_of: row.journal_id for row in rows if row.as_of in opened_at}


def order_bookings(ledger: Ledger, first_steps: Mapping[str, int], fee_on_top: Collection[str]) -> Iterator[Booking]:
    """Read the entries of orders: one that settled left, one that was settled and is no more came back.

    `first_steps`: currency -> the last step of the journal before its account was opened. `fee_on_top`: the setting of
    now, by which no report was made yet. An entry stays as the first report had it; a report by another setting
    corrects it by an entry of its own.
    """
    orders, journal = schema.orders.c, schema.journal.c
    step = (journal.id, journal.at, journal.order_id, journal.source, journal.target)
    money = (orders.currency, orders.amount, orders.receive_currency, orders.receive_amount)
    named = (orders.request_id, orders.run_key, orders.row_ref, orders.order_no, orders.operation)
    query = (
        select(*step, *money, orders.fee, orders.fee_currency, *named)
        .join_from(schema.journal, schema.orders, journal.order_id == orders.id)
        .where((journal.source == State.SETTLED.value) != (journal.target == State.SETTLED.value))
        .order_by(journal.id)
    )
    debits, settings, opened = _debits_of_unpriced(ledger), _Settings(ledger, fee_on_top), openings(ledger)
    with ledger.snapshot() as stream:
        inside = paid_when_opened(stream, opened)
        for row in stream(query):
            amount = debits.get(row.request_id) if row.amount is None else Decimal(row.amount)
            first = settings.of_first_report(row.id)
            entries = [
                (f"J{row.id}-{kind.value}", row.at, currency, kind, moved)
                for currency, kind, moved in _moved(row, amount, is_on_top=row.operation in first)
            ]
            for entry in (*entries, *_corrected(row, amount, settings.changes_after(row.id))):
                if (entry[2], row.order_id) in inside and is_first_landing(row):
                    continue
                if entry[2] in first_steps and row.id > first_steps[entry[2]]:
                    yield Booking(*entry, row.request_id, row.run_key, row.row_ref, row.order_no)


class _Settings:
    """Operations whose fee is on top, as each report of everything took them to be."""

    def __init__(self, ledger: Ledger, now: Collection[str]) -> None:
        """`now`: those of the next report."""
        table = schema.reports.c
        query = select(table.sweep_id, table.as_of, table.journal_id, table.statement).where(
            table.books == Scope().books
        )
        self._steps: list[int] = []
        self._of_reports: list[frozenset[str]] = []
        self._changes: list[tuple[int, int, int, frozenset[str]]] = []
        self._now = frozenset(now)
        for row in in_sequence(ledger.read(query)):
            found = frozenset(json.loads(row.statement).get("fee_on_top", now))
            if self._of_reports and found != self._of_reports[-1]:
                self._changes.append((len(self._steps), row.sweep_id, row.as_of, found))
            self._steps.append(row.journal_id)
            self._of_reports.append(found)

    def of_first_report(self, step: int) -> frozenset[str]:
        """Return the setting of the first report that holds a step of the journal."""
        place = bisect_left(self._steps, step)
        return self._of_reports[place] if place < len(self._steps) else self._now

    def changes_after(self, step: int) -> list[tuple[int, int, frozenset[str], frozenset[str]]]:
        """Return the later reports by another setting: number, time in Unix ms, the setting before and theirs."""
        place = bisect_left(self._steps, step)
        return [
            (number, as_of, self._of_reports[at - 1], found) for at, number, as_of, found in self._changes if at > place
        ]


def _corrected(
    row: Any, amount: Decimal | None, changes: Iterable[tuple[int, int, Collection[str], Collection[str]]]
) -> Iterator[tuple[str, int, str, EntryKind, Decimal]]:
    """Yield the entries by which reports by another setting corrected what a step moved."""
    for number, as_of, before, after in changes:
        if (row.operation in before) == (row.operation in after):
            continue
        sums: dict[str, Decimal] = {}
        for sign, setting in ((-1, before), (1, after)):
            for currency, _, moved in _moved(row, amount, is_on_top=row.operation in setting):
                sums[currency] = sums.get(currency, Decimal(0)) + sign * moved
        for currency, moved in sums.items():
            if moved:
                yield f"J{row.id}-{EntryKind.FEE.value}-{number}", as_of, currency, EntryKind.FEE, moved


def _moved(row: Any, amount: Decimal | None, *, is_on_top: bool) -> Iterator[tuple[str, EntryKind, Decimal]]:
    """Yield currency, kind and signed amount of everything that a step moved."""
    fee = None if row.fee is None else Decimal(row.fee)
    taken_in, landed = row.fee_currency or row.currency, row.target == State.SETTLED.value
    if row.currency is not None and amount is not None and landed:
        inside = fee if fee is not None and not is_on_top and taken_in == row.currency else Decimal(0)
        yield row.currency, EntryKind.PAID, inside - amount
        if fee is not None and (is_on_top or taken_in == row.currency):
            yield taken_in, EntryKind.FEE, -fee
    elif row.currency is not None and amount is not None:
        yield row.currency, EntryKind.RETURNED, amount
        if fee is not None and is_on_top:
            yield taken_in, EntryKind.FEE, fee
    if CATALOGUE[row.operation].may_show_what_arrives and row.receive_amount is not None:
        received = Decimal(row.receive_amount)
        yield row.receive_currency, EntryKind.RECEIVED, received if landed else -received


def receipt_bookings(ledger: Ledger, opened_at: Mapping[str, int]) -> Iterator[Booking]:
    """Read the entries of pay-ins: of each what an answer that knows it shows more, or less, than the one before.

    `opened_at`: currency -> when its account was opened, Unix ms; what was shown until then is inside the opening.
    """
    before: dict[str, Decimal] = {}
    for row in ledger.read(receipt_answers().where(IS_FOUND).order_by(schema.answers.c.id)):
        request_id, (currency, credited) = json.loads(row.ledger_side)["request_id"], credit_of(row)
        if currency in opened_at and is_inside(row, opened_at[currency]):
            continue
        moved, before[request_id] = credited - before.get(request_id, Decimal(0)), credited
        if moved and currency in opened_at and row.asked_at > opened_at[currency]:
            yield Booking(f"R{row.id}", row.asked_at, currency, EntryKind.RECEIVED, moved, request_id)


def _debits_of_unpriced(ledger: Ledger) -> dict[str, Decimal]:
    """Return request id -> what the service last showed of orders whose debit nobody knew when they were sent."""
    orders, answers = schema.orders.c, schema.answers.c
    query = select(orders.request_id, answers.service_side).join_from(
        schema.orders, schema.answers, answers.order_id == orders.id
    )
    rows = ledger.read(query.where(orders.amount.is_(None), SHOWS_AMOUNT).order_by(answers.id))
    return {row.request_id: Decimal(json.loads(row.service_side)["seen_amount"]) for row in rows}
