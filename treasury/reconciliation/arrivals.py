"""Pure: money that was expected beside money that arrived: matched, proposed to a person, or named.

An invoice is paid by what the service shows under its own id, or by a deposit to its address of just its amount. What
only looks alike is proposed: a person says yes by accepting the break.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import itemgetter
from typing import Any

from treasury.money import ZERO, canonical, exact
from treasury.policy.tables import BPS
from treasury.policy.tolerances import Tolerances
from treasury.provider.status import OrderStatus
from treasury.reconciliation.breaks import DAY_MS, Finding
from treasury.reconciliation.classes import Answer
from treasury.texts import count_of

Side = Mapping[str, Any]
"""Both sides of a pay-in or deposit. `to`: keyed hash of the address that it goes to, `sender`: masked."""

MS_DIGITS = 13
"""Digits of a time in milliseconds; the query says seconds, a notification milliseconds (public fact 4.1)."""

SECOND_MS = 1000

MOST_A_DAY = 100
"""Deposits of a day that are compared with an invoice, on either side of its amount."""

_Came = tuple[Decimal, int, int]
"""A deposit: its amount, when it came, and its place in the list."""

NEVER = (OrderStatus.FAILED, OrderStatus.CLOSED)


@dataclass(frozen=True)
class Arrivals:
    """Everything remarkable of what was expected and what arrived, and how much there is of each kind."""

    findings: list[Finding]
    counts: dict[str, Any] | None
    """Invoices and deposits by what became of them, and the age of the oldest unpaid one; None where there are none."""


@dataclass(frozen=True)
class _Pair:
    """An invoice and the deposit that pays it, or seems to."""

    invoice: Side
    deposit: Side
    is_certain: bool


@exact
def judge_arrivals(sides: Sequence[Side], issued: Collection[str], rules: Tolerances, as_of: int) -> Arrivals:
    """Match, propose and name. `issued`: keyed hashes of the deposit addresses that customers were given."""
    shown, ours, deposits = _expected_and_arrived(sides)
    pairs = _pairs([each for each in ours if not _is_done(each)], deposits, rules)
    by_invoice = {pair.invoice["request_id"]: pair for pair in pairs}
    by_deposit = {pair.deposit["request_id"]: pair for pair in pairs}
    judged = [(each, *_of_invoice(each, by_invoice.get(each["request_id"]), rules, as_of)) for each in ours]
    left = [(each, _of_deposit(each, by_deposit.get(each["request_id"]), issued)) for each in deposits]
    left += [(each, "unexpected") for each in shown if each.get("order_type") == "pay" and _is_done(each)]
    findings = [found for _, _, found in judged if found is not None]
    addresses = {each["to"]: each["request_id"] for each in ours if each.get("to") is not None}
    findings += [_unexpected(each, addresses.get(each.get("to"))) for each, kind in left if kind == "unexpected"]
    if not ours and not left:
        return Arrivals(findings, None)
    unpaid = [each["created_at"] for each, kind, _ in judged if kind == "unpaid"]
    counts = {
        "invoices": dict(sorted(Counter(kind for _, kind, _ in judged).items())),
        "deposits": dict(sorted(Counter(kind for _, kind in left).items())),
        "oldest_unpaid_days": max(((as_of - at) // DAY_MS for at in unpaid), default=None),
    }
    return Arrivals(findings, counts)


@exact
def paid_by_deposits(sides: Sequence[Side]) -> dict[str, str]:
    """Return the deposit that pays an invoice, by request ids: to its address, of just its amount, the first one."""
    _, ours, deposits = _expected_and_arrived(sides)
    pairs = _by_address(*_in_order([each for each in ours if not _is_done(each)], deposits))
    return {pair.invoice["request_id"]: pair.deposit["request_id"] for pair in pairs if pair.is_certain}


def _expected_and_arrived(sides: Sequence[Side]) -> tuple[list[Side], list[Side], list[Side]]:
    """Return what the service shows, and of it the invoices of ours and the deposits that are done."""
    shown = sorted((each for each in sides if each.get("answer") == Answer.FOUND), key=lambda each: each["request_id"])
    ours = [each for each in shown if "order_type" not in each]
    return shown, ours, [each for each in shown if each.get("order_type") == "charge" and _is_done(each)]


def _is_done(side: Side) -> bool:
    return side.get("status") == OrderStatus.SUCCESS


def _amount(side: Side) -> Decimal:
    """Return what a customer paid: the amount that the service shows, fee included."""
    return Decimal(side.get("seen_amount") or side["amount"])


def _currency(side: Side) -> str:
    return str(side.get("seen_currency") or side["currency"])


def finished_in(side: Side) -> tuple[int, int] | None:
    """The first and the last moment, Unix ms, at which the service may mean that it was paid; None if not said."""
    said = str((side.get("raw") or {}).get("finish_time") or "")
    if not said.isdecimal():
        return None
    return (int(said), int(said)) if len(said) >= MS_DIGITS else (int(said) * 1000, int(said) * 1000 + 999)


def finished_at(side: Side) -> int | None:
    """When it was paid, Unix ms, as the service says."""
    finished = finished_in(side)
    return None if finished is None else finished[0]


def _came_at(deposit: Side) -> int:
    """When a deposit came: as the service says, else when this ledger learnt of it."""
    return finished_at(deposit) or int(deposit["created_at"])


def _pairs(waiting: Sequence[Side], deposits: Sequence[Side], rules: Tolerances) -> list[_Pair]:
    """Pair each invoice and each deposit at most once: by address, then by amount, then by what is nearest to that."""
    invoices, came = _in_order(waiting, deposits)
    found: list[_Pair] = []
    for pairing in (_by_address, _by_amount, _by_likeness):
        new = pairing(invoices, came, rules)
        found += new
        paid = {pair.invoice["request_id"] for pair in new}
        used = {pair.deposit["request_id"] for pair in new}
        invoices = [each for each in invoices if each["request_id"] not in paid]
        came = [each for each in came if each["request_id"] not in used]
    return found


def second_of(invoice: Side) -> int:
    """When an invoice was made, to the second: the query says of a deposit no more."""
    return int(invoice["created_at"]) // SECOND_MS * SECOND_MS


def _in_order(waiting: Sequence[Side], deposits: Sequence[Side]) -> tuple[list[Side], list[Side]]:
    """Return both with the oldest first."""
    invoices = sorted(waiting, key=lambda each: (int(each["created_at"]), each["request_id"]))
    return invoices, sorted(deposits, key=lambda each: (_came_at(each), each["request_id"]))


def _by_address(invoices: Sequence[Side], deposits: Sequence[Side], _: Tolerances | None = None) -> list[_Pair]:
    """Pair invoices with deposits to their addresses: of just their amount, else with the first that came."""
    there: dict[tuple[str, str], list[Side]] = {}
    for each in deposits:
        if each.get("to") is not None:
            there.setdefault((each["to"], _currency(each)), []).append(each)
    found = []
    for is_exact in (True, False):
        for invoice in invoices:
            some = there.get((invoice.get("to") or "", invoice["currency"]), [])
            for deposit in some:
                is_right = _came_at(deposit) >= second_of(invoice)
                if is_right and (not is_exact or _amount(deposit) == Decimal(invoice["amount"])):
                    found.append(_Pair(invoice, deposit, is_certain=is_exact))
                    some.remove(deposit)
                    break
        paid = {pair.invoice["request_id"] for pair in found}
        invoices = [each for each in invoices if each["request_id"] not in paid]
    return found


def _by_amount(invoices: Sequence[Side], deposits: Sequence[Side], rules: Tolerances) -> list[_Pair]:
    """Propose for each invoice, the oldest first, the first deposit of its amount that came in its time."""
    equal: dict[tuple[str, Decimal], deque[Side]] = {}
    for each in deposits:
        equal.setdefault((_currency(each), _amount(each)), deque()).append(each)
    found = []
    for invoice in invoices:
        some = equal.get((invoice["currency"], Decimal(invoice["amount"])), deque())
        made_at = second_of(invoice)
        while some and _came_at(some[0]) < made_at:  # it is older than every invoice that is still to come
            some.popleft()
        if some and _came_at(some[0]) <= made_at + rules.likely_days * DAY_MS:
            found.append(_Pair(invoice, some.popleft(), is_certain=False))
    return found


def _by_likeness(invoices: Sequence[Side], deposits: Sequence[Side], rules: Tolerances) -> list[_Pair]:
    """Propose what is inside the tolerance: the nearest amounts first, then what came soonest."""
    by_day: dict[tuple[str, int], list[_Came]] = {}
    for number, each in enumerate(deposits):
        day = _came_at(each) // DAY_MS
        by_day.setdefault((_currency(each), day), []).append((_amount(each), _came_at(each), number))
    for some in by_day.values():
        some.sort()
    alike = []
    for place, invoice in enumerate(invoices):
        asked, made_at = Decimal(invoice["amount"]), second_of(invoice)
        for amount, at, number in _near(invoice, by_day, rules):
            if made_at <= at <= made_at + rules.likely_days * DAY_MS:
                alike.append((abs(asked - amount), at - made_at, place, number))
    found, paid, used = [], set(), set()
    for _, _, place, number in sorted(alike):
        if place not in paid and number not in used:
            paid.add(place)
            used.add(number)
            found.append(_Pair(invoices[place], deposits[number], is_certain=False))
    return found


def _near(invoice: Side, by_day: Mapping[tuple[str, int], Sequence[_Came]], rules: Tolerances) -> Iterator[_Came]:
    """Yield the deposits inside the tolerance of an invoice: of each day the `MOST_A_DAY` nearest on either side."""
    asked, made_at = Decimal(invoice["amount"]), second_of(invoice)
    off = asked * rules.likely_bps / BPS
    for day in range(made_at // DAY_MS, (made_at + rules.likely_days * DAY_MS) // DAY_MS + 1):
        some = by_day.get((invoice["currency"], day), ())
        middle = bisect_left(some, asked, key=itemgetter(0))
        low = max(bisect_left(some, asked - off, key=itemgetter(0)), middle - MOST_A_DAY)
        high = min(bisect_right(some, asked + off, key=itemgetter(0)), middle + MOST_A_DAY)
        yield from some[low:high]


def _of_invoice(invoice: Side, pair: _Pair | None, rules: Tolerances, as_of: int) -> tuple[str, Finding | None]:
    """Return what became of an invoice in one word, and what is remarkable of it."""
    made_at = int(invoice["created_at"])
    due = made_at + rules.invoice_days * DAY_MS
    if pair is not None and not pair.is_certain:
        missing = Decimal(invoice["amount"]) - _amount(pair.deposit)
        return "proposed", _finding(invoice, "likely_paid", _alike(pair), missing)
    if pair is not None or _is_done(invoice):
        paid_at = finished_at(invoice) if pair is None else _came_at(pair.deposit)
        if paid_at is None or paid_at <= due:
            return "paid", None
        by = "" if pair is None else f" by deposit {pair.deposit['request_id']} to its address"
        return "paid late", _finding(invoice, "paid_late", f"was paid{by} {_days(paid_at - made_at)} after it was made")
    age = _days(as_of - made_at)
    if invoice.get("status") in NEVER:
        return "unpaid", _finding(invoice, "unpaid_invoice", f"ended, made {age} ago, and nothing came")
    if as_of > due:
        return "unpaid", _finding(invoice, "unpaid_invoice", f"was made {age} ago, and nothing came")
    return "waiting", None


def _alike(pair: _Pair) -> str:
    deposit = pair.deposit
    is_there = pair.invoice.get("to") is not None and pair.invoice["to"] == deposit.get("to")
    where = "to its address" if is_there else "elsewhere"
    later = _days(_came_at(deposit) - int(pair.invoice["created_at"]))
    came = f"{canonical(_amount(deposit))} {_currency(deposit)}"
    return (
        f"looks like deposit {deposit['request_id']}: {came} came {where} {_from(deposit)}, {later} after it was made"
    )


def _of_deposit(deposit: Side, pair: _Pair | None, issued: Collection[str]) -> str:
    if pair is not None:
        return "matched" if pair.is_certain else "proposed"
    return "to an issued address" if deposit.get("to") in issued else "unexpected"


def _unexpected(deposit: Side, invoice: str | None) -> Finding:
    amount, currency, name = _amount(deposit), _currency(deposit), deposit["request_id"]
    came, is_deposit = f"{name}: {canonical(amount)} {currency} {_from(deposit)}", deposit["order_type"] == "charge"
    where = "no address that a customer was given here"
    where = where if invoice is None else f"the address of invoice {invoice}, which it does not pay"
    said = f"deposit {came}, to {where}" if is_deposit else f"pay-in {came}, that this ledger never asked for"
    return Finding(name, "unexpected_deposit", name, currency, amount, ZERO, said, operation=deposit["operation"])


def _from(deposit: Side) -> str:
    return f"from {deposit.get('sender') or 'an unknown sender'}"


def _finding(invoice: Side, name: str, said: str, difference: Decimal = ZERO) -> Finding:
    reference, currency = invoice["request_id"], invoice["currency"]
    asked = Decimal(invoice["amount"])
    place = f" (row {invoice['row_ref']} of {invoice['run_key']})" if "row_ref" in invoice else ""
    said = f"invoice {reference}{place} over {canonical(asked)} {currency} {said}"
    return Finding(reference, name, reference, currency, asked, difference, said, operation=invoice["operation"])


def _days(milliseconds: int) -> str:
    return count_of(max(milliseconds, 0) // DAY_MS, "day")
