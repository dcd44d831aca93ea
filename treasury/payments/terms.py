"""The service's terms of single payments, asked before the yes: what a code costs, what a withdrawal brings."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from treasury.money import exact, format_amount, round_up
from treasury.orders.records import Order
from treasury.orders.rows import PayoutRow, Route
from treasury.payments.desk import Desk
from treasury.payments.offers import OfferQuestions
from treasury.provider.funds import EstimateFee, FeeEstimate
from treasury.provider.orders import VerifyDepositAddress, Withdraw
from treasury.provider.scan_to_pay import QrCodeDetails, ScanToPayInfo, SubmitScanToPay
from treasury.reports.results import DEARER

MAX_ASKED = 200
"""Rows of a plan that the service is asked about one by one."""


@dataclass(frozen=True)
class CodeTerms:
    """The terms of paying a QR code, in the asset that is debited (document, endpoint 14)."""

    amount: Decimal
    fee: Decimal
    rate: Decimal | None
    payee_name: str | None

    @exact
    def at_most(self, margin_percent: Decimal) -> Decimal:
        """Amount and fee with a margin, rounded up to cents."""
        return round_up((self.amount + self.fee) * (100 + margin_percent) / 100, 2)


def terms_of_code(questions: OfferQuestions, qrcode: str, amount: Decimal | None, named: str) -> CodeTerms | None:
    """Return the terms of paying a code; None where the service does not say them in what is debited, or those of
    another payment.

    `amount`: in THB. `named`: the payment, for people.
    """
    debits, receives = SubmitScanToPay.debits, SubmitScanToPay.receives

    def read(reply: QrCodeDetails) -> CodeTerms | None:
        fee = reply.fee_amount or Decimal(0)
        is_other = reply.order_currency not in (None, debits) or reply.currency not in (None, receives)
        is_other = is_other or (fee != 0 and reply.fee_currency not in (None, debits))
        is_other = is_other or (amount is not None and reply.amount not in (None, amount))
        if reply.order_amount is None or reply.order_amount <= 0 or fee < 0 or is_other:
            return None
        return CodeTerms(reply.order_amount, fee, reply.exchange_rate, reply.beneficiary_name)

    asked = ScanToPayInfo(qrcode=qrcode, amount=amount)
    found: CodeTerms | None = questions.ask(asked, f"the cost of the code of {named}", read)
    return found


def terms_of_row(questions: OfferQuestions, row: PayoutRow) -> CodeTerms | None:
    """Return the terms of paying the code of a row; None where the service does not say them."""
    return terms_of_code(questions, row.fields["qrcode"], row.receive_amount, row.row_ref)


@exact
def why_dearer(desk: Desk, order: Order) -> str | None:
    """Say why a code must not be paid now: it costs more than its plan allows for, by the terms asked again; or None.

    None, too, of any other operation, and where the service does not say its terms.
    """
    if order.operation != SubmitScanToPay.operation_name() or order.bound is None:
        return None
    asked = desk.ledger.payload(order)
    terms = terms_of_code(OfferQuestions(desk), asked["qrcode"], Decimal(asked["amount"]), order.row_ref)
    if terms is None or terms.amount + terms.fee <= order.bound:
        return None
    cost, most = format_amount(terms.amount + terms.fee), format_amount(order.bound)
    return f"{DEARER}{cost} {order.currency} now, its fee included, and its plan allows for {most}"


def said_of_rows(desk: Desk, questions: OfferQuestions, rows: Iterable[PayoutRow]) -> dict[str, str]:
    """Row -> what the service says of its payment, in words; of the first `MAX_ASKED` withdrawals and codes."""
    asked = [row for row in rows if row.route in (Route.WITHDRAWAL, Route.QR_CODE)][:MAX_ASKED]

    def said(row: PayoutRow) -> str:
        if row.route is Route.QR_CODE:
            return said_of_code(terms_of_row(questions, row))
        assert row.amount is not None
        return said_of_withdrawal(desk, questions, row.currency, row.amount, row.account, row.fields.get("tag"))

    return dict(zip((row.row_ref for row in asked), desk.run_concurrently(said, asked), strict=True))


def said_of_code(terms: CodeTerms | None) -> str:
    """Say what paying a code costs; nothing where the service does not say its terms."""
    if terms is None:
        return ""
    at = "" if terms.rate is None else f" at {format_amount(terms.rate)}"
    cost = f"{format_amount(terms.amount)} {SubmitScanToPay.debits}{at}, and a fee of {format_amount(terms.fee)}"
    return f"{cost}; the service names {terms.payee_name}" if terms.payee_name else cost


@exact
def said_of_withdrawal(
    desk: Desk, questions: OfferQuestions, currency: str, amount: Decimal, address: str, tag: str | None
) -> str:
    """Say what arrives of a withdrawal, by the estimated fee, and whether its address is the service's own."""
    said = []

    def read(reply: FeeEstimate) -> Decimal | None:
        return reply.fee_amount

    asked = EstimateFee(currency=currency, amount=amount)
    fee: Decimal | None = questions.ask(asked, f"fee estimate of {currency}", read)
    if fee is not None:
        is_on_top = Withdraw.operation_name() in desk.account.rules.fee_on_top
        arrives, how = (amount, "on top") if is_on_top else (amount - fee, "of it")
        said.append(f"about {format_amount(arrives)} arrive: the fee is {format_amount(fee)}, {how}")
    asked_of = VerifyDepositAddress(currency=currency, address=address, tag=tag)
    if questions.ask(asked_of, "whose an address is", lambda reply: reply.result):
        said.append("an address of the service itself")
    return "; ".join(said)
