"""Notifications that the platform signed: kept once each, until the service was asked about what they name.

Nothing here is believed about money: what somebody writes into this table leads to a question, and to nothing else.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, insert, select, update

from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger
from treasury.provider.fields import is_blank
from treasury.reconciliation.entries import Name, Numbers, numbers_of
from treasury.texts import cut_text

TRAVELLING = frozenset(("sign", "sign_type", "timestamp", "nonce"))
"""Fields that differ between two deliveries of one notification (public fact 1.5)."""

LONGEST, LONGEST_CODE = 200, 40
"""Characters of a field, and of a currency, that are kept."""


class Taken(StrEnum):
    """The place in the ledger of what a notification names."""

    ORDER = "order"
    """An order of ours: the service was asked about it."""
    RECEIPT = "receipt"
    """Money that comes in: every reconciliation asks for it."""
    UNKNOWN = "unknown"
    """An order that this ledger never meant."""
    USER = "user"
    """A card user of ours: the service was asked about the identity check."""
    NOTHING = "nothing"
    """It names no order and no card user of ours: a bill, for example (public fact 4.2)."""


USER_IDS = ("userId", "user_id")
"""Members of the `data` of a card notification that name whom it is about; the document shows the first one."""

CARD_USER = "card user "
"""Stands before the service's id of a card user in the place of a request id."""


@dataclass(frozen=True)
class Notice:
    """A notification, as far as it is kept: what it names. Texts are the platform's, a currency in capitals.

    `received_at` is Unix ms.
    """

    id: int
    received_at: int
    request_id: str | None
    """Or `CARD_USER` and an id."""
    order_no: str | None
    order_type: str | None
    currency: str | None
    amount: str | None
    status: str | None

    @property
    def card_user(self) -> str | None:
        """Return the service's id of the card user that it names; None where it names an order."""
        name = self.request_id or ""
        return name.removeprefix(CARD_USER) if name.startswith(CARD_USER) and self.order_no is None else None


def keep_notifications(ledger: Ledger, bodies: Sequence[Mapping[str, Any]]) -> int:
    """Keep signed notifications, by one transaction; those that were kept before, and repeats, are left out.

    They are on disk when this returns: the number of new ones.
    """
    rows = {row["digest"]: row for row in (_row(ledger, body) for body in bodies)}
    table = schema.notifications.c

    def keep(connection: Connection) -> int:
        serialize(connection)
        known = set(connection.execute(select(table.digest).where(table.digest.in_(rows))).scalars())
        new = [row for digest, row in rows.items() if digest not in known]
        if new:
            connection.execute(insert(schema.notifications), new)
        return len(new)

    return ledger.write(keep)


def _row(ledger: Ledger, body: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: value for name, value in body.items() if name not in TRAVELLING}
    named = {name: body.get(name) for name in ("order_no", "order_type", "currency", "status")}
    named |= {"request_id": body.get("request_id") or _card_user(body), "amount": body.get("order_amount")}
    texts = {name: None if is_blank(value) else cut_text(str(value), LONGEST) for name, value in named.items()}
    code, kind = texts["currency"], texts["order_type"]
    texts["currency"] = None if code is None else code[:LONGEST_CODE].upper()  # as in answers
    texts["order_type"] = None if kind is None else kind.casefold()  # as in statements
    return {
        "digest": ledger.key.keyed_hash(json.dumps(said, sort_keys=True, default=str)),
        "received_at": ledger.now(),
        **texts,
    }


def _card_user(body: Mapping[str, Any]) -> str | None:
    """Return what stands for the card user that a card notification names: top level `type` and `data`."""
    data = body.get("data")
    named = (data.get(name) for name in USER_IDS) if isinstance(data, Mapping) and "type" in body else ()
    return next((f"{CARD_USER}{value}" for value in named if not is_blank(value)), None)


def open_notices(ledger: Ledger, most: int) -> list[Notice]:
    """Notifications about which nothing was asked yet, the oldest first."""
    table = schema.notifications.c
    query = select(*_COLUMNS).where(table.taken.is_(None)).order_by(table.id).limit(most)
    return [Notice(*row) for row in ledger.read(query)]


def orders_of(ledger: Ledger, notices: Iterable[Notice]) -> dict[int, int]:
    """Return the id of the order of ours that each of these notifications names, by the notification's id.

    It is named by a request id that the order has, or under one of its quotes had; else by its number.
    """
    orders, quotes, some = schema.orders.c, schema.quotes.c, list(notices)
    asked = {each.request_id for each in some if each.request_id}
    by_request: dict[str | None, int] = {
        **dict(ledger.read(select(quotes.request_id, quotes.order_id).where(quotes.request_id.in_(asked)))),
        **dict(ledger.read(select(orders.request_id, orders.id).where(orders.request_id.in_(asked)))),
    }
    numbers = {each.order_no for each in some if each.order_no}
    numbered = select(orders.order_no, orders.operation, orders.id).where(orders.order_no.in_(numbers))
    by_number: dict[Name, int] = {
        (number, operation): order_id for number, operation, order_id in ledger.read(numbered)
    }
    found = {}
    for each in some:
        named = (by_number.get(name) for name in numbers_of(each.order_no, each.order_type))
        if order_id := by_request.get(each.request_id) or next(filter(None, named), None):
            found[each.id] = order_id
    return found


def users_of(ledger: Ledger, notices: Iterable[Notice]) -> dict[int, str]:
    """Return the card user of ours, by `user_xid`, that each of these notifications names, by the notification's id."""
    named = {each.id: user for each in notices if (user := each.card_user) is not None}
    users = schema.card_users.c
    query = select(users.user_id, users.user_xid).where(users.user_id.in_(set(named.values())))
    known = dict(ledger.read(query)) if named else {}
    return {number: known[user_id] for number, user_id in named.items() if user_id in known}


def take(ledger: Ledger, taken: Mapping[int, Taken]) -> None:
    """Record, by id, what became of notifications."""
    table = schema.notifications

    def record(connection: Connection) -> None:
        for kind in Taken:
            if ids := [number for number, found in taken.items() if found is kind]:
                connection.execute(update(table).where(table.c.id.in_(ids)).values(taken=kind.value))

    if taken:
        ledger.write(record)


def unknown_notices(ledger: Ledger, until: int) -> list[Notice]:
    """The newest notification about each thing that this ledger did not mean, received until then (Unix ms)."""
    table = schema.notifications.c
    query = select(*_COLUMNS).where(table.taken == Taken.UNKNOWN.value, table.received_at <= until).order_by(table.id)
    numbers, notices = Numbers(), (Notice(*row) for row in ledger.read(query))
    newest = {numbers.name_of(each.order_no or each.request_id or "", each.order_type): each for each in notices}
    return list(newest.values())


_COLUMNS = tuple(schema.notifications.c[each.name] for each in fields(Notice))
