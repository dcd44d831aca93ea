"""Which policy is in force, as any transaction of the ledger finds it, and whether a recovery runs.

Knows tables, checksums and policies; nothing of the ledger that keeps them.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, bindparam, select

from treasury.errors import RecoveryRuns
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.seals import is_sealed
from treasury.policy.model import Policy


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


_TABLE = schema.policies.c
IN_FORCE = (
    select(schema.policies)
    .where(_TABLE.in_force_at <= bindparam("now"), _TABLE.ended_at.is_(None))
    .order_by(_TABLE.in_force_at.desc(), _TABLE.id.desc())
)
"""Policies in effect at a moment (`now`, Unix ms), the newest first."""

RECOVERIES = select(schema.policies).where(
    _TABLE.recovery, _TABLE.in_force_at > bindparam("now"), _TABLE.ended_at.is_(None)
)
"""Recoveries that have not taken effect at a moment (`now`, Unix ms)."""


def as_time(ms: int) -> str:
    """Unix milliseconds as people read them, UTC."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def policy_at(connection: Connection, key: LedgerKey, now: int) -> Policy | None:
    """The policy in force at a moment, Unix ms; None when none is. One that was changed by hand counts as none."""
    found = newest_of(key, connection.execute(IN_FORCE, {"now": now}))[0]
    return None if found is None else found.policy


def check_no_recovery(connection: Connection, key: LedgerKey, now: int) -> None:
    """Raise `RecoveryRuns` while one has not taken effect."""
    found, _ = newest_of(key, connection.execute(RECOVERIES, {"now": now}))
    if found is not None:
        raise RecoveryRuns(found.adopted_by, as_time(found.in_force_at))


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
