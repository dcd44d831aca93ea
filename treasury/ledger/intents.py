"""Intents: one transaction binds a run, checks limits and duplicates, and records its orders.

It is serialized, so that two runs that start at the same time see each other.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from treasury.approving.judging import ApprovalRules
from treasury.concurrency.batches import batched
from treasury.concurrency.crash_points import crash_point
from treasury.errors import InputError, Overtaken, PolicyChanged, RunKeyConflict
from treasury.ledger import holds, schema
from treasury.ledger.approvals import check_payments_not_rejected
from treasury.ledger.approved_plans import check_approved, check_still_approved
from treasury.ledger.cipher import LedgerKey, place_of_payload
from treasury.ledger.database import serialize
from treasury.ledger.debits import check_day, debits_recorded, judge_waiting
from treasury.ledger.decisions import all_makers, people_at, with_maker
from treasury.ledger.epoch import absences_needed
from treasury.ledger.funding_runs import FUNDING
from treasury.ledger.ledger import Ledger
from treasury.ledger.opening import check_account
from treasury.ledger.personal import personal_column
from treasury.ledger.policies import check_policy
from treasury.ledger.proposals import check_not_cancelled
from treasury.ledger.replacements import find_replaced, forget_replaced
from treasury.ledger.seals import NOT_JUDGED, is_sealed, judged_by, seal, seal_new
from treasury.money import ZERO, amount_text, exact
from treasury.orders.quoting import masked_payload
from treasury.orders.records import Intent, derive_request_id
from treasury.orders.states import Hold, State
from treasury.policy.limits import DUPLICATE_DAYS, Limits, PaymentLimits
from treasury.policy.people import Maker
from treasury.settings import os_user


@dataclass(frozen=True)
class PartOf:
    """The plan of a payment run that orders of another run are part of, such as conversions that fund it."""

    run_key: str
    sha256: str


@dataclass(frozen=True)
class IntentRules:
    """The rules that payments are judged by when they are recorded, and again while they wait."""

    version: str | None = None
    """The policy in force; None when none is."""
    since: int = 0
    """When it took effect, Unix ms; 0 when none is in force."""
    approving: ApprovalRules = ApprovalRules()
    """Approvals that their plan needs, and who may give them."""
    limits: Limits = Limits()
    """The table of the policy that is about them."""
    day: str | None = None
    """The business date; None where no policy says whose days count."""
    over: Mapping[str, str] = field(default_factory=dict)
    """Row -> why it breaks a limit now: of a run that began under another policy, what waits is held."""
    part_of: PartOf | None = None
    """The plan of another run that they are part of: its approvals are theirs."""
    payments: Collection[str] = ()
    """The hash of a new plan's payments alone, where it has conversions: a person may have rejected them before."""
    recorded: Mapping[str, Decimal] | None = None
    """Currency -> what their run had recorded when its limits and approvals counted that; None where they did not."""
    newest_order: int | None = None
    """The last order that was recorded when they were planned; None where others may be recorded in between."""
    maker: Maker | None = None
    """Who makes the run; None for the operating system's user."""

    @property
    def duplicate_days(self) -> int:
        """How far back settled payments count as duplicates."""
        return self.limits.duplicate_days if isinstance(self.limits, PaymentLimits) else DUPLICATE_DAYS


