"""The only code that sends an operation that moves money: one transmission, and what came of it recorded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from treasury.concurrency.crash_points import crash_point
from treasury.errors import NotConnected, NotSentInTime, OutcomeUnknown, Refused
from treasury.ledger.ledger import Ledger
from treasury.orders.decisions import EvidenceRules
from treasury.orders.quoting import QUOTED
from treasury.orders.records import Order
from treasury.orders.states import Event, State
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.client import Client, Signed
from treasury.provider.operation import Operation
from treasury.provider.refusals import WRONG_SIGNATURE, RefusalKind
from treasury.sending.gate import Gate
from treasury.sending.inquiry import Inquiry

TRIES = 3
"""How often an order that certainly was not read is sent anew in one start."""


NO_FACTS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Sent:
    """What came of one attempt to send."""

    order: Order
    again: bool = False
    """It certainly was not read, and may be tried anew at once."""
    problem: str | None = None
    """Why it must not leave after all."""


class Transmission(Inquiry):
    """Sends orders of a held run, each time in one transmission, and records every step before and after."""

    def __init__(self, client: Client, ledger: Ledger, rules: EvidenceRules) -> None:
        super().__init__(client, ledger, rules)
        self._gate = Gate()

    def _operation(self, order: Order) -> Operation[Any]:
        payload = self._ledger.payload(order)
        if order.operation in QUOTED:
            if order.confirmation is None:
                raise AssertionError(f"order {order.request_id} has no quote to confirm")
            return QUOTED[order.operation].confirm(payload, order.confirmation)
        operation = CATALOGUE[order.operation]
        return operation(**{**payload, str(operation.reference): order.request_id})

    def _send(
        self, order: Order, problem: Callable[[], str | None] = lambda: None, facts: Mapping[str, Any] = NO_FACTS
    ) -> Sent:
        """Send a prepared order; while it certainly was not read, sign it anew and try again.

        `problem`: says why it must not leave after all, asked at the last moment. `facts`: columns of the order that
        are set with its mark.
        """
        operation = self._operation(order.changed(facts))
        for _ in range(TRIES):
            crash_point("send.before")
            sent = self._transmit(order, operation, Event.SEND, problem, facts)
            crash_point("send.recorded")
            if not sent.again:
                break
            order = sent.order
        return sent

    def _transmit(
        self,
        order: Order,
        operation: Operation[Any],
        event: Event,
        problem: Callable[[], str | None] = lambda: None,
        facts: Mapping[str, Any] = NO_FACTS,
    ) -> Sent:
        """One transmission: signed, then marked on disk, then sent; and what came of it recorded.

        A connection is free and the pace allows it before the mark, so that what is marked leaves at once.
        """
        self._gate.wait(lambda: self.query_reference(order.operation, order.request_id, order.confirmation))
        self._client.take_connection()
        try:
            why_not = problem()
            if self._gate.is_shut or why_not is not None:
                return Sent(order, again=why_not is None, problem=why_not)
            signed = self._client.sign(operation)
            order = self._ledger.step(order, event, **{"code": None, "reason": None, **facts})
            crash_point("send.marked")
            return self._exchange(order, signed)
        finally:
            self._client.give_back()

    def _exchange(self, order: Order, signed: Signed[Any]) -> Sent:
        """Send what is marked, and record what came of it."""
        try:
            reply = self._client.transmit(signed)
        except NotSentInTime as error:
            back = self._back(order, Event.NOT_IN_TIME, reason=str(error))
            return Sent(back, again=back.state is State.PREPARED)
        except NotConnected as error:
            return Sent(self._back(order, Event.NOT_CONNECTED, reason=str(error)))
        except Refused as refusal:
            crash_point("send.refused")
            refused = self._refused(order, refusal)
            return Sent(refused, again=refused.state is State.PREPARED)
        except OutcomeUnknown as error:
            crash_point("send.lost")
            return Sent(self._ledger.step(order, Event.LOSE, cause=error.why, reason=error.why, code=error.code))
        crash_point("send.answered")
        return Sent(
            self._apply_shown(
                order, self._rules.service.read(type(signed.operation), reply.as_order()), "the answer to the request"
            )
        )

    def _back(self, order: Order, event: Event, **facts: Any) -> Order:
        """Nothing acted this time: ready again, unless an earlier transmission may have acted."""
        if order.doubtful:
            return self._ledger.step(order, Event.LOSE, **facts)
        return self._ledger.step(order, event, **facts)

    def _refused(self, order: Order, refusal: Refused) -> Order:
        self._gate.take_note(refusal)
        facts = refusal_facts(refusal)
        kind = self._rules.service.kind_of(refusal)
        if order.doubtful:
            return self._ledger.step(order, Event.LOSE, cause="an answer that decides nothing", **facts)
        if refusal.code == WRONG_SIGNATURE and kind is RefusalKind.FINAL:
            return self._ledger.step(order, Event.TRY_LATER, **facts)
        if kind is RefusalKind.FINAL:
            return self._ledger.step(order, Event.REJECT, **facts)
        cause = "refused, and asked about first" if kind is RefusalKind.ASK_FIRST else "an answer that decides nothing"
        first_answer = refusal.code if refusal.http_status < 500 else None
        return self._ledger.step(order, Event.LOSE, cause=cause, first_answer=first_answer, **facts)


def refusal_facts(refusal: Refused) -> dict[str, Any]:
    """What a refusal says, as an order keeps it."""
    return {"code": refusal.code or str(refusal.http_status), "reason": refusal.message or str(refusal)}
