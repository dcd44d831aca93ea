"""Payees and payments as the ledger knows them, by keyed hashes: duplicates, and runs that paid the same people.

A payment is a duplicate of another one where payee, asset and amount look the same. It is compared when it is recorded,
and again before the first byte of one that waited: with one that may have been paid (open, whatever its age; settled
within the policy's days; or held because the service may have it), and with one that was recorded earlier and still
waits. One that comes back from a hold, which nobody saw meanwhile, is a duplicate of any that waits. What failed, was
closed, rejected or cancelled, or is held for any other reason, makes no other one a duplicate.
"""

import functools
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, case, func, or_, select

from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.ledger.mapping import read_row
from treasury.money import exact, sums_of
from treasury.orders.payment_decisions import settled_amount
from treasury.orders.records import Intent, Order
from treasury.orders.rows import BENEFICIARY_OBJECTS
from treasury.orders.states import NEVER_RELEASED, Hold, State
from treasury.planning.shown import Beside, Known, Payment, compare_runs

DAY_MS = 24 * 3600 * 1000

_OPEN = (State.SENDING.value, State.UNKNOWN.value, State.ACCEPTED.value)

_MAY_BE_THERE = tuple(kind.value for kind in (*NEVER_RELEASED, Hold.OLDER))
"""Holds of what the service may have, though this ledger never heard so."""

AT_ONCE = 20_000
"""Rows that one statement names, at the most: databases take no more than some ten thousand values."""


@dataclass(frozen=True)
class EarlierPayment:
    """A settled payment that looks like a planned one, and is too old to be a reason to hold it."""

    row_ref: str
    run_key: str
    request_id: str
    settled_at: int
    """Unix milliseconds."""