def commit_plan(
    ledger: Ledger,
    run_key: str,
    kind: str,
    plan: Mapping[str, Any],
    sha256: str,
    intents: Iterable[Intent],
    rules: IntentRules = IntentRules(),
) -> int:
    """Bind the run key to these payments and record those not recorded yet; returns how many were new.

    `sha256` identifies the content of all of them: a run that was bound with the same one is not compared row by row;
    an empty one is never equal. `intents` are iterated anew at each try, a few at a time.

    A subset of a bound run is accepted. A payment that looks like another one is recorded and held, unless its row says
    why it is none. Raises `RunKeyConflict` naming payments that changed or were added, `ApprovalNeeded`, and
    `LimitExceeded` when the day's limit would be passed.
    """

    def work(connection: Connection) -> int:
        serialize(connection)
        check_account(connection, ledger.account)
        check_policy(connection, ledger, rules.version)
        table = schema.runs.c
        bound = connection.execute(select(schema.runs).where(table.run_key == run_key)).first()
        if bound is not None:
            if bound.kind != kind:
                raise RunKeyConflict(run_key, [kind], f"this run key stands for a {bound.kind}, not for this")
            if not sha256 or bound.plan_sha256 != sha256 or not is_sealed(ledger.key, schema.runs, bound):
                _check_binding(ledger, connection, run_key, intents)
            back = holds.release_cooled(ledger, connection, run_key, rules.limits)
            is_keyed = bool(people_at(connection, ledger))
            if not is_keyed:  # else a word in a sheet that was recorded releases nothing: a key does
                holds.release_duplicates(ledger, connection, run_key, intents)
            if judged_by(ledger.key, bound) != rules.version:
                _judge_by_another_policy(ledger, connection, run_key, plan, sha256, rules, intents)
            holds.hold_over(ledger, connection, run_key, rules.over.items())
            excused = () if is_keyed else intents
            holds.hold_duplicates(ledger, connection, run_key, rules.duplicate_days, excused, back)
            holds.hold_payees(ledger, connection, run_key, rules.limits)
            _judge_day(ledger, connection, run_key, rules)
            return 0
        check_not_cancelled(connection, run_key)
        if rules.newest_order is not None and newest_order(connection) > rules.newest_order:
            raise Overtaken(f"other orders were recorded since run {run_key} was planned; nothing of it was recorded")
        if rules.part_of is None:
            _check_agreed(connection, ledger, run_key, sha256, rules)
        else:
            _check_part(connection, ledger, rules, rules.part_of)
        if rules.day is not None:
            check_day(connection, rules.day, rules.limits.max_per_day, intents)
        run = {"run_key": run_key, "kind": kind, "created_at": ledger.now(), "plan_sha256": sha256}
        run |= {"policy": rules.version, "plan": json.dumps(plan, ensure_ascii=False)}
        run["makers"] = with_maker(None, _maker(connection, ledger, rules))
        connection.execute(insert(schema.runs).values(**run, checksum=seal(ledger.key, schema.runs, run)))
        return record_intents(ledger, connection, run_key, intents, rules)

    return _commit(ledger, work)


def _check_agreed(connection: Connection, ledger: Ledger, run_key: str, sha256: str, rules: IntentRules) -> None:
    hashes, asked = {sha256, *rules.payments}, rules.approving.asked
    check_payments_not_rejected(connection, ledger, run_key, hashes, rules.version, asked)
    check_approved(connection, ledger, run_key, sha256, rules.version, rules.approving)


def _check_part(connection: Connection, ledger: Ledger, rules: IntentRules, of: PartOf) -> None:
    """Check that these orders are part of what was agreed to for that run, that it is approved, and that it waits."""
    check_not_cancelled(connection, of.run_key)
    orders = schema.orders.c
    waits = select(orders.id).where(orders.run_key == of.run_key, orders.state == State.PREPARED.value).limit(1)
    if connection.execute(waits).first() is None:
        raise Overtaken(f"nothing of run {of.run_key} waits any more: nothing is converted for it")
    run = connection.execute(select(schema.runs).where(schema.runs.c.run_key == of.run_key)).one()
    agreed = json.loads(run.plan).get(FUNDING)
    if judged_by(ledger.key, run) != rules.version or agreed is None or agreed["plan_sha256"] != of.sha256:
        raise Overtaken(f"another plan of run {of.run_key} was agreed to meanwhile: start it again")
    check_still_approved(connection, ledger, of.run_key, rules.version, rules.approving)


def newest_order(connection: Connection) -> int:
    """The number of the order that was recorded last; 0 when there is none."""
    found: int | None = connection.execute(select(func.max(schema.orders.c.id))).scalar()
    return found or 0


