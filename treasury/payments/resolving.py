"""Carries out what a person decides about held and unknown orders: release, resolve as sent or as not sent.

The service is queried once more before a person's word that an order was not sent is accepted.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from treasury.approving.tokens import Verb
from treasury.errors import InputError, NotConnected, OutcomeUnknown, Refused
from treasury.ledger.database import serialize
from treasury.ledger.debits import CONVERSION
from treasury.ledger.decisions import Proof, Word
from treasury.ledger.epoch import absences_needed
from treasury.ledger.intents import judge_anew
from treasury.ledger.leaving_again import judge_by_policy
from treasury.ledger.ledger import Ledger
from treasury.ledger.quotes import MAX_GENERATIONS, finish_quote, last_quote
from treasury.orders.payment_decisions import certain_end, disagreements, has_ended, was_paid
from treasury.orders.quoting import QUOTED
from treasury.orders.records import ON_A_PERSONS_WORD, Order
from treasury.orders.states import NEVER_RELEASED, STEPS, Event, Hold, State
from treasury.payments.deciding import check_known, said, word_about
from treasury.payments.desk import Desk
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.operation import SeenOrder
from treasury.sending.inquiry import how_it_ends


@dataclass(frozen=True)
class Decision:
    """The outcome of a person's decision about one order."""

    order: Order
    done: bool
    says: str
    """The effect, or why there is none, in words."""


RUN = "run:"
"""Before a run key, where a row is called the same: `run:payroll` is the run."""


def run_named(reference: str) -> str:
    """The run key that a name may stand for."""
    return reference.removeprefix(RUN)


def choose_orders(desk: Desk, reference: str, only: State | None = None) -> list[Order]:
    """The orders that a run key, row reference, request id or order number names. Raises `InputError`.

    `run:KEY` is a whole run for certain. `only`: of rows of several runs that are called the same, the one in this
    state is meant.
    """
    if reference.startswith(RUN):
        orders = desk.ledger.orders(run_key=run_named(reference))
    else:
        orders = desk.ledger.orders(reference=reference)
    if not orders:
        raise InputError(f"the ledger knows no order or run called {reference}")
    of_run = [order for order in orders if order.run_key == run_named(reference)]
    also = [order for order in orders if reference in (order.row_ref, order.request_id, order.order_no)]
    meant = [order for order in also if order.state is only]
    if len(also) > 1 and len(meant) == 1 and not of_run:
        return meant
    if len(also) > 1 or (also and len(of_run) > 1):
        listed = ", ".join(f"{order.row_ref} of run {order.run_key} ({order.request_id})" for order in also[:5])
        run = f"the run {reference} (run:{reference}), " if of_run else ""
        raise InputError(f"{reference} names several things: {run}{listed}; give a request id or run:KEY")
    return orders


def _recovered(desk: Desk, reference: str) -> list[Order]:
    """The orders that a name stands for; what a dead process left `sending` of them is unknown from here on."""
    orders = choose_orders(desk, reference)
    return choose_orders(desk, reference) if desk.recover(orders) else orders


def releasable(desk: Desk, reference: str, kind: str | None) -> list[Order]:
    """The held orders that `release` is about, of this kind if one is given. Raises `InputError`."""
    wanted = None if kind is None else _kind(kind)
    orders = [order for order in choose_orders(desk, reference, State.HELD) if order.state is State.HELD]
    if not orders:
        raise InputError(f"nothing of {reference} is held")
    if all(order.hold_kind == Hold.CHANGED for order in orders):
        raise InputError(
            f"{reference} was changed in the ledger by hand: it cannot be released; treasury cancel ends it if it "
            "never left, treasury resolve says what became of it"
        )
    if all(order.hold_kind in NEVER_RELEASED for order in orders):
        raise InputError(
            f"the service knows what is held of {reference}: it cannot be released; treasury resolve --as sent says "
            "that it was sent, once somebody has looked, --as failed that it never acted, and never will"
        )
    return [order for order in orders if order.hold_kind not in NEVER_RELEASED and wanted in (None, order.hold_kind)]


