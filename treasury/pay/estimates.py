"""Estimates of what payments debit that fix what is received: by the rates of now, and by fees seen or asked for."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal

from treasury.ledger.quotes import quotes_seen
from treasury.money import exact, family_of, round_up
from treasury.orders.rows import WAYS, PayoutRow, Route
from treasury.payments.desk import Desk
from treasury.payments.offers import OfferQuestions, terms_of_row
from treasury.planning.payout_planner import SeenFee, expected_debit, most_expected, seen_fees
from treasury.provider.funds import EstimateFee, TradeRate
from treasury.sheets.reading import Sheet

Pair = tuple[str, str]
"""The currency that is paid, and the one that is received."""


class Estimates:
    """Estimated debits of payments whose quotes will tell: by the rates of now, and by what the newest quotes took as
    fees."""

    def __init__(self, desk: Desk, questions: OfferQuestions, margin: Decimal) -> None:
        self._desk, self._questions, self._margin = desk, questions, margin
        self._seen: dict[tuple[str, str], tuple[SeenFee, ...]] = {}
        self._rates: dict[tuple[str, str], Decimal | None] = {}

    def debit_of(self, pays: str, receives: str, amount: Decimal, ceiling: Decimal | None) -> Decimal | None:
        """Return what is debited for an amount received; None where neither a rate nor a ceiling is known."""
        pair = (pays, receives)
        if pair not in self._seen:
            self._seen[pair] = seen_fees(quotes_seen(self._desk.ledger, pays, receives))
        seen = self._seen[pair]
        if (ceiling is None or seen) and pair not in self._rates:
            self._rates[pair] = rate_of(self._questions, pays, receives)
        return expected_debit(amount, self._rates.get(pair), ceiling, seen, self._margin)


Fixed = Callable[[PayoutRow], Decimal | None]
"""Returns the estimate of a row's debit that an earlier plan fixed."""


def with_estimates(desk: Desk, rows: Sheet[PayoutRow], fixed: Fixed, margin_percent: Decimal) -> Sheet[PayoutRow]:
    """These rows, with the estimates of their debits and a margin: of each that fixes what is received, and of each
    whose fee is charged on top.

    A row whose rate or fee the service does not say has none.
    """
    on_top = desk.account.rules.fee_on_top
    if all(row.amount is not None and row.way.operation not in on_top for row in rows):
        return rows
    quoted = (row for row in rows if row.route is Route.QUOTED and row.amount is None)
    amounts = _amounts(row for row in quoted if fixed(row) is None)
    questions, found = OfferQuestions(desk), Sheet[PayoutRow]()
    found.notes, found.mapped, found.left_out = rows.notes, rows.mapped, rows.left_out
    rates = {pair: rate_of(questions, *pair) for pair in amounts}
    fees = {pair: _fees_of(desk, questions, pair, rates[pair], amounts[pair]) for pair in amounts}
    costs = _costs_of_codes(desk, questions, rows, fixed, margin_percent)
    known = ((row.way.operation, row.currency, row.amount) for row in rows if row.amount is not None)
    fees_on_top = FeesOnTop(desk, questions, known)
    for row in rows:
        estimate = fixed(row) if row.amount is None or row.way.operation in on_top else None
        if estimate is None and row.amount is not None and row.way.operation in on_top:
            estimate = fees_on_top.most(row.way.operation, row.currency, row.amount, margin_percent)
        elif estimate is None and row.route is Route.QR_CODE:
            estimate = costs[row.row_ref]
        elif estimate is None and row.amount is None and row.receive_amount is not None:
            pair = (row.currency, row.receive_currency)
            if (rate := rates[pair]) is not None:
                estimate = most_expected(row.receive_amount, rate, fees[pair], margin_percent)
        found.append(row if estimate is None else replace(row, estimate=estimate))
    return found


def _costs_of_codes(
    desk: Desk, questions: OfferQuestions, rows: Iterable[PayoutRow], fixed: Fixed, margin_percent: Decimal
) -> dict[str, Decimal | None]:
    """Row -> the most that its QR code costs by the service's terms and the margin; None where it does not say them."""
    asked = [row for row in rows if row.route is Route.QR_CODE and fixed(row) is None]
    terms = desk.run_concurrently(lambda row: terms_of_row(questions, row), asked)
    return {
        row.row_ref: None if each is None else each.at_most(margin_percent)
        for row, each in zip(asked, terms, strict=True)
    }


