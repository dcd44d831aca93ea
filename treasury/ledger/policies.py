"""The policy in force: adopted into the ledger by a named person, so that it applies at every door.

A policy that waits for approvals has a plan of its own in the ledger (`policy_key`), which people approve as they
approve a run. A recovery is for a merchant whose people are gone: it takes effect `RECOVERY_HOURS` after it was asked
for, and until then nothing that moves money leaves.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from treasury.errors import ApprovalNeeded, ConfigurationError, InputError, PolicyChanged, RecoveryRuns
from treasury.ledger import schema
from treasury.ledger.approvals import propose_plan
from treasury.ledger.database import group_of, serialize
from treasury.ledger.ledger import Ledger
from treasury.planning.policy import Policy
from treasury.provider.address import is_loopback

RECOVERY_HOURS = 72
"""Hours by the service's clock until a recovery takes effect."""

HOUR_MS = 3_600_000

POLICY_KEY = "policy-"
"""What the key of a policy that waits begins with."""

REHEARSAL = "rehearsal"
"""Row of `meta`: money moved, or was to move, without a policy in force; only on a service of this machine."""


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


def policy_key(version: str) -> str:
    """What a policy that waits for approvals is approved under, as a run is under its run key."""
    return f"{POLICY_KEY}{version[:12]}"


def policy_in_force(ledger: Ledger) -> Adopted | None:
    """The policy in force; None when none was ever adopted."""
    return _newest(ledger.read(_in_force(ledger.now())))


def running_recovery(ledger: Ledger) -> Adopted | None:
    """A recovery that has not taken effect yet."""
    return _newest(ledger.read(_recoveries(ledger.now())))


def check_policy(connection: Connection, ledger: Ledger, version: str | None) -> None:
    """Check, in the transaction that records payments, that this version is in force; None: that none is.

    Raises `PolicyChanged` when it is not, `RecoveryRuns`, and `ConfigurationError` when none is and the service is not
    on this machine. Without one in force the ledger is marked as a rehearsal for ever.
    """
    check_no_recovery(connection, ledger.now())
    found = _newest(connection.execute(_in_force(ledger.now())))
    if found is not None and found.version != version:
        raise PolicyChanged("the policy in force changed meanwhile; nothing was sent: start again")
    if found is None:
        check_rehearsal(ledger.account)
        _mark_rehearsal(connection)


def check_no_recovery(connection: Connection, now: int) -> None:
    """Raise `RecoveryRuns` while one has not taken effect."""
    found = _newest(connection.execute(_recoveries(now)))
    if found is not None:
        raise RecoveryRuns(found.adopted_by, as_time(found.in_force_at))


def check_rehearsal(account: str) -> None:
    """Raise `ConfigurationError` for an account whose service is not on this machine: it needs a policy in force."""
    if not is_loopback(account.partition("|")[0]):
        raise ConfigurationError(
            "no policy is in force, so nothing that moves money leaves; nothing was sent: "
            "treasury policy adopt FILE --by NAME"
        )


