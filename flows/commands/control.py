"""`treasury cancel`, `release`, `resolve`, `stop` and `reject`: record what people decide. They send nothing."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cyclopts import Parameter

from flows.commands.common import DONE, TROUBLE, configured_desk
from flows.commands.deciding import NOBODY, PersonOptions
from flows.commands.resuming import resume_suspended
from treasury.approving.tokens import Verb
from treasury.errors import ConfigurationError, InputError, TreasuryError
from treasury.ledger.approvals import decided_by, matter_of_plan, reject_plan
from treasury.ledger.decisions import STOP
from treasury.ledger.stops import lift_stop, lifted_by, stop_sending, stops_in_force, stops_to_lift
from treasury.orders.states import Hold, State
from treasury.payments.cancelling import cancel as cancel_orders
from treasury.payments.cancelling import cancel_word
from treasury.payments.deciding import check_recovered, code_of
from treasury.payments.resolving import (
    Decision,
    decided_word,
    releasable,
    release_orders,
    resolve_as_ended,
    resolve_as_not_sent,
    resolve_as_sent,
)
from treasury.settings import os_user
from treasury.texts import count_of


def release(reference: str, /, *, kind: str | None = None, person: PersonOptions = NOBODY) -> int:
    """Let held orders be sent at the next start of their run.

    An order that the service knows cannot be released. One that was held because the ledger is older than the
    service is asked about twice before it is sent. Where the policy in force lists people it takes the key of somebody
    who did not make the run.

    Parameters
    ----------
    reference:
        A run key, row reference or request id.
    kind:
        Only what is held for this reason: duplicate, limit, cooling or older.

    """
    if person.print_token:
        return _print(Verb.RELEASE, reference, person, kind=kind)
    proof, desk = person.proof, configured_desk()
    orders = releasable(desk, reference, kind)
    if any(order.hold_kind == Hold.OLDER for order in orders):
        print(
            "a ledger that was put back to an older state has also forgotten cancellations, stops and policies of the "
            "time between: look at them before the next start"
        )
    for order in orders:
        amount = "" if order.amount is None else f"  {order.amount:f} {order.currency}"
        print(f"  to be released: {order.row_ref}  {order.request_id}{amount}  {order.hold_kind}")
    return _say(release_orders(desk, reference, kind, proof, by=person.by, why=person.why))


def cancel(reference: str, /, *, person: PersonOptions = NOBODY) -> int:
    """Cancel what never left: it is never sent, and counts as a duplicate of nothing. It cannot be undone.

    A plan that waits for approvals ends, too. What left, or may have left, is named and left alone. It works while the
    run is being sent. Where the policy in force lists people it takes the key of one of them.

    Parameters
    ----------
    reference:
        A run key (run:KEY where a row is called the same), row reference or request id.

    """
    if person.print_token:
        desk = configured_desk()
        return person.print_for(Verb.CANCEL, reference, lambda: code_of(desk, cancel_word(desk, reference)))
    proof = person.proof
    done = cancel_orders(configured_desk(), reference, proof, by=person.by, why=person.why)
    if done.plan is not None:
        print(f"  the plan of run {done.plan.run_key} that waited is cancelled; this run key is used up")
        resume_suspended(done.plan)  # so that it ends
        if not done.decisions:
            return DONE
    for key in done.converted:
        print(f"  conversions were made for it before, which is not undone: treasury show {key}")
    return _say(done.decisions, with_plan=done.plan is not None)


def resolve(
    reference: str,
    /,
    *,
    as_: Annotated[Literal["sent", "not-sent", "settled", "failed"], Parameter(name="--as")],
    order_no: str | None = None,
    person: PersonOptions = NOBODY,
) -> int:
    """Tell the ledger what a person found out about orders that are unknown, or whose end the service never reports.

    The service is asked once more first. `sent`: it has them; each whose amounts agree is taken over and followed from
    here on. `not-sent`: they never acted and never will; what the service does not show is sent at the next start, a
    quoted row under one more quote. `settled`, `failed`: one order ended so, and the service never says it; your word
    stands in the reports until the service confirms it. Only say what the service's support confirmed. Where the policy
    in force lists people it takes a key of one of them; `not-sent` and `failed` of one who did not make the run.

    Parameters
    ----------
    reference:
        A run key, row reference, request id or order number.
    as_:
        What is true.
    order_no:
        The service's number of the order, for settled and failed.

    """
    if person.print_token:
        return _print(RESOLVED_AS[as_], reference, person, detail=order_no or "")
    proof, desk = person.proof, configured_desk()
    print(f"the service is asked about {reference}; then {AFTERWARDS[as_]}")
    if as_ in ("settled", "failed"):
        ending = State(as_)
        return _say(resolve_as_ended(desk, reference, ending, order_no, proof, by=person.by, why=person.why))
    if order_no is not None:
        raise InputError("--order-no goes with --as settled or --as failed")
    decide = resolve_as_sent if as_ == "sent" else resolve_as_not_sent
    return _say(decide(desk, reference, proof, by=person.by, why=person.why))


RESOLVED_AS: Mapping[str, Verb] = {
    "sent": Verb.SENT,
    "not-sent": Verb.NOT_SENT,
    "settled": Verb.SETTLED,
    "failed": Verb.FAILED,
}


def _print(purpose: Verb, reference: str, person: PersonOptions, *, kind: str | None = None, detail: str = "") -> int:
    """Print a token of a decision about rows."""

    def code() -> str:
        desk = configured_desk()
        return code_of(desk, decided_word(desk, purpose, reference, kind=kind, detail=detail))

    return person.print_for(purpose, reference, code)


AFTERWARDS: Mapping[str, str] = {
    "sent": "what it shows, or what you name by its own reference, counts as sent and is followed to its end (what it "
    "never shows stays in progress until you say its end: treasury resolve --as settled or --as failed)",
    "not-sent": "what it does not show is SENT at the next start of its run (to end it instead: treasury cancel)",
    "settled": "it counts as paid, on your word, until the service says otherwise",
    "failed": "it counts as not paid, on your word, until the service says otherwise; a new run may pay it",
}
"""The next step of `resolve`, said before it is done."""


def _say(decisions: list[Decision], *, with_plan: bool = False) -> int:
    """Say what was decided. `with_plan`: a plan that waited, too; rows of its run that had ended before stay out."""
    for decision in decisions:
        print(f"  {decision.order.row_ref} ({decision.order.request_id}): {decision.says}")
    done = sum(decision.done for decision in decisions)
    left = sum(not decision.done and not (with_plan and decision.order.state.is_final) for decision in decisions)
    print(f"{done + with_plan} decided, {left} not")
    return TROUBLE if left else DONE


def stop(*, lift: Annotated[bool, Parameter(negative=())] = False, person: PersonOptions = NOBODY) -> int:
    """Stop all sending, of every process, before its next send; or lift the stop.

    Anybody stops, at any time. Where the policy in force lists people, lifting takes the key of somebody who did not
    make the stop.

    Parameters
    ----------
    lift:
        Lift the stop that stands.

    """
    if person.print_token:
        if not lift:
            raise InputError("anybody stops by name; --print goes with --lift")
        return person.print_for(Verb.LIFT, STOP, lambda: stops_to_lift(configured_desk().ledger).code)
    proof, desk = person.proof, configured_desk()
    ledger = desk.ledger
    with suppress(ConfigurationError if lift else TreasuryError):  # whatever is wrong with its files, a stop stops
        desk.check_standing()
    if lift:
        check_recovered(desk)
        count = lift_stop(ledger, person.by, os_user=os_user(), proof=proof)
        print(f"{count_of(count, 'stop')} lifted by {lifted_by(ledger) if count else person.by or 'nobody'}")
        for left in stops_in_force(ledger):
            print(f"  a stop by {left.name} stands still ({left.why}): somebody else lifts it")
        return DONE
    key = proof if isinstance(proof, Ed25519PrivateKey) else None
    stop_sending(ledger, person.by, person.why, os_user=os_user(), key=key)
    print(
        "nothing is sent from here on, until: treasury stop --lift --by NAME, or --key FILE where the policy lists "
        f"people (stopped by {person.by or 'key'}: {person.why})"
    )
    return DONE


def reject(key: str, /, *, person: PersonOptions = NOBODY) -> int:
    """Reject the plan of a run that waits: its approvals end, and it is not paid.

    Where the policy in force lists people it takes the key of one of them.

    Parameters
    ----------
    key:
        The run key, as treasury approvals lists it.

    """
    if person.print_token:
        return person.print_for(Verb.REJECT, key, lambda: matter_of_plan(configured_desk().ledger, key).code)
    proof, desk = person.proof, configured_desk()
    desk.check_standing()  # what an older ledger says of its plans is not to be believed
    plan = reject_plan(desk.ledger, key, by=person.by, why=person.why, os_user=os_user(), proof=proof)
    began = desk.ledger.run(plan.run_key) is not None
    says = "the run goes on as it was agreed to before" if began else "it is not paid"
    print(f"plan {plan.sha256[:12]} of run {key} is rejected by {decided_by(desk.ledger, plan)}; {says}")
    resume_suspended(plan)  # so that it ends
    return DONE
