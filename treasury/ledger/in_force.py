"""Which policy is in force, as any transaction of the ledger finds it, and whether a recovery runs.

Knows tables, checksums and policies; nothing of the ledger that keeps them.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from treasury.errors import ConfigurationError, RecoveryRuns
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
POLICIES = select(schema.policies).order_by(_TABLE.in_force_at.desc(), _TABLE.id.desc())
"""All of them: what was changed by hand may say of itself that it is not in force."""

HAS_EFFECT = _TABLE.ended_at.is_(None) & (~_TABLE.recovery | (_TABLE.in_force_at <= bindparam("now")))
"""Policies that took effect by a moment (`now`, Unix ms). One that is no recovery did so when it was adopted, whatever
a clock says since; `in_force_at` is their sequence."""

IS_COMING = _TABLE.recovery & (_TABLE.in_force_at > bindparam("now")) & _TABLE.ended_at.is_(None)
"""Recoveries that have not taken effect at a moment (`now`, Unix ms)."""


def as_time(ms: int) -> str:
    """Unix milliseconds as people read them, UTC."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def newest_policy(connection: Connection, key: LedgerKey, now: int) -> tuple[Adopted | None, bool]:
    """The policy in force now, Unix ms, of those that nobody changed or added by hand; and whether one was that no
    recovery has taken the place of: nobody knows when it was adopted."""
    rows = [(row, is_sealed(key, schema.policies, row)) for row in connection.execute(POLICIES)]
    known = [row for row, genuine in rows if genuine and row.ended_at is None]
    waits = min((row.in_force_at for row in known if row.recovery and row.in_force_at > now), default=None)
    in_force = [row for row in known if waits is None or row.in_force_at < waits]  # nor what was adopted under it
    recovered = max((row.id for row in in_force if row.recovery), default=0)
    forged = any(not genuine and not 0 < row.id < recovered for row, genuine in rows)
    return _adopted(in_force[0]) if in_force else None, forged


def policy_now(connection: Connection, key: LedgerKey, now: int) -> Policy | None:
    """The policy in force now, Unix ms; None when none is. One that was changed by hand counts as none."""
    found = newest_policy(connection, key, now)[0]
    return None if found is None else found.policy


def policy_at(connection: Connection, key: LedgerKey, past: int) -> Policy | None:
    """The policy that was in force at a moment of the past, Unix ms; None when none was."""
    rows = connection.execute(POLICIES.where(_TABLE.in_force_at <= past, _TABLE.ended_at.is_(None)))
    return next((_adopted(row).policy for row in rows if is_sealed(key, schema.policies, row)), None)


def rules_at(connection: Connection, key: LedgerKey, past: int) -> Policy | None:
    """Return the policy that reports of a moment (Unix ms) were made by: an empty one before the first adoption; None
    where no policy was ever adopted, so that a person may name one."""
    found = policy_at(connection, key, past)
    is_later = found is None and connection.execute(POLICIES.limit(1)).first() is not None
    return Policy() if is_later else found


def check_genuine(connection: Connection, key: LedgerKey, now: int) -> Adopted | None:
    """The policy in force. Raises `ConfigurationError` where one was changed or added by hand, until a recovery."""
    found, forged = newest_policy(connection, key, now)
    if forged:
        raise ConfigurationError(
            "a policy was changed or added in the ledger by hand, so nothing that moves money leaves, and nobody can "
            "tell who may change the policy; nothing was sent: find out who did it, then restore a backup from before "
            "that, or put the right one in force: treasury policy adopt FILE --recover --by NAME (after 72 hours)"
        )
    return found


def recovery_at(connection: Connection, key: LedgerKey, now: int) -> Adopted | None:
    """The recovery that has not taken effect at a moment, Unix ms."""
    rows = connection.execute(select(schema.policies).where(IS_COMING), {"now": now}).fetchall()
    return next((_adopted(row) for row in rows if is_sealed(key, schema.policies, row)), None)


def check_no_recovery(connection: Connection, key: LedgerKey, now: int) -> None:
    """Raise `RecoveryRuns` while one has not taken effect."""
    found = recovery_at(connection, key, now)
    if found is not None:
        raise RecoveryRuns(found.adopted_by, as_time(found.in_force_at))


def _adopted(row: Row[Any]) -> Adopted:
    policy = Policy.model_validate(json.loads(row.content))
    return Adopted(
        *(row.id, row.version, policy, row.adopted_by, row.adopted_at, row.in_force_at), recovery=bool(row.recovery)
    )