def _amounts(rows: Iterable[PayoutRow]) -> dict[Pair, tuple[Decimal, Decimal]]:
    """Pair -> the smallest and the largest amount received, of rows that fix it."""
    found: dict[Pair, tuple[Decimal, Decimal]] = {}
    for row in rows:
        if row.receive_amount is not None:
            pair, amount = (row.currency, row.receive_currency), row.receive_amount
            least, most = found.get(pair, (amount, amount))
            found[pair] = min(least, amount), max(most, amount)
    return found


def _fees_of(
    desk: Desk, questions: OfferQuestions, pair: Pair, rate: Decimal | None, amounts: tuple[Decimal, Decimal]
) -> tuple[SeenFee, ...]:
    """Return the fees that quotes of a pair took; where none was ever seen, those that the service estimates, and no
    less than `FIRST_FEE_USD`.
    """
    seen = seen_fees(quotes_seen(desk.ledger, *pair))
    if seen or rate is None:
        return seen
    pays = pair[0]
    dollars = rate_of(questions, pays, "USD")
    least = Decimal(0) if dollars is None else round_up(FIRST_FEE_USD / dollars, 8)
    found = []
    for receives in dict.fromkeys(amounts):
        asked = EstimateFee(currency=pays, amount=round_up(receives / rate, 2))
        fee: Decimal | None = questions.ask(asked, f"fee estimate of {pays}", lambda reply: reply.fee_amount)
        found.append(SeenFee(receives, max(fee or least, least)))
    return tuple(found)


FIRST_FEE_USD = Decimal("2.50")
"""The fee that is allowed for while no quote of the pair was ever seen: twice the example (public fact 7.4)."""


class FeeEstimates:
    """Fees of payments as the service estimates them for the smallest and the largest amount of each currency; those
    between lie on the line between these two.
    """

    def __init__(self, questions: OfferQuestions, payments: Iterable[tuple[str, str, Decimal]]) -> None:
        """`payments`: operation, currency and amount of each."""
        self._questions = questions
        self._ends: dict[str, tuple[Decimal, Decimal]] = {}
        for _, currency, amount in payments:
            least, most = self._ends.get(currency, (amount, amount))
            self._ends[currency] = min(least, amount), max(most, amount)
        self._asked: dict[tuple[str, Decimal], Decimal | None] = {}

    @exact
    def of(self, currency: str, amount: Decimal) -> Decimal | None:
        """Return the fee of an amount; None where the service does not say it."""
        least, most = self._ends[currency]
        low, high = self._ask(currency, least), self._ask(currency, most)
        if low is None or high is None or least == most:
            return high if low is not None else None
        return round_up(low + (high - low) * (amount - least) / (most - least), 8)

    def _ask(self, currency: str, amount: Decimal) -> Decimal | None:
        name = (currency, amount)
        if name not in self._asked:
            asked = EstimateFee(currency=currency, amount=amount)
            what = f"fee estimate of {currency}"
            fee: Decimal | None = self._questions.ask(asked, what, lambda reply: reply.fee_amount)
            self._asked[name] = None if fee is None else max(fee, Decimal(0))
        return self._asked[name]


class FeesOnTop:
    """Fees that are charged beside amounts, as `FeeEstimates` has them; that of a code is in what the code costs."""

    def __init__(self, desk: Desk, questions: OfferQuestions, payments: Iterable[tuple[str, str, Decimal]]) -> None:
        """`payments`: operation, currency and amount of each."""
        self._operations = desk.account.rules.fee_on_top - {WAYS[Route.QR_CODE].operation}
        self._estimates = FeeEstimates(questions, (each for each in payments if each[0] in self._operations))

    def of(self, operation: str, currency: str, amount: Decimal) -> Decimal | None:
        """Return the fee on top of an amount; None where the service does not say it."""
        return self._estimates.of(currency, amount) if operation in self._operations else Decimal(0)

    @exact
    def most(self, operation: str, currency: str, amount: Decimal, margin_percent: Decimal) -> Decimal | None:
        """Return an amount, its fee and a margin, where the fee is charged on top and the service says it."""
        fee = self._estimates.of(currency, amount) if operation in self._operations else None
        return None if fee is None else round_up((amount + fee) * (1 + margin_percent / 100), 8)


def rate_of(questions: OfferQuestions, pays: str, receives: str) -> Decimal | None:
    """The rate of now, as many of `receives` as one of `pays` gives; None where the service does not say."""
    base = family_of(pays)
    if base == receives:
        return Decimal(1)
    what = f"rate of {pays} in {receives}"
    asked = TradeRate(base_currency=base, quote_currency=receives)
    found: Decimal | None = questions.ask(asked, what, lambda reply: reply.rate or None)
    return found if found is None or found > 0 else None
