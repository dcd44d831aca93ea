"""Counts how often each control of this ledger acted in a period: rows of its own tables, none of which is ever
deleted."""

from collections.abc import Mapping

from sqlalchemy import ColumnElement, Connection, func, select

from treasury.approving.tokens import Verb
from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.orders.states import Event

_DECIDED = schema.decisions.c
_RESOLVED = [each.value for each in Event if each.name.startswith("RESOLVE_")]

COUNTED: Mapping[str, tuple[ColumnElement[int], ColumnElement[bool] | None]] = {
    "payments held": (schema.journal.c.at, schema.journal.c.event == Event.HOLD.value),
    "holds released": (schema.journal.c.at, schema.journal.c.event == Event.RELEASE.value),
    "payments cancelled": (schema.journal.c.at, schema.journal.c.event == Event.CANCEL.value),
    "outcomes decided by a person": (schema.journal.c.at, schema.journal.c.event.in_(_RESOLVED)),
    "approvals given": (_DECIDED.at, _DECIDED.verb == Verb.APPROVE.value),
    "plans rejected": (_DECIDED.at, _DECIDED.verb == Verb.REJECT.value),
    "decisions signed with a key": (_DECIDED.at, _DECIDED.token.is_not(None) & (_DECIDED.verb != Verb.APPROVE.value)),
    "stops of all sending": (_DECIDED.at, _DECIDED.verb == Verb.STOP.value),
    "policies adopted": (schema.policies.c.adopted_at, None),
    "differences accepted": (_DECIDED.at, _DECIDED.verb == Verb.ACCEPT.value),
}
"""Control (`docs/controls.md`) -> the time of its rows, and which rows of that table are its own."""


def controls_of(ledger: Ledger, first: int, after: int) -> dict[str, int]:
    """Control -> how often it acted from `first` up to `after`, both Unix milliseconds; all of `COUNTED`."""

    def work(connection: Connection) -> dict[str, int]:
        return {
            name: connection.execute(
                select(func.count()).where(at >= first, at < after, *(() if is_own is None else (is_own,)))
            ).scalar_one()
            for name, (at, is_own) in COUNTED.items()
        }

    return ledger.look(work)