def add_to_plan(
    ledger: Ledger,
    run_key: str,
    kind: str,
    sha256: str,
    added: Iterable[Intent],
    recorded: Iterable[Intent],
    rules: IntentRules,
    funding: Mapping[str, Any] | None = None,
) -> int:
    """Record more payments of a run that began; returns how many.

    `sha256` identifies the plan of the `added` ones, which need approvals of their own; `recorded`: the payments of the
    same sheet that the run has already, which must be unchanged. `funding`: what may be converted for the run from now
    on; without any `added`, the plan is one of the whole run, and takes the place of its own. Raises as `commit_plan`,
    `PolicyChanged` for a run that was recorded under another policy, and `Overtaken`.
    """

    def work(connection: Connection) -> int:
        serialize(connection)
        check_account(connection, ledger.account)
        check_policy(connection, ledger, rules.version)
        bound = connection.execute(select(schema.runs).where(schema.runs.c.run_key == run_key)).one()
        if bound.kind != kind:
            raise RunKeyConflict(run_key, [kind], f"this run key stands for a {bound.kind}, not for this")
        if judged_by(ledger.key, bound) != rules.version:
            raise PolicyChanged(
                f"run {run_key} was recorded under another policy than the one in force; nothing was added: start it "
                "once without --add, so that what waits is judged by this one"
            )
        check_not_cancelled(connection, run_key)
        _check_binding(ledger, connection, run_key, recorded)
        _check_counted(connection, run_key, rules)
        _check_agreed(connection, ledger, run_key, sha256, rules)
        if rules.day is not None:
            check_day(connection, rules.day, rules.limits.max_per_day, added)
        is_more = next(iter(added), None) is not None
        of_run = bound.plan_sha256 if is_more else sha256
        made = {"makers": with_maker(bound.makers, _maker(connection, ledger, rules))}
        _bind_again(ledger, connection, bound, plan_sha256=of_run, plan=_with_funding(bound.plan, funding), **made)
        return record_intents(ledger, connection, run_key, added, rules)

    return _commit(ledger, work)


@exact
def _check_counted(connection: Connection, run_key: str, rules: IntentRules) -> None:
    """Raise `Overtaken` where a run has recorded more by now than its limits and approvals counted."""
    counted = rules.recorded
    if counted is None:
        return
    now = debits_recorded(connection, run_key).sums
    if any(amount > counted.get(currency, ZERO) for currency, amount in now.items()):
        raise Overtaken(f"more of run {run_key} was recorded at the same moment; nothing was added: start it again")


def _maker(connection: Connection, ledger: Ledger, rules: IntentRules) -> Maker:
    """Who makes what is recorded now: a person of the list where one works as this user of the operating system."""
    return rules.maker or people_at(connection, ledger).maker(os_user())


def _commit(ledger: Ledger, work: Callable[[Connection], int]) -> int:
    crash_point("intents.before")
    new = ledger.write(work)
    crash_point("intents.committed")
    return new


def record_intents(
    ledger: Ledger, connection: Connection, run_key: str, intents: Iterable[Intent], rules: IntentRules
) -> int:
    """Record payments that are not recorded, and hold those that a rule holds; returns how many they are."""
    new, replaced = 0, dict[str, str]()
    absences = absences_needed(connection, ledger.now())
    for some in batched(intents):
        replaced |= _check_replaced(ledger, connection, run_key, some)
        more = {"absences_needed": absences, "counted_on": rules.day}
        rows = [_row(ledger, run_key, intent, replaced.get(intent.row_ref)) | more for intent in some]
        connection.execute(insert(schema.orders), [{**row, "checksum": seal_new(ledger.key, row)} for row in rows])
        new += len(some)
    forget_replaced(connection, ledger, replaced.values())
    back = holds.release_cooled(ledger, connection, run_key, rules.limits)
    holds.hold_duplicates(ledger, connection, run_key, rules.duplicate_days, intents, back)
    holds.hold_payees(ledger, connection, run_key, rules.limits)
    return new


def _check_replaced(ledger: Ledger, connection: Connection, run_key: str, intents: Iterable[Intent]) -> dict[str, str]:
    """Row -> the identity of the payment that it replaces. Raises `InputError` for one that cannot be replaced."""
    wanted = {intent.row_ref: intent.replaces for intent in intents if intent.replaces is not None}
    found, problems = find_replaced(connection, ledger, run_key, wanted)
    if problems:
        row_ref, why = next(iter(problems.items()))
        raise InputError(f"run {run_key}, row {row_ref}: {wanted[row_ref]} {why}; nothing was sent")
    return found


def check_bound(ledger: Ledger, run_key: str, intents: Iterable[Intent]) -> None:
    """Raise `RunKeyConflict` when these payments are not those that a run was recorded with."""
    ledger.look(lambda connection: _check_binding(ledger, connection, run_key, intents))


