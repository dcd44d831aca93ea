"""Runs single operations: one that moves money goes through ledger and submission, any other is sent directly."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from treasury.addresses import problems_of_destination
from treasury.approving.tokens import Token
from treasury.collect.expected_receipts import expecting
from treasury.errors import InputError, LimitExceeded, RunHeld, RunKeyConflict
from treasury.ledger.approved_plans import lapsed_plan, propose_again, why_lapsed
from treasury.ledger.intents import IntentRules, check_bound, commit_plan, newest_order, payee_hashes
from treasury.ledger.obligations import traded_on
from treasury.ledger.rehearsal import rehearse
from treasury.ledger.seen_card_users import saw_card_user
from treasury.ledger.snapshots import expected_receipts, keep_snapshot, snapshot_of
from treasury.money import canonical, parse_amount
from treasury.orders.quoting import QUOTED
from treasury.orders.records import CALL, Intent, Order, duplicate_key
from treasury.orders.rows import PayoutRow, Route
from treasury.pay.estimates import FeesOnTop
from treasury.payments.approving import is_recorded, propose
from treasury.payments.desk import Desk
from treasury.payments.execution import follow_orders, open_orders, send_orders
from treasury.payments.governing import Governing, govern
from treasury.payments.offers import OfferQuestions, said_of_code, said_of_withdrawal, terms_of_code
from treasury.payments.preflight import check_clock_before
from treasury.planning.payout_planner import plan_row
from treasury.planning.shown import shown_single
from treasury.planning.single import Judged, Quoted, debit_of, judge_operation
from treasury.policy.limits import PayoutLimits, why_approvals
from treasury.promptpay import why_not_paid
from treasury.provider.card_users import CardUserRecord
from treasury.provider.conversion import ConversionExecute
from treasury.provider.fiat_payouts import FiatPayoutQuote
from treasury.provider.fields import MAX_ID
from treasury.provider.operation import Effect, Operation, Reply
from treasury.provider.orders import Pay, Withdraw
from treasury.provider.scan_to_pay import SubmitScanToPay
from treasury.provider.service_rules import is_empty
from treasury.rebalance.rebalancing import today_of
from treasury.texts import as_it_looks, canonical_json, is_clean

KIND = "call"


def run_key_of_call(operation: Operation[Any]) -> str:
    """The run key of a single operation: its own reference, so that the same call twice is one order."""
    return f"{CALL}{operation.reference_value}"


def send_operation(desk: Desk, operation: Operation[Any]) -> dict[str, Any]:
    """Send an operation that moves no money; returns the whole answer. Raises as the client does."""
    if operation.effect is Effect.MOVES_MONEY:
        raise AssertionError(f"{operation.operation_name()} moves money")
    if operation.effect is not Effect.READS and operation.reference is not None:
        _check_readable(operation)
    if isinstance(operation, Pay):
        _check_reference(desk, operation)
    with _alone(desk, operation) if isinstance(operation, Pay) else nullcontext():
        reply: Reply = desk.client.read(operation) if operation.effect is Effect.READS else desk.client.send(operation)
    _keep_quote(desk, operation, reply)
    user_xid = getattr(operation, "user_xid", None)
    is_there = operation.effect is not Effect.READS or not is_empty(reply)
    if isinstance(reply, CardUserRecord) and user_xid is not None and is_there:
        saw_card_user(desk.ledger, user_xid, reply)  # whoever made them: they are asked about every night
    return reply.envelope


@contextmanager
def _alone(desk: Desk, payin: Pay) -> Iterator[None]:
    """Hold a pay-in while it is asked for, and expect it. Raises `RunHeld`.

    Without the hold, a process whose call did not leave would end the expectation of what another process asked for.
    """
    name = f"pay-in {payin.request_id}"  # no run key holds a space
    with desk.ledger.hold(name) as is_ours:
        if not is_ours:
            raise RunHeld(name, "another task of this process")
        with expecting(desk, payin):
            yield


def _check_reference(desk: Desk, operation: Operation[Any]) -> None:
    """Refuse a reference that names something else here: one question could not tell what became of both."""
    name, order = str(operation.reference_value), desk.ledger.order_named(str(operation.reference_value))
    expected = expected_receipts(desk.ledger, [name]).get(name)
    if isinstance(operation, Pay):  # one of a sheet of invoices has a link that is kept
        is_taken = order is not None or (expected is not None and "run_key" in expected)
    else:
        is_taken = expected is not None or (order is not None and order.run_key != run_key_of_call(operation))
    if is_taken:
        raise _taken(operation)


def _check_readable(operation: Operation[Any]) -> None:
    """Refuse a reference by which no answer could be read: what was sent under it would stay unknown for ever."""
    name = str(operation.reference_value)
    if len(name) > MAX_ID or not is_clean(name) or name != name.strip():
        rule = f"must be at most {MAX_ID} characters, none of them hidden, without a space before or after them"
        raise InputError(f"{operation.operation_name()}: {operation.reference}: {rule}; nothing was sent")


def _taken(operation: Operation[Any]) -> InputError:
    said = f"{operation.reference} {operation.reference_value} already stands for something else here"
    return InputError(f"{operation.operation_name()}: {said}; nothing was sent")


@contextmanager
def _one_meaning(operation: Operation[Any]) -> Iterator[None]:
    """Refuse an operation whose reference was recorded with another content. Raises `InputError`."""
    try:
        yield
    except RunKeyConflict:
        raise _taken(operation) from None


def _keep_quote(desk: Desk, operation: Operation[Any], reply: Reply) -> None:
    """Keep what a quote debits in the ledger, sealed: what confirms it says nothing but its number."""
    for name, kind in QUOTED.items():
        if not isinstance(operation, kind.asked_by):
            continue
        terms = kind.read(reply)
        facts = {field: terms.facts[field] for field in TERMS if terms.facts[field] is not None}
        if terms.quote and {"pay_currency", "pay_amount"} <= facts.keys():
            content = {field: canonical(fact) if isinstance(fact, Decimal) else fact for field, fact in facts.items()}
            content |= {"symbol": getattr(operation, "symbol", None), "asked_as": operation.reference_value}
            if isinstance(operation, FiatPayoutQuote):
                row = PayoutRow(0, operation.request_id, Route.QUOTED, operation.body())
                content |= {"payee": payee_hashes(desk.ledger.key, plan_row(row)), "countries": sorted(row.countries)}
            keep_snapshot(desk.ledger, _name_of_quote(name, terms.quote), None, {"plan_sha256": None, "quote": content})


TERMS = ("pay_currency", "pay_amount", "receive_currency", "receive_amount", "fee", "fee_currency", "rate")


def _name_of_quote(operation: str, quote: str) -> str:
    return f"quote {operation} {quote}"  # no run key holds a space


def _quote_of(desk: Desk, operation: Operation[Any]) -> Quoted | None:
    """The quote that an operation confirms, if it was asked for here."""
    name = _name_of_quote(operation.operation_name(), str(operation.reference_value))
    kept = snapshot_of(desk.ledger, name) if operation.confirms_quote else None
    if kept is None:
        return None
    quote = kept["quote"]
    received, fee, rate = (quote.get(name) for name in ("receive_amount", "fee", "rate"))
    return Quoted(
        currency=quote["pay_currency"],
        amount=parse_amount(quote["pay_amount"]),
        receive_currency=quote.get("receive_currency"),
        receive_amount=None if received is None else parse_amount(received),
        symbol=quote["symbol"],
        countries=quote.get("countries", ()),
        fee=None if fee is None else parse_amount(fee),
        fee_currency=quote.get("fee_currency"),
        rate=None if rate is None else parse_amount(rate),
        payee=quote.get("payee", {}),
        asked_as=quote.get("asked_as"),
    )


def warnings_of(operation: Operation[Any]) -> list[str]:
    """Return what a sheet would refuse of an operation, in words. By itself it may be sent: the service decides."""
    if isinstance(operation, SubmitScanToPay):
        why = why_not_paid(operation.qrcode, operation.amount)
        return [] if why is None else [f"{why}; a sheet of QR codes is refused for it"]
    if not isinstance(operation, Withdraw):
        return []
    problems = problems_of_destination(operation.currency, operation.address, operation.tag)
    return [f"{each.field}: {each.rule}; a sheet of withdrawals is refused for it" for each in problems]


@dataclass(frozen=True)
class _Planned:
    """A single operation as it is recorded, and what the policy says of it."""

    governed: Governing
    judged: Judged
    intent: Intent
    rules: IntentRules
    is_recorded: bool

    @property
    def sha256(self) -> str:
        """The hash of what is approved."""
        return hashlib.sha256(canonical_json([self.governed.version, self.intent.bound_content]).encode()).hexdigest()

    @property
    def at_most(self) -> str | None:
        """The most that leaves; None where nobody knows it."""
        most = next((each for each in (self.intent.bound, self.intent.ceiling, self.intent.amount) if each), None)
        return None if most is None else canonical(most)


def preview_operation(desk: Desk, operation: Operation[Any]) -> list[str]:
    """Say what an operation that moves money would do, a line each; nothing is sent or kept.

    Raises `InputError` and `LimitExceeded`, as `submit_operation` does.
    """
    run_key = run_key_of_call(operation)
    planned = _planned(desk, operation)
    intent = planned.intent
    if planned.is_recorded:
        order = desk.ledger.orders(run_key=run_key)[0]
        outcome = order.state.outcome.replace("_", " ")
        return [f"was made before, and is {outcome}: it is one order, however often it is asked for"]
    most = planned.at_most
    leaves = "what leaves is not known beforehand" if most is None else f"at the most {most} {intent.currency} leaves"
    said = [leaves, _said_of(desk, operation)]
    if intent.receive_amount is not None:
        said.append(f"{canonical(intent.receive_amount)} {intent.receive_currency} is received")
    said += [f"would be held: {why}" for why in rehearse(desk.ledger, run_key, [intent], planned.rules).held.values()]
    if asked := planned.rules.approving.asked:
        why = why_approvals(planned.judged.debits, planned.governed.limits(operation.limited_by))
        said.append(f"approvals needed: {asked} ({'; '.join(why)})" if why else f"approvals needed: {asked}")
    return [*filter(None, said), *(f"warning: {each}" for each in warnings_of(operation))]


def _said_of(desk: Desk, operation: Operation[Any]) -> str:
    """The service's terms, in words."""
    questions = OfferQuestions(desk)
    if isinstance(operation, SubmitScanToPay):
        return said_of_code(terms_of_code(questions, operation.qrcode, operation.amount, operation.request_id))
    if isinstance(operation, Withdraw) and operation.address is not None:
        of = (operation.currency, operation.amount, operation.address, operation.tag)
        return said_of_withdrawal(desk, questions, *of)
    return ""