def release_orders(
    desk: Desk, reference: str, kind: str | None, proof: Proof | None = None, /, *, by: str = "", why: str
) -> list[Decision]:
    """Let held orders be sent at the next start of their run, on a person's word. Raises `InputError`.

    `proof`: where people are listed, the key of somebody who did not make the run, or a token of it. Orders that were
    held because the ledger is older than the service are queried twice before they are sent.
    """
    check_known(desk)
    decisions = []
    with _held(desk, orders := releasable(desk, reference, kind)):
        word = word_about(desk, Verb.RELEASE, reference, orders, by=by, why=why, proof=proof)
        for order, own in [(order, said(desk, word, order)) for order in orders]:
            released = desk.ledger.write(partial(_release, ledger=desk.ledger, order=order, word=own))
            decisions.append(Decision(released, True, _RELEASED.get(order.hold_kind or "", _MAY_BE_SENT)))
    return decisions


def _release(connection: Connection, ledger: Ledger, order: Order, word: Word) -> Order:
    serialize(connection)  # Race: an epoch that begins at the same moment holds it, or has it asked about
    needed = absences_needed(connection, ledger.now())
    facts: dict[str, Any] = {"hold_kind": None, "reason": None, "absences_needed": needed, "absent_since": None}
    facts |= {"released": _kinds_released(order)}
    if order.hold_kind == Hold.LIMIT:  # a limit is never waived, so nothing of its run leaves unjudged
        judge_anew(connection, ledger, order.run_key)
    return ledger.step(order, Event.RELEASE, cause=word.cause, word=word, **facts)


def _kinds_released(order: Order) -> str | None:
    """The kinds of hold that a person released an order from, with the one that it has now."""
    return " ".join(filter(None, (order.released, order.hold_kind))) or None


_MAY_BE_SENT = "released: it is sent at the next start of its run"
_RELEASED: Mapping[str, str] = {
    Hold.LIMIT.value: "released: at the next start of its run it is judged again, and sent if it fits then",
    Hold.OLDER.value: "released: from the next start of its run on it is asked about twice, and sent if unknown",
}


def resolve_as_sent(
    desk: Desk, reference: str, proof: Proof | None = None, /, *, by: str = "", why: str
) -> list[Decision]:
    """Record orders as sent, on a person's word, where the amounts agree. Raises `InputError`."""
    check_known(desk)
    orders = takeable(desk, reference)
    alone = all(order.run_key != reference for order in orders)
    with _held(desk, orders):
        word = word_about(desk, Verb.SENT, reference, orders, by=by, why=why, proof=proof)
        return _each(orders, lambda order: _as_sent(desk, order, said(desk, word, order), alone=alone))


def _each(orders: list[Order], decide: Callable[[Order], Decision]) -> list[Decision]:
    """Decide about one order after the other. One that moved while it was looked at needs another token."""
    decisions = []
    for order in orders:
        try:
            decisions.append(decide(order))
        except InputError as error:
            if not decisions:
                raise
            decisions.append(Decision(order, False, str(error)))
    return decisions


def takeable(desk: Desk, reference: str) -> list[Order]:
    """The orders that may be resolved as sent. Raises `InputError`."""
    orders = [order for order in _recovered(desk, reference) if _may_be_sent(order)]
    if not orders:
        raise InputError(
            f"nothing of {reference} is unknown, or held because the service knows it; a row that is held for another "
            "reason never left: treasury release lets it be sent, treasury cancel ends it"
        )
    return orders


def resolve_as_not_sent(
    desk: Desk, reference: str, proof: Proof | None = None, /, *, by: str = "", why: str
) -> list[Decision]:
    """Record orders as not sent, on a person's word, unless the service shows them. Raises `InputError`."""
    check_known(desk)
    orders = sendable_again(desk, reference)
    with _held(desk, orders):
        word = word_about(desk, Verb.NOT_SENT, reference, orders, by=by, why=why, proof=proof)
        return _each(orders, lambda order: _as_not_sent(desk, order, said(desk, word, order)))