def as_time(ms: int) -> str:
    """Unix milliseconds as people read them, UTC."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def is_rehearsal(ledger: Ledger) -> bool:
    """Whether payments of this ledger were recorded without a policy in force."""
    return bool(ledger.read(select(schema.meta.c.key).where(schema.meta.c.key == REHEARSAL)))


def adopt_policy(ledger: Ledger, policy: Policy, source: str, *, by: str, os_user: str) -> Adopted:
    """Put a policy in force on a named person's word; `source` is the name of its file.

    Raises `InputError`, and `ApprovalNeeded` while it lacks approvals.
    """
    person = _name(by)
    if not policy.limits_money and policy.no_limits is None:
        raise InputError(
            f"{source} limits nothing that moves money (no [payouts], [withdrawals] or [conversions]): if that is "
            'meant, say why in it: no_limits = "..."'
        )
    before = policy_in_force(ledger)
    changes = policy.changes if before is None else before.policy.changes
    if not changes.allows(person):
        raise InputError(f"the policy in force does not let {person} change it: {', '.join(changes.people or ())} may")
    needed = 0 if before is None or before.version == policy.version else before.policy.changes.approvals
    if needed:
        key = policy_key(policy.version)
        said = propose_plan(ledger, key, policy.version, person, needed)
        valid = [name for name in said if changes.allows(name)]
        if len(valid) < needed:
            raise ApprovalNeeded(key, needed, valid)
    return _record(ledger, policy, source, person, os_user, in_force_at=ledger.now(), before=before)


def recover_policy(ledger: Ledger, policy: Policy, source: str, *, by: str, os_user: str, now: int) -> Adopted:
    """Let a policy take effect after `RECOVERY_HOURS`, whatever the one in force asks; `now` by the service's clock.

    Raises `RecoveryRuns` while another one does.
    """
    if (running := running_recovery(ledger)) is not None:
        raise RecoveryRuns(running.adopted_by, as_time(running.in_force_at))
    at = now + RECOVERY_HOURS * HOUR_MS
    return _record(ledger, policy, source, _name(by), os_user, in_force_at=at, before=None, recovery=True)


def end_recovery(ledger: Ledger, *, by: str) -> Adopted:
    """End a recovery that runs, as somebody may whom the policy in force lets change policies. Raises `InputError`."""
    person, running, before = _name(by), running_recovery(ledger), policy_in_force(ledger)
    if running is None:
        raise InputError("no recovery runs")
    if before is not None and not before.policy.changes.allows(person):
        raise InputError(f"the policy in force does not let {person} change it, nor end a recovery")
    table = schema.policies

    def work(connection: Connection) -> None:
        ended = update(table).where(table.c.id == running.id, table.c.ended_at.is_(None))
        connection.execute(ended.values(ended_at=ledger.now(), ended_by=person))

    ledger.write(work)
    return running


def _record(
    ledger: Ledger,
    policy: Policy,
    source: str,
    person: str,
    os_user: str,
    *,
    in_force_at: int,
    before: Adopted | None,
    recovery: bool = False,
) -> Adopted:
    now = ledger.now()
    row = {
        "version": policy.version,
        "source": source,
        "adopted_by": person,
        "os_user": os_user,
        "adopted_at": now,
        "content": json.dumps(policy.model_dump(mode="json")),
        "in_force_at": in_force_at,
        "recovery": recovery,
    }

    def work(connection: Connection) -> int:
        serialize(connection)
        found = _newest(connection.execute(_in_force(ledger.now())))
        if not recovery and (None if found is None else found.id) != (None if before is None else before.id):
            raise PolicyChanged("another policy was adopted meanwhile: look at it with treasury policy show")
        group_of(connection).not_stopped = False  # sends that share this commit come after it
        return int(
            connection.execute(insert(schema.policies).values(**row).returning(schema.policies.c.id)).scalar_one()
        )

    return Adopted(ledger.write(work), policy.version, policy, person, now, in_force_at, recovery)


def _in_force(now: int) -> Any:
    table = schema.policies.c
    return (
        select(schema.policies)
        .where(table.in_force_at <= now, table.ended_at.is_(None))
        .order_by(table.in_force_at.desc(), table.id.desc())
        .limit(1)
    )


def _recoveries(now: int) -> Any:
    table = schema.policies.c
    return select(schema.policies).where(table.recovery, table.in_force_at > now, table.ended_at.is_(None)).limit(1)


def _newest(rows: Any) -> Adopted | None:
    for row in rows if isinstance(rows, Sequence) else rows.fetchall():
        policy = Policy.model_validate(json.loads(row.content))
        return Adopted(
            *(row.id, row.version, policy, row.adopted_by, row.adopted_at, row.in_force_at, bool(row.recovery))
        )
    return None


def _mark_rehearsal(connection: Connection) -> None:
    table = schema.meta
    if connection.execute(select(table.c.key).where(table.c.key == REHEARSAL)).first() is None:
        connection.execute(insert(table).values(key=REHEARSAL, value="1"))


def _name(by: str) -> str:
    person = " ".join(by.split())
    if not person:
        raise InputError("a policy needs the name of the person who adopts it: --by NAME")
    return person