def find_duplicates(
    connection: Connection, run_key: str, since_ms: int, back: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """The waiting payments of a run that are duplicates, and that no person released as such: row, and of which one.

    `back`: rows that nothing holds any more from now on, beside those that a person released.

    Race: PostgreSQL lets each statement see another moment. One statement looks at all states of the others: of two,
    neither would see a payment that leaves between them.
    """
    for some in batched([*back, ""], AT_ONCE):  # no row is called "": a list without any is searched row by row
        for row in connection.execute(_pairs(), {"run_key": run_key, "since": since_ms, "back": list(some)}):
            yield row.row_ref, f"{row.other} of run {row.run_key} ({row.request_id})"


def may_be_paid(table: Any, since_ms: Any = 0) -> Any:
    """Return where an order is open, or was settled since then."""
    return or_(table.c.state.in_(_OPEN), and_(table.c.state == State.SETTLED.value, _ended(table) >= since_ms))


def may_be_repeated(table: Any, since_ms: Any) -> Any:
    """Return where an order may be paid, as `may_be_paid` says, or is held because the service may have it."""
    held = and_(table.c.state == State.HELD.value, table.c.hold_kind.in_(_MAY_BE_THERE))
    return or_(may_be_paid(table, since_ms), held)


@functools.cache
def _pairs() -> Select[Any]:
    """Each waiting payment of a run, with the first that looks like it and may be paid; else the first that waits, if
    it was recorded earlier; else the last, if this one comes back from a hold."""
    mine, other, first_of = schema.orders.alias(), schema.orders.alias(), schema.orders.alias()
    run_key: Any = bindparam("run_key")
    waits, paid = other.c.state == State.PREPARED.value, may_be_repeated(other, bindparam("since"))
    keys = select(mine.c.alike).where(
        mine.c.run_key == run_key, mine.c.state == State.PREPARED.value, mine.c.alike.is_not(None)
    )
    firsts = (
        select(
            other.c.alike,
            func.min(case((paid, other.c.id))).label("paid"),
            func.min(case((waits, other.c.id))).label("waits"),
            func.max(case((waits, other.c.id))).label("last"),
        )
        .where(other.c.alike.in_(keys), or_(waits, paid))
        .group_by(other.c.alike)
        .subquery()
    )
    is_back = or_(mine.c.released.is_not(None), mine.c.row_ref.in_(bindparam("back", expanding=True)))
    later = case((and_(is_back, firsts.c.last > mine.c.id), firsts.c.last))
    first = func.coalesce(firsts.c.paid, case((firsts.c.waits < mine.c.id, firsts.c.waits)), later)
    # Each is looked up by what it looks like: by its state SQLite would go through all that wait for each of them.
    waits_still = func.coalesce(mine.c.state, "") == State.PREPARED.value
    not_released = or_(mine.c.released.is_(None), ~mine.c.released.contains(Hold.DUPLICATE.value))
    return (
        select(mine.c.row_ref, first_of.c.row_ref.label("other"), first_of.c.run_key, first_of.c.request_id)
        .join(firsts, firsts.c.alike == mine.c.alike)
        .join(first_of, first_of.c.id == first)
        .where(mine.c.run_key == run_key, waits_still, not_released)
        .order_by(mine.c.id)
    )


def _ended(table: Any) -> Any:
    return func.coalesce(table.c.final_at, table.c.created_at)


def excused(intents: Iterable[Intent], duplicates: Collection[str]) -> list[str]:
    """The duplicates among these rows that have a `duplicate_ok`."""
    if not duplicates:
        return []
    return [intent.row_ref for intent in intents if intent.row_ref in duplicates and intent.duplicate_ok]


def earlier_payments(ledger: Ledger, run_key: str, intents: Iterable[Intent], days: int) -> list[EarlierPayment]:
    """Settled payments of other runs that look like these and were settled longer ago than `days`: a person knows."""
    table = schema.orders.c
    until = ledger.now() - days * DAY_MS
    found = []
    for some in batched(intents):
        rows = {ledger.key.keyed_hash(list(each.duplicate_key)): each.row_ref for each in some if each.duplicate_key}
        ended = _ended(schema.orders)
        query = select(table.alike, table.run_key, table.request_id, ended.label("ended")).where(
            table.alike.in_(list(rows)), table.state == State.SETTLED.value, ended < until, table.run_key != run_key
        )
        found += [
            EarlierPayment(rows[row.alike], row.run_key, row.request_id, int(row.ended))
            for row in ledger.read(query.order_by(table.id))
        ]
    return found


MEAN_OF = 6
"""Runs whose mean a total is compared with."""

LOOKED_AT = 60
"""Runs, the newest first, among which those that paid the same people are looked for."""


def beside_last(connection: Connection, run_key: str, percent: Decimal) -> Beside | None:
    """Compare a run, as it is recorded, with the last one that paid the same people; None when there is none.

    Runs pay the same people when at least half of the payees of each are payees of the other.
    """
    run = _payments(connection, run_key, _waits_or_paid(schema.orders))
    alike = _alike(connection, run_key, len({each.payee for each in run})) if run else []
    if not alike:
        return None
    last = _payments(connection, alike[0], may_be_paid(schema.orders))
    others = (_payments(connection, each, may_be_paid(schema.orders)) for each in alike[1:])
    earlier = [sums_of((paid.debits, paid.debit) for paid in some) for some in chain((last,), others)]
    return compare_runs(run, alike[0], last, earlier, percent)


def _waits_or_paid(table: Any) -> Any:
    return table.c.state.in_([State.PREPARED.value, State.HELD.value]) | may_be_paid(table)


def _alike(connection: Connection, run_key: str, payees: int) -> list[str]:
    """The last runs that paid the same people as a run with so many payees, the newest first.

    Race: the others go on meanwhile, and PostgreSQL lets each statement see another moment: one counts all of it.
    """
    table, own = schema.orders.c, schema.orders.alias()
    payee = select(own.c.payee).distinct()
    mine = payee.where(own.c.run_key == run_key, own.c.payee.is_not(None), _waits_or_paid(own)).subquery()
    newest = func.max(table.id).label("id")
    found = (
        select(table.run_key, func.count(table.payee.distinct()).label("shared"), newest)
        .join(mine, mine.c.payee == table.payee)
        .where(may_be_paid(schema.orders), table.run_key != run_key)
        .group_by(table.run_key)
        .order_by(newest.desc())
        .limit(LOOKED_AT)
        .subquery()
    )
    other = schema.orders.alias()
    size = select(func.count(other.c.payee.distinct())).where(other.c.run_key == found.c.run_key, may_be_paid(other))
    rows = connection.execute(select(found, size.scalar_subquery().label("size")).order_by(found.c.id.desc()))
    return [row.run_key for row in rows if 2 * row.shared >= max(payees, row.size)][:MEAN_OF]


def _payments(connection: Connection, run_key: str, counts: Any) -> list[Payment]:
    table = schema.orders.c
    columns = (table.row_ref, table.payee, table.payee_name, table.ceiling)
    amounts = (table.currency, table.amount, table.receive_currency, table.receive_amount)
    query = select(*columns, *amounts).where(table.run_key == run_key, table.payee.is_not(None), counts)
    found = []
    for row in connection.execute(query.order_by(table.id)):
        debit = Decimal(row.amount or row.ceiling or 0)
        # A row that fixes what is received has a ceiling: its own amount is what its quote asked.
        fixes_receipt = row.ceiling is not None and row.receive_amount is not None
        fixed = (row.receive_currency, Decimal(row.receive_amount)) if fixes_receipt else (row.currency, debit)
        found.append(Payment(row.row_ref, row.payee, row.payee_name, *fixed, row.currency, debit))
    return found


def what_is_known(ledger: Ledger, run_key: str, intents: Iterable[Intent], duplicate_days: int) -> Known:
    """Which of these payments go to new or changed payees, and which look like one that may have been paid."""
    new: set[str] = set()
    changed: dict[str, str] = {}
    duplicates: dict[str, str] = {}
    since = ledger.now() - duplicate_days * DAY_MS
    for some in batched(intents):
        payees = {each.row_ref: ledger.key.keyed_hash(each.payee) for each in some if each.payee}
        names = {each.row_ref: ledger.key.keyed_hash(each.payee_name) for each in some if each.payee_name}
        alike = {each.row_ref: ledger.key.keyed_hash(list(each.duplicate_key)) for each in some if each.duplicate_key}
        paid, named = _paid(ledger, payees.values()), _accounts_of(ledger, names.values())
        unknown = {row for row, payee in payees.items() if payee not in paid}
        changed |= {row: named[names[row]] for row in unknown if names.get(row) in named}
        new |= unknown
        like = _like(ledger, run_key, alike.values(), since)
        duplicates |= {row: like[key] for row, key in alike.items() if key in like}
    return Known(frozenset(new - changed.keys()), changed, duplicates)


def _paid(ledger: Ledger, payees: Iterable[str]) -> set[str]:
    """Those of these payees who may have been paid."""
    table = schema.orders
    query = select(table.c.payee).distinct().where(table.c.payee.in_(set(payees)), may_be_paid(table))
    return {row.payee for row in ledger.read(query)}


def _accounts_of(ledger: Ledger, names: Iterable[str]) -> dict[str, str]:
    """Those of these names that may have been paid, each with the account, masked, that it was paid to last."""
    table = schema.orders
    query = select(table.c.payee_name, table.c.masked).where(table.c.payee_name.in_(set(names)), may_be_paid(table))
    return {row.payee_name: shown_account(row.masked) for row in ledger.read(query.order_by(table.c.id))}


def shown_account(masked: str) -> str:
    """The account of a payment, masked, from its masked form."""
    fields = json.loads(masked)
    quoted = fields.get("quote", fields)
    party = next((quoted[name] for name in BENEFICIARY_OBJECTS.values() if name in quoted), quoted)
    return str(next((party[name] for name in ("account_no", "address", "qrcode") if party.get(name)), "***"))


def _like(ledger: Ledger, run_key: str, alike: Iterable[str], since: int) -> dict[str, str]:
    """Each of these duplicate keys that a payment of another run has, with that payment in words."""
    table = schema.orders
    query = select(table.c.alike, table.c.row_ref, table.c.run_key, table.c.request_id).where(
        table.c.alike.in_(set(alike)), table.c.run_key != run_key, may_be_repeated(table, since)
    )
    return {row.alike: f"{row.row_ref} of run {row.run_key} ({row.request_id})" for row in ledger.read(query)}


@dataclass
class Payee:
    """The memory of one payee: an account of a bank in a country."""

    shown: str
    """Country, bank and account, masked."""
    reference: str
    """Request id of the last payment, which names the payee."""
    names: set[str] = field(default_factory=set)
    """Keyed hashes of the names used."""
    payments: int = 0
    """Payments that may have been made."""
    sums: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    """Currency -> what was settled."""
    first_ms: int | None = None
    """When the first of them was recorded, Unix ms."""
    last_ms: int | None = None


@exact
def payees(ledger: Ledger) -> list[Payee]:
    """Everybody whom payouts of this ledger name, the last paid first."""
    table, found = schema.orders.c, dict[str, Payee]()
    columns = (table.payee, table.payee_name, table.masked, table.request_id, table.state, table.created_at)
    amounts = (table.operation, table.status, table.currency, table.amount, table.ceiling)
    query = select(*columns, *amounts).where(table.payee.is_not(None)).order_by(table.id)
    with ledger.snapshot() as stream:
        for row in stream(query):
            payee = found.setdefault(row.payee, Payee("", ""))
            shown = _shown(row.masked)  # the confirmation of a quote by its number shows nobody
            payee.shown, payee.reference = (payee.shown or shown) if shown == "***" else shown, row.request_id
            payee.names |= {row.payee_name} if row.payee_name else set()
            if row.state in (*_OPEN, State.SETTLED.value):
                payee.payments += 1
                payee.first_ms = row.created_at if payee.first_ms is None else payee.first_ms
                payee.last_ms = row.created_at
            amount = settled_amount(row) if row.state == State.SETTLED.value else None
            if amount is not None:
                payee.sums[row.currency] += Decimal(amount)
    return sorted(found.values(), key=lambda each: -(each.last_ms or 0))


def _shown(masked: str) -> str:
    fields: dict[str, Any] = json.loads(masked)
    quoted = fields.get("quote", fields)
    country = quoted.get("country") or quoted.get("beneficiary_country")
    bank = quoted.get("bank_code") or quoted.get("wallet_code") or quoted.get("beneficiary_bank_id")
    return " ".join(str(part) for part in (country, bank, shown_account(masked)) if part)


def payments_to(ledger: Ledger, order: Order) -> tuple[list[Order], list[Order]]:
    """Every payment to the payee of an order, and payments to other accounts under one of the names used for it."""
    table = schema.orders
    payee = select(table.c.payee).where(table.c.id == order.id).scalar_subquery()
    names = select(table.c.payee_name).where(table.c.payee == payee, table.c.payee_name.is_not(None))
    same = select(table).where(table.c.payee == payee).order_by(table.c.id)
    named = select(table).where(table.c.payee_name.in_(names), table.c.payee != payee).order_by(table.c.id)
    return [read_row(Order, row) for row in ledger.read(same)], [read_row(Order, row) for row in ledger.read(named)]
