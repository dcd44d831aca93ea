"""Proofs by this ledger's own orders: how conversions are found, where fees are taken, when a balance is debited."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlalchemy import func, select

from treasury.errors import Refused
from treasury.ledger import schema
from treasury.ledger.closing import balance_nights
from treasury.ledger.evidence import last_shown, seen_statuses
from treasury.ledger.ledger import Ledger
from treasury.money import exact
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.conversion import ConversionExecute
from treasury.provider.fiat_payouts import CreateFiatPayout
from treasury.provider.operation import SeenOrder
from treasury.provider.orders import Payout, QueryTransaction, TransactionRecord
from treasury.provider.service_rules import ServiceRules
from treasury.provider.status import OrderStatus
from treasury.proving.access import Proof, ProofVerdict, Questions
from treasury.reconciliation.balances import Night, pooled
from treasury.reconciliation.rolling import roll_forward
from treasury.texts import count_of

NAME = "debited_when"


def judge_debits(rules: ServiceRules, ledger: Ledger) -> Proof:
    """Compare `debited_when` with what the balances of this ledger's reports show."""
    setting = rules.entry(NAME)
    names = dict(lone_orders(balance_nights(ledger)))
    orders = {order.request_id: order for name in names for order in ledger.orders(reference=name)}
    seen: dict[str, set[str]] = {}
    for name, when in names.items():
        if name in orders:
            seen.setdefault(orders[name].operation, set()).add(when)
    if not seen:
        said = "on no night of this ledger one order alone was on its way, and its balance explained but for that"
        return Proof(NAME, setting, ProofVerdict.OPEN, said)
    said = "; ".join(f"{each} debits when it is {' or '.join(sorted(when))}" for each, when in sorted(seen.items()))
    shown = {each: next(iter(when)) for each, when in seen.items() if len(when) == 1}
    wrong = [each for each, when in setting.items() if seen.get(each, {when}) != {when}]
    proposed = {**{each: when for each, when in setting.items() if each not in wrong}, **shown}
    if wrong:
        return Proof(NAME, setting, ProofVerdict.CONTRADICTED, said, proposed)
    if proposed == setting:
        return Proof(NAME, setting, ProofVerdict.PROVEN, said)
    return Proof(NAME, setting, ProofVerdict.OPEN, said, proposed)


@exact
def lone_orders(series: Mapping[str, Sequence[Night]]) -> Iterator[tuple[str, str]]:
    """Yield request id and `accepted` or `final` for each order that a report found alone on its way.

    It is `accepted` where its balance had fallen by just its amount, `final` where it had not fallen at all.
    """
    for currency, (codes, nights) in pooled(series).items():
        for night, before in _alone(nights):
            account = roll_forward(currency, before, codes)
            low, high = account.explained_low, account.explained_high
            if account.lots or account.change is None or low is None or high is None:
                continue
            if high - low == night.may_be_debited and account.change in (low, high):
                yield night.flows.open_named[0], "final" if account.change == high else "accepted"


def _alone(nights: Sequence[Night]) -> Iterable[tuple[Night, Sequence[Night]]]:
    """Yield each night on which one order was open of which no rule says when it debits, with the nights up to it."""
    for number, night in enumerate(nights, 1):
        if night.flows.open_orders == 1 and night.flows.in_flight:
            yield night, nights[:number]


ENOUGH_PAYOUTS = 20
"""Confirmed payouts that must have settled before their statuses say something about this account."""

MAYBE_UNCONFIRMED = (11, 12)
"""Statuses that a service may show for a quote that nobody confirmed."""

SHOWN_BY_QUERY = tuple(name for name, operation in CATALOGUE.items() if operation.asked_with is QueryTransaction)


def prove_history(questions: Questions, ledger: Ledger) -> Iterator[Proof]:
    """Findings from orders that were sent before, about entries that no made-up question can show."""
    rules = questions.rules
    yield _conversions(questions, ledger)
    yield _conversion_fees(rules, ledger)
    yield _payout_currency(questions, ledger)
    yield _fees(questions, ledger)
    yield judge_debits(rules, ledger)
    yield _statuses(rules, ledger)
    yield judge_unconfirmed(rules, ledger)
    yield from _not_to_be_asked(rules)


