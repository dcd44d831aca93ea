"""The only code that sends an operation that moves money. The design's seven rules, in the order they happen.

One order goes through here top to bottom; any number may do so at once, in threads or taking turns. Whoever calls
holds the run. A process may die at any instant: what is in the ledger then is enough to go on.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from treasury.crashpoints import point
from treasury.decisions import Bounds, as_paid, disagreements, may_send_again, quote_problem
from treasury.errors import NotConnected, OutcomeUnknown, Refused
from treasury.interface.catalogue import CATALOGUE
from treasury.interface.client import Client
from treasury.interface.operation import Operation, SeenOrder
from treasury.interface.refusals import Meaning, read_refusal, says_no_such_order
from treasury.ledger.ledger import Ledger
from treasury.ledger.records import Order, Quote, derive_request_id
from treasury.ledger.states import Event, State, event_for
from treasury.quoting import QUOTED, QuotedPayment, confirmed_facts
from treasury.turns import Hands

QUOTES_PER_START = 3
"""How often a quote is asked anew before its row waits for the next start."""
GENERATIONS_ASKED = 6
"""How many quotes a restored ledger may have forgotten, each under an id of its own."""
TRIES_LATER = 3
"""How often an order that is refused for a passing reason is tried in one start."""
PAUSE_SECONDS = 1.0
MOST_PAUSE_SECONDS = 30.0
MOST_WAITERS = 64
"""Orders that pause at once; more wait for their pause to begin."""


class Submission:
    """Sends orders of a held run, asks what became of them, and records every step before and after."""

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        *,
        resend_after_seconds: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._resend_after_seconds = resend_after_seconds
        self._sleep = sleep
        self._waiters = Hands(MOST_WAITERS)

    def submit(self, order: Order) -> Order:
        """Do the next right thing for one order: send it if it never left, ask if nobody knows, else nothing."""
        if order.state is State.UNKNOWN:
            order, gone = self.learn(order, self.look(order))
            if not gone:
                return order
            point("resend.decided")
            return self._transmit(order, self._operation(order), Event.RESEND)
        if order.state is not State.PREPARED:
            return order
        if order.absences_needed:
            order = self._ask_first(order)
            if order.state is not State.PREPARED:
                return order
        payload = self._ledger.payload(order)
        if "quote" in payload:
            return self._quote_then_confirm(order, payload)
        return self._send_until_heard(order, self._operation(order))

    def ask(self, order: Order) -> Order:
        """Ask the service what became of an order and record the answer. Sends nothing that moves money.

        Raises `NotConnected`, `Refused` or `OutcomeUnknown` when the question itself could not be answered.
        """
        return self.learn(order, self.look(order))[0]

    def _ask_first(self, order: Order) -> Order:
        """An order from before the ledger was restored may have been sent since: then a person has to decide."""
        for generation in range(order.generation, order.generation + GENERATIONS_ASKED):
            request_id = order.request_id
            if generation > order.generation:
                request_id = derive_request_id(
                    self._ledger.account, order.run_key, order.row_ref, order.operation, generation
                )
            seen = self.look_up(order.operation, request_id, order.confirmation)
            if seen is not None and not self._is_unconfirmed_quote(order, seen):
                reason = f"the service knows {request_id}, which this ledger has not sent since it was restored"
                return self._ledger.step(order, Event.HOLD, cause="asked first", reason=reason)
            if order.operation not in QUOTED:
                break
        return self._ledger.note(order, unmoved=True, absences_needed=0)

    # --- sending -------------------------------------------------------------------------------------------------

    def _operation(self, order: Order) -> Operation[Any]:
        payload = self._ledger.payload(order)
        if order.operation in QUOTED:
            if order.confirmation is None:
                raise AssertionError(f"order {order.request_id} has no quote to confirm")
            return QUOTED[order.operation].confirm(payload, order.confirmation)
        operation = CATALOGUE[order.operation]
        return operation(**{**payload, str(operation.reference): order.request_id})

    def _send_until_heard(self, order: Order, operation: Operation[Any]) -> Order:
        """Send; while the service refuses for a reason that passes, pause and try the same order again."""
        pause = PAUSE_SECONDS
        for left in range(TRIES_LATER, 0, -1):
            point("send.before")
            order = self._transmit(order, operation, Event.SEND)
            point("send.recorded")
            refused_for_now = order.state is State.PREPARED and order.code is not None
            if not refused_for_now or left == 1:
                break
            self._waiters.do(self._sleep, pause)
            pause = min(pause * 2, MOST_PAUSE_SECONDS)
        return order

    def _transmit(self, order: Order, operation: Operation[Any], event: Event) -> Order:
        """One transmission: marked on disk before its first byte leaves, and what came of it recorded after."""
        order = self._ledger.step(order, event, code=None, reason=None)
        point("send.marked")
        try:
            reply = self._client.send(operation)
        except NotConnected as error:
            return self._back(order, Event.NOT_CONNECTED, reason=str(error))
        except Refused as refusal:
            point("send.refused")
            return self._refused(order, refusal)
        except OutcomeUnknown as error:
            point("send.lost")
            return self._ledger.step(order, Event.LOSE, cause=error.why, reason=error.why, code=error.code)
        point("send.answered")
        return self._heard(order, reply.as_order(), "the answer to the request")

    def _back(self, order: Order, event: Event, **facts: Any) -> Order:
        """Nothing acted this time: ready again, unless an earlier transmission may have acted."""
        if order.doubtful:
            return self._ledger.step(order, Event.LOSE, **facts)
        return self._ledger.step(order, event, **facts)

    def _refused(self, order: Order, refusal: Refused) -> Order:
        facts = {"code": refusal.code or str(refusal.http_status), "reason": refusal.message or str(refusal)}
        meaning = read_refusal(refusal)
        if order.doubtful or meaning is Meaning.UNLISTED:
            return self._ledger.step(order, Event.LOSE, cause="an answer that decides nothing", **facts)
        if meaning is Meaning.NOT_NOW:
            order = self._ledger.step(order, Event.TRY_LATER, **facts)
            self._waiters.do(self._sleep, min(refusal.retry_after_seconds or 0, MOST_PAUSE_SECONDS))
            return order
        return self._ledger.step(order, Event.REJECT, **facts)

    # --- quotes --------------------------------------------------------------------------------------------------

    def _quote_then_confirm(self, order: Order, payload: dict[str, Any]) -> Order:
        """Ask for a quote and confirm it back to back, inside the approved bounds.

        A quote moves no money, so a lost or unfit one is simply followed by another, under a generation of its own.
        That ends with the first confirmation that leaves.
        """
        kind = QUOTED[order.operation]
        for _ in range(QUOTES_PER_START):
            point("quote.before")
            order, quote = self._ledger.open_quote(order)
            point("quote.committed")
            fetched = self._fetch_quote(order, quote, kind.ask(payload, quote.request_id), kind)
            if isinstance(fetched, Order):
                order = fetched
                if order.state is not State.PREPARED:
                    return order
                continue
            point("quote.recorded")
            problem = quote_problem(fetched, Bounds.from_dict(payload["bounds"]), self._ledger.now())
            if problem is not None:
                self._ledger.note_quote(fetched, note=problem)
                order = self._ledger.note(order, unmoved=True, reason=problem)
                continue
            point("confirm.before")
            order = self._ledger.note(order, unmoved=True, **confirmed_facts(fetched))
            point("confirm.noted")
            return self._send_until_heard(order, self._operation(order))
        return order

    def _fetch_quote(self, order: Order, quote: Quote, ask: Operation[Any], kind: QuotedPayment) -> Quote | Order:
        """The quote, or the order as it stands because none came."""
        asked_at = self._ledger.now()
        try:
            terms = kind.read(self._client.send(ask))
        except Refused as refusal:
            facts = {"code": refusal.code or str(refusal.http_status), "reason": refusal.message or str(refusal)}
            self._ledger.note_quote(quote, note=f"refused: {refusal}")
            meaning = read_refusal(refusal)
            if meaning is Meaning.WITHOUT_ACTING:
                return self._ledger.step(order, Event.REJECT, cause="its quote was refused", **facts)
            if meaning is Meaning.NOT_NOW:
                self._waiters.do(self._sleep, min(refusal.retry_after_seconds or PAUSE_SECONDS, MOST_PAUSE_SECONDS))
            return self._ledger.note(order, unmoved=True, **facts)
        except (NotConnected, OutcomeUnknown) as error:
            self._ledger.note_quote(quote, note=f"no answer: {error}")
            return self._ledger.note(order, unmoved=True, reason=f"no quote: {error}")
        point("quote.answered")
        return self._ledger.note_quote(quote, quote=terms.quote, expires_at=terms.expires_at(asked_at), **terms.facts)

    # --- asking --------------------------------------------------------------------------------------------------

    def look(self, order: Order) -> SeenOrder | None:
        """What the service shows of an order; None when it knows no such order. Changes nothing."""
        point("ask.before")
        seen = self.look_up(order.operation, order.request_id, order.confirmation, order.order_no)
        point("ask.answered")
        return None if seen is None else self._ledger.as_kept(order, as_paid(seen, order))

    def look_up(
        self, operation: str, request_id: str, confirmation: str | None = None, order_no: str | None = None
    ) -> SeenOrder | None:
        """What the service shows under a request id of this operation; None when it knows none."""
        question = CATALOGUE[operation].question(request_id, confirmation, order_no)
        try:
            seen: SeenOrder = self._client.read(question).as_order()
        except Refused as refusal:
            if says_no_such_order(refusal):
                return None
            raise
        return seen

    def learn(self, order: Order, seen: SeenOrder | None) -> tuple[Order, bool]:
        """Record what a look showed; the order after it, and whether there is evidence enough to send it again."""
        if seen is None:
            return self._not_there(order, "the service knows no such order")
        if self._is_unconfirmed_quote(order, seen):
            return self._not_there(order, "the service shows a quote that was not confirmed")
        order = self._heard(order, seen, "a query")
        point("learn.recorded")
        return order, False

    def knows(self, order: Order, seen: SeenOrder | None) -> bool:
        """Whether a look at an order that is at its end showed nothing that the ledger does not hold already."""
        if seen is None or not order.state.is_final or disagreements(order, seen):
            return False
        facts = _seen_facts(order, seen) | {"reason": seen.reason}
        known = all(getattr(order, name) == value for name, value in facts.items())
        return known and event_for(order.state, seen.status) is None

    def _is_unconfirmed_quote(self, order: Order, seen: SeenOrder) -> bool:
        """A query that shows a quote is not a payment, unless we know it was accepted, or its status says so."""
        if order.operation not in QUOTED or order.state is State.ACCEPTED or order.state.is_final:
            return False
        return seen.status is None or not seen.status.is_payment

    def _not_there(self, order: Order, why: str) -> tuple[Order, bool]:
        now = self._ledger.now()
        evidence = CATALOGUE[order.operation].absence_is_evidence
        if order.state is State.UNKNOWN and may_send_again(
            order, now, self._resend_after_seconds, absence_is_evidence=evidence
        ):
            return self._ledger.note(order, unmoved=True, asked_at=now, reason=why), True
        since = order.absent_since if order.absent_since is not None else now
        facts = {"absent_since": since} if order.state is State.UNKNOWN else {}
        order = self._ledger.note(order, unmoved=True, asked_at=now, reason=why, **facts)
        point("absence.recorded")
        return order, False

    def _heard(self, order: Order, seen: SeenOrder, where: str) -> Order:
        """Record what the service shows of an order: compared first, adopted only when it agrees."""
        if order.request_id == order.confirmation:
            seen = replace(seen, request_id=None)  # known here by the quote's number alone; theirs is its asker's
        facts = _seen_facts(order, seen) | {"asked_at": self._ledger.now()}
        differs = "; ".join(disagreements(order, seen))
        shows_nothing = seen.status is None and not seen.order_no
        if differs or shows_nothing:
            reason = differs or f"{where} shows no order"
            if order.state is State.SENDING:
                return self._ledger.step(order, Event.LOSE, cause=f"{where}: {reason}", **facts, reason=reason)
            if order.state is State.ACCEPTED and differs:
                return self._ledger.step(order, Event.DISPUTE, cause=f"{where}: {reason}", **facts, reason=reason)
            return self._ledger.note(order, unmoved=True, **facts, reason=reason)
        if order.state is State.PREPARED:
            # Another ledger, or this one before it was restored, sent it: only a person can tell.
            reason = "the service knows it, but it was not sent from here"
            return self._ledger.step(order, Event.HOLD, cause=where, **facts, reason=reason)
        facts |= {"reason": seen.reason, "absent_since": None}
        event = event_for(order.state, seen.status)
        if event is None:
            return self._ledger.note(order, unmoved=True, **facts)
        return self._ledger.step(order, event, cause=where, **facts)


def _seen_facts(order: Order, seen: SeenOrder) -> dict[str, Any]:
    """What the service adds to what we know; our own amounts stay as we asked them."""
    facts: dict[str, Any] = {
        "order_no": seen.order_no if order.order_no is None else None,  # another one later is news, not a correction
        "status": seen.status,
        "rate": seen.rate,
    }
    if order.fee is None or seen.fee_currency is not None:  # a fee without its currency never replaces a quoted one
        facts |= {"fee": seen.fee, "fee_currency": seen.fee_currency}
    if order.receive_amount is None and seen.receive_amount is not None:
        facts |= {"receive_amount": seen.receive_amount, "receive_currency": seen.receive_currency}
    return {name: value for name, value in facts.items() if value is not None}
