"""Quotes in the ledger: recorded before they are asked for, and not replaced while they may be confirmed."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, select

from treasury.errors import ChangedByHand, IllegalTransition
from treasury.ledger import schema
from treasury.ledger.database import group_of
from treasury.ledger.halts import check_not_stopped
from treasury.ledger.ledger import Ledger
from treasury.ledger.mapping import as_read, columns, read_row, with_columns
from treasury.ledger.personal import OWNER, Words
from treasury.ledger.seals import is_sealed_quote, seal_quote, with_quote_seal, with_seal
from treasury.ledger.statements import LAST_QUOTE, fetch_one
from treasury.orders.records import Order, Quote, Stage, derive_request_id
from treasury.orders.states import State
from treasury.provider.pacing import QUOTE

QUOTES_SEEN = 50
"""So many newest quotes of a pair say which fee the next one is expected to take."""

MAX_GENERATIONS = QUOTE.attempts
"""Quotes that one payment may ever have, each under an id of its own."""

USED_UP = f"{MAX_GENERATIONS} quotes were asked for, and none could be confirmed"
"""How the reason of a row begins that has had them all."""


def reference_of(ledger: Ledger, order: Order, generation: int) -> str:
    """The request id of an order under a generation."""
    if generation == order.generation:
        return order.request_id
    named = (order.run_key, order.row_ref, order.operation, generation, order.replaces)
    return derive_request_id(ledger.account, *named)


def open_quote(ledger: Ledger, order: Order) -> tuple[Order, Quote | None]:
    """The current quote of an order, to be asked for, judged or confirmed; None when all generations are used up.

    Another generation is opened only when there is none, or the last one is done. A request for a quote is counted
    before it leaves. Raises `IllegalTransition` when the order is in another state, `ChangedByHand`, and `Stopped`.
    """

    def work(connection: Connection) -> tuple[Order, Quote | None]:
        check_not_stopped(connection, ledger)
        last = _last(connection, order)
        if last is not None and not is_sealed_quote(ledger.key, last):
            raise ChangedByHand(order.request_id)
        if last is not None and last.stage is not Stage.DONE:
            asks = last.asks + (last.stage is Stage.ASKED)
            if last.stage is Stage.ANSWERED and last.generation == order.generation:
                return order, last  # the step that marks its confirmation checks that nobody moved the order
            quote = _change(ledger, connection, last, {"asks": asks})
            return _at(ledger, connection, order, last.generation, quote.quote), quote
        generation = order.generation if last is None else last.generation + 1
        if generation > MAX_GENERATIONS:
            return order, None
        moved = _at(ledger, connection, order, generation, None)
        return moved, _insert(ledger, connection, moved, generation, {"stage": Stage.ASKED, "asks": 1})

    if order.state is not State.PREPARED:
        raise IllegalTransition(order.request_id, "a new quote")
    return ledger.write(work)


def note_quote(ledger: Ledger, asked: Quote, /, **facts: Any) -> Quote:
    """Record facts about a quote; its note without the personal values of its payment."""

    def work(connection: Connection) -> Quote:
        kept = facts
        if facts.get("note"):
            owner = fetch_one(connection, OWNER, {"order_id": asked.order_id})
            kept = Words.of_row(ledger.key, owner).also(asked.request_id).facts(facts)
        return _change(ledger, connection, asked, columns(kept))

    return ledger.write(work)


def adopt_quote(ledger: Ledger, order: Order, generation: int, /, **facts: Any) -> tuple[Order, Quote]:
    """Adopt a quote that the service shows under a generation of this order, to be confirmed or waited for."""

    def work(connection: Connection) -> tuple[Order, Quote]:
        moved = _at(ledger, connection, order, generation, facts.get("quote"))
        last = _last(connection, order)
        if last is not None and last.generation == generation:
            return moved, _change(ledger, connection, last, columns(facts))
        return moved, _insert(ledger, connection, moved, generation, {"asks": 0, **columns(facts)})

    return ledger.write(work)


def finish_quote(ledger: Ledger, quote: Quote | None, note: str) -> None:
    """Mark a quote as done, so that another may follow."""
    if quote is not None:
        note_quote(ledger, quote, stage=Stage.DONE, note=note)


def last_quote(ledger: Ledger, order: Order) -> Quote | None:
    """The last quote of an order, if it asked for one."""
    return ledger.write(lambda connection: _last(connection, order))


def _last(connection: Connection, order: Order) -> Quote | None:
    row = fetch_one(connection, LAST_QUOTE, {"order_id": order.id})
    return None if row is None else read_row(Quote, row)


def quotes_of_run(ledger: Ledger, run_key: str) -> Iterator[Quote]:
    """Every quote of a run's orders, oldest first."""
    query = select(schema.quotes).join_from(schema.quotes, schema.orders).where(schema.orders.c.run_key == run_key)
    with ledger.snapshot() as stream:
        yield from (read_row(Quote, row) for row in stream(query.order_by(schema.quotes.c.id)))