def forget_absences(connection: Connection, ids: Sequence[int]) -> None:
    """Let these orders of a machine's first run leave: the service was asked and knows none of them."""
    table = schema.orders
    for some in batched(ids):
        asked = table.c.id.in_(some) & (table.c.absences_needed == 1)
        connection.execute(update(table).where(asked).values(absences_needed=0))


def payee_hashes(key: LedgerKey, intent: Intent) -> dict[str, str | None]:
    """The columns of an order that say whom it pays: keyed hashes of payee and name, and of what it looks like."""
    return {
        "alike": None if intent.duplicate_key is None else key.keyed_hash(list(intent.duplicate_key)),
        "payee": None if intent.payee is None else key.keyed_hash(intent.payee),
        "payee_name": None if intent.payee_name is None else key.keyed_hash(intent.payee_name),
    }


def _row(ledger: Ledger, run_key: str, intent: Intent, replaces: str | None) -> dict[str, Any]:
    amounts = {name: getattr(intent, name) for name in ("amount", "receive_amount", "ceiling", "bound", "fee", "rate")}
    amounts["told_fee"] = intent.fee
    derived = derive_request_id(ledger.account, run_key, intent.row_ref, intent.operation, 1, replaces)
    return {
        "run_key": run_key,
        "row_ref": intent.row_ref,
        "operation": intent.operation,
        "generation": 1,
        "request_id": intent.request_id or derived,
        "confirmation": intent.confirmation,
        "state": State.PREPARED.value,
        "doubtful": False,
        "sends": 0,
        "meaning": ledger.key.keyed_hash(intent.bound_content),
        "payload": ledger.key.encrypt(intent.payload, *place_of_payload(run_key, intent.row_ref, intent.operation)),
        "masked": json.dumps(masked_payload(intent.operation, intent.payload), ensure_ascii=False),
        "personal": personal_column(ledger.key, intent.operation, intent.payload),
        "currency": intent.currency,
        "receive_currency": intent.receive_currency,
        **dict.fromkeys(("fee_currency", "told_fee_currency"), intent.fee_currency),
        **{name: amount_text(each) for name, each in amounts.items()},
        **(intent.hashes or payee_hashes(ledger.key, intent)),
        "replaces": replaces,
        "released": Hold.DUPLICATE.value if intent.duplicate_ok else None,
        "created_at": ledger.now(),
    }


def _check_binding(ledger: Ledger, connection: Connection, run_key: str, intents: Iterable[Intent]) -> None:
    """Check that each of these payments is in the run, with the same content."""
    table = schema.orders.c
    changed: list[str] = []
    added: list[str] = []
    for some in batched(intents):
        refs = [intent.row_ref for intent in some]
        query = select(table.row_ref, table.meaning).where(table.run_key == run_key, table.row_ref.in_(refs))
        known = {row.row_ref: row.meaning for row in connection.execute(query)}
        for intent in some:
            if intent.row_ref not in known:
                added.append(intent.row_ref)
            elif known[intent.row_ref] != ledger.key.keyed_hash(intent.bound_content):
                changed.append(intent.row_ref)
    if changed:
        raise RunKeyConflict(run_key, changed, RunKeyConflict.CHANGED)
    if added:
        raise RunKeyConflict(
            run_key,
            added,
            "these rows were added since the run began; use another run key for them, or --add",
        )


