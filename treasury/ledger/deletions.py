"""Finds out that somebody deleted what holds payments back: stops, rejections, cancellations and policies.

They are added to a ledger and never taken out of it. A machine keeps in a file of its home how many of them it saw; it
finds fewer where somebody deleted one, or made another decision of it.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, func, literal, select, union_all

from treasury.approving.tokens import Verb
from treasury.files import write_json
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.decisions import ALL_SENDING, STOP, RecordedDecision, find_decisions
from treasury.ledger.file_identity import place_of
from treasury.ledger.token import Count, identity_of_ledger
from treasury.texts import count_of

HOLD_BACK: Mapping[str, str] = {Verb.STOP: "stop", Verb.REJECT: "rejection", Verb.CANCEL: "cancellation"}
"""Decisions after which something does not leave, and how they are called."""

_POLICIES = "policies"
_NOUNS = {**HOLD_BACK, _POLICIES: "policy adoption"}

AGAIN = "; find out who did, and say again what was decided"
"""Follows what was deleted."""

OF_LEDGER = "ledger"
"""Fact of such a stop: the identity under which the ledger was seen, so that only one machine that saw it stops."""

NO_TOKEN = Count("", "", 0)
"""Stands for the token of a machine that never sent."""

_LAST = {"decisions": 2**62, _POLICIES: 2**62}
"""Greater than the number of any row."""

_table = schema.decisions.c
_SEEN = union_all(
    select(_table.verb.label("kind"), func.count().label("rows"), func.max(_table.id).label("last"))
    .where(_table.verb.in_(list(HOLD_BACK)), _table.id <= bindparam("decisions"))
    .group_by(_table.verb),
    select(literal(_POLICIES), func.count(), func.max(schema.policies.c.id)).where(
        schema.policies.c.id <= bindparam(_POLICIES)
    ),
)
"""How many rows there are of each kind, and the greatest number of one, up to a number of each table."""


@dataclass(frozen=True)
class SeenRows:
    """Decisions and policies that a machine saw in a ledger, counted."""

    ledger: str
    """Identity of the ledger then."""
    place: str
    """Identity of its file, or of its database on a server."""
    host: str
    """Name of the machine in its token; empty before it has one."""
    marks: int
    """Sends that the token counted."""
    rows: Mapping[str, int]
    """Kind -> number of rows."""
    decisions: int
    """Greatest number of one of these decisions; 0 while there is none."""
    policies: int


_KEPT = TypeAdapter(SeenRows)


class SeenFile:
    """The file in which the machine of a home keeps what it saw. `database`: the ledger's; None on a server."""

    def __init__(self, file: Path, database: Path | None) -> None:
        self.file = file
        self._database = database

    def look(self, connection: Connection, count: Count | None) -> SeenRows:
        """Return what is in the ledger now, as the machine with this token sees it."""
        token, found = count or NO_TOKEN, connection.execute(_SEEN, _LAST).fetchall()
        last = dict.fromkeys(_LAST, 0)
        for row in found:
            table = row.kind if row.kind == _POLICIES else "decisions"
            last[table] = max(last[table], row.last or 0)
        rows = {row.kind: row.rows for row in found}
        ledger, place = identity_of_ledger(connection), place_of(connection, self._database)
        return SeenRows(ledger, place, token.host, token.marks, rows, **last)

    def write(self, seen: SeenRows) -> None:
        """Keep what was seen, unless only sends were added; where the file cannot be written, what it holds stays."""
        kept = self._read()
        if kept is None or replace(kept, marks=seen.marks) != seen:
            with suppress(OSError):
                write_json(self.file, asdict(seen))

    def stop_for_deleted(self, connection: Connection, key: LedgerKey, count: Count | None) -> RecordedDecision | None:
        """Return the stop to record where rows that were seen are gone; None where all are there.

        None, too, where another machine that saw this ledger recorded such a stop before.
        What was seen says nothing of another file or database, nor of one that was put back together with the token.
        """
        seen, token = self._read(), count or NO_TOKEN
        if seen is None or seen.place != place_of(connection, self._database):
            return None
        if seen.host not in ("", token.host) or seen.marks > token.marks:
            return None
        until = {"decisions": seen.decisions, _POLICIES: seen.policies}
        rows = {row.kind: row.rows for row in connection.execute(_SEEN, until)}
        lacking = {kind: number - rows.get(kind, 0) for kind, number in seen.rows.items()}
        gone = [count_of(number, _NOUNS.get(kind, kind)) for kind, number in lacking.items() if number > 0]
        stops = find_decisions(connection, key, (Verb.STOP,))[0] if gone else []
        if not gone or any(each.facts.get(OF_LEDGER) == seen.ledger for each in stops):
            return None
        why = f"deleted from it, or changed by hand: {', '.join(gone)}"
        return RecordedDecision(
            Verb.STOP, STOP, ALL_SENDING, "the ledger", "", why + AGAIN, facts={OF_LEDGER: seen.ledger}
        )

    def _read(self) -> SeenRows | None:
        try:
            return _KEPT.validate_json(self.file.read_bytes())
        except (OSError, ValueError):
            return None
