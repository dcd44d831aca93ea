"""Entries of the balance accounts that people made: a lot is one while somebody accepts it, and is taken back after."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import select

from treasury.ledger import schema
from treasury.ledger.acceptances import all_acceptances
from treasury.ledger.ledger import Ledger
from treasury.ledger.made_reports import reports_before
from treasury.reconciliation.breaks import RESOLVED
from treasury.reconciliation.classes import BALANCE_CLASSES
from treasury.reconciliation.months import Booking, EntryKind
from treasury.reconciliation.scope import Scope


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
    made = {row.sweep_id: row.as_of for row in reports_before(ledger, None, schema.reports.c.books == Scope().books)}
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
