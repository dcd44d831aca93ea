"""Plans, each made once and kept whole: those of payout runs, and those of rebalancings.

What a payout plan pays is encrypted, and only its id travels. It is the hash over all that a plan says and over its
making, so a plan that was changed by hand is not found. Of a rebalancing's plan the ledger also knows who said yes to
it, and under which policy.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, exists, func, insert, select

from treasury.approving.tokens import Token, Verb
from treasury.concurrency.batches import batched
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.continuity import identity_of_ledger
from treasury.ledger.database import serialize
from treasury.ledger.decisions import RecordedDecision, find_decisions, record
from treasury.ledger.in_force import newest_policy
from treasury.ledger.ledger import Ledger
from treasury.ledger.migrations import meta_value
from treasury.ledger.proposals import add_proposal, newest_row
from treasury.ledger.seals import is_sealed
from treasury.policy.people import Maker
from treasury.texts import canonical_json

_ROWS = 500
"""Rows of a plan that one record holds."""


@dataclass(frozen=True)
class KeptPlan:
    """A plan as it is kept, without its rows."""

    id: str
    run_key: str
    made_in: Mapping[str, Any]
    """The ledger's identity and epoch, and the adoption of the policy, when it was made."""
    content: Mapping[str, Any]


def made_in(connection: Connection, ledger: Ledger) -> dict[str, Any]:
    """The ledger's identity and epoch and the adoption of the policy in force, as they are now."""
    adopted = newest_policy(connection, ledger.key, ledger.now())[0]
    return {
        "ledger": identity_of_ledger(connection),
        "epoch": meta_value(connection, "epoch_at"),
        "adoption": None if adopted is None else adopted.id,
    }


def keep_plan(
    ledger: Ledger,
    run_key: str,
    content: Mapping[str, Any],
    rows: Callable[[], Iterable[Any]],
    is_taken: Callable[[KeptPlan], bool],
) -> KeptPlan:
    """Keep a plan, and return it; the newest one of its run instead where `is_taken` says that it is this plan.

    `content`, `rows`: plain values; `content` says how many `rows` there are, and nothing personal. One of two starts
    that make the same plan at once keeps it; the other one takes it.
    """

    def work(connection: Connection) -> KeptPlan:
        serialize(connection)
        where = made_in(connection, ledger)
        newest = _newest(connection, ledger, run_key)
        if newest is not None and newest.made_in == where and is_taken(newest) and _has_rows(connection, newest):
            return newest
        plans = schema.payout_plans.c
        last = connection.execute(select(func.max(plans.number)).where(plans.run_key == run_key)).scalar()
        number = (last or 0) + 1
        said = {**content, "run_key": run_key, "number": number, "made_at": ledger.now(), "made_in": where}
        plan_id = _id_of(said)
        kept = {"id": plan_id, "run_key": run_key, "number": number, "made_at": said["made_at"]}
        connection.execute(
            insert(schema.payout_plans).values(**kept, content=ledger.key.encrypt(said, schema.payout_plans.name))
        )
        for at, some in enumerate(batched(rows(), _ROWS)):
            table = schema.payout_plan_rows
            record = ledger.key.encrypt({"plan": plan_id, "number": at, "rows": some}, table.name)
            connection.execute(insert(table).values(plan_id=plan_id, number=at, content=record))
        return KeptPlan(plan_id, run_key, where, said)

    return ledger.write(work)


def kept_plan(ledger: Ledger, plan_id: str) -> KeptPlan:
    """The plan of an id. Raises `InputError` for one that is not there, or was changed since."""
    table = schema.payout_plans
    found = ledger.look(lambda connection: connection.execute(select(table).where(table.c.id == plan_id)).first())
    plan = None if found is None else _plan_of(ledger, found)
    if plan is None:
        raise InputError(f"this ledger has no plan {plan_id[:12]}; nothing was sent: start it again")
    return plan


def kept_plans(ledger: Ledger, run_key: str) -> list[KeptPlan]:
    """The plans of a run, oldest first, but for those that were changed since."""
    table = schema.payout_plans
    rows = ledger.read(select(table).where(table.c.run_key == run_key).order_by(table.c.number))
    return [plan for row in rows if (plan := _plan_of(ledger, row)) is not None]


def newest_kept(ledger: Ledger, run_key: str) -> KeptPlan | None:
    """The newest plan of a run; None where none was kept, or it was changed since."""
    return ledger.look(lambda connection: _newest(connection, ledger, run_key))


def kept_rows(ledger: Ledger, plan: KeptPlan) -> Iterator[Any]:
    """The rows of a plan. Raises `InputError` where they ended, or were changed since."""
    table = schema.payout_plan_rows
    number = 0
    for kept in ledger.read(select(table).where(table.c.plan_id == plan.id).order_by(table.c.number)):
        content = ledger.key.decrypt(kept.content, table.name)
        if (content["plan"], content["number"]) != (plan.id, number):
            break
        number += 1
        yield from content["rows"]
    if number != _records(plan):
        raise InputError(f"the rows of plan {plan.id[:12]} are kept no more; nothing was sent: start it again")


def is_made_now(ledger: Ledger, plan: KeptPlan) -> bool:
    """Tell whether ledger, epoch and adoption of the policy are those that a plan was made in."""
    return ledger.look(lambda connection: made_in(connection, ledger)) == plan.made_in


def forget_plan_rows(ledger: Ledger, made_before: int, run_key: str | None = None) -> None:
    """Forget the rows of plans whose run keeps no payload any more, or never began and was planned before a moment.

    `made_before`: Unix ms; `run_key`: of this run alone.
    """
    plans, rows, orders = schema.payout_plans, schema.payout_plan_rows, schema.orders.c
    began = exists().where(schema.runs.c.run_key == plans.c.run_key)
    is_kept = exists().where(orders.run_key == plans.c.run_key, orders.payload.is_not(None))
    ended = (began & ~is_kept) | (~began & (plans.c.made_at < made_before))
    query = select(rows.c.plan_id).distinct().join(plans).where(ended)
    if run_key is not None:
        query = query.where(plans.c.run_key == run_key)
    if ids := [row.plan_id for row in ledger.read(query)]:
        ledger.write(lambda connection: connection.execute(delete(rows).where(rows.c.plan_id.in_(ids))).rowcount)


def _newest(connection: Connection, ledger: Ledger, run_key: str) -> KeptPlan | None:
    table = schema.payout_plans
    query = select(table).where(table.c.run_key == run_key).order_by(table.c.number.desc()).limit(1)
    row = connection.execute(query).first()
    return None if row is None else _plan_of(ledger, row)


def _has_rows(connection: Connection, plan: KeptPlan) -> bool:
    table = schema.payout_plan_rows
    count = connection.execute(select(func.count()).where(table.c.plan_id == plan.id)).scalar_one()
    return bool(count == _records(plan))


def _records(plan: KeptPlan) -> int:
    """How many records the rows of a plan are in."""
    return -(-int(plan.content["rows"]) // _ROWS)


def _plan_of(ledger: Ledger, row: Row[Any]) -> KeptPlan | None:
    said = ledger.key.decrypt(row.content, schema.payout_plans.name)
    is_ours = (row.id, row.run_key, row.number) == (_id_of(said), said["run_key"], said["number"])
    return KeptPlan(row.id, row.run_key, said["made_in"], said) if is_ours else None


def _id_of(said: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(json.loads(json.dumps(said))).encode()).hexdigest()


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