def sendable_again(desk: Desk, reference: str) -> list[Order]:
    """The orders that may be resolved as not sent. Raises `InputError`."""
    chosen = _recovered(desk, reference)
    if any(order.hold_kind == Hold.CHANGED for order in chosen):
        raise InputError(
            f"{reference} was changed in the ledger by hand, so it is never sent: treasury cancel ends it if it never "
            "left; what left is resolved as sent, settled or failed"
        )
    orders = [each for each in chosen if _may_be_sent(each) or each.is_on_a_persons_word or is_used_up(desk, each)]
    if not orders and any(order.state is State.HELD for order in chosen):
        raise InputError(
            f"{reference} is held, not on its way: treasury release lets it be sent, treasury cancel ends it for ever"
        )
    if not orders:
        raise InputError(f"nothing of {reference} is unknown; what never left: treasury cancel ends it for ever")
    return orders


def decided_word(desk: Desk, purpose: Verb, reference: str, *, kind: str | None = None, detail: str = "") -> Word:
    """Return the decision that a person would sign about these orders. Raises `InputError`."""
    check_known(desk)
    if purpose is Verb.RELEASE:
        orders = releasable(desk, reference, kind)
    elif purpose is Verb.SENT:
        orders = takeable(desk, reference)
    else:
        ending = State.SETTLED if purpose is Verb.SETTLED else State.FAILED
        orders = sendable_again(desk, reference) if purpose is Verb.NOT_SENT else endable(desk, reference, ending)
    return word_about(desk, purpose, reference, orders, detail=detail)


def is_used_up(desk: Desk, order: Order) -> bool:
    """Tell whether an order waits because all its generations of quotes are used up."""
    if order.state is not State.PREPARED or order.generation < MAX_GENERATIONS:
        return False
    quote = last_quote(desk.ledger, order)
    return quote is not None and quote.stage == "done"


def _may_be_sent(order: Order) -> bool:
    return order.state is State.UNKNOWN or (order.state is State.HELD and order.hold_kind in NEVER_RELEASED)


def resolve_as_ended(
    desk: Desk,
    reference: str,
    ending: State,
    order_no: str | None,
    proof: Proof | None = None,
    /,
    *,
    by: str = "",
    why: str,
) -> list[Decision]:
    """Record one order as settled or failed, on a person's word, when the service never shows its end.

    Raises `InputError` when it is not one order, or not one that left.
    """
    check_known(desk)
    orders = endable(desk, reference, ending)
    purpose = Verb.SETTLED if ending is State.SETTLED else Verb.FAILED
    with _held(desk, orders):
        detail = order_no or ""
        word = word_about(desk, purpose, reference, orders, by=by, why=why, proof=proof, detail=detail)
        return [_as_ended(desk, orders[0], ending, order_no, said(desk, word, orders[0]))]


def endable(desk: Desk, reference: str, ending: State) -> list[Order]:
    """The one order that may be resolved as settled or failed. Raises `InputError`."""
    orders = _recovered(desk, reference)
    if len(orders) > 1:
        raise InputError(f"{reference} names {len(orders)} orders: an end is said of one at a time, by its request id")
    if orders[0].hold_kind == Hold.KNOWN and ending is State.SETTLED:
        raise InputError(
            f"{reference} is held because the service knows it: first treasury resolve {reference} --as sent, and its "
            "end after that; --as failed ends it if it never will be paid"
        )
    never_left = orders[0].state is State.HELD and orders[0].hold_kind not in NEVER_RELEASED
    if never_left or orders[0].state is State.PREPARED:
        raise InputError(
            f"{reference} is {orders[0].state.outcome.replace('_', ' ')}, not on its way: treasury cancel ends it, "
            "treasury release lets what is held be sent"
        )
    return orders