def submit_operation(
    desk: Desk, operation: Operation[Any], sign: Callable[[str, str], Token | None] = lambda *_: None
) -> Order:
    """Send an operation that moves money, at most once for its reference; returns the order, which may be held.

    `sign`: signs its plan, given run key and hash, as its maker; where the policy in force lists people.
    Raises `InputError` when the reference already stands for something else, `LimitExceeded`, `ApprovalNeeded` and
    `RunHeld`.
    """
    run_key, name = run_key_of_call(operation), operation.operation_name()
    planned = _planned(desk, operation)
    governed, rules, sha256 = planned.governed, planned.rules, planned.sha256
    why = why_approvals(planned.judged.debits, governed.limits(operation.limited_by))
    shown = shown_single(run_key, name, operation.body(), sha256, why, warnings_of(operation), planned.at_most)
    if not is_recorded(desk, governed, run_key):
        propose(desk, governed, run_key, sha256, rules.approving.asked, shown=shown, token=sign(run_key, sha256))
    elif (lapsed := lapsed_plan(desk.ledger, run_key, governed.version, rules.approving)) is not None:
        again = {"plan_sha256": lapsed.sha256, "why": [why_lapsed(desk.ledger, lapsed)]}
        propose_again(desk.ledger, lapsed, {**shown, **again})
    check_clock_before(desk, run_key, rules.limits)
    with desk.hold(run_key):
        with _one_meaning(operation):
            commit_plan(desk.ledger, run_key, KIND, operation.masked(), sha256, [planned.intent], rules)
        ids = open_orders(desk, run_key)
        send_orders(desk, run_key, ids)
        follow_orders(desk, run_key, ids, 0)
        return desk.ledger.orders(run_key=run_key)[0]


