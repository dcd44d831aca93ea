"""Queries the service about orders and records the answers. Sends nothing that moves money."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from treasury.concurrency.crash_points import crash_point
from treasury.errors import IllegalTransition, Refused
from treasury.ledger.debits import CONVERSION
from treasury.ledger.epoch import is_from_before
from treasury.ledger.evidence import saw_status
from treasury.ledger.ledger import Ledger
from treasury.ledger.quotes import MAX_GENERATIONS, last_quote, reference_of
from treasury.money import exact
from treasury.orders.payment_decisions import (
    COUNTED,
    EvidenceRules,
    Next,
    QueryResult,
    as_paid,
    disagreements,
    goes_elsewhere,
    is_record_of,
    judge_absence,
    judge_query,
)
from treasury.orders.quoting import QUOTED, asked_facts
from treasury.orders.records import ON_A_PERSONS_WORD, Order, Quote
from treasury.orders.states import NOT_AT_SERVICE, OPEN, Event, Hold, State, event_for
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.client import Client
from treasury.provider.operation import Reply, SeenOrder
from treasury.provider.refusals import DOUBLE_PAYMENT
from treasury.provider.service_rules import EMPTY, is_empty
from treasury.provider.status import OrderStatus
from treasury.sending.witnesses import Witnesses
from treasury.texts import with_person


class ShownOrder(NamedTuple):
    """The service's record of an order."""

    seen: SeenOrder | None
    """None when the service knows no such order."""
    reply: Reply | None
    """The reply that `seen` was read from. It may be large."""


NOT_SHOWN = ShownOrder(None, None)


