"""Decides the next step of one order and takes it: query, quote or send.

The methods are safe for many orders at once, in threads or greenlets. The caller holds the run. A process may die at
any instant: what the ledger holds by then is enough to resume.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from treasury.concurrency.crash_points import crash_point
from treasury.errors import NotConnected, OutcomeUnknown, Refused
from treasury.ledger.leaving_again import count_to_leave_again, judge_by_policy, wait_for_judgement
from treasury.ledger.ledger import Ledger
from treasury.ledger.quotes import USED_UP, adopt_quote, finish_quote, last_quote, note_quote, open_quote
from treasury.orders.payment_decisions import (
    COUNTED,
    Bounds,
    EvidenceRules,
    Next,
    bounds_of,
    certain_end,
    has_ended,
    has_expired,
    is_foreign,
    judge_absence,
    quote_problem,
)
from treasury.orders.quoting import QUOTED, QuotedPayment, confirmed_facts, terms_of
from treasury.orders.records import ON_A_PERSONS_WORD, Order, Quote, Stage
from treasury.orders.states import Event, Hold, State
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.client import Client
from treasury.provider.operation import Operation, SeenOrder
from treasury.provider.refusals import (
    DOUBLE_PAYMENT,
    RefusalKind,
    says_account_trouble,
)
from treasury.sending.transmission import Sent, Transmission, refusal_facts

QUOTES_PER_START = 3
"""Quotes of one row in one start: the first, and two that replace it. Then the row waits for the next start."""


@dataclass(frozen=True)
class Fetched:
    """The result of asking for a quote."""

    order: Order
    quote: Quote | None = None
    """The quote, to be judged and confirmed."""
    again: bool = False
    """No quote came; another request may follow at once."""


class Submission(Transmission):
    """Sends orders of a held run, asks what became of them, and records every step before and after."""

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        rules: EvidenceRules,
        *,
        found_known: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`found_known`: called with the reason when the service knows an order that this ledger has not sent."""
        super().__init__(client, ledger, rules)
        self._found_known = found_known
        self._requoted: dict[int, int] = {}
        self._began: int | None = None

    def begin_start(self) -> None:
        """Begin a start of a run: reset the count of quotes for each row and forget what the witnesses showed."""
        self._requoted.clear()
        self._witnesses.forget()
        self._began = self._ledger.now()

    def fetch_quote(self, order: Order) -> Fetched:
        """Ask for the quote of a prepared order and confirm nothing; `submit` confirms it later."""
        order, quote = self._open_quote(order)
        if quote is None:
            return Fetched(self._used_up(order))
        return self._fetch(order, quote, QUOTED[order.operation], self._ledger.payload(order))

    def _open_quote(self, order: Order) -> tuple[Order, Quote | None]:
        crash_point("quote.before")
        order, quote = open_quote(self._ledger, order)
        if quote is not None:
            crash_point("quote.committed")
            if quote.stage is Stage.ANSWERED and self._is_older(quote):
                quote = note_quote(self._ledger, quote, stage=Stage.FOREIGN)
        return order, quote

    def submit(self, order: Order) -> Order:
        """Take the next step of one order: send it if it is prepared, query it if it is unknown, else do nothing."""
        if order.state is State.UNKNOWN:
            order = self._ask_unknown(order)
        if order.state is not State.PREPARED:
            return order
        if order.absences_needed:
            order = self.ask_before_sending(order)
            if order.state is not State.PREPARED or order.absences_needed:
                return order
        payload = self._ledger.payload(order)
        if "quote" in payload:
            return self._quote_then_confirm(order, payload)
        return self._send(order).order

    def _ask_unknown(self, order: Order) -> Order:
        """Query an unknown order and take the step that the evidence allows. A prepared result waits anew."""
        began = self._ledger.now()
        order, following = self.apply(order, self.query(order), began)
        if following is Next.RESEND:
            crash_point("resend.decided")
            if (waiting := wait_for_judgement(self._ledger, order)) is not None:
                return waiting
            order, why_not = count_to_leave_again(self._ledger, order)
            if why_not is not None:
                return self._ledger.note(order, unmoved=True, reason=why_not)
            return self._transmit(order, self._operation(order), Event.RESEND).order
        if following not in (Next.QUOTE_AGAIN, Next.REJECT):
            return order
        paid = self.paid_at_service(order)  # an older ledger does not know under which generation the order was paid
        if paid:
            return self._hold_known(order, paid, "asked before another quote")
        return self.reject(order) if following is Next.REJECT else self._quote_again(order)

    def ask_before_sending(self, order: Order) -> Order:
        """Query a prepared order before it is sent, because the ledger may know less than the service.

        It is held where the service knows it. Once enough queries found nothing it needs none any more.
        """
        found = self.known_at_service(order)
        if found:
            return self._hold_known(order, found, "asked before it is sent")
        if (doubt := self._witnesses.doubt(order.operation)) is not None:
            return self._ledger.note(order, unmoved=True, absent_since=None, reason=doubt)
        now = self._ledger.now()
        far = order.absent_since is not None and now - order.absent_since >= self._rules.resend_after_seconds * 1000
        if order.absences_needed in (1, ON_A_PERSONS_WORD) or far:
            return self._ledger.note(order, unmoved=True, absences_needed=0, absent_since=None, reason=None)
        if order.absent_since is not None:
            return order
        reason = (
            "asked about before it is sent, because this ledger may be older than the service: it is sent when a "
            f"second query, {self._rules.resend_after_seconds:.0f} s later, finds nothing either: start the run again"
        )
        return self._ledger.note(order, unmoved=True, absent_since=now, asked_at=now, reason=reason)

    def _hold_known(self, order: Order, found: dict[int, SeenOrder], cause: str) -> Order:
        """Hold an order that the service knows. If this ledger never sent it, report that the ledger is older."""
        held = self.hold_found(order, found, cause)
        if not order.sends or held.generation > order.generation:
            self._found_known(f"the service knows {held.request_id}, which this ledger has not sent")
        return held

    # --- quotes --------------------------------------------------------------------------------------------------

    def _is_older(self, quote: Quote) -> bool:
        """Return True for a quote that whoever had this ledger before it was restored may confirm, or has confirmed: it
        counts as somebody else's. One of this start is not looked up."""
        return (self._began is None or quote.created_at < self._began) and self.is_from_before(quote)

    def _quote_again(self, order: Order) -> Order:
        """Make an order ready for another quote: its confirmation did not act, and its quote has ended."""
        crash_point("requote.decided")

        def work(connection: Connection) -> Order:
            finish_quote(self._ledger, last_quote(self._ledger, order), "it ended, and its confirmation did not act")
            cause = "its quote can no longer be confirmed"
            facts: dict[str, Any] = {
                "confirmation": None,
                "first_answer": None,
                "absent_since": None,
                "code": None,
                "reason": None,
            }
            facts |= judge_by_policy(connection, self._ledger, order)
            return self._ledger.step(order, Event.QUOTE_AGAIN, cause=cause, doubtful=False, **facts)

        return self._ledger.write(work)

    def _quote_then_confirm(self, order: Order, payload: dict[str, Any]) -> Order:
        """Ask for a quote and confirm it back to back, inside the approved bounds.

        A quote moves no money, so a lost one is asked for again under the same id. Another generation follows only when
        nobody can confirm the previous quote, or when no confirmation of it ever left.
        """
        kind = QUOTED[order.operation]
        bounds = bounds_of(payload, order.operation, self._rules.service.fee_on_top)
        while self._requoted.get(order.id, 0) < QUOTES_PER_START:
            order, quote = self._open_quote(order)
            if quote is None:
                return self._used_up(order)
            fetched = self._fetch(order, quote, kind, payload)
            order, quote = fetched.order, fetched.quote
            if quote is None:
                if not fetched.again:
                    return order
                self._requoted[order.id] = self._requoted.get(order.id, 0) + 1
                continue
            crash_point("quote.recorded")
            sent = self._confirm(order, quote, bounds)
            if sent.problem is None:
                return sent.order
            order, goes_on = self._replace(sent.order, quote, sent.problem)
            self._requoted[order.id] = self._requoted.get(order.id, 0) + 1
            if not goes_on:
                return order
        return order

    def _fetch(self, order: Order, quote: Quote, kind: QuotedPayment, payload: dict[str, Any]) -> Fetched:
        """The current quote of an order: asked for now, queried, or answered before."""
        if quote.stage is Stage.FOREIGN:
            return self._ask_about_foreign(order, quote)
        if quote.stage is Stage.ASKED:
            return self._ask_quote(order, quote, kind.ask(payload, quote.request_id), kind)
        return Fetched(order, quote)

    def _confirm(self, order: Order, quote: Quote, bounds: Bounds) -> Sent:
        """Confirm a quote, or return why it must not be confirmed. It is judged again once a connection is free."""

        def problem() -> str | None:
            return quote_problem(quote, bounds, self._ledger.now())

        why_not = problem()
        if why_not is not None:
            return Sent(order, problem=why_not)
        crash_point("confirm.before")
        return self._send(order, problem, confirmed_facts(quote))

    def _replace(self, order: Order, quote: Quote, problem: str) -> tuple[Order, bool]:
        """Discard a quote that this ledger never confirmed, once a query shows that nobody else confirmed it.

        Returns the order and whether another quote may be asked now.
        """
        if quote.stage is Stage.FOREIGN:
            return self._waits_for_end(order, quote, problem), False
        paid = self.paid_at_service(order)
        if paid:
            return self._hold_known(order, paid, "asked before another quote"), False
        finish_quote(self._ledger, quote, problem)
        return self._ledger.note(order, unmoved=True, reason=problem), True

    def _used_up(self, order: Order) -> Order:
        if (order.reason or "").startswith(USED_UP):
            return order
        reason = (
            f"{USED_UP} ({order.reason or 'no reason'}): treasury resolve {order.request_id} --as not-sent ends this "
            "row, and it may be paid in a new run"
        )
        return self._ledger.note(order, unmoved=True, reason=reason)

    def _ask_quote(self, order: Order, quote: Quote, ask: Operation[Any], kind: QuotedPayment) -> Fetched:
        """Ask for a quote."""
        self._gate.wait(lambda: self.query_reference(order.operation, order.request_id))
        asked_at = self._ledger.now()
        try:
            terms = kind.read(self._client.send(ask))
        except Refused as refusal:
            return self._quote_refused(order, quote, refusal)
        except NotConnected as error:
            note_quote(self._ledger, quote, note=f"no answer: {error}", asks=quote.asks - 1)
            return Fetched(self._ledger.note(order, unmoved=True, reason=f"no quote: {error}"))
        except OutcomeUnknown as error:
            note_quote(self._ledger, quote, note=f"no answer: {error}")
            return Fetched(self._ledger.note(order, unmoved=True, reason=f"no quote: {error}"), again=True)
        crash_point("quote.answered")
        since = asked_at if quote.asks == 1 else quote.created_at  # a repeat is answered with the first quote
        facts = terms.ledger_facts(since, self._ledger.now())
        quote = note_quote(self._ledger, quote, stage=Stage.ANSWERED, note=None, **facts)
        now, service_now = self._ledger.now(), self._client.service_now()
        if self._is_older(quote) or is_foreign(quote, now, service_now):
            return self._known_reference(order, quote, facts)
        return Fetched(order, quote)

    def _quote_refused(self, order: Order, quote: Quote, refusal: Refused) -> Fetched:
        """Handle a refused quote. A quote moves no money, but its reference may have been paid before."""
        self._gate.take_note(refusal)
        facts = refusal_facts(refusal)
        note_quote(self._ledger, quote, note=f"refused: {refusal}")
        if refusal.code == DOUBLE_PAYMENT:
            return self._known_reference(order, quote, {})
        kind = self._rules.service.kind_of(refusal)
        if says_account_trouble(refusal) or kind is RefusalKind.UNDECIDED:
            return Fetched(self._ledger.note(order, unmoved=True, **facts), again=True)
        if kind is RefusalKind.FINAL:
            return Fetched(self._ledger.step(order, Event.REJECT, cause="its quote was refused", **facts))
        return Fetched(self._quote_not_accepted(self._ledger.note(order, unmoved=True, **facts), refusal))

    def _quote_not_accepted(self, order: Order, refusal: Refused) -> Order:
        """Reject only after two queries find nothing: a quote under this reference may have been paid."""
        paid = self.paid_at_service(order)
        if paid:
            return self._hold_known(order, paid, "its quote was refused")
        if (doubt := self._witnesses.doubt(order.operation)) is not None:
            return self._ledger.note(order, unmoved=True, absent_since=None, reason=doubt)
        now = self._ledger.now()
        if order.first_answer not in self._rules.service.asked_first or order.absent_since is None:
            return self._ledger.note(order, unmoved=True, first_answer=refusal.code, absent_since=now)
        if now - order.absent_since < self._rules.resend_after_seconds * 1000:
            return order
        cause = "its quote was refused, and two queries found nothing"
        return self._ledger.step(order, Event.REJECT, cause=cause, **refusal_facts(refusal))

    # --- quotes that the service knew before ---------------------------------------------------------------------

    def _known_reference(self, order: Order, quote: Quote, facts: dict[str, Any]) -> Fetched:
        """Find out who asked for a quote whose reference the service knew before.

        `facts`: the quote's terms, if the service showed them. A quote that is found may be confirmed, because it
        confirms only once, whoever asked for it.
        """
        found = self.query_all_references(order)
        if any(self.shows_payment(order, seen) for seen in found.values()):
            return Fetched(self.hold_found(order, found, "its quote was asked for before"))
        ours = quote.asks > 1 and not self._is_older(quote) and max(found, default=0) <= order.generation
        if found and max(found) >= order.generation:
            generation = max(found)
            shown = facts if facts and generation == order.generation else self._shown(found[generation])
            if shown["quote"]:
                stage = Stage.ANSWERED if ours else Stage.FOREIGN
                return Fetched(*adopt_quote(self._ledger, order, generation, stage=stage, note=None, **shown))
        if facts:
            return Fetched(order, note_quote(self._ledger, quote, stage=Stage.FOREIGN, **facts))
        if ours:
            # An earlier request of ours made it, and its answer was lost: nobody ever had what confirms it.
            finish_quote(self._ledger, quote, "its answer was lost, so nobody can confirm it")
            return Fetched(order, again=True)
        return Fetched(self._waits_for_end(order, self._unseen(quote)))

    def _unseen(self, quote: Quote) -> Quote:
        """Record that somebody else may have a quote whose terms nobody shows: it lives as long as one made now."""
        ends_at = self._ledger.now() + int(self._rules.service.quote_life_seconds * 1000)
        return note_quote(self._ledger, quote, stage=Stage.FOREIGN, ends_at=ends_at)

    def _shown(self, seen: SeenOrder) -> dict[str, Any]:
        """The terms of a quote that a query shows. A query shows no end, so the longest life of a quote is assumed."""
        made = self._ledger.now() if seen.created_ms is None else seen.created_ms
        end = made + int(self._rules.service.quote_life_seconds * 1000)
        return {**terms_of(seen), "expires_at": end, "ends_at": end}

    def _ask_about_foreign(self, order: Order, quote: Quote) -> Fetched:
        """Handle a quote that somebody else asked for: confirm it while it lives, otherwise wait for its certain
        end."""
        found = self.query_all_references(order)
        if any(self.shows_payment(order, seen) for seen in found.values()):
            return Fetched(self.hold_found(order, found, "its quote was asked for before"))
        now = self._ledger.now()
        if quote.quote is not None and not has_expired(quote, now):
            return Fetched(order, quote)
        service_now = self._client.service_now()
        shown = found.get(order.generation)
        following = judge_absence(order, quote, now, service_now, self._rules)
        if shown is not None and (
            shown.status is None or int(shown.status) not in self._rules.service.unconfirmed_statuses
        ):
            if has_ended(quote, now, service_now, self._rules):  # it may be a payment for ever: a person's
                return Fetched(self.hold_found(order, {order.generation: shown}, "its quote has ended"))
            order, following = self._ledger.note(order, unmoved=True, absent_since=None), Next.WAIT
        if following in COUNTED and (doubt := self._witnesses.doubt(order.operation)) is not None:
            return Fetched(self._waits_for_end(order, quote, doubt))
        if following is Next.COUNT:
            order = self._ledger.note(order, unmoved=True, absent_since=now)
        if following is not Next.QUOTE_AGAIN:
            return Fetched(self._waits_for_end(order, quote))
        finish_quote(self._ledger, quote, "it ended, and nobody confirmed it")
        return Fetched(self._ledger.note(order, unmoved=True, absent_since=None, reason=None), again=True)

    def _waits_for_end(self, order: Order, quote: Quote, problem: str | None = None) -> Order:
        """Let an order wait until the quote that somebody else may confirm has ended.

        Where no query can tell what became of it, waiting does not help: it is held for a person.
        """
        if not CATALOGUE[order.operation].absence_is_evidence:
            return self._hold_unseen(order, quote, problem)
        reason = (
            f"the service knows {order.request_id}, which somebody else asked for, or this ledger before it was "
            "restored: nothing is sent until that quote has ended; start the run again later"
        )
        if problem is not None:
            reason = f"{problem}; {reason}"
        return self._ledger.note(order, unmoved=True, reason=reason, code=DOUBLE_PAYMENT)

    def hold_unseen(self, order: Order) -> Order | None:
        """Hold a waiting order whose quote somebody else may have confirmed, and that no query would show; None for
        any other."""
        quote = last_quote(self._ledger, order) if order.operation in QUOTED else None
        if quote is None or quote.stage is Stage.DONE or CATALOGUE[order.operation].absence_is_evidence:
            return None
        if quote.stage is not Stage.FOREIGN and not self.is_from_before(quote):
            return None
        return self._hold_unseen(order, self._unseen(quote) if quote.ends_at is None else quote, None)

    def _hold_unseen(self, order: Order, quote: Quote, problem: str | None) -> Order:
        """Hold an order whose quote somebody else may have confirmed, and that no query would show."""
        name, end = order.request_id, datetime.fromtimestamp(certain_end(quote, self._rules) / 1000, UTC)
        reason = (
            f"the quote of {name} was asked for before, perhaps by this ledger before it was restored, and no query "
            f"shows what became of it: ask its support; if it was executed, treasury resolve {name} --as "
            f"sent; if not, from {end:%Y-%m-%dT%H:%M:%SZ} on, treasury resolve {name} --as failed, or --as not-sent to "
            "ask for one more quote"
        )
        facts: dict[str, Any] = {"hold_kind": Hold.KNOWN, "code": DOUBLE_PAYMENT}
        facts["reason"] = reason if problem is None else f"{problem}; {reason}"
        if order.state is State.HELD:
            return self._ledger.note(order, unmoved=True, **facts)
        return self._ledger.step(order, Event.HOLD, cause="its quote was asked for before", **facts)
