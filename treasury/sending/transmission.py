"""The only code that sends an operation that moves money: one transmission at a time, each through the gate."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from treasury.concurrency.crash_points import crash_point
from treasury.concurrency.turns import WorkerThreads
from treasury.errors import NotConnected, NotSentInTime, OutcomeUnknown, Refused, Stopped
from treasury.ledger.ledger import Ledger
from treasury.orders.payment_decisions import EvidenceRules
from treasury.orders.quoting import QUOTED
from treasury.orders.records import Order
from treasury.orders.states import Event, Hold, State
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.client import Client, Signed
from treasury.provider.operation import Operation
from treasury.provider.pacing import SEND
from treasury.provider.refusals import ACCOUNT_TROUBLE, WRONG_SIGNATURE, RefusalKind, says_account_trouble
from treasury.sending.inquiry import Inquiry


class Gate:
    """Open until the service refuses the account itself (401, 403, 406, 412) instead of a request."""

    def __init__(self) -> None:
        self.shut_by: Refused | None = None
        self._asking = threading.Lock()
        self._waiters = WorkerThreads(64)

    @property
    def is_shut(self) -> bool:
        """Tell whether no request may leave now."""
        return self.shut_by is not None

    def take_note(self, refusal: Refused) -> None:
        """Shut the gate if this refusal is about the account."""
        if says_account_trouble(refusal):
            self.shut_by = refusal

    def wait(self, ask: Callable[[], object]) -> None:
        """Wait until the gate is open: one caller asks a signed question, the others wait for its answer.

        Raises `Stopped` when that question is refused or not answered, too: nothing more may leave.
        """
        if self.shut_by is None:
            return
        self._waiters.do(self._asking.acquire)
        try:
            shut_by = self.shut_by
            if shut_by is None:
                return
            code = str(shut_by.code)
            trouble = f"the service refuses this account ({code}): look at {ACCOUNT_TROUBLE[code]}"
            try:
                ask()
            except (NotConnected, OutcomeUnknown, Refused) as error:
                raise Stopped(
                    f"{trouble}; a question was not answered either ({error}), so nothing more is sent"
                ) from None
            self.shut_by = None
        finally:
            self._asking.release()


NO_FACTS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Sent:
    """The result of one attempt to send."""

    order: Order
    again: bool = False
    """The service certainly did not read it; another attempt may follow at once."""
    problem: str | None = None
    """Why the order must not be sent after all."""


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
        """Send a prepared order. While the service certainly did not read it, sign it anew and try again.

        `problem`: called at the last moment; returns why the order must not be sent after all. `facts`: columns of the
        order that are set with its mark.
        """
        operation = self._operation(order.changed(facts))
        for _ in range(SEND.attempts):
            crash_point("send.before")
            sent = self._transmit(order, operation, Event.SEND, problem, facts)
            crash_point("send.recorded")
            if not sent.again:
                break
            order = sent.order
        return sent

    def _not_instead(self, order: Order, reason: str, is_held: bool) -> Order:
        if not is_held:
            return self._ledger.note(order, unmoved=True, reason=reason)
        cause = "asked about the payment that it replaces"
        return self._ledger.step(order, Event.HOLD, cause=cause, hold_kind=Hold.REPLACED, reason=reason)

    def _transmit(
        self,
        order: Order,
        operation: Operation[Any],
        event: Event,
        problem: Callable[[], str | None] = lambda: None,
        facts: Mapping[str, Any] = NO_FACTS,
    ) -> Sent:
        """One transmission: sign, mark on disk, send, record the outcome.

        A connection is taken, and the pace waited for, before the mark, so that a marked order leaves at once. The
        payment that it replaces is asked about each time.
        """
        if order.replaces is not None and (reason := self.why_not_instead(order)) is not None:
            return Sent(self._not_instead(order, *reason))
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
        """Send a marked order and record the outcome."""
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
        seen = self._rules.service.read(type(signed.operation), reply.as_order())
        if seen.request_id is None:  # one that names the request was made for it: not one more look for each payment
            seen = self._with_owner(order.operation, order.request_id, order.order_no, seen)
        return Sent(self._apply_shown(order, seen, "the answer to the request"))

    def _back(self, order: Order, event: Event, **facts: Any) -> Order:
        """Make an order ready again that was not sent, unless an earlier transmission may have acted."""
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
    """The columns of an order that hold a refusal."""
    return {"code": refusal.code or str(refusal.http_status), "reason": refusal.message or str(refusal)}
