"""Entries of the balance accounts, read from the ledger: of orders, of what came in, and those that people made."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import literal, not_, select

from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.account_sums import brings, is_first_landing, landed_before, shown_when_opened
from treasury.ledger.closing import openings
from treasury.ledger.kept_breaks import all_acceptances
from treasury.ledger.ledger import Ledger
from treasury.ledger.made_reports import IS_FOUND, OF_ALL_BOOKS, in_sequence, reports_before, shows_amount
from treasury.ledger.mapping import kept_json
from treasury.ledger.receipts import came_not_before, credit_of, is_inside, receipt_answers
from treasury.ledger.report_sums import read_sums
from treasury.money import is_same_currency, stored_amount
from treasury.orders.quoting import QUOTED
from treasury.orders.states import State
from treasury.provider.status import OrderStatus
from treasury.reconciliation.breaks import RESOLVED
from treasury.reconciliation.classes import BALANCE_CLASSES
from treasury.reconciliation.months import Booking, EntryKind


def opened_after(ledger: Ledger, opened_at: Collection[int]) -> dict[int, int]:
    """Return the time of a report of everything, Unix ms -> the last step of the journal that it holds."""
    table = schema.reports.c
    rows = ledger.read(select(table.as_of, table.journal_id).where(OF_ALL_BOOKS))
    return {row.as_of: row.journal_id for row in rows if row.as_of in opened_at}


def order_bookings(ledger: Ledger, first_steps: Mapping[str, int], fee_on_top: Collection[str]) -> Iterator[Booking]:
    """Read the entries of orders: one that settled left, one that was settled and is no more came back.

    `first_steps`: currency -> the last step of the journal before its account was opened. `fee_on_top`: the setting of
    now, by which no report was made yet. An entry stays as the first report had it; a report by another setting, or
    one that learnt of another fee or debit, corrects it by an entry of its own.
    """
    orders, journal = schema.orders.c, schema.journal.c
    step = (journal.id, journal.at, journal.order_id, journal.source, journal.target)
    money = (orders.currency, orders.amount, orders.receive_currency, orders.receive_amount)
    named = (orders.request_id, orders.run_key, orders.row_ref, orders.order_no, orders.operation, orders.sent_at)
    query = (
        select(*step, *money, orders.fee, orders.fee_currency, *named, landed_before())
        .join_from(schema.journal, schema.orders, journal.order_id == orders.id)
        .where((journal.source == State.SETTLED.value) != (journal.target == State.SETTLED.value))
        .order_by(journal.id)
    )
    reports, shown, opened = _Reports(ledger, fee_on_top), _shown(ledger), openings(ledger)
    with ledger.snapshot() as stream:
        inside = shown_when_opened(stream, opened)
        for row in stream(query):
            for entry in _entries(row, reports, shown.get(row.order_id, [])):
                if inside.get((entry[2], row.order_id)) is OrderStatus.SUCCESS and is_first_landing(row):
                    continue
                if entry[2] in first_steps and row.id > first_steps[entry[2]]:
                    yield Booking(*entry, row.request_id, row.run_key, row.row_ref, row.order_no, row.sent_at)


@dataclass(frozen=True)
class _Shown:
    """An order as the ledger knew it once a sweep had asked about it; before the first one, with sweep id 0."""

    sweep_id: int
    amount: Decimal | None
    fee: Decimal | None
    fee_currency: str | None


class _Reports:
    """Reports of everything in their sequence: each with the operations whose fee it took to be on top."""

    def __init__(self, ledger: Ledger, now: Collection[str]) -> None:
        """`now`: those of the next report."""
        table = schema.reports.c
        query = select(table.sweep_id, table.as_of, table.journal_id, table.statement).where(OF_ALL_BOOKS)
        self._steps: list[int] = []
        self._sweeps: list[int] = []
        self._changes: list[int] = []
        self.made: list[tuple[int, int]] = []
        """Sweep id and time, Unix ms, of each."""
        self._on_top: list[frozenset[str]] = []
        for row in in_sequence(ledger.read(query)):
            kept = read_sums(row.statement).fee_on_top
            found = frozenset(now) if kept is None else kept
            if self._on_top and found != self._on_top[-1]:
                self._changes.append(len(self.made))
            self._steps.append(row.journal_id)
            self._sweeps.append(max([row.sweep_id, *self._sweeps[-1:]]))
            self.made.append((row.sweep_id, row.as_of))
            self._on_top.append(found)
        self._on_top.append(frozenset(now))

    def first_with(self, step: int) -> int:
        """Return the place of the first report that holds a step of the journal; the next one to be made has one."""
        return bisect_left(self._steps, step)

    def is_on_top(self, place: int, operation: str) -> bool:
        """Tell whether the fee of an operation was on top in a report."""
        return operation in self._on_top[place]

    def known(self, place: int, shown: Sequence[_Shown]) -> _Shown | None:
        """Return what a report knew of an order; None where nothing else was known than what is known now."""
        if place >= len(self.made) or not shown:
            return None
        return shown[bisect_right(shown, self._sweeps[place], key=lambda each: each.sweep_id) - 1]

    def changed_after(self, place: int, shown: Sequence[_Shown]) -> list[int]:
        """Return the places of later reports by another setting, or that knew another amount or fee."""
        learnt = {bisect_left(self._sweeps, each.sweep_id) for each in shown[1:]}
        return sorted(each for each in {*self._changes, *learnt} if place < each < len(self.made))


_Entry = tuple[str, int, str, EntryKind, Decimal]
"""Id, time, currency, kind and amount."""


def _entries(row: Any, reports: _Reports, shown: Sequence[_Shown]) -> Iterator[_Entry]:
    """Yield what a step moved as the first report had it, and what each later one that knew otherwise added."""
    place = reports.first_with(row.id)
    before = _moved(row, reports, place, shown)
    for (currency, kind), moved in before.items():
        yield f"J{row.id}-{kind.value}", row.at, currency, kind, moved
    is_on_top = reports.is_on_top(place, row.operation)
    for later in reports.changed_after(place, shown):
        number, as_of = reports.made[later]
        after, was_on_top = _moved(row, reports, later, shown), is_on_top
        is_on_top = reports.is_on_top(later, row.operation)
        more: dict[tuple[str, EntryKind], Decimal] = defaultdict(Decimal)
        for sign, some in ((-1, before), (1, after)):
            for (currency, kind), moved in some.items():
                more[currency, kind if is_on_top == was_on_top else EntryKind.FEE] += sign * moved
        before = after
        for (currency, kind), moved in more.items():
            if moved:
                yield f"J{row.id}-{kind.value}-{number}", as_of, currency, kind, moved


def _moved(row: Any, reports: _Reports, place: int, shown: Sequence[_Shown]) -> dict[tuple[str, EntryKind], Decimal]:
    """Return currency and kind -> signed amount of everything that a step moved, as a report knew it."""
    is_on_top, known = reports.is_on_top(place, row.operation), reports.known(place, shown)
    if known is None:
        last = shown[-1].amount if shown else None
        known = _Shown(0, last, stored_amount(row.fee), row.fee_currency)
    amount, fee = known.amount if row.amount is None else Decimal(row.amount), known.fee
    taken_in, landed = known.fee_currency or row.currency, row.target == State.SETTLED.value
    moved: dict[tuple[str, EntryKind], Decimal] = {}
    if row.currency is not None and amount is not None:
        sign, kind = (1, EntryKind.PAID) if landed else (-1, EntryKind.RETURNED)  # its fee comes back with it
        inside = fee if fee is not None and not is_on_top and taken_in == row.currency else Decimal(0)
        moved[row.currency, kind] = sign * (inside - amount)
        if fee is not None and (is_on_top or taken_in == row.currency):
            moved[taken_in, EntryKind.FEE] = -sign * fee
    if brings(row):
        received = Decimal(row.receive_amount)
        moved[row.receive_currency, EntryKind.RECEIVED] = received if landed else -received
    return moved


def receipt_bookings(ledger: Ledger, opened_at: Mapping[str, int]) -> Iterator[Booking]:
    """Read the entries of pay-ins: of each what an answer that knows it shows more, or less, than the one before.

    `opened_at`: currency -> when its account was opened, Unix ms; what was shown until then is inside the opening.
    """
    before: dict[str, Decimal] = {}
    for row in ledger.read(receipt_answers().where(IS_FOUND).order_by(schema.answers.c.id)):
        ours, (currency, credited) = kept_json(row.ledger_side), credit_of(row)
        request_id = ours["request_id"]
        if currency in opened_at and is_inside(row, opened_at[currency]):
            continue
        moved, before[request_id] = credited - before.get(request_id, Decimal(0)), credited
        if moved and currency in opened_at and row.asked_at > opened_at[currency]:
            named = (request_id, ours.get("run_key"), ours.get("row_ref"), kept_json(row.service_side).get("order_no"))
            said = (row.asked_at, currency, EntryKind.RECEIVED, moved, *named)
            yield Booking(f"R{row.id}", *said, moved_after=came_not_before(row))


def _shown(ledger: Ledger) -> dict[int, list[_Shown]]:
    """Return id -> what sweeps showed, one after the other, of orders whose debit nobody knew when they were sent, and
    of those whose fee was shown later, or otherwise, than it is known now."""
    orders, answers = schema.orders.c, schema.answers.c
    is_known_now = answers.service_side.like(literal('%"seen_fee": "') + orders.fee + literal('"%'))
    shows_fee, knew_fee = answers.service_side.like('%"seen_fee": %'), answers.ledger_side.like('%"fee": %')
    other_fee = orders.fee.is_not(None) & IS_FOUND & not_(is_known_now) & (shows_fee | not_(knew_fee))
    named = select(answers.order_id).join_from(schema.answers, schema.orders, answers.order_id == orders.id)
    named = named.where((orders.amount.is_(None) & shows_amount(orders.currency)) | other_fee).distinct()
    columns = (answers.order_id, answers.sweep_id, answers.ledger_side, answers.service_side)
    query = select(*columns, orders.operation, orders.currency)
    query = query.join_from(schema.answers, schema.orders, answers.order_id == orders.id).where(IS_FOUND)
    found: dict[int, list[_Shown]] = defaultdict(list)
    for some in batched(sorted(ledger.read(named.order_by(answers.order_id)))):
        ids = [row.order_id for row in some]
        for row in ledger.read(query.where(answers.order_id.in_(ids)).order_by(answers.sweep_id)):
            if row.order_id not in found:
                ours = kept_json(row.ledger_side)
                found[row.order_id].append(_Shown(0, None, stored_amount(ours.get("fee")), ours.get("fee_currency")))
            found[row.order_id].append(_as_known(row, found[row.order_id][-1]))
    return found


def _as_known(row: Any, last: _Shown) -> _Shown:
    """Return what the ledger knew of an order after an answer about it; `last`: before that."""
    said = kept_json(row.service_side)
    fee, currency = stored_amount(said.get("seen_fee")), said.get("seen_fee_currency")
    is_of_ours = is_same_currency(said.get("seen_currency"), row.currency)
    if fee is None or (currency is None and last.fee is not None and row.operation in QUOTED):
        fee = last.fee
    amount = stored_amount(said.get("seen_amount")) if is_of_ours else None
    return _Shown(row.sweep_id, amount or last.amount, fee, currency or last.fee_currency)


@dataclass(frozen=True)
class _Held:
    """A time in which a lot was accepted as it was, Unix ms. `until`: None where it is still."""

    since: int
    until: int | None
    difference: Decimal


def adjustments(ledger: Ledger, currency: str) -> Iterator[Booking]:
    """Yield what people accepted of the lots of a balance, and what was taken back of it since.

    It is taken back when the acceptance ends or is withdrawn, and by the report in which entries end the lot, or a part
    of it. Neither entry changes the other one, so that a month that was reported stays as it was.
    """
    for break_id, some in sorted(_accepted(ledger, currency).items()):
        for number, held in enumerate(_joined(some), 1):
            name = f"A{break_id}" if number == 1 else f"A{break_id}-{number}"
            yield Booking(name, held.since, currency, EntryKind.ADJUSTED, -held.difference, break_id)
            if held.until is not None:
                ended = f"{name}-ended"
                yield Booking(ended, held.until, currency, EntryKind.ADJUSTED, held.difference, break_id)


def _accepted(ledger: Ledger, currency: str) -> dict[str, list[_Held]]:
    """Return break id -> the times of its acceptances, each as the lot was then."""
    made = {row.sweep_id: row.as_of for row in reports_before(ledger, None, OF_ALL_BOOKS)}
    order = {sweep_id: place for place, sweep_id in enumerate(made)}
    breaks, accepted = schema.breaks.c, all_acceptances(ledger)
    is_lot = breaks.name.in_(BALANCE_CLASSES) & (breaks.currency == currency)
    named = sorted({each.break_id for each, _ in accepted})
    columns = (breaks.break_id, breaks.sweep_id, breaks.difference, breaks.lifecycle)
    reported: dict[str, list[Any]] = defaultdict(list)
    for row in ledger.read(select(*columns).where(is_lot, breaks.break_id.in_(named))):
        if row.sweep_id in order:
            reported[row.break_id].append(row)
    found: dict[str, list[_Held]] = defaultdict(list)
    for each, withdrawn_at in accepted:
        if each.break_id not in reported:
            continue
        lots = sorted(reported[each.break_id], key=lambda lot: order[lot.sweep_id])
        ends = [end for end in (withdrawn_at, each.ends_at) if end is not None and end <= ledger.now()]
        for since, until in _times(lots, each.difference, each.accepted_at, made):
            past = ends if until is None else [*ends, until]
            if since == each.accepted_at or since < min(ends, default=since + 1):
                found[each.break_id].append(_Held(since, min(past, default=None), each.difference))
    return found


def _times(
    lots: Sequence[Any], difference: Decimal, accepted_at: int, made: Mapping[int, int]
) -> Iterator[tuple[int, int | None]]:
    """Yield the spans (from, until) in which a lot was as it was accepted; one that was gone may come back."""
    same = [each.lifecycle != RESOLVED and Decimal(each.difference) == difference for each in lots]
    since: int | None = accepted_at
    first = same.index(True) if True in same else len(same)
    for lot, is_same in zip(lots[first:], same[first:], strict=True):
        at = made[lot.sweep_id]
        if since is None and is_same:
            since = max(at, accepted_at)
        elif since is not None and not is_same and (at > accepted_at or lot is lots[-1]):
            yield since, max(at, since)
            since = None
    if since is not None:
        yield since, None


def _joined(some: Sequence[_Held]) -> Iterator[_Held]:
    """Yield the times with those that overlap as one: a second person's acceptance books nothing more."""
    standing: _Held | None = None
    for held in sorted(some, key=lambda each: each.since):
        if standing is None:
            standing = held
        elif standing.difference == held.difference and (standing.until is None or held.since < standing.until):
            ends = (standing.until, held.until)
            standing = _Held(standing.since, None if None in ends else max(filter(None, ends)), held.difference)
        else:
            yield standing
            standing = held
    if standing is not None:
        yield standing
