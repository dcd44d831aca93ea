"""Proposals: the plans of a run that wait for approvals, by number. The newest one of a run is the one that waits.

A proposal ends when it is rejected, cancelled or replaced by a newer one of its run, and when its run begins. It
carries a keyed checksum; a row that was changed or added by hand counts as none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from treasury.approving.judging import Proposal
from treasury.approving.tokens import Binding, Verb
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.continuity import identity_of_ledger
from treasury.ledger.database import group_of, serialize
from treasury.ledger.decisions import PLAN, RecordedDecision, Word, find_decisions, hear, not_taken_back, record
from treasury.ledger.in_force import newest_policy
from treasury.ledger.ledger import Ledger
from treasury.ledger.seals import add_sealed, is_sealed
from treasury.policy.people import Maker

CANCELLED = select(schema.decisions).where(schema.decisions.c.verb == Verb.CANCEL.value)
"""Cancellations: of a plan `named` by its run key, of an order by its reference. Also one that was changed by hand."""

MIN_HASH = 12
"""Fewest characters that name a plan; commands show as many."""


@dataclass(frozen=True)
class WaitingPlan:
    """The newest plan of a run, while it waits for approvals."""

    id: int
    run_key: str
    number: int
    sha256: str
    maker: Maker
    needed: int
    policy: str | None
    """The version of the policy in force that it was made under, if that was kept."""
    proposed_at: int
    ends_at: int | None
    ledger: str
    account: str
    shown: Mapping[str, Any] | None = field(default=None, repr=False)
    """The part that approvers see."""

    @property
    def proposal(self) -> Proposal:
        """Return what approvals of it are judged by."""
        binding = Binding(self.account, self.run_key, self.sha256, self.policy, self.ledger, self.number)
        return Proposal(binding, self.maker, self.ends_at)

    @property
    def code(self) -> str:
        """Return what an approver copies."""
        return self.proposal.binding.code

    def is_named(self, text: str) -> bool:
        """Tell whether a text is the code of this proposal, or the hash of its plan, at least twelve characters of
        it."""
        return text == self.code or (len(text) >= MIN_HASH and self.sha256.startswith(text.lower()))


def add_proposal(
    connection: Connection, ledger: Ledger, row: Mapping[str, Any], shown: Mapping[str, Any] | None = None
) -> WaitingPlan:
    """Record the next proposal of a run, which ends the one before."""
    table, run_key = schema.plans, row["run_key"]
    before = connection.execute(select(func.count()).where(table.c.run_key == run_key))
    in_force = newest_policy(connection, ledger.key, ledger.now())[0]
    values = {
        "proposed_at": max(ledger.now(), 0 if in_force is None else in_force.in_force_at),  # a clock may be set back
        "is_listed": False,
        **row,
        "number": before.scalar_one() + 1,
        "ledger": identity_of_ledger(connection),
        "shown": None if shown is None else ledger.key.encrypt(shown, table.name),
    }
    added = add_sealed(connection, ledger.key, table, values)
    for each in changed_about(connection, ledger, run_key):  # it is decided about anew
        noted = RecordedDecision(Verb.DISREGARD, run_key, each.itself, "", "")
        record(connection, ledger, noted)
    forget = update(table).where(table.c.run_key == run_key, table.c.id != added)
    connection.execute(forget.values(shown=None))
    return plan_of(ledger, connection.execute(select(table).where(table.c.id == added)).one())


def changed_about(connection: Connection, ledger: Ledger, run_key: str, about: str = "") -> list[RecordedDecision]:
    """Return what was changed or added by hand of the decisions named by this run, or about this, since its newest plan
    was proposed."""
    genuine, others = find_decisions(connection, ledger.key, named=run_key, about=about)
    return not_taken_back([*(each for each in genuine if each.verb == Verb.DISREGARD), *others], Verb.DISREGARD)


def newest_plan(connection: Connection, ledger: Ledger, run_key: str) -> WaitingPlan | None:
    """The newest plan of a run, whatever became of it; None when it needs no approval, or was changed by hand."""
    row, is_newest = newest_row(connection, ledger, run_key)
    return plan_of(ledger, row) if row is not None and is_newest and row.needed else None


def plans_of_run(connection: Connection, ledger: Ledger, run_key: str) -> list[WaitingPlan]:
    """The plans of a run that need approvals, whatever became of them: the newest of each hash, oldest first."""
    table = schema.plans
    rows = connection.execute(select(table).where(table.c.run_key == run_key).order_by(table.c.id))
    newest = {row.plan_sha256: row for row in rows if is_sealed(ledger.key, table, row)}
    return [plan_of(ledger, row) for row in sorted(newest.values(), key=lambda row: int(row.id)) if row.needed]


def is_changed_by_hand(connection: Connection, ledger: Ledger, run_key: str) -> bool:
    """Tell whether the newest plan of a run was changed or added by hand: an older one must not take its place."""
    row, is_newest = newest_row(connection, ledger, run_key)
    return row is not None and not is_newest


def is_genuine(ledger: Ledger, row: Row[Any]) -> bool:
    """Tell whether nobody changed a plan, or what approvers see of it, by hand."""
    if not is_sealed(ledger.key, schema.plans, row):
        return False
    own = {"run_key": row.run_key, "plan_sha256": row.plan_sha256}
    shown = {} if row.shown is None else ledger.key.decrypt(row.shown, schema.plans.name)
    return (own | shown).items() >= own.items()


def newest_row(connection: Connection, ledger: Ledger, run_key: str) -> tuple[Row[Any] | None, bool]:
    """Return the newest plan of a run, and whether it is that for certain: of as many as there are, and changed by
    nobody."""
    table = schema.plans
    rows = connection.execute(select(table).where(table.c.run_key == run_key).order_by(table.c.id)).fetchall()
    sealed = [row for row in rows if is_sealed(ledger.key, table, row)]
    if not sealed:
        return (rows[-1] if rows else None), False
    newest = max(sealed, key=lambda row: (row.number or 0, row.id))
    return newest, newest.number in (None, len(rows)) and is_genuine(ledger, newest)


def plan_of(ledger: Ledger, row: Row[Any]) -> WaitingPlan:
    maker = Maker(row.maker, row.os_user or row.maker, bool(row.is_listed), row.token is not None)
    return WaitingPlan(
        *(row.id, row.run_key, row.number or 0, row.plan_sha256, maker, row.needed, row.policy),
        *(row.proposed_at, row.ends_at, row.ledger or "", ledger.account),
        shown=None if row.shown is None else ledger.key.decrypt(row.shown, schema.plans.name),
    )


def is_plan_of_run(connection: Connection, plan: WaitingPlan) -> bool:
    """Tell whether this is the plan that its run began with, and not one of rows to be added."""
    runs = schema.runs.c
    began = select(runs.run_key).where(runs.run_key == plan.run_key, runs.plan_sha256 == plan.sha256)
    return connection.execute(began).first() is not None


def plan_subject(plan: WaitingPlan) -> str:
    """A plan that waits, as a decision is about it: this proposal and no other."""
    return f"{PLAN}{plan.code} of {plan.run_key}"


def cancel_plan(ledger: Ledger, plan: WaitingPlan, word: Word) -> None:
    """End every plan of a run that waits, for ever: its approvals count for nothing, and its run key is used up.

    Raises `InputError` when the run began meanwhile, and for a decision that does not count.
    """
    table = schema.plans

    def work(connection: Connection) -> None:
        serialize(connection)
        if is_plan_of_run(connection, plan):
            raise InputError(f"run {plan.run_key} began meanwhile: cancel it again")
        hear(connection, ledger, replace(word, named=plan.run_key), plan_subject(plan), ())
        connection.execute(update(table).where(table.c.run_key == plan.run_key).values(shown=None))
        group_of(connection).decide()

    ledger.write(work)


def is_cancelled(ledger: Ledger, run_key: str) -> bool:
    """Tell whether a person cancelled the plan of a run before it began: its run key is used up."""
    return bool(ledger.read(CANCELLED.where(schema.decisions.c.named == run_key)))


def check_not_cancelled(connection: Connection, run_key: str) -> None:
    """Raise `InputError` for a run whose plan a person cancelled before it began."""
    found = connection.execute(CANCELLED.where(schema.decisions.c.named == run_key)).first()
    if found is not None:
        raise InputError(
            f"run {run_key} was cancelled by {found.name} ({found.why}); nothing was sent: what is to be paid after "
            "all gets another run key"
        )