def _planned(desk: Desk, operation: Operation[Any]) -> _Planned:
    """Judge an operation that moves money by the policy. Raises `LimitExceeded`."""
    _check_reference(desk, operation)
    run_key, name = run_key_of_call(operation), operation.operation_name()
    recorded = desk.ledger.run(run_key) is not None
    if not recorded:
        _check_readable(operation)
    governed = govern(desk)
    quoted, newest = _quote_of(desk, operation), desk.ledger.look(newest_order)
    moved: Mapping[str, Decimal] | None = None
    if governed.policy is not None and quoted is not None and quoted.symbol is not None:
        moved = traded_on(desk.ledger, today_of(desk, governed.policy), (run_key,)).moved
    limits = PayoutLimits() if governed.policy is None or governed.policy.payouts is None else governed.policy.payouts
    margin = limits.estimate_margin_percent
    at_most = _at_most(desk, operation, margin, run_key if recorded else None)
    judged = judge_operation(operation, governed.policy, quoted, moved or {}, at_most)
    intent = _intent(operation, judged, quoted)
    if recorded:
        intent = replace(intent, row_ref=desk.ledger.orders(run_key=run_key)[0].row_ref)
        with _one_meaning(operation):  # else approvers are shown another payment than the one that leaves
            check_bound(desk.ledger, run_key, [intent])
    else:
        intent = replace(intent, bound=at_most or _bound_with_fee(desk, intent, margin))
    if judged.problems and not recorded:
        raise LimitExceeded(f"{name}: {'; '.join(judged.problems)}; nothing was sent")
    over = {intent.row_ref: "; ".join(judged.problems)} if judged.problems else {}
    rules = governed.rules(desk, operation.limited_by, judged.debits, over)
    if moved is not None:  # Race: another conversion of the day may be recorded meanwhile
        rules = replace(rules, newest_order=newest)
    return _Planned(governed, judged, intent, rules, recorded)


