"""Changes that somebody made to the ledger by hand: to orders, found before anything leaves, and by triggers."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import partial

from sqlalchemy import Connection, bindparam, case, func, select, text, update

from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.ledger.mapping import as_read, journaled_state, read_row
from treasury.ledger.seals import CHANGED, is_sealed_order, is_sealed_quote
from treasury.orders.records import Order, Quote
from treasury.orders.states import Event, Hold, State

REASON = (
    "it was changed or added in the ledger by hand: find out who did it and what is true; then treasury resolve says "
    "so, or treasury cancel ends it if it never left"
)


def hold_changed(ledger: Ledger, run_key: str) -> list[Order]:
    """Hold each order of a run that was changed by hand; returns those that were found just now."""

    def work(connection: Connection) -> list[Order]:
        table = schema.orders
        rows = connection.execute(select(table).where(table.c.run_key == run_key)).fetchall()
        other = _with_changed_quotes(connection, ledger, run_key) | _put_back(connection, run_key)
        orders = (read_row(Order, row) for row in rows)
        found = [each for each in orders if each.id in other or not _is_expected(ledger, each)]
        return [order for order in found if _hold(connection, ledger, order)]

    return ledger.write(work)


def _hold(connection: Connection, ledger: Ledger, order: Order) -> bool:
    """Hold an order, unless somebody moved it since it was read; returns whether it is held."""
    table = schema.orders
    unmoved = [table.c[name] == value for name, value in as_read(order).items()]
    values = {"state": State.HELD.value, "hold_kind": Hold.CHANGED.value, "reason": REASON, "checksum": CHANGED}
    if not connection.execute(update(table).where(*unmoved).values(**values)).rowcount:
        return False
    source = journaled_state(connection, order)
    ledger.journal_step(connection, order.id, Event.HOLD, source, State.HELD, cause=REASON)
    return True


def hold_changed_of(ledger: Ledger, orders: Iterable[Order]) -> None:
    """Hold, in the runs of these orders, what was changed by hand, where any of these were: before they are counted."""
    for run_key in sorted({each.run_key for each in orders if not _is_expected(ledger, each)}):
        hold_changed(ledger, run_key)


def hold_changed_elsewhere(ledger: Ledger, run_key: str) -> None:
    """Hold what was changed by hand of the newest orders of all other runs: the limit of the day and the duplicates of
    this one, which is about to leave, count them."""
    table = schema.orders
    rows = ledger.read(select(table).where(table.c.run_key != run_key).order_by(table.c.id.desc()).limit(CHECKED))
    hold_changed_of(ledger, map(partial(read_row, Order), rows))


CHECKED = 5_000
"""Orders, the newest first, that each start of a run checks, in about 0.2 s of processor time."""


def changed_orders(ledger: Ledger) -> list[Order]:
    """Every order that was changed or added by hand, or whose steps were, but for those that are held for it."""
    with ledger.each_order(None) as orders:
        parts = ((part, changed_among(ledger, part)) for part in batched(orders))
        return [order for part, changed in parts for order in part if order.id in changed]


def changed_among(ledger: Ledger, orders: Sequence[Order]) -> dict[int, str]:
    """Return, by id, what was changed by hand of these orders, but for those that are held for it, in words."""
    changed = {order.id: "its record" for order in orders if not _is_expected(ledger, order)}
    others = [order.id for order in orders if order.id not in changed]
    return changed | dict.fromkeys(ledger.look(partial(_paid_otherwise, ids=others)), "its steps")


def _paid_otherwise(connection: Connection, ids: Sequence[int]) -> set[int]:
    """Orders that say they are paid and by their steps are not, or were more than once; or the other way round."""
    orders, journal = schema.orders.c, schema.journal.c
    settled = State.SETTLED.value
    effect = case((journal.target == settled, 1), else_=0) - case((journal.source == settled, 1), else_=0)
    state = case((orders.state == settled, 1), else_=0)
    query = select(orders.id).outerjoin(schema.journal, journal.order_id == orders.id).where(orders.id.in_(ids))
    wrong = query.group_by(orders.id, orders.state).having(func.coalesce(func.sum(effect), 0) != state)
    return set(connection.execute(wrong).scalars())


def _with_changed_quotes(connection: Connection, ledger: Ledger, run_key: str) -> set[int]:
    """Orders that may confirm a quote and have one that was changed, or is another order's."""
    orders, states = schema.orders.c, (State.PREPARED.value, State.SENDING.value, State.UNKNOWN.value)
    query = select(schema.quotes).join(schema.orders, schema.quotes.c.order_id == orders.id)
    rows = connection.execute(query.where(orders.run_key == run_key, orders.state.in_(states)))
    quotes = (read_row(Quote, row) for row in rows)
    return {quote.order_id for quote in quotes if not is_sealed_quote(ledger.key, quote)}


def _put_back(connection: Connection, run_key: str) -> set[int]:
    """Orders that wait as if nothing had happened, and whose last step in the journal led elsewhere."""
    orders, journal = schema.orders.c, schema.journal.c
    waits = select(orders.id).where(orders.run_key == run_key, orders.state == State.PREPARED.value)
    last = select(func.max(journal.id)).where(journal.order_id.in_(waits)).group_by(journal.order_id)
    query = select(journal.order_id).where(journal.id.in_(last), journal.target != State.PREPARED.value)
    return set(connection.execute(query).scalars())


def _is_expected(ledger: Ledger, order: Order) -> bool:
    known = order.state is State.HELD and order.hold_kind == Hold.CHANGED
    return known or is_sealed_order(ledger.key, order)


def may_have_left(ledger: Ledger, order: Order) -> bool:
    """Tell whether the journal, or the order itself, shows that it was marked to leave."""
    return order.sends > 0 or any(entry.event in (Event.SEND, Event.RESEND) for entry in ledger.journal(order))


_SQLITE = text(
    "SELECT type, name || ' of ' || tbl_name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN :tables "
    "OR type = 'view' AND name IN :tables ORDER BY type, name"
).bindparams(bindparam("tables", expanding=True))
_POSTGRESQL = text("""
WITH ours AS (SELECT to_regclass(name) AS id FROM unnest(CAST(:tables AS text[])) AS name)
SELECT 'trigger', concat(tgname, ' of ', CAST(tgrelid AS regclass)),
       concat(pg_get_triggerdef(t.oid), tgenabled, p.prosrc)
  FROM pg_trigger t JOIN pg_proc p ON p.oid = tgfoid WHERE NOT tgisinternal AND tgrelid IN (SELECT id FROM ours)
UNION ALL SELECT 'rule', concat(rulename, ' of ', CAST(ev_class AS regclass)), pg_get_ruledef(oid)
  FROM pg_rewrite WHERE ev_class IN (SELECT id FROM ours)
UNION ALL SELECT 'policy', concat(polname, ' of ', CAST(polrelid AS regclass)),
       concat(pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
  FROM pg_policy WHERE polrelid IN (SELECT id FROM ours)
ORDER BY 1, 2
""")
"""A view in a table's place is a rule here. Two tables may each have one of a name."""


def made_by_hand(ledger: Ledger) -> dict[str, str]:
    """Return what the tables of this ledger have that this program never makes, as people read it -> a hash of what it
    does. A view of another name, for a report of somebody's own, changes nothing."""
    names = [table.name for table in schema.metadata.sorted_tables]

    def work(connection: Connection) -> dict[str, str]:
        query = _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL
        rows = connection.execute(query, {"tables": names})
        return {f"{kind} {name}": hashlib.sha256(str(does).encode()).hexdigest()[:8] for kind, name, does in rows}

    return ledger.look(work)