def _judge_by_another_policy(
    ledger: Ledger,
    connection: Connection,
    run_key: str,
    plan: Mapping[str, Any],
    sha256: str,
    rules: IntentRules,
    intents: Iterable[Intent],
) -> None:
    """Return what waits of a run that began under another policy needs the approvals that this one asks, and fits its
    limits.

    Raises `ApprovalNeeded`, and `PolicyChanged` when this start is about a part of what waits: the rest would never be
    judged.
    """
    table = schema.orders.c
    held = (table.state == State.HELD.value) & ~table.doubtful  # it may be released, and leaves
    may_leave = (table.run_key == run_key) & ((table.state == State.PREPARED.value) | held)
    waiting = set(connection.execute(select(table.row_ref).where(may_leave)).scalars())
    if waiting - {intent.row_ref for intent in intents}:
        raise PolicyChanged(
            f"run {run_key} was recorded under another policy than the one in force; nothing was sent: start it once "
            "with its whole sheet, so that everything that waits, or is held, is judged by this one"
        )
    if waiting:
        check_approved(connection, ledger, run_key, sha256, rules.version, rules.approving)
    holds.put_under_policy(ledger, connection, run_key, intents)
    run = connection.execute(select(schema.runs).where(schema.runs.c.run_key == run_key)).one()
    is_ours = is_sealed(ledger.key, schema.runs, run)
    known = sha256 if is_ours else ""  # else its rows were compared one by one
    said = _with_funding(run.plan if is_ours else json.dumps(plan), plan.get(FUNDING))
    makers = run.makers if is_ours else all_makers(run.makers, people_at(connection, ledger))
    _bind_again(ledger, connection, run, plan_sha256=known, policy=rules.version, plan=said, makers=makers)


def _bind_again(ledger: Ledger, connection: Connection, run: Row[Any], **values: str | None) -> None:
    """Change what a run is bound to, and seal it; a row that somebody else changed is only sealed by its judgement."""
    changed = {**run._mapping, **values}
    checksum = run.checksum
    if values.get("policy", NOT_JUDGED) != NOT_JUDGED or is_sealed(ledger.key, schema.runs, run):
        checksum = seal(ledger.key, schema.runs, changed)
    of_run = schema.runs.c.run_key == run.run_key
    connection.execute(update(schema.runs).where(of_run).values(**values, checksum=checksum))


def _with_funding(plan: str, funding: Mapping[str, Any] | None) -> str:
    """The plan of a run as it is kept, with what was agreed to be converted for it, or nothing."""
    content = {name: each for name, each in json.loads(plan).items() if name != FUNDING}
    return json.dumps(content if funding is None else {**content, FUNDING: dict(funding)}, ensure_ascii=False)


def _judge_day(ledger: Ledger, connection: Connection, run_key: str, rules: IntentRules) -> None:
    """Judge what waits again, on the day that is now; hold what does not fit."""
    if rules.day is not None:
        over = judge_waiting(connection, ledger.key, run_key, rules.day, rules.limits.max_per_day)
        holds.hold_over(ledger, connection, run_key, over)


def judge_again(ledger: Ledger, run_key: str, rules: IntentRules) -> None:
    """Judge what waits of a run again, before more of it leaves: the policy in force, and the account of the day.

    Raises `PolicyChanged` when it was recorded under another policy, `ApprovalNeeded` when its approvals ended before
    anything of it left, and `RecoveryRuns`.
    """

    def work(connection: Connection) -> None:
        serialize(connection)
        check_policy(connection, ledger, rules.version)
        bound = connection.execute(select(schema.runs).where(schema.runs.c.run_key == run_key)).first()
        waits = (schema.orders.c.run_key == run_key) & (schema.orders.c.state == State.PREPARED.value)
        if bound is None or connection.execute(select(schema.orders.c.id).where(waits).limit(1)).first() is None:
            return  # nothing of it is to be sent; what left is asked about
        if judged_by(ledger.key, bound) != rules.version:
            raise PolicyChanged(
                f"run {run_key} was recorded under another policy than the one in force; nothing was sent: start it "
                "again, so that it is judged by this one"
            )
        if rules.part_of is None:
            check_still_approved(connection, ledger, run_key, rules.version, rules.approving)
        else:
            _check_part(connection, ledger, rules, rules.part_of)
        _judge_day(ledger, connection, run_key, rules)

    crash_point("judged.before")
    ledger.write(work)
    ledger.judged[run_key] = rules.since
    crash_point("judged.committed")


def judge_anew(connection: Connection, ledger: Ledger, run_key: str) -> None:
    """Let what waits of a run leave only once it was judged again, by its next start."""
    run = connection.execute(select(schema.runs).where(schema.runs.c.run_key == run_key)).one()
    _bind_again(ledger, connection, run, policy=NOT_JUDGED)


def waiting_operations(ledger: Ledger, run_key: str) -> list[str]:
    """The operations of the orders of a run that wait."""
    table = schema.orders.c
    query = select(table.operation).distinct().where(table.run_key == run_key, table.state == State.PREPARED.value)
    return [row.operation for row in ledger.read(query)]
