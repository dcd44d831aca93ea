"""Cancels what never left, on a named person's word: for ever, at any time, also while its run is being sent.

Cancelling takes no run's lock. It is one conditional step of the ledger, as the mark of a send is: whichever is on disk
first wins, and the other one finds the order elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from treasury.approving.tokens import Verb
from treasury.concurrency.crash_points import crash_point
from treasury.errors import IllegalTransition, InputError, NotConnected, OutcomeUnknown, Refused
from treasury.ledger.approvals import waiting_plan
from treasury.ledger.changed_by_hand import may_have_left
from treasury.ledger.database import serialize
from treasury.ledger.debits import CONVERSION
from treasury.ledger.decisions import Proof, Word
from treasury.ledger.epoch import ABSENCES, epoch_began
from treasury.ledger.funding_runs import rounds_of
from treasury.ledger.ledger import Ledger
from treasury.ledger.proposals import WaitingPlan, cancel_plan, plan_subject
from treasury.ledger.quotes import last_quote
from treasury.orders.payment_decisions import disagreements
from treasury.orders.quoting import QUOTED
from treasury.orders.records import Order, Stage
from treasury.orders.states import NEVER_LEFT, Event, Hold, State
from treasury.payments.deciding import said, word_about
from treasury.payments.desk import Desk
from treasury.payments.resolving import Decision, choose_orders, run_named

MAY_BE_MADE = (State.SENDING, State.UNKNOWN, State.ACCEPTED, State.SETTLED)
"""States of a conversion that was made, or may have been."""


@dataclass(frozen=True)
class Cancelled:
    """The result of a cancellation: of a plan that waited, and of each order."""

    plan: WaitingPlan | None
    decisions: list[Decision]
    converted: tuple[str, ...] = ()
    """Runs of conversions that were made for it, or may have been."""


def cancel(desk: Desk, reference: str, proof: Proof | None = None, /, *, by: str = "", why: str) -> Cancelled:
    """Cancel the orders, and the waiting plan, that a name stands for. Raises `InputError` when nothing can be.

    What left, or may have left, is left alone and said so. `proof`: where people are listed, the key of one of them.
    """
    plan, orders = cancellable(desk, reference)
    run_key = run_named(reference)
    rounds = rounds_of(desk.ledger, run_key) if any(order.run_key == run_key for order in orders) else []
    more = [] if plan is None else [plan_subject(plan)]
    word = word_about(desk, Verb.CANCEL, reference, orders, *more, by=by, why=why, proof=proof)
    words = [said(desk, word, order) for order in orders]
    if plan is not None:
        cancel_plan(desk.ledger, plan, word)
    decisions = [
        cancel_order(desk, order, own.cause, made_otherwise=_made_otherwise(desk, order), word=own)
        for order, own in zip(orders, words, strict=True)
    ]
    for key in rounds:  # whoever ends a run ends what is converted for it
        for order in desk.ledger.orders(run_key=key, states=NEVER_LEFT):
            otherwise = _made_otherwise(desk, order)
            decisions.append(cancel_order(desk, order, words[0].cause, made_otherwise=otherwise))
    return Cancelled(plan, decisions, tuple(key for key in rounds if desk.ledger.order_ids(key, MAY_BE_MADE)))


def cancellable(desk: Desk, reference: str) -> tuple[WaitingPlan | None, list[Order]]:
    """The plan that waits, and the orders, that a name stands for. Raises `InputError`."""
    desk.check_standing()  # what an older ledger says of its rows is not to be believed
    run_key = run_named(reference)
    plan, run = waiting_plan(desk.ledger, run_key), desk.ledger.run(run_key)
    if plan is not None and run is not None and run.plan_sha256 == plan.sha256:
        plan = None  # it was carried out: its orders are cancelled
    orders = [] if plan is not None and not desk.ledger.orders(reference=reference) else choose_orders(desk, reference)
    if plan is not None and any(order.run_key != plan.run_key for order in orders):
        listed = ", ".join(f"{order.row_ref} of run {order.run_key} ({order.request_id})" for order in orders[:5])
        raise InputError(f"{reference} names the waiting plan of run {plan.run_key}, and {listed}: give a request id")
    return plan, orders


def cancel_word(desk: Desk, reference: str) -> Word:
    """Return the decision that a person would sign to cancel these orders or plans. Raises `InputError`."""
    plan, orders = cancellable(desk, reference)
    more = [] if plan is None else [plan_subject(plan)]
    return word_about(desk, Verb.CANCEL, reference, orders, *more)


def cancel_order(
    desk: Desk, order: Order, cause: str, *, made_otherwise: str = "", word: Word | None = None
) -> Decision:
    """Cancel one order, if it never left; `cause` says who did, and why. `word`: of the person who does; no conversion
    needs one, which a start plans anew.

    What an older ledger brought back, and what was sent and did not act, may have left: the service is asked first.
    `made_otherwise`: how the conversion
    differs that the service made under the order's reference, where a person ends the order although the service knows
    that reference. Nobody else may: what is ended is planned anew.
    """
    while (why_not := None if made_otherwise else _why_not(desk, order)) is None:
        try:
            is_asked = bool(made_otherwise) or order.doubtful or _of_an_older_ledger(desk, order)
            if (
                not made_otherwise
                and (is_asked or _has_quote_of_others(desk, order))
                and (held := _held_instead(desk, order)) is not None
            ):
                order = held
                continue
            if order.doubtful and not made_otherwise and (why := desk.submission.why_it_may_act(order)) is not None:
                return Decision(order, False, why)
            facts = {"reason": f"cancelled by {cause}{made_otherwise}", "hold_kind": None}
            crash_point("cancel.before")
            cancelled = _end(desk, order, cause, word, facts, is_asked=is_asked)
            crash_point("cancel.committed")
            if cancelled is None:
                continue
            says = "the service knows no such order, and it is never sent again" if order.doubtful else NEVER_SENT
            return Decision(cancelled, True, f"cancelled: {says}")
        except IllegalTransition:  # its run moved it meanwhile
            order = desk.ledger.orders(ids=[order.id])[0]
        except (NotConnected, OutcomeUnknown, Refused) as error:
            return Decision(order, False, f"it may have left before, and could not be asked about ({error}); try again")
    return Decision(order, order.state is State.CANCELLED, why_not)


NEVER_SENT = "it never left, and is never sent"


def _end(
    desk: Desk, order: Order, cause: str, word: Word | None, facts: Mapping[str, Any], *, is_asked: bool
) -> Order | None:
    """Cancel an order; None where the ledger was found to be older meanwhile, and the service was not asked about
    it."""

    def work(connection: Connection) -> Order | None:
        serialize(connection)
        if not is_asked and _is_older(connection, desk.ledger, order):
            return None
        return desk.ledger.step(order, Event.CANCEL, cause=cause, word=word, **facts)

    return desk.ledger.write(work)


def _made_otherwise(desk: Desk, order: Order) -> str:
    """How the conversion differs that the service made under an order's reference; nothing where it is the same one.

    What a ledger that was put back planned anew is not what it had sent before: it never left. Of payments such a
    difference stays for a person to look at, because what is cancelled may be paid anew.
    """
    if order.hold_kind != Hold.KNOWN or order.operation != CONVERSION:
        return ""
    try:
        seen = desk.submission.query(order)
    except (NotConnected, OutcomeUnknown, Refused):
        return ""
    differs = [] if seen is None else disagreements(order, seen)
    return f"; the service made another conversion under its reference ({'; '.join(differs)})" if differs else ""


def _has_quote_of_others(desk: Desk, order: Order) -> bool:
    """Return True for an order whose quote somebody else asked for, and may have confirmed."""
    quote = last_quote(desk.ledger, order) if order.operation in QUOTED else None
    return quote is not None and quote.stage is Stage.FOREIGN


def _held_instead(desk: Desk, order: Order) -> Order | None:
    """Hold an order that the service shows, or that no query would show; None where nothing says that it left."""
    asks, is_others = desk.submission, _has_quote_of_others(desk, order)
    if found := asks.query_all_references(order) if is_others else asks.known_at_service(order):
        return desk.submission.hold_found(order, found, "asked before it is cancelled")
    return desk.submission.hold_unseen(order)


def _of_an_older_ledger(desk: Desk, order: Order) -> bool:
    """Tell whether an order was recorded before its ledger was found to be older, whatever holds it, or is to be asked
    about twice since."""
    return desk.ledger.look(lambda connection: _is_older(connection, desk.ledger, order))


def _is_older(connection: Connection, ledger: Ledger, order: Order) -> bool:
    if order.hold_kind == Hold.OLDER or order.absences_needed >= ABSENCES:
        return True
    began = epoch_began(connection, ledger.now())
    return began is not None and order.created_at <= began


def _why_not(desk: Desk, order: Order) -> str | None:
    """Why an order cannot be cancelled; None when it can."""
    if order.state is State.CANCELLED:
        return "it is cancelled already"
    if order.state.is_final:
        return f"it is {order.state.outcome}: nothing of it is left to cancel"
    if order.hold_kind == Hold.KNOWN:
        return (
            "the service knows it, so it may have been paid: treasury resolve says what became of it, --as sent if it "
            "was, --as failed if it never will be"
        )
    if order.hold_kind == Hold.CHANGED and may_have_left(desk.ledger, order):
        return "it left, or may have left, before it was changed by hand: treasury resolve says what became of it"
    if order.state not in NEVER_LEFT:
        return f"it left, or may have left ({order.state.outcome}): it is asked about, and stays as it is"
    return None