def _as_ended(desk: Desk, order: Order, ending: State, order_no: str | None, word: Word) -> Decision:
    cause = word.cause
    try:
        if order.hold_kind == Hold.KNOWN:
            if (why_not := _may_be_paid(desk, order, word)) is not None:
                return why_not
        else:
            order = desk.submission.ask(order)
    except (NotConnected, OutcomeUnknown, Refused) as error:
        return Decision(order, False, f"the service could not be asked ({error}); try again")
    if order.state not in STEPS[Event.RESOLVE_SETTLED].sources:
        return Decision(order, order.state is ending, f"the service shows it: {order.state.outcome}")
    if ending is State.FAILED and was_paid(order):  # else it could be paid once more
        return Decision(order, False, "the service shows that it was paid, with other amounts: --as settled says so")
    if order_no is not None and order.order_no not in (None, order_no):
        return Decision(order, False, f"the service shows it as order {order.order_no}, not {order_no}: look again")
    event = Event.RESOLVE_SETTLED if ending is State.SETTLED else Event.RESOLVE_FAILED
    facts = {"reason": f"{ending.outcome} on a person's word, not confirmed by the service: {cause}", "hold_kind": None}
    ended = desk.ledger.step(order, event, cause=cause, word=word, order_no=order.order_no or order_no, **facts)
    is_named = CATALOGUE[ended.operation].absence_is_evidence  # of others that it does not know, nobody says a word
    named = "until the service agrees" if is_named else "if the service shows it otherwise"
    return Decision(ended, True, f"{ending.outcome} on your word; the reconciliation names it {named}")


def _as_sent(desk: Desk, order: Order, word: Word, *, alone: bool) -> Decision:
    try:
        order = _where_paid(desk, order)
        seen = desk.submission.query(order)
    except (NotConnected, OutcomeUnknown, Refused) as error:
        return Decision(order, False, f"the service could not be asked ({error}); try again")
    if seen is None and not alone:
        return Decision(
            order, False, "the service shows no such order; resolve it by its own reference if you are sure"
        )
    if seen is not None and not desk.submission.shows_payment(order, seen):
        return Decision(order, False, "the service shows its quote, and no payment yet; try again when it does")
    differs = [] if seen is None else disagreements(order, seen)
    if differs:
        how = "it stays as it is"
        if order.state is State.UNKNOWN:
            ways = "--as settled" if was_paid(order) else "--as settled, or --as failed"
            how += f"; once you know how it ended: treasury resolve {order.request_id} {ways}"
        elif order.operation == CONVERSION:
            how = "another conversion: treasury cancel ends this one"
        return Decision(order, False, f"{'; '.join(differs)}: {how}")
    unseen = f"the service does not show it: {how_it_ends(order.request_id)}" if seen is None else None
    facts: dict[str, Any] = {
        "reason": unseen,
        "hold_kind": None,
        "first_answer": None,
        "released": _kinds_released(order),
    }
    order = desk.ledger.step(order, Event.RESOLVE_SENT, cause=word.cause, word=word, **facts)
    if seen is not None:
        order = desk.submission.apply(order, seen)[0]
    return Decision(order, True, "; ".join(filter(None, (f"taken over: {order.state.outcome}", unseen))))


def _where_paid(desk: Desk, order: Order) -> Order:
    """Hold a quoted order under the quote that the service shows as paid; return it unchanged if there is none."""
    if order.operation not in QUOTED or order.request_id == order.confirmation:
        return order
    paid = desk.submission.paid_at_service(order)
    return order if not paid or order.generation in paid else desk.submission.hold_found(order, paid, "looked at")


