"""When an operation debits a balance: by the balances of nights on which one order alone was on its way."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from treasury.ledger.closing import balance_nights
from treasury.ledger.ledger import Ledger
from treasury.money import exact
from treasury.provider.service_rules import ServiceRules
from treasury.proving.findings import Proof, ProofVerdict
from treasury.reconciliation.balances import Night, pooled
from treasury.reconciliation.rolling import roll_forward

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
