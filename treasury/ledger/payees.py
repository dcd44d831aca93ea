"""The ledger's knowledge of payees and of payments like planned ones, by their keyed hashes."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sqlalchemy import select

from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.duplicates import DAY_MS, may_be_paid, may_be_repeated
from treasury.ledger.ledger import Ledger
from treasury.ledger.mapping import read_row
from treasury.money import exact
from treasury.orders.decisions import settled_amount
from treasury.orders.records import Intent, Order
from treasury.orders.rows import BENEFICIARY_OBJECTS
from treasury.orders.states import State
from treasury.planning.shown import Known


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
            if row.state in _MAY_BE_PAID:
                payee.payments += 1
                payee.first_ms = row.created_at if payee.first_ms is None else payee.first_ms
                payee.last_ms = row.created_at
            amount = settled_amount(row) if row.state == State.SETTLED.value else None
            if amount is not None:
                payee.sums[row.currency] += Decimal(amount)
    return sorted(found.values(), key=lambda each: -(each.last_ms or 0))


_MAY_BE_PAID = tuple(state.value for state in (State.SENDING, State.UNKNOWN, State.ACCEPTED, State.SETTLED))


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
