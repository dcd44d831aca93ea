"""Which policy is in force, as any transaction of the ledger finds it, and whether a recovery runs.

Knows tables, checksums and policies; nothing of the ledger that keeps them.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select

from treasury.errors import RecoveryRuns
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.seals import is_sealed
from treasury.planning.policy import Policy


@dataclass(frozen=True)
class Adopted:
    """A policy of the ledger."""

    id: int
    version: str
    policy: Policy
    adopted_by: str
    adopted_at: int
    """Unix milliseconds."""
    in_force_at: int
    """Unix milliseconds."""
    recovery: bool


def as_time(ms: int) -> str:
    """Unix milliseconds as people read them, UTC."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def policy_at(connection: Connection, key: LedgerKey, now: int) -> Policy | None:
    """The policy in force at a moment, Unix ms; None when none is. One that was changed by hand counts as none."""
    found = newest_of(key, connection.execute(in_force_rows(now)))[0]
    return None if found is None else found.policy


def check_no_recovery(connection: Connection, key: LedgerKey, now: int) -> None:
    """Raise `RecoveryRuns` while one has not taken effect."""
    found, _ = newest_of(key, connection.execute(recovery_rows(now)))
    if found is not None:
        raise RecoveryRuns(found.adopted_by, as_time(found.in_force_at))


def in_force_rows(now: int) -> Any:
    """The query of policies in effect at a moment, the newest first."""
    table = schema.policies.c
    return (
        select(schema.policies)
        .where(table.in_force_at <= now, table.ended_at.is_(None))
        .order_by(table.in_force_at.desc(), table.id.desc())
    )


def recovery_rows(now: int) -> Any:
    """The query of recoveries that have not taken effect at a moment."""
    table = schema.policies.c
    return select(schema.policies).where(table.recovery, table.in_force_at > now, table.ended_at.is_(None))


def newest_of(key: LedgerKey, rows: Any) -> tuple[Adopted | None, bool]:
    """The first policy of these that nobody changed or added by hand; and whether one before it was."""
    forged = False
    for row in rows:
        if is_sealed(key, schema.policies, row):
            policy = Policy.model_validate(json.loads(row.content))
            named = (row.id, row.version, policy, row.adopted_by, row.adopted_at, row.in_force_at, bool(row.recovery))
            return Adopted(*named), forged
        forged = True
    return None, forged