def quotes_seen(ledger: Ledger, pays: str, receives: str) -> list[Quote]:
    """The newest quotes of a pair of currencies, but for what somebody changed by hand."""
    table = schema.quotes.c
    chosen = (table.pay_currency == pays) & (table.receive_currency == receives) & table.pay_amount.is_not(None)
    rows = ledger.read(select(schema.quotes).where(chosen).order_by(table.id.desc()).limit(QUOTES_SEEN))
    found = (read_row(Quote, row) for row in rows)
    return [quote for quote in found if is_sealed_quote(ledger.key, quote)]


def live_quotes(ledger: Ledger, run_key: str) -> dict[str, Decimal]:
    """Row -> what its quote debits, of the payments of a run that wait with a quote which may still be confirmed."""
    orders, table = schema.orders.c, schema.quotes.c
    is_live = (table.stage == Stage.ANSWERED.value) & (table.expires_at > ledger.now())
    chosen = (orders.run_key == run_key) & (orders.state == State.PREPARED.value) & is_live
    rows = ledger.read(
        select(schema.quotes, orders.row_ref).join_from(schema.quotes, schema.orders).where(chosen).order_by(table.id)
    )
    found = ((row.row_ref, read_row(Quote, row)) for row in rows)
    return {
        name: quote.pay_amount
        for name, quote in found
        if quote.pay_amount is not None and is_sealed_quote(ledger.key, quote)
    }


def _at(ledger: Ledger, connection: Connection, order: Order, generation: int, confirmation: str | None) -> Order:
    """Put an order at this generation, if nobody moved it since it was read; facts of the old reference are cleared."""
    values: dict[str, Any] = {"confirmation": confirmation}
    if generation != order.generation:
        values |= {"generation": generation, "request_id": reference_of(ledger, order, generation)}
        values |= {"first_answer": None, "absent_since": None}
    moved = group_of(connection).change(order, as_read(order), with_seal(ledger.key, order, values))
    if moved is None:
        raise IllegalTransition(order.request_id, "a new quote")
    return moved


def _change(ledger: Ledger, connection: Connection, quote: Quote, values: dict[str, Any]) -> Quote:
    if all(getattr(quote, name) == value for name, value in values.items()):
        return quote
    changed = group_of(connection).change(
        quote, {"request_id": quote.request_id}, with_quote_seal(ledger.key, quote, values)
    )
    if changed is None:
        raise AssertionError(f"quote {quote.request_id} was never asked for")
    return changed


def _insert(ledger: Ledger, connection: Connection, order: Order, generation: int, facts: dict[str, Any]) -> Quote:
    row = {"order_id": order.id, "generation": generation, "request_id": order.request_id}
    row |= {"created_at": ledger.now(), **facts}
    quote = with_columns(Quote.of(Quote.unanswered()), columns(row))
    row["checksum"] = seal_quote(ledger.key, quote)
    group_of(connection).insert(schema.quotes, row)
    return quote.changed({"checksum": row["checksum"]})
