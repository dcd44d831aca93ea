"""Payments that were sent, did not act and leave again: judged as all that waits, by the policy and the day of then."""

from typing import Any

from sqlalchemy import Connection, select

from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.debits import count_again
from treasury.ledger.in_force import HAS_EFFECT, policy_now
from treasury.ledger.intents import judge_anew
from treasury.ledger.ledger import Ledger
from treasury.orders.records import Order
from treasury.orders.states import Event
from treasury.provider.catalogue import CATALOGUE


def wait_for_judgement(ledger: Ledger, order: Order) -> Order | None:
    """Let an order that did not act wait to be judged, where another policy took effect after it was sent.

    It is asked about once more before it leaves. Returns None where no other policy took effect.
    """

    def work(connection: Connection) -> Order | None:
        serialize(connection)
        judged = judge_by_policy(connection, ledger, order)
        if not judged:
            return None
        facts = {"absences_needed": 1, "absent_since": None, **judged}
        return ledger.step(order, Event.JUDGE_AGAIN, cause="another policy took effect since it was sent", **facts)

    return ledger.write(work)


def count_to_leave_again(ledger: Ledger, order: Order) -> tuple[Order, str | None]:
    """Count an order of unknown outcome on this day; return it, and why it must not be sent again on it, or None."""

    def work(connection: Connection) -> tuple[Order, str | None]:
        serialize(connection)
        policy = policy_now(connection, ledger.key, ledger.now())
        if policy is None:
            return order, None
        limits = policy.table(CATALOGUE[order.operation].limited_by)
        return count_again(connection, ledger.key, order, policy.day_of(ledger.now()), limits.max_per_day)

    return ledger.write(work)


def judge_by_policy(connection: Connection, ledger: Ledger, order: Order) -> dict[str, Any]:
    """Let nothing of a run leave unjudged where another policy took effect since an order of it was sent that is to
    leave again; return the columns to set with the step of that order."""
    table, since = schema.policies.c, order.created_at if order.sent_at is None else order.sent_at
    newer = select(table.id).where(table.in_force_at > since, HAS_EFFECT).limit(1)
    if connection.execute(newer, {"now": ledger.now()}).first() is None:
        return {}
    judge_anew(connection, ledger, order.run_key)
    return {"counted_on": None}