class Inquiry:
    """Asks the service about orders of one account, and records what it shows."""

    def __init__(self, client: Client, ledger: Ledger, rules: EvidenceRules) -> None:
        self._client = client
        self._ledger = ledger
        self._rules = rules
        self._witnesses = Witnesses(ledger, self._finds)

    def _finds(self, order: Order) -> bool:
        return self.query_reference(order.operation, order.asked_as, order.confirmation, order.order_no) is not None

    def ask(self, order: Order) -> Order:
        """Ask the service what became of an order and record the answer.

        Raises `NotConnected`, `Refused` or `OutcomeUnknown` when the question itself could not be answered.
        """
        began = self._ledger.now()
        return self.apply(order, self.query(order), began)[0]

    def query(self, order: Order) -> SeenOrder | None:
        """Return what the service shows of an order; None when it knows no such order. Changes nothing."""
        return self.query_with_reply(order).seen

    def query_reference(
        self, operation: str, request_id: str, confirmation: str | None = None, order_no: str | None = None
    ) -> SeenOrder | None:
        """Return what the service shows under a request id of this operation; None when it knows none."""
        return self.query_reference_with_reply(operation, request_id, confirmation, order_no).seen

    def query_with_reply(self, order: Order) -> ShownOrder:
        """Query an order as `query` does; return the reply itself, too."""
        return self._query(order, order.asked_as, order.confirmation, order.order_no)

    def _query(
        self, order: Order, request_id: str, confirmation: str | None = None, order_no: str | None = None
    ) -> ShownOrder:
        crash_point("ask.before")
        seen, reply = self.query_reference_with_reply(order.operation, request_id, confirmation, order_no)
        crash_point("ask.answered")
        if seen is None:
            return NOT_SHOWN
        return ShownOrder(self._ledger.as_kept(order, as_paid(seen, order, self._rules.service)), reply)

    def query_reference_with_reply(
        self, operation: str, request_id: str, confirmation: str | None = None, order_no: str | None = None
    ) -> ShownOrder:
        """Query as `query_reference` does; return the reply itself, too."""
        service, asked = self._rules.service, CATALOGUE[operation]
        question = service.question(asked, request_id, confirmation, order_no)
        try:
            reply = self._client.read(question)
        except Refused as refusal:
            if service.says_no_such_order(refusal):
                return NOT_SHOWN
            raise
        if service.says_no_such_order(reply):
            return NOT_SHOWN
        if is_empty(reply):  # it does not show whether there is such an order
            raise Refused(question.operation_name(), 200, EMPTY, "an empty record")
        seen = service.read(asked, reply.as_order())
        return ShownOrder(self._with_owner(operation, request_id, order_no, seen), reply)

    def _with_owner(self, operation: str, request_id: str, order_no: str | None, seen: SeenOrder) -> SeenOrder:
        """Put the request id of another order into an answer that shows that one's number: it is the other's record.

        A service may count the orders of each operation by themselves. `order_no`: the number of the order that was
        asked about, if known.
        """
        if seen.order_no in (None, order_no) or CATALOGUE[operation].confirms_quote:
            return seen
        owner = self._ledger.numbered(operation, str(seen.order_no), besides=request_id)
        return seen if owner is None else replace(seen, request_id=owner)

    def query_all_references(self, order: Order) -> dict[int, SeenOrder]:
        """Return what the service shows under every reference that this payment may ever have had, by generation."""
        if order.operation not in QUOTED or order.request_id == order.confirmation:
            seen = self.query(order)
            return {} if seen is None else {order.generation: seen}
        found = {}
        quotes = {quote.generation: quote.quote for quote in self._ledger.quotes([order.id])}
        for generation in range(1, MAX_GENERATIONS + 1):
            seen = self._query(order, reference_of(self._ledger, order, generation), quotes.get(generation)).seen
            if seen is not None:
                found[generation] = seen
        return found

    def why_it_may_act(self, order: Order) -> str | None:
        """Say why an order that was sent, and that the service does not show, may act still; None where it never will.

        A request that is held up on its way may be read until its signature is too old.
        """
        end = (order.sent_at or 0) + int(self._rules.resend_after_seconds * 1000)
        if self._ledger.now() < end:
            at = datetime.fromtimestamp(end / 1000, UTC)
            return f"it was sent, and may be on its way until {at:%Y-%m-%dT%H:%M:%SZ}: cancel it after that"
        if not CATALOGUE[order.operation].absence_is_evidence:
            return "it was sent, and that the service does not show it says nothing"
        return self._witnesses.doubt(order.operation)

    def known_at_service(self, order: Order, *, everywhere: bool = True) -> dict[int, SeenOrder]:
        """Return what the service shows of an order that this ledger has not sent, by generation; normally nothing.

        `everywhere`: ask under every reference that the order may ever have had, not only its present one. A quote that
        this ledger asked for itself is left out, unless the ledger may be older than the service.
        """
        if everywhere:
            found = self.query_all_references(order)
        else:
            seen = self.query(order)
            found = {} if seen is None else {order.generation: seen}
        if not found or order.operation not in QUOTED:
            return found
        if order.absences_needed == ON_A_PERSONS_WORD:
            return {each: seen for each, seen in found.items() if self.shows_payment(order, seen)}
        expected = {order.generation} if order.request_id == order.confirmation else set()
        if order.absences_needed <= 1:
            quotes = self._ledger.quotes([order.id])
            expected |= {each.generation for each in quotes if each.asks and not self.is_from_before(each)}
        return {
            generation: seen
            for generation, seen in found.items()
            if generation not in expected or self.shows_payment(order, seen)
        }

    def is_from_before(self, quote: Quote) -> bool:
        """Return True for a quote from before the ledger was found to be older: it may have been confirmed since."""
        return self._ledger.look(lambda connection: is_from_before(connection, quote.created_at))

    def shows_payment(self, order: Order, seen: SeenOrder) -> bool:
        """Tell whether the service certainly shows a payment, and not only an unused quote."""
        return order.operation not in QUOTED or (seen.status is not None and seen.status.is_payment)

    def hold_found(self, order: Order, found: Mapping[int, SeenOrder], cause: str) -> Order:
        """Hold an order that the service shows under these generations."""
        paid = [generation for generation, seen in found.items() if self.shows_payment(order, seen)]
        generation = max(paid or found)  # an earlier quote may have been replaced by the last one
        return self.hold_known(order, generation, found[generation], cause)

    def hold_known(self, order: Order, generation: int, seen: SeenOrder, cause: str) -> Order:
        """Hold an order that the service knows under this generation and this ledger did not send: a person decides."""
        reference = reference_of(self._ledger, order, generation)
        ours = "this ledger took it for not sent" if order.sends else "this ledger did not send it"
        reason = (
            f"the service knows {reference}, and {ours}: if it was paid, treasury resolve {reference} --as sent; "
            f"if its support says that it never will be, treasury resolve {reference} --as failed, or --as not-sent to "
            "send it again"
        )
        if order.operation == CONVERSION and (differs := disagreements(order, seen)):
            reason = (
                f"the service made another conversion under {reference} ({'; '.join(differs)}), and {ours}: treasury "
                f"cancel {reference} ends this one"
            )
        facts = {**self._under(order, generation), "hold_kind": Hold.KNOWN, "reason": reason}
        if self.shows_payment(order, seen):
            numbered = is_record_of(replace(order, request_id=reference), seen)
            facts |= {"status": seen.status} | ({"order_no": seen.order_no} if numbered else {})
        if order.state is State.HELD:  # under another quote; who decides about it now is journaled with the decision
            return self._ledger.note(order, unmoved=True, **facts)
        return self._ledger.step(order, Event.HOLD, cause=cause, **facts)

    def apply_under(self, order: Order, generation: int, seen: SeenOrder) -> Order:
        """Record what is shown under this generation of an order that a person said was sent."""
        return self.apply(self._ledger.note(order, unmoved=True, **self._under(order, generation)), seen)[0]

    def _under(self, order: Order, generation: int) -> dict[str, Any]:
        """An order's columns under another generation: the amounts of the quote known so far do not belong to it."""
        named = {"generation": generation, "request_id": reference_of(self._ledger, order, generation)}
        asked = None if generation == order.generation else self._ledger.kept_payload(order)
        return named if asked is None else named | asked_facts(asked)

    def apply(self, order: Order, seen: SeenOrder | None, began: int | None = None) -> tuple[Order, Next]:
        """Record the result of a query. Returns the order after it, and what may be done next.

        `began`: when the question began to be asked, Unix ms; an absence is evidence of that moment, not of now.
        """
        result = judge_query(order, seen, self._rules)
        if result is QueryResult.ABSENT:
            shown = "a quote that was not confirmed" if seen is not None else "no such order"
            return self._apply_absence(order, f"the service knows {shown}", began)
        assert seen is not None
        if result is QueryResult.UNDECIDED:
            return self._apply_undecided(order, seen), Next.WAIT
        order = self._apply_shown(order, seen, "a query")
        crash_point("apply.recorded")
        return order, Next.WAIT

    def is_current(self, order: Order, seen: SeenOrder | None) -> bool:
        """Tell whether a query of a final order showed only what the ledger holds already."""
        if seen is None or not order.state.is_final or disagreements(order, seen):
            return False
        facts = _seen_facts(order, seen) | {"reason": seen.reason}
        known = all(getattr(order, name) == value for name, value in facts.items())
        return known and event_for(order.state, seen.status) is None

    def _apply_absence(self, order: Order, why: str, began: int | None) -> tuple[Order, Next]:
        now = self._ledger.now()
        began = now if began is None else min(began, now)
        facts: dict[str, Any] = {"asked_at": now}
        refused = order.first_answer in self._rules.service.asked_first
        if order.is_on_a_persons_word:
            facts["reason"] = f"{why}: {how_it_ends(order.request_id)}"
        elif not refused and order.state not in NOT_AT_SERVICE:  # why it was refused, held or ended says more
            took = order.state is State.ACCEPTED and not CATALOGUE[order.operation].absence_is_evidence
            facts["reason"] = f"{why}: {HOW_FOUND}" if took else why
        if order.state is not State.UNKNOWN:
            return self._ledger.note(order, unmoved=True, **facts), Next.WAIT
        quote = last_quote(self._ledger, order) if order.operation in QUOTED else None
        service_now = self._client.service_now()
        began_there = None if service_now is None else service_now - (now - began)
        # Race: somebody else may have counted an absence while this question was on its way, or its answer in a group.
        following = judge_absence(order, quote, began, began_there, self._rules)
        if following in COUNTED and (doubt := self._witnesses.doubt(order.operation)) is not None:
            if not refused:
                facts["reason"] = doubt
            return self._ledger.note(order, unmoved=True, **facts), Next.WAIT
        if following is Next.REJECT and quote is None:
            return self.reject(order, **facts), Next.WAIT
        if following is Next.COUNT:
            facts["absent_since"] = now
        if following is Next.PERSON:
            if order.first_answer == DOUBLE_PAYMENT:
                why = "the service says that it knows this reference (202224) and shows no order"
            told = (
                f"ask its support; if it was paid, treasury resolve {order.request_id} --as sent; if it never will be, "
                f"treasury resolve {order.request_id} --as not-sent{WHO_SAYS}"
            )
            said = (order.reason or why).partition(f": {told}")[0] if refused else why
            facts["reason"] = f"{said}: {told}"
        order = self._ledger.note(order, unmoved=True, **facts)
        crash_point("absence.recorded")
        return order, following

    def reject(self, order: Order, **facts: Any) -> Order:
        """Reject a refused order after two queries found nothing."""
        cause = "refused, and two queries found nothing"
        return self._ledger.step(order, Event.REJECT, cause=cause, code=order.first_answer, **facts)

    def paid_at_service(self, order: Order) -> dict[int, SeenOrder]:
        """Certain payments under any reference that this order may ever have had, by generation."""
        return {
            each: seen for each, seen in self.query_all_references(order).items() if self.shows_payment(order, seen)
        }

    def why_not_instead(self, order: Order) -> tuple[str, bool] | None:
        """Why an order must not leave now: the one that it replaces may have been paid after all.

        Asks about that one and records the answer. Returns the reason, and whether a person has to decide; None when
        it certainly was not paid.
        """
        named = order.replaces
        old = None if named is None else self._ledger.order_named(named)
        if old is None:
            return f"{named}, which it replaces, is not in this ledger", True
        found = self.query_all_references(old)
        if old.generation in found:
            with suppress(IllegalTransition):  # Race: somebody else records the same answer
                old = self.apply(old, found[old.generation])[0]
        unpaid = (OrderStatus.FAILED, OrderStatus.CLOSED)
        shown = [seen for seen in found.values() if seen.status not in unpaid and self.shows_payment(old, seen)]
        if shown or not old.state.may_be_replaced:
            status = old.state.outcome if not shown or shown[0].status is None else f"status {int(shown[0].status)}"
            said = (
                f"{named}, which it replaces, is shown with {status}, so it may have been paid: treasury cancel ends "
                "this one; treasury release lets it be asked about again"
            )
            return said.replace("_", " "), True
        if not found and (doubt := self._witnesses.doubt(old.operation)) is not None:
            return doubt, False
        if not found and (old.order_no is not None or old.status is not None):
            return f"{named}, which it replaces, was shown by the service, which does not show it any more", True
        return None

    def _apply_undecided(self, order: Order, seen: SeenOrder) -> Order:
        """Record that the service shows a quote which may or may not have been confirmed: neither absent nor paid."""
        status = "no status" if seen.status is None else f"status {int(seen.status)}"
        reason = (
            f"the service shows its quote with {status}, which it may use for a quote and for a payment: nobody knows "
            "whether it was confirmed. It is asked about at every start and every night; once the service's support "
            f"says that it was not confirmed: treasury resolve {order.request_id} --as not-sent{WHO_SAYS}"
        )
        facts = {"absent_since": None, "reason": reason} if order.state is State.UNKNOWN else {}
        return self._ledger.note(order, unmoved=True, asked_at=self._ledger.now(), **facts)

    def _apply_shown(self, order: Order, seen: SeenOrder, where: str) -> Order:
        """Record what the service shows of an order, if it agrees with what was asked; otherwise record the
        difference."""
        if (held := self._hold_instead(order, seen, where)) is not None:
            return held
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
        taken_over = _amounts_taken_over(order, seen, fee_on_top=self._rules.service.fee_on_top)
        facts |= {**taken_over, "reason": seen.reason, "absent_since": None}
        if order.operation in QUOTED and seen.status is not None:
            saw_status(self._ledger, order.operation, seen.status)
        event = event_for(order.state, seen.status)
        if event is None:
            return self._ledger.note(order, unmoved=True, **facts)
        return self._ledger.step(order, event, cause=where, **facts)

    def _hold_instead(self, order: Order, seen: SeenOrder, where: str) -> Order | None:
        """Hold an order that is shown though it was not sent, or that goes elsewhere than was asked for; else None."""
        if order.state is State.PREPARED or (order.state is State.UNKNOWN and order.first_answer == DOUBLE_PAYMENT):
            return self.hold_known(order, order.generation, seen, where)
        if order.state in OPEN and self._goes_elsewhere(order, seen):
            return self._hold_elsewhere(order, seen, where)
        return None

    def _goes_elsewhere(self, order: Order, seen: SeenOrder) -> bool:
        is_withdrawal = CATALOGUE[order.operation].limited_by == "withdrawals"
        if not is_withdrawal or Hold.KNOWN in (order.released or "").split():
            return False  # whoever resolved it as sent has looked where it goes
        asked = self._ledger.kept_payload(order)
        return asked is not None and goes_elsewhere(asked, seen)

    def _hold_elsewhere(self, order: Order, seen: SeenOrder, where: str) -> Order:
        """Hold a withdrawal that the service sends to another address or tag than was asked for: a person decides."""
        cause, name = f"{where} shows another address or tag than was asked for", order.request_id
        reason = (
            f"{cause}: ask its support where it goes; if it was paid as asked, treasury resolve {name} --as sent; "
            f"if its support says that it never will be, treasury resolve {name} --as failed"
        )
        facts = {**_seen_facts(order, seen), "reason": reason}
        if order.state is not State.UNKNOWN:
            doubted = Event.LOSE if order.state is State.SENDING else Event.DISPUTE
            order = self._ledger.step(order, doubted, cause=cause, **facts)
        return self._ledger.step(order, Event.HOLD, cause=cause, hold_kind=Hold.KNOWN, **facts)