def _bound_with_fee(desk: Desk, intent: Intent, margin_percent: Decimal) -> Decimal | None:
    if intent.amount is None or intent.currency is None:
        return None
    payment = (intent.operation, intent.currency, intent.amount)
    return FeesOnTop(desk, OfferQuestions(desk), [payment]).most(*payment, margin_percent)


def _at_most(desk: Desk, operation: Operation[Any], margin_percent: Decimal, recorded_as: str | None) -> Decimal | None:
    """The most that scan-to-pay debits, by the service's terms and the policy's margin; what was recorded is kept.

    None of any other operation, and where the service does not say its terms.
    """
    if not isinstance(operation, SubmitScanToPay):
        return None
    kept = None if recorded_as is None else desk.ledger.orders(run_key=recorded_as)[0].ceiling
    if kept is not None:
        return kept
    terms = terms_of_code(OfferQuestions(desk), operation.qrcode, operation.amount, operation.request_id)
    return None if terms is None else terms.at_most(margin_percent)


def _intent(operation: Operation[Any], judged: Judged, quoted: Quoted | None = None) -> Intent:
    body = operation.body()
    reference = str(operation.reference_value)
    own = {name: value for name, value in body.items() if name != operation.reference}
    currency, amount = debit_of(operation) if quoted is None else (quoted.currency, quoted.amount)
    payee = operation.payee
    known = amount if amount is not None else getattr(operation, "amount", None)
    named = operation.receives or currency
    xid = quoted.asked_as if quoted is not None and isinstance(operation, ConversionExecute) else None
    return Intent(
        row_ref=xid or reference,
        operation=operation.operation_name(),
        payload={"confirm": own} if operation.confirms_quote else own,
        bound_content={"operation": operation.operation_name(), **body},
        currency=currency,
        amount=amount,
        receive_currency=None if quoted is None else quoted.receive_currency,
        receive_amount=None if quoted is None else quoted.receive_amount,
        fee=None if quoted is None else quoted.fee,
        fee_currency=None if quoted is None else quoted.fee_currency,
        rate=None if quoted is None else quoted.rate,
        ceiling=judged.ceiling,
        request_id=reference,
        confirmation=reference if operation.confirms_quote else None,
        payee=payee,
        payee_name=as_it_looks(getattr(operation, "payee_name", None) or "") or None,
        hashes={} if quoted is None else quoted.payee,
        duplicate_key=None if payee is None else duplicate_key(payee, named or "", known),
    )
