"""Approvals: who approved which plan. They are bound to the plan's hash, so a changed plan has none."""

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger


@dataclass(frozen=True)
class WaitingPlan:
    """The newest plan of a run that waits for approvals."""

    run_key: str
    sha256: str
    maker: str
    needed: int
    policy: str | None
    """The version of the policy in force that it was made under, if that was kept."""


def propose_plan(ledger: Ledger, run_key: str, sha256: str, maker: str, needed: int) -> list[str]:
    """Record a plan that needs approvals; returns who approved this plan already.

    `maker` is the OS user who made it. The first maker of a plan stays its maker.
    """
    table = schema.plans

    def work(connection: Connection) -> list[str]:
        check_not_cancelled(connection, run_key)
        known = select(table.c.id).where(table.c.run_key == run_key, table.c.plan_sha256 == sha256)
        if connection.execute(known).first() is None:
            row = {"run_key": run_key, "plan_sha256": sha256, "maker": maker, "needed": needed}
            connection.execute(insert(table).values(**row, proposed_at=ledger.now()))
        return approvers(connection, run_key, sha256)

    return ledger.write(work)


def approvers(connection: Connection, run_key: str, sha256: str) -> list[str]:
    """Who approved this plan of this run."""
    table = schema.approvals.c
    query = select(table.approved_by).where(table.run_key == run_key, table.plan_sha256 == sha256).order_by(table.id)
    return [row.approved_by for row in connection.execute(query)]


def approve_plan(ledger: Ledger, run_key: str, approved_by: str, os_user: str) -> tuple[str, int, list[str]]:
    """Approve the newest plan of a run; returns its hash, how many approvals it needs, and who approved it.

    Raises `InputError` when there is none, when its maker approves it, or when this person did already.
    """
    person = " ".join(approved_by.split())
    if not person:
        raise InputError("an approval needs the name of a person: --by NAME")

    def work(connection: Connection) -> tuple[str, int, list[str]]:
        waiting = (schema.plans.c.run_key == run_key) & (schema.plans.c.needed > 0)
        query = select(schema.plans).where(waiting).order_by(schema.plans.c.id.desc())
        plan = connection.execute(query).first()
        if plan is None:
            raise InputError(f"run {run_key} has no plan that waits for an approval")
        check_not_cancelled(connection, run_key)
        if person.casefold() == plan.maker.casefold():
            raise InputError(f"{person} made the plan of run {run_key}; somebody else has to approve it")
        known = approvers(connection, run_key, plan.plan_sha256)
        if person.casefold() in (name.casefold() for name in known):
            raise InputError(f"{person} approved this plan of run {run_key} already")
        row = {"run_key": run_key, "plan_sha256": plan.plan_sha256, "approved_by": person, "os_user": os_user}
        connection.execute(insert(schema.approvals).values(**row, approved_at=ledger.now()))
        return plan.plan_sha256, plan.needed, [*known, person]

    return ledger.write(work)


def waiting_plan(ledger: Ledger, run_key: str) -> WaitingPlan | None:
    """The plan of a run that waits; None when the run began, its plan was cancelled, or it never had one."""
    table, runs = schema.plans.c, schema.runs.c
    query = (
        select(table.run_key, table.plan_sha256, table.maker, table.needed, table.policy)
        .outerjoin(schema.runs, runs.run_key == table.run_key)
        .where(table.run_key == run_key, table.cancelled_at.is_(None), runs.run_key.is_(None), table.needed > 0)
        .order_by(table.id.desc())
        .limit(1)
    )
    return next((WaitingPlan(*row) for row in ledger.read(query)), None)


def waiting_keys(ledger: Ledger) -> list[str]:
    """The run keys of all plans that wait for approvals."""
    table, runs = schema.plans.c, schema.runs.c
    query = (
        select(table.run_key)
        .distinct()
        .outerjoin(schema.runs, runs.run_key == table.run_key)
        .where(table.cancelled_at.is_(None), runs.run_key.is_(None), table.needed > 0)
        .order_by(table.run_key)
    )
    in_force = select(schema.policies.c.version)
    adopted = table.plan_sha256.in_(in_force)
    return [row.run_key for row in ledger.read(query.where(~adopted))]


def cancel_plan(ledger: Ledger, plan: WaitingPlan, *, by: str, why: str) -> None:
    """End every plan of a run that waits, for ever: its approvals count for nothing, and its run key is used up.

    Raises `InputError` when the run began meanwhile.
    """
    table = schema.plans

    def work(connection: Connection) -> None:
        serialize(connection)
        if connection.execute(select(schema.runs.c.run_key).where(schema.runs.c.run_key == plan.run_key)).first():
            raise InputError(f"run {plan.run_key} began meanwhile: cancel it again")
        ended = update(table).where(table.c.run_key == plan.run_key, table.c.cancelled_at.is_(None))
        connection.execute(ended.values(cancelled_at=ledger.now(), cancelled_by=by.strip(), cancel_why=why.strip()))

    ledger.write(work)


def check_not_cancelled(connection: Connection, run_key: str) -> None:
    """Raise `InputError` for a run whose plan a person cancelled before it began."""
    table = schema.plans.c
    query = select(table.cancelled_by, table.cancel_why).where(
        table.run_key == run_key, table.cancelled_at.is_not(None)
    )
    found = connection.execute(query).first()
    if found is not None:
        raise InputError(
            f"run {run_key} was cancelled by {found.cancelled_by} ({found.cancel_why}); nothing was sent: what is to "
            "be paid after all gets another run key"
        )
