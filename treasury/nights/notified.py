"""Notifications taken up: each leads to a question about what it names, and never to a state of its own."""

import contextlib
import logging
from collections.abc import Callable
from functools import partial

from treasury.cards.provisioning import find_card_user
from treasury.errors import ConfigurationError, IllegalTransition, NotConnected, Stopped
from treasury.ledger.notifications import Notice, Taken, open_notices, orders_of, take, users_of
from treasury.ledger.seen_card_users import saw_card_user
from treasury.ledger.snapshots import expect_receipts, expected_receipts
from treasury.money import canonical, parse_reply_amount
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.payments.desk import Desk
from treasury.provider.fields import is_blank
from treasury.reconciliation.entries import INCOMING

LOG = logging.getLogger("treasury")

LONGEST_REFERENCE = 64
"""Characters of a request id under which the ledger asks."""

AT_ONCE = 200
"""Notifications that are taken up together."""

DECIDED = (State.HELD, State.CANCELLED)
"""States in which people decided, or are to decide: a reconciliation says what the service shows, and they go on."""


def take_up_notifications(desk: Desk) -> int:
    """Take up some of the notifications that wait, the oldest first; returns how many, 0 when none can be now.

    The service is asked about the order, or the card user, that each names. Money that comes in is expected from then
    on, so that every reconciliation asks for it. While the service is not reached, they wait.
    """
    waiting = open_notices(desk.ledger, AT_ONCE)
    orders = orders_of(desk.ledger, waiting)
    named = desk.ledger.orders(ids=sorted(set(orders.values()))) if orders else []
    answers = desk.run_concurrently(lambda order: _reach(order.request_id, partial(_ask, desk, order)), named)
    reached = dict(zip((order.id for order in named), answers, strict=True))
    taken = {number: Taken.ORDER for number, order_id in orders.items() if reached[order_id]}
    rest = [notice for notice in waiting if notice.id not in orders]
    users = users_of(desk.ledger, rest)
    asked = sorted(set(users.values()))
    found = desk.run_concurrently(lambda user: _reach(f"card user {user}", partial(_ask_user, desk, user)), asked)
    known_users = dict(zip(asked, found, strict=True))
    taken |= {number: Taken.USER for number, user_xid in users.items() if known_users[user_xid]}
    rest = [notice for notice in rest if notice.id not in users]
    receipts = {notice.request_id: said for notice in rest if notice.request_id and (said := _receipt(notice))}
    known = expected_receipts(desk.ledger, [notice.request_id for notice in rest if notice.request_id])
    expect_receipts(desk.ledger, {name: said for name, said in receipts.items() if name not in known})
    for notice in rest:
        if notice.request_id in receipts or notice.request_id in known:
            taken[notice.id] = Taken.RECEIPT
        else:
            names_order = notice.card_user is None and (notice.request_id or notice.order_no)
            taken[notice.id] = Taken.UNKNOWN if names_order else Taken.NOTHING
    take(desk.ledger, taken)
    return len(taken)


def take_up_all(desk: Desk) -> None:
    """Take up whatever waits, as far as it can be; what cannot waits on, and stops nobody."""
    try:
        while take_up_notifications(desk):
            pass
    except (ConfigurationError, Stopped):
        raise
    except Exception:
        LOG.exception("notifications wait")


def _reach(name: str, ask: Callable[[], None]) -> bool:
    """Ask the service about what is named so, as the reconciliation does; returns whether it was reached."""
    try:
        ask()
    except NotConnected:
        return False
    except (ConfigurationError, Stopped):
        raise
    except Exception as error:  # one answer is one order's trouble, and its words may name people
        LOG.warning("%s: notified, and left to the reconciliation: %s", name, type(error).__name__)
    return True


def _ask(desk: Desk, order: Order) -> None:
    seen, _ = desk.submission.query_with_reply(order)
    if seen is not None and order.state not in DECIDED and not desk.submission.is_current(order, seen):
        # Race: the order's own run may have moved it since this answer, and its newer state wins.
        with contextlib.suppress(IllegalTransition):
            desk.submission.apply(order, seen)


def _ask_user(desk: Desk, user_xid: str) -> None:
    user = find_card_user(desk, user_xid)
    if user is not None:
        saw_card_user(desk.ledger, user_xid, user)


def _receipt(notice: Notice) -> dict[str, str] | None:
    """A receipt that a notification announces; None where it names nothing that can be asked for."""
    if notice.order_type not in INCOMING or is_blank(notice.currency) or is_blank(notice.request_id):
        return None
    if len(str(notice.request_id)) > LONGEST_REFERENCE:
        return None
    try:
        amount = canonical(parse_reply_amount(notice.amount or "0"))
    except ValueError:
        return None
    return {"currency": str(notice.currency), "amount": amount, "order_type": str(notice.order_type)}