def _conversions(questions: Questions, ledger: Ledger) -> Proof:
    """By which of its ids the transaction query finds the last conversion that was accepted."""
    setting = questions.rules.conversion_found_by
    shown = last_shown(ledger, [ConversionExecute.operation_name()], 20)
    known = [order for order in shown if order.confirmation and order.asked_as != order.confirmation][:1]
    if not known:
        return Proof("conversion_found_by", setting, ProofVerdict.OPEN, "this ledger knows no conversion yet")
    [order] = known
    ids = {"xid": order.asked_as, "quote_id": str(order.confirmation), "order_no": str(order.order_no)}
    found = [name for name, each in ids.items() if _finds(questions, each)]
    said = f"the last conversion is found by {', '.join(found) or 'none of xid, quote id and order number'}"
    right = setting in found or (setting == "nothing" and not found)
    proposed = None if right else (found[0] if found else "nothing")
    return Proof(
        "conversion_found_by", setting, ProofVerdict.PROVEN if right else ProofVerdict.CONTRADICTED, said, proposed
    )


def _finds(questions: Questions, request_id: str) -> bool:
    answer = questions.ask(QueryTransaction(request_id=request_id))
    return isinstance(answer, TransactionRecord) and not questions.rules.says_no_such_order(answer)


def _conversion_fees(rules: ServiceRules, ledger: Ledger) -> Proof:
    setting, name = rules.conversion_fee_in, "conversion_fee_in"
    quotes, orders = schema.quotes.c, schema.orders.c
    query = (
        select(quotes.fee_currency, quotes.pay_currency, quotes.receive_currency)
        .select_from(schema.quotes.join(schema.orders, quotes.order_id == orders.id))
        .where(orders.operation == ConversionExecute.operation_name(), quotes.fee_currency.is_not(None))
        .order_by(quotes.id.desc())
        .limit(1)
    )
    row = next(iter(ledger.read(query)), None)
    if row is None:
        return Proof(name, setting, ProofVerdict.OPEN, "this ledger knows no quote of a conversion that shows a fee")
    shown = {row.receive_currency: "received", row.pay_currency: "paid"}.get(row.fee_currency)
    said = f"the last quote takes its fee in {row.fee_currency}, for {row.pay_currency} to {row.receive_currency}"
    if shown == setting:
        return Proof(name, setting, ProofVerdict.PROVEN, said)
    return Proof(name, setting, ProofVerdict.CONTRADICTED, said, shown)


def _payout_currency(questions: Questions, ledger: Ledger) -> Proof:
    setting, name = questions.rules.payout_shown_in, "payout_shown_in"
    for order in last_shown(ledger, [Payout.operation_name()], 20):
        if order.currency == order.receive_currency or order.receive_currency is None:
            continue
        shown = _query(questions, order)
        if shown is None or shown.currency is None:
            continue
        found = {order.currency: "paid", order.receive_currency: "received"}.get(shown.currency)
        said = f"a payout from {order.currency} in {order.receive_currency} is shown in {shown.currency}"
        if found == setting:
            return Proof(name, setting, ProofVerdict.PROVEN, said)
        return Proof(name, setting, ProofVerdict.CONTRADICTED, said, found)
    return Proof(name, setting, ProofVerdict.OPEN, "this ledger knows no payout from one currency in another")


@exact
def _fees(questions: Questions, ledger: Ledger) -> Proof:
    """Tell whether what arrived is the amount, or the amount less its fee, operation by operation."""
    setting = questions.rules.fee_on_top
    places: dict[str, str] = {}
    for operation in SHOWN_BY_QUERY:
        for order in last_shown(ledger, [operation], 3):
            shown = _query(questions, order)
            if shown is None or not shown.fee or shown.amount is None or shown.arrive_amount is None:
                continue
            if shown.arrive_amount in (shown.amount, shown.amount - shown.fee):
                places[operation] = "on top" if shown.arrive_amount == shown.amount else "inside"
                break
    if not places:
        said = "no order of this ledger shows a fee and what arrived"
        return Proof("fee_on_top", sorted(setting), ProofVerdict.OPEN, said)
    said = "; ".join(f"the fee of {name} is taken {where} of its amount" for name, where in places.items())
    on_top = {name for name, where in places.items() if where == "on top"}
    right = sorted((setting - places.keys()) | on_top)
    if right == sorted(setting):
        return Proof("fee_on_top", right, ProofVerdict.PROVEN, said)
    return Proof("fee_on_top", sorted(setting), ProofVerdict.CONTRADICTED, said, right)


