"""Decisions of people: an append-only table of sealed rows, each about one thing as it stood then.

A row that was changed or added by hand is no decision. Who asks is told of it, so that nothing more leaves because of
it.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, Row, or_, select, true

from treasury.approving.deciding import ALONE
from treasury.approving.tokens import Verb
from treasury.canonical import canonical_json
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.seals import add_sealed, is_sealed

STOP = "stop"
"""The name of all stops."""

ALL_SENDING = "all sending"
"""The thing that each stop is about."""


class Books(Protocol):
    """The parts of a ledger that are needed here."""

    account: str
    key: LedgerKey

    def now(self) -> int:
        """The time, Unix ms."""


@dataclass(frozen=True)
class RecordedDecision:
    """A decision of a person, as it is kept."""

    verb: str
    named: str
    """By which name the person meant the thing: a run key, a break, a kind of run."""
    about: str
    """The thing as it stood."""
    name: str
    os_user: str
    why: str = ""
    token: str | None = None
    """The token that a key signed; None for a typed name."""
    is_alone: bool = False
    ends_at: int | None = None
    """When it counts no more, Unix ms."""
    facts: Mapping[str, str] = field(default_factory=dict)
    at: int = 0
    """Unix ms."""
    id: int = 0

    @property
    def shown(self) -> str:
        """The name as it is shown, where nothing else is said."""
        return f"{self.name} ({ALONE})" if self.is_alone else self.name

    @property
    def itself(self) -> str:
        """This decision, as a later one that takes it back is about it."""
        return f"{self.verb} {self.id} of {self.at} by {self.name}: {self.about}"


Found = tuple[list[RecordedDecision], list[RecordedDecision]]
"""Decisions, and the rows that are none, because they were changed or added by hand."""


def record(connection: Connection, books: Books, decision: RecordedDecision) -> None:
    """Add a decision, as of now, to those of this ledger."""
    table = schema.decisions
    row = {name: value for name, value in vars(decision).items() if name != "id"}
    row |= {"at": books.now(), "facts": canonical_json(decision.facts) if decision.facts else None}
    add_sealed(connection, books.key, table, row)


def find_decisions(
    connection: Connection,
    key: LedgerKey,
    verbs: Collection[Verb] = (),
    *more: ColumnElement[bool],
    named: str = "",
    about: str = "",
) -> Found:
    """Return the decisions with one of these verbs, named so, about this, or for which one of `more` holds, in order;
    and the rows that are none.

    Whoever may have lost one looks for it by all three: of one that was changed by hand any one may be left.
    """
    table, wanted = schema.decisions, list(more)
    wanted += [table.c.verb.in_([each.value for each in verbs])] if verbs else []
    wanted += [column == text for column, text in ((table.c.named, named), (table.c.about, about)) if text]
    query = select(table).where(or_(*wanted)).order_by(table.c.id)
    rows = [(row, is_sealed(key, table, row)) for row in connection.execute(query)]
    return [_read(row) for row, genuine in rows if genuine], [_read(row, {}) for row, genuine in rows if not genuine]


def changed_by_hand(connection: Connection, key: LedgerKey) -> list[RecordedDecision]:
    """Return every row that is none, whatever it says of itself, but for those after which a person decided anew."""
    genuine, others = find_decisions(connection, key, (), true())
    ended = {each.about for each in genuine if each.verb in (Verb.LIFT, Verb.DISREGARD)}
    return [each for each in others if each.itself not in ended]


def _read(row: Row[Any], facts: Mapping[str, str] | None = None) -> RecordedDecision:
    read = json.loads(row.facts or "{}") if facts is None else facts
    said = {name: value for name, value in row._mapping.items() if name != "checksum"}
    return RecordedDecision(**{**said, "facts": read, "is_alone": bool(row.is_alone)})


def not_taken_back(decisions: Iterable[RecordedDecision], by: Verb) -> list[RecordedDecision]:
    """Return the decisions that no later one with this verb took back; without those."""
    decisions = list(decisions)
    ended = {each.about for each in decisions if each.verb == by}
    return [each for each in decisions if each.verb != by and each.itself not in ended]
