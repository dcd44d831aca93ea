"""Waiting payments of a run that comes under another policy: it counts them anew, and its bounds hold their quotes."""

from collections.abc import Iterable

from sqlalchemy import Connection, or_, select, update

from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.cipher import place_of_payload
from treasury.ledger.ledger import Ledger
from treasury.ledger.mapping import read_row
from treasury.ledger.seals import set_of_orders, with_seal
from treasury.money import format_amount
from treasury.orders.quoting import QUOTED
from treasury.orders.records import Intent, Order
from treasury.orders.states import NEVER_RELEASED, State


def put_under_policy(ledger: Ledger, connection: Connection, run_key: str, intents: Iterable[Intent]) -> None:
    """Put what waits of a run, or may be released, under the bounds of these intents, which another policy made.

    Payments that wait count on this day by the limits of the policy before: they are counted anew, by this one's.
    """
    table = schema.orders.c
    waits = (table.run_key == run_key) & (table.state == State.PREPARED.value)
    set_of_orders(connection, ledger.key, waits, {"counted_on": None})
    kinds = [kind.value for kind in NEVER_RELEASED]
    held = (table.run_key == run_key) & (table.state == State.HELD.value)
    held &= or_(table.hold_kind.is_(None), table.hold_kind.not_in(kinds))
    for some in batched(each for each in intents if each.operation in QUOTED and "bounds" in each.payload):
        meant = {intent.row_ref: intent for intent in some}
        chosen = select(schema.orders).where(or_(waits, held), table.row_ref.in_(list(meant))).with_for_update()
        for row in connection.execute(chosen).fetchall():
            intent = meant[row.row_ref]
            ceiling = None if intent.ceiling is None else format_amount(intent.ceiling)
            place = place_of_payload(run_key, row.row_ref, row.operation)
            values = {"payload": ledger.key.encrypt(intent.payload, *place), "ceiling": ceiling}
            sealed = with_seal(ledger.key, read_row(Order, row), values)
            connection.execute(update(schema.orders).where(table.id == row.id).values(**sealed))
