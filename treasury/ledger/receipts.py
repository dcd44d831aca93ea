"""Pay-ins and deposits in the ledger: what the service showed of each, what it brought, and when it was learnt."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import chain
from typing import Any

from sqlalchemy import Select, func, select

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.ledger.made_reports import IS_FOUND, IS_WHOLE, Stream, last_answers
from treasury.ledger.mapping import kept_json
from treasury.ledger.sweeps import RECEIPT
from treasury.money import family_of, is_same_currency
from treasury.provider.status import OrderStatus
from treasury.reconciliation.arrivals import finished_in
from treasury.reconciliation.classes import Answer
from treasury.reconciliation.entries import Name


def receipt_answers() -> Select[Any]:
    """Select both sides of questions that no order of the ledger stands behind: pay-ins are among them."""
    answers = schema.answers.c
    shown = answers.order_id.is_(None) & answers.service_side.is_not(None)
    columns = (answers.id, answers.request_id, answers.asked_at, answers.ledger_side, answers.service_side)
    return select(*columns).where(shown)


def shown_receipts(stream: Stream, sweep_id: int) -> Iterator[Any]:
    """Yield of each receipt of a sweep the last answer, in it or before it, by which the service knows it.

    That it could not be asked about, or that the service does not know it now, takes back nothing that it brought.
    """
    asked, unheard = receipt_answers().where(schema.answers.c.sweep_id == sweep_id), set[str]()
    for row in stream(asked):
        if kept_json(row.service_side)["answer"] == Answer.FOUND:
            yield row
        elif kept_json(row.ledger_side)["operation"] == RECEIPT:
            unheard.add(row.request_id)
    yield from last_answers(stream, sweep_id, unheard, IS_FOUND).values()


def reported_receipts(stream: Stream, sweep_id: int, request_ids: Collection[str]) -> Iterable[Any]:
    """Return, of each of these receipts, the last answer by which the service knew it in a report before a sweep."""
    return last_answers(stream, sweep_id, request_ids, IS_FOUND & _IS_REPORTED).values()


_IS_REPORTED = schema.sweeps.c.id.in_(select(schema.reports.c.sweep_id))


def known_numbers(ledger: Ledger, sweep_id: int) -> set[Name]:
    """Return every reference and number under which the service may show what this ledger means: orders, and the
    receipts of this sweep, also by a number that an earlier one showed."""
    orders, quotes, found = schema.orders.c, schema.quotes.c, set[Name]()
    own = select(orders.request_id, orders.order_no, orders.confirmation, orders.operation)
    of_quotes = select(quotes.request_id, quotes.quote, orders.operation).join_from(schema.quotes, schema.orders)
    asked = receipt_answers().where(schema.answers.c.sweep_id == sweep_id)
    with ledger.snapshot() as stream:
        for request_id, *numbers, operation in chain(stream(own), stream(of_quotes)):
            found |= {request_id, *((number, operation) for number in numbers if number)}
        for row in chain(stream(asked), shown_receipts(stream, sweep_id)):
            if kept_json(row.ledger_side)["operation"] == RECEIPT:
                number = kept_json(row.service_side).get("order_no")
                found |= {row.request_id, *([(number, RECEIPT)] if number else [])}
    return found


def credit_of(row: Any) -> tuple[str, Decimal]:
    """Return currency and amount of what a pay-in or deposit has brought by this answer; nothing of anything else."""
    ours, shown = kept_json(row.ledger_side), kept_json(row.service_side)
    if ours["operation"] != RECEIPT:
        return "", Decimal(0)
    currency = shown.get("seen_currency") or ours["currency"]
    if shown.get("status") != OrderStatus.SUCCESS:
        return currency, Decimal(0)
    amount = Decimal(shown.get("seen_amount") or ours["amount"])
    arrived = shown.get("arrive_amount")
    fee = shown.get("seen_fee") if is_same_currency(shown.get("seen_fee_currency"), currency) else None
    return currency, amount - Decimal(fee or 0) if arrived is None else Decimal(arrived)


def brought_currencies(ledger: Ledger, sweep_id: int | None) -> set[str]:
    """Return the currencies of what pay-ins and deposits have brought, as the answers of a sweep show them."""
    asked = receipt_answers().where(schema.answers.c.sweep_id == sweep_id)
    with ledger.snapshot() as stream:
        return {currency for currency, credited in map(credit_of, stream(asked)) if credited}


def taken_back(ledger: Ledger, sweep_id: int, receipts: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, Decimal]]:
    """Return currency and amount of what receipts had brought by the report of everything before, and have not by the
    answers of this sweep. `receipts`: both sides of each, as it shows them. A fee that is shown later is none of it.
    """
    shown = {each["request_id"]: each for each in receipts if each.get("answer") == Answer.FOUND}
    with ledger.snapshot() as stream:
        before = last_answers(stream, sweep_id, shown, IS_FOUND & IS_WHOLE & _IS_REPORTED)
    less = {name: (credit_of(row)[0], _less(row, shown[name])) for name, row in before.items()}
    return {name: (currency, amount) for name, (currency, amount) in less.items() if amount > 0}


def _less(before: Any, now: Mapping[str, Any]) -> Decimal:
    """Return how much less a receipt has brought now: all of it, or what its amount is smaller by."""
    (currency, credited), amount = credit_of(before), kept_json(before.service_side).get("seen_amount")
    if now["status"] != OrderStatus.SUCCESS or family_of(now.get("seen_currency") or currency) != family_of(currency):
        return credited
    if not credited or amount is None or (shown := now.get("seen_amount")) is None:
        return Decimal(0)
    return Decimal(amount) - Decimal(shown)


def is_inside(row: Any, opened_at: int) -> bool:
    """Tell whether what a receipt brought was there when its account was opened (Unix ms), as the service says."""
    finished = finished_in(kept_json(row.service_side))
    return finished is not None and finished[1] <= opened_at


def is_later(row: Any, as_of: int) -> bool:
    """Tell whether what a receipt brought came after a report (Unix ms), as the service says; its clock may be off."""
    came_at = came_not_before(row)
    return came_at is not None and came_at > as_of


def came_not_before(row: Any) -> int | None:
    """Return when what a receipt brought came, at the earliest, Unix ms, as the service says; its clock may be off, and
    it came before the answer that shows it."""
    finished = finished_in(kept_json(row.service_side))
    return None if finished is None else min(finished[0] - CLOCKS_DIFFER_MS, int(row.asked_at))


def counted_when_opened(stream: Stream, opened: Mapping[str, Any]) -> set[str]:
    """Return the receipts that the report which opened their account counts itself, so that later ones do, too."""
    reports, answers = schema.reports.c, schema.answers.c
    of_openings = reports.as_of.in_({row.as_of for row in opened.values()})
    query = receipt_answers().add_columns(reports.as_of).join(schema.reports, reports.sweep_id == answers.sweep_id)
    found = set()
    for row in stream(query.where(of_openings)):
        currency, credited = credit_of(row)
        if credited and currency in opened and opened[currency].as_of == row.as_of:
            found.add(row.request_id)
    return found


CLOCKS_DIFFER_MS = 600_000
"""How much the clocks of the service and of this machine may differ at the most, so that it counts for nothing."""


def learnt_numbers(ledger: Ledger) -> dict[Name, int]:
    """Return every reference and number of an order, pay-in or deposit -> when it was learnt, Unix ms.

    An order's own references are known when they are made, its number with the first step by which the
    service told a status.
    """
    orders, quotes, journal = schema.orders.c, schema.quotes.c, schema.journal.c
    told = select(journal.order_id, func.min(journal.at).label("at")).where(journal.status.is_not(None))
    steps = told.group_by(journal.order_id).subquery()
    numbered = select(orders.order_no, orders.operation, func.coalesce(steps.c.at, orders.created_at))
    numbered = numbered.outerjoin_from(schema.orders, steps, steps.c.order_id == orders.id)
    found: dict[Name, int] = {}

    def learn(text: str | None, at: int, operation: str | None = None) -> None:
        if text:
            name = text if operation is None else (text, operation)
            found[name] = min(at, found.get(name, at))

    with ledger.snapshot() as stream:
        for row in stream(select(orders.request_id, orders.confirmation, orders.created_at, orders.operation)):
            learn(row.request_id, row.created_at)
            learn(row.confirmation, row.created_at, row.operation)
        of_quotes = select(quotes.request_id, quotes.quote, quotes.created_at, orders.operation)
        for row in stream(of_quotes.join_from(schema.quotes, schema.orders)):
            learn(row.request_id, row.created_at)
            learn(row.quote, row.created_at, row.operation)
        for number, operation, at in stream(numbered.where(orders.order_no.is_not(None))):
            learn(number, at, operation)
        for row in stream(receipt_answers()):
            if kept_json(row.ledger_side)["operation"] == RECEIPT:
                learn(row.request_id, row.asked_at)
                learn(kept_json(row.service_side).get("order_no"), row.asked_at, RECEIPT)
    return found
