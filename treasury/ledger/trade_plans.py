"""Plans of rebalancings that this ledger made, and who said yes to one under which policy."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from treasury.approving.tokens import Token, Verb
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.decisions import RecordedDecision, find_decisions, record
from treasury.ledger.ledger import Ledger
from treasury.ledger.proposals import add_proposal, newest_row
from treasury.ledger.seals import is_sealed
from treasury.ledger.token import identity_of_ledger
from treasury.policy.people import Maker


def plan_hash(content: Mapping[str, Any]) -> str:
    """SHA-256 of a plan, by which it is named."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def record_plan(
    ledger: Ledger,
    run_key: str,
    content: Mapping[str, Any],
    maker: Maker,
    *,
    policy: str | None,
    day: str,
    needed: int,
    ends_at: int,
    shown: Mapping[str, Any],
    token: Token | None = None,
) -> str:
    """Record a plan that was made here just now, unless it is the newest; returns its hash.

    `policy`: the version in force. `ends_at`: the end of the plan's day, Unix ms. `shown`: what approvers see of it.
    """
    sha256 = plan_hash(content)
    row = {"run_key": run_key, "plan_sha256": sha256, "needed": needed, "day": day, "policy": policy}
    row |= {"maker": maker.name, "os_user": maker.os_user, "is_listed": maker.is_listed, "ends_at": ends_at}
    row |= {"token": None if token is None else str(token), "content": json.dumps(content)}

    def work(connection: Connection) -> None:
        serialize(connection)
        newest, is_ours = newest_row(connection, ledger, run_key)
        known = () if newest is None or not is_ours else (newest.plan_sha256, newest.day, newest.policy, newest.ledger)
        is_signed = token is None or (newest is not None and newest.token is not None)
        waits = newest is not None and bool(newest.needed) == bool(needed)  # else somebody has said yes since
        if known != (sha256, day, policy, identity_of_ledger(connection)) or not is_signed or not waits:
            add_proposal(connection, ledger, row, shown if needed else None)

    ledger.write(work)
    return sha256


def recorded_plan(ledger: Ledger, sha256: str) -> tuple[str, dict[str, Any]]:
    """The run key and content of a plan, by its hash. Raises `InputError` for one that this ledger never made."""
    table = schema.plans
    query = select(table).where(table.c.plan_sha256 == sha256, table.c.content.is_not(None)).order_by(table.c.id.desc())
    row = next((row for row in ledger.read(query) if is_sealed(ledger.key, table, row)), None)
    if row is None or plan_hash(json.loads(row.content)) != sha256:
        raise InputError(
            f"this ledger made no rebalancing plan {sha256[:12]}, and only a plan that it made today can be executed: "
            "make one with treasury rebalance; nothing was traded"
        )
    return str(row.run_key), dict(json.loads(row.content))


def check_plan(ledger: Ledger, run_key: str, sha256: str, *, policy: str | None) -> None:
    """Raise `InputError` unless this ledger made this plan for this run and this day, under this policy.

    The day is that of the plan's own policy, and ends when the plan says.
    """
    table = schema.plans
    chosen = (table.c.run_key == run_key) & (table.c.plan_sha256 == sha256) & table.c.content.is_not(None)
    rows = [row for row in ledger.read(select(table).where(chosen)) if is_sealed(ledger.key, table, row)]
    of_today = [row for row in rows if row.ends_at is not None and ledger.now() < row.ends_at]
    if any(row.policy == policy for row in of_today):
        return
    if not rows:
        why = "this ledger did not make this plan"
    elif not of_today:
        why = f"this plan was made for {rows[-1].day}, and that day is over"
    else:
        why = "this plan was made under another policy than the one in force"
    raise InputError(f"run {run_key}: {why}; nothing was traded: make a new one with treasury rebalance")


def give_consent(ledger: Ledger, policy: str | None, kind: str, os_user: str) -> None:
    """Record that a person said yes to a run of this kind under the policy in force."""
    if policy is not None:
        said = RecordedDecision(Verb.CONSENT, kind, f"policy {policy}", os_user, os_user)
        ledger.write(lambda connection: record(connection, ledger, said))


def has_consent(ledger: Ledger, policy: str | None, kind: str) -> bool:
    """Tell whether a person said yes to a run of this kind under the policy in force; without one nobody needs to."""
    if policy is None:
        return True
    said = ledger.look(lambda connection: find_decisions(connection, ledger.key, about=f"policy {policy}"))[0]
    return any((each.verb, each.named) == (Verb.CONSENT, kind) for each in said)
