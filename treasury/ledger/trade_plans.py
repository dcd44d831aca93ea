"""Plans of rebalancings that this ledger made, and who said yes to one under which policy."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, insert, select

from treasury.errors import InputError, WaitingForYes
from treasury.ledger import schema
from treasury.ledger.ledger import Ledger


def plan_hash(content: Mapping[str, Any]) -> str:
    """SHA-256 of a plan, by which it is named."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def record_plan(
    ledger: Ledger, run_key: str, content: Mapping[str, Any], *, maker: str, policy: str | None, day: str, needed: int
) -> str:
    """Record a plan that was made here just now; returns its hash. `policy`: the version in force."""
    sha256, table = plan_hash(content), schema.plans
    row = {"run_key": run_key, "plan_sha256": sha256, "maker": maker, "needed": needed, "day": day, "policy": policy}

    def work(connection: Connection) -> None:
        same = (table.c.run_key == run_key) & (table.c.plan_sha256 == sha256) & (table.c.day == day)
        if policy is not None:
            same &= table.c.policy == policy
        if connection.execute(select(table.c.id).where(same)).first() is None:
            now = ledger.now()
            connection.execute(insert(table).values(**row, content=json.dumps(content), proposed_at=now))

    ledger.write(work)
    return sha256


def recorded_plan(ledger: Ledger, sha256: str) -> tuple[str, dict[str, Any]]:
    """The run key and content of a plan, by its hash. Raises `InputError` for one that this ledger never made."""
    table = schema.plans.c
    query = select(table.run_key, table.content).where(table.plan_sha256 == sha256, table.content.is_not(None))
    row = next(iter(ledger.read(query.order_by(table.id.desc()).limit(1))), None)
    if row is None:
        raise InputError(
            f"this ledger made no rebalancing plan {sha256[:12]}, and only a plan that it made today can be executed: "
            "make one with treasury rebalance; nothing was traded"
        )
    return str(row.run_key), dict(json.loads(row.content))


def check_plan(ledger: Ledger, run_key: str, sha256: str, *, policy: str | None, day: str) -> None:
    """Raise `InputError` unless this ledger made this plan for this run, on this day, under this policy."""
    table = schema.plans.c
    query = select(table.day, table.policy).where(
        table.run_key == run_key, table.plan_sha256 == sha256, table.content.is_not(None)
    )
    rows = ledger.read(query)
    if any(row.day == day and row.policy == policy for row in rows):
        return
    if not rows:
        why = "this ledger did not make this plan"
    elif all(row.day != day for row in rows):
        why = f"this plan was made for {rows[-1].day}, and today is {day}"
    else:
        why = "this plan was made under another policy than the one in force"
    raise InputError(f"run {run_key}: {why}; nothing was traded: make a new one with treasury rebalance")


def give_consent(ledger: Ledger, policy: str | None, kind: str, os_user: str) -> None:
    """Record that a person said yes to a run of this kind under the policy in force."""
    if policy is not None:
        row = {"policy": policy, "kind": kind, "os_user": os_user, "at": ledger.now()}
        ledger.write(lambda connection: connection.execute(insert(schema.consents).values(**row)).rowcount)


def check_consent(ledger: Ledger, policy: str | None, kind: str) -> None:
    """Raise `WaitingForYes` while nobody said yes to a run of this kind under the policy in force."""
    table = schema.consents.c
    said = select(table.id).where(table.policy == policy, table.kind == kind).limit(1)
    if policy is not None and not ledger.read(said):
        raise WaitingForYes(kind)
