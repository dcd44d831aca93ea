"""Plans of payout runs, each made once and kept whole: what it pays is encrypted, and only its id travels.

The id is the hash over all that a plan says and over its making, so a plan that was changed by hand is not found.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, exists, func, insert, select

from treasury.canonical import canonical_json
from treasury.concurrency.batches import batched
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.in_force import newest_policy
from treasury.ledger.ledger import Ledger
from treasury.ledger.token import identity_of_ledger

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
    epoch = connection.execute(select(schema.meta.c.value).where(schema.meta.c.key == "epoch_at")).scalar()
    adopted = newest_policy(connection, ledger.key, ledger.now())[0]
    return {
        "ledger": identity_of_ledger(connection),
        "epoch": epoch,
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
    for record in ledger.read(select(table).where(table.c.plan_id == plan.id).order_by(table.c.number)):
        content = ledger.key.decrypt(record.content, table.name)
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