def _query(questions: Questions, order: Order) -> SeenOrder | None:
    """Return what the service shows of an order, as it is; None when it shows nothing."""
    operation, rules = CATALOGUE[order.operation], questions.rules
    answer = questions.ask(rules.question(operation, order.asked_as, order.confirmation, order.order_no))
    if isinstance(answer, Refused) or not hasattr(answer, "as_order"):
        return None
    seen: SeenOrder = answer.as_order()
    return seen


def _statuses(rules: ServiceRules, ledger: Ledger) -> Proof:
    """Statuses that are in no list: an order that shows one never ends."""
    table = schema.orders.c
    query = select(table.status, func.count().label("number")).where(table.status.is_not(None)).group_by(table.status)
    unlisted = {row.status: row.number for row in ledger.read(query) if not OrderStatus(row.status).is_classified}
    setting = rules.entry("statuses")
    if not unlisted:
        return Proof(
            "statuses", setting, ProofVerdict.OPEN, "no order of this ledger shows a status that is in no list"
        )
    said = ", ".join(
        f"status {status} is shown of {count_of(number, 'order')}" for status, number in sorted(unlisted.items())
    )
    said += ": ask the service's support what it means, then list it (TREASURY_STATUSES=12:processing)"
    return Proof("statuses", setting, ProofVerdict.OPEN, said)


def judge_unconfirmed(rules: ServiceRules, ledger: Ledger) -> Proof:
    """Which statuses this account never showed for a confirmed payout, by its own history."""
    name, adopted = "unconfirmed_statuses", rules.unconfirmed_statuses
    seen = seen_statuses(ledger, CreateFiatPayout.operation_name())
    setting = rules.entry(name)
    if wrong := sorted(seen & adopted):
        said = f"status {', '.join(map(str, wrong))} was shown for a confirmed payout of this account"
        return Proof(name, setting, ProofVerdict.CONTRADICTED, said, sorted(adopted - seen))
    number = _confirmed_payouts(ledger)
    never = [status for status in MAYBE_UNCONFIRMED if status not in seen]
    said = f"{number} confirmed payouts settled since their statuses are noted"
    if number < ENOUGH_PAYOUTS:
        return Proof(name, setting, ProofVerdict.OPEN, f"{said}; {ENOUGH_PAYOUTS} are needed to say anything")
    said += f"; none was ever shown with {', '.join(map(str, never)) or 'another one than were shown'}"
    proposed = sorted({*adopted, *never})
    if proposed == setting:
        return Proof(name, setting, ProofVerdict.PROVEN, said)
    return Proof(name, setting, ProofVerdict.OPEN, said, proposed)


def _confirmed_payouts(ledger: Ledger) -> int:
    """Confirmed payouts that settled and were sent since statuses are noted; earlier ones showed theirs to nobody."""
    orders, statuses = schema.orders.c, schema.seen_statuses.c
    confirmed = CreateFiatPayout.operation_name()
    first = select(func.min(statuses.first_seen)).where(statuses.operation == confirmed).scalar_subquery()
    chosen = (orders.operation == confirmed) & (orders.state == State.SETTLED.value) & (orders.sent_at >= first)
    [[number]] = ledger.read(select(func.count()).select_from(schema.orders).where(chosen))
    return int(number)


def _not_to_be_asked(rules: ServiceRules) -> Iterator[Proof]:
    """Entries that only a request which creates or moves something could show."""
    said = "only a request that is refused, or that creates something, would show it: ask the service's support"
    yield Proof("refused_for_good", rules.entry("refused_for_good"), ProofVerdict.OPEN, said)
    yield Proof("asked_first", rules.entry("asked_first"), ProofVerdict.OPEN, said)
    yield Proof("both_quote_amounts", rules.both_quote_amounts, ProofVerdict.OPEN, said)
    said = "the life of a quote whose end is not shown: ask the service's support"
    yield Proof("quote_life_seconds", rules.quote_life_seconds, ProofVerdict.OPEN, said)