def _as_not_sent(desk: Desk, order: Order, word: Word) -> Decision:
    if order.state is State.PREPARED:  # its quotes are used up
        return _end(desk, order, word)
    try:
        why_not = _may_be_paid(desk, order, word)
    except (NotConnected, OutcomeUnknown, Refused) as error:
        return Decision(order, False, f"the service could not be asked ({error}); try again")
    if why_not is not None:
        return why_not
    quote = last_quote(desk.ledger, order)
    if quote is not None and quote.generation >= MAX_GENERATIONS:
        return _end(desk, order, word)
    return _send_again(desk, order, word)


def _may_be_paid(desk: Desk, order: Order, word: Word) -> Decision | None:
    """Ask about every reference of an order; say why nobody can say yet that it was not paid, None where one can."""
    found = desk.submission.query_all_references(order)
    paid = {each: seen for each, seen in found.items() if desk.submission.shows_payment(order, seen)}
    if paid:
        return _is_paid(desk, order, paid, word.cause)
    quote, now = last_quote(desk.ledger, order), desk.ledger.now()
    rules = desk.settings.evidence(desk.account.rules)
    if quote is None or has_ended(quote, now, desk.client.service_now(), rules):
        return None
    end = datetime.fromtimestamp(max(certain_end(quote, rules), now) / 1000, UTC)
    says = f"its quote may still be confirmed until {end:%Y-%m-%dT%H:%M:%SZ}; say it again after that"
    return Decision(order, False, says)


def _is_paid(desk: Desk, order: Order, paid: dict[int, SeenOrder], cause: str) -> Decision:
    """Record the payment that the service shows, although the person says there is none; send nothing."""
    generation = order.generation if order.generation in paid else max(paid)
    if generation != order.generation and order.state is not State.ACCEPTED:
        order = desk.submission.hold_found(order, paid, cause)
        return Decision(order, False, "the service shows it paid under another quote: --as sent takes it over")
    if order.state is State.HELD:
        return Decision(order, False, "the service shows it: --as sent takes it over, and it is followed to its end")
    order = desk.submission.apply_under(order, generation, paid[generation])
    return Decision(order, False, f"the service shows it: {order.state.outcome}; it is not sent again")


def _send_again(desk: Desk, order: Order, word: Word) -> Decision:
    # Race: the service may show it between now and the next start, which therefore queries once more.
    facts: dict[str, Any] = {"hold_kind": None, "reason": None, "absent_since": None, "order_no": None, "status": None}
    facts |= {"absences_needed": ON_A_PERSONS_WORD}
    quote = last_quote(desk.ledger, order)
    says = "it is sent at the next start of its run"
    if quote is not None:
        facts |= {"first_answer": None, "confirmation": None, "doubtful": False}
        says = "one more quote is asked for at the next start of its run"

    def work(connection: Connection) -> Order:
        finish_quote(desk.ledger, quote, "a person says that it was not confirmed")
        judged = judge_by_policy(connection, desk.ledger, order)
        return desk.ledger.step(order, Event.RESOLVE_NOT_SENT, cause=word.cause, word=word, **facts, **judged)

    return Decision(desk.ledger.write(work), True, says)


def _end(desk: Desk, order: Order, word: Word) -> Decision:
    reason = f"ended by a person after {MAX_GENERATIONS} quotes; it may be paid in a new run"
    facts = {"reason": reason, "hold_kind": None}
    ended = desk.ledger.step(order, Event.RESOLVE_REJECTED, cause=word.cause, word=word, **facts)
    return Decision(ended, True, "ended as rejected; it may be paid in a new run")


@contextmanager
def _held(desk: Desk, orders: list[Order]) -> Iterator[None]:
    """Hold the runs of these orders, so that nobody sends them meanwhile. Raises `RunHeld`."""
    with ExitStack() as runs:
        for run_key in sorted({order.run_key for order in orders}):
            runs.enter_context(desk.hold(run_key))
        yield


def _kind(text: str) -> Hold:
    for kind in Hold:
        if text.strip().lower() in (kind.value, kind.in_words):
            return kind
    raise InputError(f"no hold is of kind {text}; kinds: {', '.join(kind.value for kind in Hold)}")
