"""The ledger's part of the position: orders on their way, payments that wait, what past days paid and traded."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from sqlalchemy import select

from treasury.errors import LimitExceeded
from treasury.ledger import schema
from treasury.ledger.account_sums import debit_of
from treasury.ledger.approvals import waiting_plans
from treasury.ledger.debits import CONVERSION, is_counted, most_of
from treasury.ledger.ledger import Ledger
from treasury.ledger.mapping import read_row
from treasury.money import ZERO, canonical, exact, parse_amount, sums_of
from treasury.orders.records import Order
from treasury.orders.states import NEVER_LEFT, NEVER_RELEASED, OPEN, Hold, State
from treasury.planning.fills import MadeRound, Proceeds, unspent_proceeds
from treasury.planning.position import InFlight, Obligation
from treasury.planning.trades import Trade, Traded, TradePlan
from treasury.provider.service_rules import ServiceRules

HELD_BACK = (Hold.LIMIT, Hold.COOLING, Hold.PAYEE)
"""Why an order is held that is likely to be paid once a person, or time, releases it."""

DEBITED = {"debited": True, "undebited": False}
"""The sum of `Flows` that an open order belongs to -> whether its amount was taken already, where that is known."""

ADDS = "adds"
"""The member of what approvers see of a plan that says that its rows are added to a run that began."""

FEES_OF = 20
"""So many newest conversions say which fee the next one is expected to take."""


def orders_in_flight(ledger: Ledger, rules: ServiceRules, replaced: Collection[str] = ()) -> tuple[InFlight, ...]:
    """Orders of every run that left, or may have left, and are not final; and conversions that are not sent yet.

    Of what is held, the conversions that may have been made: a purchase of which nobody knows is not made again.
    `rules`: say what was debited already; `replaced`: runs whose unsent conversions count for none, because who plans
    now cancels them.
    """
    table = schema.orders.c
    held = (table.state == State.HELD.value) & table.hold_kind.in_([kind.value for kind in NEVER_RELEASED])
    columns = (table.request_id, table.run_key, table.row_ref, table.operation, table.state, table.currency)
    amounts = (table.amount, table.ceiling, table.receive_currency, table.receive_amount, table.masked)
    answered = (table.order_no, table.status)
    unsent = (table.state == State.PREPARED.value) & table.run_key.not_in(list(replaced))
    chosen = table.state.in_([state.value for state in OPEN]) | ((held | unsent) & (table.operation == CONVERSION))
    chosen &= table.currency.is_not(None)
    rows = ledger.read(select(*columns, *amounts, *answered).where(chosen).order_by(table.id))
    not_quoted = {
        (row.run_key, row.row_ref) for row in rows if row.operation == CONVERSION and row.receive_amount is None
    }
    expected = {name: canonical(trade.expected_receive) for name, trade in _planned(ledger, not_quoted)}
    found = []
    for row in rows:
        is_conversion, is_sent = row.operation == CONVERSION, row.state != State.PREPARED.value
        brings = row.receive_amount or expected.get((row.run_key, row.row_ref)) if is_conversion else None
        each = InFlight(
            request_id=row.request_id,
            run_key=row.run_key,
            row_ref=row.row_ref,
            currency=row.currency,
            amount=most_of(row),
            is_known=row.state == State.ACCEPTED.value or not is_sent,
            is_conversion=is_conversion,
            symbol=json.loads(row.masked).get("symbol") if is_conversion else None,
            receive_currency=row.receive_currency if is_conversion else None,
            receive_amount=None if brings is None else parse_amount(brings),
            is_sent=is_sent,
            debited=DEBITED.get(debit_of(row, rules)),
        )
        found.append(each)
    return tuple(found)


def moved_since(ledger: Ledger, run_key: str, since: int, flying: Collection[str]) -> list[Order]:
    """Orders of other runs that may have moved a balance since a moment, Unix ms.

    Those that left or became final since, and those of these request ids, which were on their way then.
    """
    table = schema.orders.c
    left = (table.sent_at >= since) | (table.final_at >= since) | table.request_id.in_(flying)
    query = select(schema.orders).where(table.run_key != run_key, left).order_by(table.id)
    return [read_row(Order, row) for row in ledger.read(query)]


def conversions_since(ledger: Ledger, since: int) -> list[Order]:
    """The conversions that were recorded at or after a moment, Unix ms, whatever became of them."""
    table = schema.orders.c
    query = select(schema.orders).where(table.operation == CONVERSION, table.created_at >= since).order_by(table.id)
    return [read_row(Order, row) for row in ledger.read(query)]


def debited_since(ledger: Ledger, since: int) -> set[str]:
    """The currencies that payments debit which were recorded, or left, at or after a moment, Unix ms."""
    table = schema.orders.c
    chosen = (table.created_at >= since) | (table.sent_at >= since)
    chosen &= (table.operation != CONVERSION) & table.currency.is_not(None)
    return {row.currency for row in ledger.read(select(table.currency).distinct().where(chosen))}


def unsent_conversions(ledger: Ledger, kind: str) -> list[str]:
    """The run keys of a kind that have conversions which were not sent."""
    orders, runs = schema.orders.c, schema.runs.c
    joined = schema.orders.join(schema.runs, orders.run_key == runs.run_key)
    chosen = (orders.state == State.PREPARED.value) & (orders.operation == CONVERSION) & (runs.kind == kind)
    return [row.run_key for row in ledger.read(select(orders.run_key).distinct().select_from(joined).where(chosen))]


def open_conversions(ledger: Ledger) -> list[int]:
    """Ids of conversions that left, or may have left, and are not final."""
    table = schema.orders.c
    chosen = table.state.in_([state.value for state in OPEN]) & (table.operation == CONVERSION)
    return [row.id for row in ledger.read(select(table.id).where(chosen).order_by(table.id))]


@exact
def payments_that_wait(ledger: Ledger) -> list[Obligation]:
    """Return what recorded payments that have not left, and plans that wait for approvals, debit at the most.

    Race: a plan that waits may be recorded meanwhile. Plans are read first, so that its payments are seen.
    """
    plans = waiting_plans(ledger)
    begun = {row.run_key for row in ledger.read(select(schema.runs.c.run_key))}
    table = schema.orders.c
    held = (table.state == State.HELD.value) & table.hold_kind.in_([kind.value for kind in HELD_BACK])
    waits = (table.state == State.PREPARED.value) | held
    query = select(table.run_key, table.currency, table.amount, table.ceiling)
    sums: dict[tuple[str, str, str | None], Decimal] = defaultdict(Decimal)
    for row in ledger.read(query.where(waits, table.operation != CONVERSION, table.currency.is_not(None))):
        sums[row.currency, f"run {row.run_key}, not sent yet", row.run_key] += most_of(row)
        begun.add(row.run_key)
    for plan in plans:
        # Of a run that began, rows to be added are obligations of their own; another plan of its rows is none.
        if plan.shown is not None and (plan.run_key not in begun or plan.shown.get(ADDS, False)):
            for asset, amount in _debits(plan.shown).items():
                sums[asset, f"run {plan.run_key}, waits for approvals", None] += amount
    found = (Obligation(asset, amount, what, run_key) for (asset, what, run_key), amount in sums.items() if amount)
    return sorted(found, key=lambda each: (each.asset, each.what))


def _debits(shown: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return what a plan that waits debits, by what its approvers see."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    if shown.get("kind") == "call":
        for row in shown.get("rows", ()):
            if row.get("amount") and row.get("currency"):
                sums[row["currency"]] += parse_amount(row["amount"])
    elif shown.get("kind") == "payout":
        for asset, amount in shown.get("debits", {}).items():
            sums[asset] += parse_amount(amount)
        for each in shown.get("funding", ()):
            sums[each["currency"]] += parse_amount(each.get("estimated") or "0")
    return sums


def may_have_been_paid(ledger: Ledger) -> dict[str, Decimal]:
    """Currency -> what payments debit that are held because the ledger may be older than the service."""
    table = schema.orders.c
    held = (table.state == State.HELD.value) & (table.hold_kind == Hold.OLDER.value) & (table.operation != CONVERSION)
    rows = ledger.read(select(table.currency, table.amount, table.ceiling).where(held, table.currency.is_not(None)))
    return dict(sorted(sums_of((row.currency, most_of(row)) for row in rows).items()))


def runs_since(ledger: Ledger, since: int) -> list[str]:
    """Run keys of payments that were recorded at or after a moment, Unix ms, and did not end unpaid; and of plans that
    wait since then."""
    table = schema.orders.c
    ended = [state.value for state in State if state.may_be_replaced]
    chosen = (table.created_at >= since) & table.state.not_in(ended) & (table.operation != CONVERSION)
    recorded = {row.run_key for row in ledger.read(select(table.run_key).distinct().where(chosen))}
    return sorted(recorded | {plan.run_key for plan in waiting_plans(ledger) if plan.proposed_at >= since})


@exact
def paid_by_day(ledger: Ledger, since: int, day_of: Callable[[int], date]) -> dict[str, dict[date, Decimal]]:
    """Asset -> day -> what payments that left then, and did not fail, debited; from a moment on, Unix ms."""
    table = schema.orders.c
    states = [State.SETTLED.value, State.ACCEPTED.value]
    chosen = table.state.in_(states) & (table.operation != CONVERSION) & (table.sent_at >= since)
    found: dict[str, dict[date, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for row in ledger.read(select(table.currency, table.amount, table.sent_at).where(chosen)):
        if row.currency is not None and row.amount is not None:
            found[row.currency][day_of(row.sent_at)] += parse_amount(row.amount)
    return {asset: dict(days) for asset, days in sorted(found.items())}


@exact
def traded_on(ledger: Ledger, since: int, replaced: Collection[str] = ()) -> Traded:
    """The conversions that were recorded, or sent, at or after a moment, Unix ms, and did not end unmade.

    `replaced`: runs whose unsent conversions count for none, because who plans now cancels them. Raises `LimitExceeded`
    where the plan of one was changed by hand.
    """
    table = schema.orders.c
    amounts = (table.currency, table.amount, table.receive_currency, table.receive_amount)
    of_then = (table.created_at >= since) | (table.sent_at >= since)  # it may have waited over midnight
    chosen = (table.operation == CONVERSION) & of_then & is_counted(table)
    chosen &= (table.state != State.PREPARED.value) | table.run_key.not_in(list(replaced))
    rows = ledger.read(select(table.run_key, table.row_ref, *amounts, table.masked).where(chosen))
    planned = dict(_planned(ledger, {(row.run_key, row.row_ref) for row in rows}))
    moved: dict[str, Decimal] = defaultdict(Decimal)
    value: dict[str, Decimal] = defaultdict(Decimal)
    spent = []
    for row in rows:
        trade = planned.get((row.run_key, row.row_ref))
        if trade is not None:
            value[trade.symbol] += trade.value
        if row.currency is not None:  # of a quote that somebody else asked for nothing is known before it is confirmed
            amount = parse_amount(row.amount or "0")
            moved[row.currency] += amount
            spent += [] if trade is not None else [(json.loads(row.masked).get("symbol", ""), row.currency, amount)]
        if row.receive_currency is not None:  # before its quote, what its plan expects
            expected = ZERO if trade is None else trade.expected_receive
            moved[row.receive_currency] += expected if row.receive_amount is None else parse_amount(row.receive_amount)
    return Traded(dict(moved), tuple(spent), dict(value), sum((each.cost for each in planned.values()), ZERO))


def _planned(ledger: Ledger, made: Collection[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], Trade]]:
    """The trades that were made, run key and row, as their plans have them.

    Raises `LimitExceeded` where one was changed by hand: nobody knows what it was worth, and what it cost.
    """
    for run_key in sorted({run_key for run_key, _ in made}):
        run = ledger.run(run_key)
        if run is None or run.is_changed:
            raise LimitExceeded(
                f"run {run_key}, which counts in what is traded on this day, was changed in the ledger by hand: find "
                "out who did it; nothing more is traded on this day"
            )
        if "trades" in run.plan:
            found = (((run_key, each.row_ref), each) for each in TradePlan.from_dict(run.plan).trades)
            yield from (each for each in found if each[0] in made)


def proceeds_of(ledger: Ledger, run_keys: Iterable[str]) -> Proceeds:
    """Return what sales of these rounds brought, or are to bring, for other assets, by purpose, and none spent."""
    rounds = []
    for run_key in run_keys:
        run, orders = ledger.run(run_key), ledger.orders(run_key=run_key)
        settled = [each for each in orders if each.state is State.SETTLED]
        brought = {each.row_ref: each.receive_amount for each in settled if each.receive_amount is not None}
        spent = [each.row_ref for each in orders if each.state not in NEVER_LEFT and not each.state.may_be_replaced]
        if run is not None:
            rounds.append(MadeRound(TradePlan.from_dict(run.plan), brought, spent))
    return unspent_proceeds(rounds)


@exact
def usual_fee_bps(ledger: Ledger) -> Decimal | None:
    """The fee that recent conversions took of what they brought, in basis points; None without any."""
    table = schema.orders.c
    chosen = (table.operation == CONVERSION) & (table.state == State.SETTLED.value) & table.fee.is_not(None)
    same = chosen & (table.fee_currency == table.receive_currency) & table.receive_amount.is_not(None)
    query = select(table.fee, table.receive_amount).where(same).order_by(table.id.desc()).limit(FEES_OF)
    found = [(parse_amount(row.fee), parse_amount(row.receive_amount)) for row in ledger.read(query)]
    fees = sum((fee for fee, _ in found), ZERO)
    gross = fees + sum((received for _, received in found), ZERO)
    return (fees * 10_000 / gross).quantize(Decimal("0.01")) if gross else None
