"""Approvals: who approved which plan. They are bound to the plan's hash, so a changed plan has none."""

from sqlalchemy import Connection, insert, select

from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.ledger import Ledger


def propose_plan(ledger: Ledger, run_key: str, sha256: str, maker: str, needed: int) -> list[str]:
    """Record a plan that needs approvals; returns who approved this plan already.

    `maker` is the OS user who made it. The first maker of a plan stays its maker.
    """
    table = schema.plans

    def work(connection: Connection) -> list[str]:
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
        query = select(schema.plans).where(schema.plans.c.run_key == run_key).order_by(schema.plans.c.id.desc())
        plan = connection.execute(query).first()
        if plan is None:
            raise InputError(f"run {run_key} has no plan that waits for an approval")
        if person.casefold() == plan.maker.casefold():
            raise InputError(f"{person} made the plan of run {run_key}; somebody else has to approve it")
        known = approvers(connection, run_key, plan.plan_sha256)
        if person.casefold() in (name.casefold() for name in known):
            raise InputError(f"{person} approved this plan of run {run_key} already")
        row = {"run_key": run_key, "plan_sha256": plan.plan_sha256, "approved_by": person, "os_user": os_user}
        connection.execute(insert(schema.approvals).values(**row, approved_at=ledger.now()))
        return plan.plan_sha256, plan.needed, [*known, person]

    return ledger.write(work)
