"""Payments that replace others: a payout that ended unpaid is paid once more, at most once, and asked about first."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from sqlalchemy import Connection, select, update

from treasury.concurrency.batches import batched
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.known_payees import DAY_MS
from treasury.ledger.ledger import Ledger, order_named
from treasury.ledger.mapping import read_row
from treasury.ledger.quotes import reference_of
from treasury.ledger.seals import with_seal
from treasury.orders.records import Order
from treasury.orders.states import UNPAID, State

KEPT_DAYS = 35
"""For so many days after its end the content of an unpaid payout is kept, encrypted, so that it can be paid again."""


_UNPAID = tuple(state.value for state in UNPAID)


def identity_of(ledger: Ledger, order: Order) -> str:
    """The request id that stands for a payment in `replaces`: the one of its first quote, which never changes."""
    return reference_of(ledger, order, 1)


def find_replaced(
    connection: Connection, ledger: Ledger, run_key: str, wanted: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return row -> the identity of the payment that it replaces; and row -> why it cannot be paid instead of it.

    `wanted`: row -> the request id that it names.
    """
    found, problems, taken = dict[str, str](), dict[str, str](), dict[str, str]()
    for row_ref, request_id in wanted.items():
        old = order_named(connection, request_id)
        if old is None:
            problems[row_ref] = "is no payment of this ledger: copy it from remaining.csv, or leave it blank"
            continue
        identity = identity_of(ledger, old)
        why = _why_not(connection, run_key, row_ref, old, identity)
        if why is None and identity in taken:
            why = f"is the payment that row {taken[identity]} replaces already: a payment is replaced once"
        taken.setdefault(identity, row_ref)
        if why is not None:
            problems[row_ref] = why
        found[row_ref] = identity
    return found, problems


def _why_not(connection: Connection, run_key: str, row_ref: str, old: Order, identity: str) -> str | None:
    table = schema.orders.c
    query = select(table.run_key, table.row_ref, table.request_id, table.state).where(table.replaces == identity)
    by = connection.execute(query).first()
    if by is not None and (by.run_key, by.row_ref) == (run_key, row_ref):
        return None  # it is this payment, which was recorded before
    if by is not None:
        again = f"; name {by.request_id} to replace that one" if State(by.state).may_be_replaced else ""
        return f"was replaced by {by.row_ref} of run {by.run_key} already: a payment is replaced once{again}"
    if not old.state.may_be_replaced:
        said = old.state.outcome.replace("_", " ")
        return f"is {said}: only a payment that failed, or was closed, rejected or cancelled, may be replaced"
    return None


def replacing(ledger: Ledger, run_key: str) -> dict[str, Order]:
    """Request id of a payment of a run -> the payment that replaces it, if one was recorded."""
    table = schema.orders
    ended = ledger.read(select(table).where(table.c.run_key == run_key, table.c.state.in_(_MAY_BE_REPLACED)))
    identities = {identity_of(ledger, order): order.request_id for order in map(partial(read_row, Order), ended)}
    found = {}
    for some in batched(identities):
        for row in ledger.read(select(table).where(table.c.replaces.in_(some))):
            order = read_row(Order, row)
            found[identities[str(order.replaces)]] = order
    return found


_MAY_BE_REPLACED = tuple(state.value for state in State if state.may_be_replaced)


def forget_replaced(connection: Connection, ledger: Ledger, replaced: Collection[str]) -> None:
    """Forget the content of payments that are replaced from now on. Raises `InputError` for one that moves just now."""
    for request_id in replaced:
        old = order_named(connection, request_id)
        if old is not None and old.payload is not None and not _forget(connection, ledger, old):
            raise InputError(f"{request_id}, which is to be replaced, changed just now: start it again")


def forget_old_contents(ledger: Ledger) -> None:
    """Forget the content of payments that ended unpaid longer than `KEPT_DAYS` ago."""
    table = schema.orders
    before = ledger.now() - KEPT_DAYS * DAY_MS
    old = table.c.state.in_(_UNPAID) & table.c.payload.is_not(None) & (table.c.final_at < before)
    ids = [row.id for row in ledger.read(select(table.c.id).where(old))]

    def work(connection: Connection, some: Sequence[int]) -> None:
        for row in connection.execute(select(table).where(table.c.id.in_(some))).fetchall():
            order = read_row(Order, row)
            if order.state in UNPAID:
                _forget(connection, ledger, order)  # one that moves just now is forgotten the next night

    for some in batched(ids):
        ledger.write(partial(work, some=some))


def _forget(connection: Connection, ledger: Ledger, order: Order) -> bool:
    """Forget the content of an order; returns whether it was still as it was read."""
    table = schema.orders
    unchanged = (table.c.id == order.id) & (table.c.state == order.state.value) & (table.c.checksum == order.checksum)
    values = with_seal(ledger.key, order, {"payload": None})
    return bool(connection.execute(update(table).where(unchanged).values(**values)).rowcount)


def remaining_orders(ledger: Ledger, run_key: str) -> Iterator[Order]:
    """The payments of a run that ended unpaid and that nothing replaces, with their content while it is kept."""
    table = schema.orders
    chosen = (table.c.run_key == run_key) & table.c.state.in_(_UNPAID)
    with ledger.snapshot() as stream:
        replaced = {row.replaces for row in stream(select(table.c.replaces).where(table.c.replaces.is_not(None)))}
        for row in stream(select(table).where(chosen).order_by(table.c.id)):
            order = read_row(Order, row)
            if identity_of(ledger, order) not in replaced:
                yield order