WHO_SAYS = with_person(", with --by NAME", is_listed=None) + " and --why TEXT"
"""Ends a command in a reason: the reason is kept, and another policy may be in force when somebody reads it."""


HOW_FOUND = "if it stays so, treasury doctor --prove says what finds a conversion here (conversion_found_by)"
"""Ends the reason of a conversion that the service took, and that its query does not show."""


def how_it_ends(request_id: str) -> str:
    """Say how a person ends an order that is in progress on a person's word, and that the service never shows."""
    return (
        "it stays in progress until the service shows it, or you know its end: "
        f"treasury resolve {request_id} --as settled, --as failed, or --as not-sent{WHO_SAYS}"
    )


def _seen_facts(order: Order, seen: SeenOrder) -> dict[str, Any]:
    """Columns that the service's answer adds. The amounts that were asked for are not replaced.

    Of the record of another order only that there was one: by its number that order's next answer would pass for ours.
    """
    if not is_record_of(order, seen):
        return {} if seen.status is None else {"status": seen.status}
    facts: dict[str, Any] = {
        "order_no": seen.order_no if order.order_no is None else None,  # a later one is reported, not adopted
        "status": seen.status,
        "rate": seen.rate,
    }
    # A fee without its currency never replaces a quoted one.
    if order.fee is None or seen.fee_currency is not None or order.operation not in QUOTED:
        facts |= {"fee": seen.fee, "fee_currency": seen.fee_currency}
    if order.told_fee is None and seen.fee is not None:
        facts |= {"told_fee": seen.fee, "told_fee_currency": seen.fee_currency}
    return {name: value for name, value in facts.items() if value is not None}


@exact
def _amounts_taken_over(order: Order, seen: SeenOrder, fee_on_top: Collection[str]) -> dict[str, Any]:
    """Return amounts that this ledger does not know, of an answer that agrees with all it knows; else it would agree
    with itself the next time.

    A success whose debit nobody knew beforehand (scan-to-pay) counts in its day at what it debited, fee included.
    """
    facts: dict[str, Any] = {}
    is_unpriced = order.amount is None and order.operation not in QUOTED and seen.currency == order.currency
    if is_unpriced and seen.status is OrderStatus.SUCCESS and seen.amount is not None:
        on_top = order.operation in fee_on_top and seen.fee_currency in (None, order.currency)
        facts["ceiling"] = seen.amount + ((seen.fee or 0) if on_top else 0)
    taken_over = order.amount is None and order.confirmation is None and order.operation in QUOTED
    if taken_over and seen.amount is not None:  # paid under a quote that this ledger does not know
        facts |= {"amount": seen.amount, "currency": seen.currency}
    if order.receive_amount is None and seen.receive_amount is not None:
        facts |= {"receive_amount": seen.receive_amount, "receive_currency": seen.receive_currency}
    return {name: value for name, value in facts.items() if value is not None}
