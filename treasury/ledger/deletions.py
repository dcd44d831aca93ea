"""Finds out that somebody deleted what holds payments back: stops, rejections, cancellations and policies.

They are added to a ledger and never taken out of it. A machine keeps in a file of its home how many of them it saw; it
finds fewer where somebody deleted one, or made another decision of it.
"""

import json
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
from treasury.ledger.decisions import find_decisions
from treasury.ledger.identity import identity_of_ledger
from treasury.ledger.migrations import meta_of
from treasury.ledger.token import Count, LedgerToken
from treasury.texts import count_of

HOLD_BACK: Mapping[str, str] = {Verb.STOP: "stop", Verb.REJECT: "rejection", Verb.CANCEL: "cancellation"}
"""Decisions after which something does not leave, and how they are called."""

_POLICIES = "policies"
_NOUNS = {**HOLD_BACK, _POLICIES: "policy adoption"}

TOLD_OF = "ledgers"
"""Name of a fact of a stop."""

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
    host: str
    """Name of the machine in its token; empty before it has one."""
    marks: int
    """Sends that the token counted."""
    rows: Mapping[str, int]
    """Kind -> number of rows."""
    decisions: int
    """Greatest number of one of these decisions; 0 while there is none."""
    policies: int
    adopted: tuple[str, ...] = ()
    """Checksums of the policies: nobody without the key gives a ledger another one, as `meta` another identity."""


_KEPT = TypeAdapter(SeenRows)


class SeenFile:
    """The file in which the machine of a home keeps what it saw."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def write(self, seen: SeenRows) -> None:
        """Keep what was seen, unless only sends were added; where the file cannot be written, what it holds stays."""
        kept = self._read()
        if kept is None or replace(kept, marks=seen.marks) != seen:
            with suppress(OSError):
                write_json(self.file, asdict(seen))

    def forget(self) -> None:
        """Forget it, where a person of this home puts a backup in the place of the ledger. Raises `OSError`."""
        self.file.unlink(missing_ok=True)

    def why_fewer(self, connection: Connection, key: LedgerKey, count: Count | None) -> str | None:
        """Return which of the rows that were seen are gone, in words; None where all are there.

        What was seen says nothing of another ledger, nor of one that was put back together with the token. One that
        only looks older, or like another one, is judged: whoever deletes rows may write `meta` and `hosts`, too.
        """
        seen, token = self._read(), count or NO_TOKEN
        if seen is None or not _is_of(connection, seen) or _is_told(connection, key, seen):
            return None
        if seen.host not in ("", token.host) or seen.marks > token.marks:
            return None
        until = {"decisions": seen.decisions, _POLICIES: seen.policies}
        rows = {row.kind: row.rows for row in connection.execute(_SEEN, until)}
        lacking = {kind: number - rows.get(kind, 0) for kind, number in seen.rows.items()}
        gone = [count_of(number, _NOUNS.get(kind, kind)) for kind, number in lacking.items() if number > 0]
        return f"deleted from it, changed by hand, or lost as it was put back: {', '.join(gone)}" if gone else None

    def _read(self) -> SeenRows | None:
        try:
            return _KEPT.validate_json(self.file.read_bytes())
        except (OSError, ValueError):
            return None


def seen_by(home: Path, token: LedgerToken) -> SeenFile:
    """Return the file of what the machine with this token, in this home, saw."""
    return SeenFile(home / "seen" / f"{token.file.stem}.json")


def _is_of(connection: Connection, seen: SeenRows) -> bool:
    """Tell whether it was this ledger that was seen: by its identity, one that it had, or a policy that both have."""
    meta, checksum = meta_of(connection), schema.policies.c.checksum
    known = {meta.get("identity"), *json.loads(meta.get("predecessors", "[]"))}
    return seen.ledger in known or not set(seen.adopted).isdisjoint(connection.execute(select(checksum)).scalars())


def _is_told(connection: Connection, key: LedgerKey, seen: SeenRows) -> bool:
    """Tell whether a machine stopped all sending since, for what was deleted of that ledger: it is told once."""
    stops = find_decisions(connection, key, (Verb.STOP,))[0]
    return any(seen.ledger in each.facts.get(TOLD_OF, "").split() for each in stops)


def ledgers_told_of(connection: Connection) -> Mapping[str, str]:
    """Return the fact of a stop for what was deleted: the identities under which other machines may have seen it."""
    meta = meta_of(connection)
    return {TOLD_OF: " ".join([*json.loads(meta.get("predecessors", "[]")), meta.get("identity", "")])}


def see(connection: Connection, count: Count | None) -> SeenRows:
    """Return what is in a ledger now, as the machine with this token sees it."""
    token, found = count or NO_TOKEN, connection.execute(_SEEN, _LAST).fetchall()
    last = dict.fromkeys(_LAST, 0)
    for row in found:
        table = row.kind if row.kind == _POLICIES else "decisions"
        last[table] = max(last[table], row.last or 0)
    rows = {row.kind: row.rows for row in found}
    adopted = tuple(connection.execute(select(schema.policies.c.checksum).order_by(schema.policies.c.id)).scalars())
    return SeenRows(identity_of_ledger(connection), token.host, token.marks, rows, **last, adopted=adopted)
