"""Fiat payouts: a quote captures the route, a confirmation pays (document, endpoint 18; public fact 5.1)."""

from decimal import Decimal
from typing import Any

from treasury.provider.fiat_payouts import CreateFiatPayout, FiatPayoutQuote
from treasury.sandbox.answers import Refusal, Repeated, invalid
from treasury.sandbox.behaviour import charge, is_on_top
from treasury.sandbox.books import ZERO, BookAccount
from treasury.sandbox.currencies import Currency, check_decimals, check_minimum, find_currency, needed, received, trim
from treasury.sandbox.entities import Order, OrderStatus, Quote, ending_of
from treasury.sandbox.faults import strikes_order
from treasury.sandbox.handlers.queries import fiat_payout_record
from treasury.sandbox.lifecycle import accept
from treasury.sandbox.routes import BANK_FIELDS, PURPOSES, SWIFT, SWIFT_PERSONAL, find_route
from treasury.sandbox.world import World


def quote(world: World, asked: FiatPayoutQuote) -> dict[str, Any]:
    """Quote a payout. An identical repeat answers the first quote, another content under the same id is refused."""
    content = asked.body()
    first = world.find_quote(asked.request_id)
    if first is not None and first.operation == asked.operation_name():
        if first.content != content:
            raise invalid("request_id", "already stands for a quote with other content")
        return _quote_record(first)
    world.require_new(asked.request_id)
    made = _new_quote(world, asked, content)
    world.save_quote(made)
    return _quote_record(made)


def _new_quote(world: World, asked: FiatPayoutQuote, content: dict[str, Any]) -> Quote:
    pay = find_currency(asked.pay_currency, 202211)
    receive = find_currency(asked.receive_currency, 202211)
    rate = world.rates.rate(pay, receive, "SELL", world.now)
    fee = world.rates.fiat_fee(pay, world.now) * world.settings.behaviour.fee_times
    inside = ZERO if is_on_top(world.settings.behaviour, CreateFiatPayout.operation_name()) else fee
    pay_amount, receive_amount = _amounts(asked, pay, receive, rate, inside)
    _check_route(asked, receive_amount)
    beneficiary = asked.individual_beneficiary or asked.enterprise_beneficiary
    expired = strikes_order(world.settings, "quote_expired", asked.request_id)
    return Quote(
        number=world.number("fiat quote", asked.request_id),
        reference=asked.request_id,
        operation=asked.operation_name(),
        pay_currency=pay.code,
        pay_amount=pay_amount,
        fee_currency=pay.code,
        fee=fee,
        receive_currency=receive.code,
        receive_amount=receive_amount,
        rate=rate,
        created_at=world.now,
        expires_at=world.now + (0 if expired else world.settings.quote_seconds),
        advanced=world.clock.advanced,
        content=content,
        ending=ending_of(beneficiary.account_no if beneficiary else ""),
    )


def _amounts(
    asked: FiatPayoutQuote, pay: Currency, receive: Currency, rate: Decimal, inside: Decimal
) -> tuple[Decimal, Decimal]:
    """Return what is paid and what arrives; the one that the mode names is exact, the other is rounded against the
    partner.

    `inside` is the fee as far as it is part of what is paid.
    """
    if asked.quote_mode == "source":
        spent = asked.pay_amount or ZERO
        check_decimals("pay_amount", spent, pay)
        if spent <= inside:
            raise Refusal(202212, f"the fee is {inside} {pay.code}")
        amounts = spent, received(spent - inside, rate, receive)
    else:
        wanted = asked.receive_amount or ZERO
        check_decimals("receive_amount", wanted, receive)
        amounts = trim(needed(wanted, rate, pay) + inside), wanted
    check_minimum(amounts[1], receive)
    return amounts


def _check_route(asked: FiatPayoutQuote, receive_amount: Decimal) -> None:
    """206003 for a route that does not exist or a limit it has; 400 for beneficiary fields that the route wants."""
    route = find_route(asked.beneficiary_country, asked.receive_currency)
    if route is None:
        raise Refusal(206003, f"no payout to {asked.beneficiary_country} in {asked.receive_currency}")
    if not route.reaches(asked.beneficiary_bank_id, asked.clear_network):
        raise Refusal(206003, f"{asked.beneficiary_bank_id} over {asked.clear_network} in {asked.beneficiary_country}")
    if receive_amount > route.limit:
        raise Refusal(206003, f"at most {route.limit} {route.currency} at once")
    given = asked.beneficiary_fields or {}
    for key, label in BANK_FIELDS.get(asked.clear_network, {}).items():
        if not given.get(key):
            raise invalid(f"beneficiaryFields.{key}", f"is required ({label})")
    if asked.clear_network == SWIFT and asked.individual_beneficiary is not None:
        for name in SWIFT_PERSONAL:
            if getattr(asked.individual_beneficiary, name) is None:
                raise invalid(f"individual_beneficiary.{name}", "is required for SWIFT")


def _quote_record(quoted: Quote) -> dict[str, Any]:
    return {
        "request_id": quoted.reference,
        "order_no": quoted.number,
        "transaction_time": quoted.shown_ms(quoted.created_at),
        "quote_mode": quoted.content["quote_mode"],
        "pay_amount": quoted.pay_amount,
        "pay_currency": quoted.pay_currency,
        "fee_amount": quoted.fee,
        "fee_currency": quoted.fee_currency,
        "exchange_rate": quoted.rate,
        "receive_amount": quoted.receive_amount,
        "receive_currency": quoted.receive_currency,
        "expire_time": quoted.shown_ms(quoted.expires_at),
    }


def create(world: World, asked: CreateFiatPayout) -> dict[str, Any]:
    """Confirm a quote: once, in time, by its number; the payout keeps the quote's number and `request_id`."""
    quoted = world.quotes.get(asked.order_no)
    if quoted is None or quoted.operation != FiatPayoutQuote.operation_name():
        raise Refusal(7000, asked.order_no)
    if asked.purpose_code not in PURPOSES:
        raise invalid("purpose_code", "is not a remittance purpose")
    confirm(world, quoted, "order_no")
    order = Order(
        order_no=quoted.number,
        request_id=quoted.reference,
        operation=asked.operation_name(),
        order_type="exchange",
        status=OrderStatus.SUBMITTED,
        source=BookAccount.HOLD,
        currency=quoted.pay_currency,
        amount=quoted.pay_amount,
        debit=charge(world.settings.behaviour, asked.operation_name(), quoted.pay_amount, quoted.fee).debit,
        fee_currency=quoted.fee_currency,
        fee=quoted.fee,
        target=BookAccount.BENEFICIARIES,
        credit_currency=quoted.receive_currency,
        credit=quoted.receive_amount,
        created_at=world.now,
        ending=quoted.ending,
        metadata={
            "description": asked.description or "",
            "receiveAmount": str(quoted.receive_amount),
            "receiveCurrency": quoted.receive_currency,
            "exchangeRate": str(quoted.rate),
        },
    )
    accept(world, order)
    quoted.confirmed = True
    world.save_quote(quoted)
    order.reply = fiat_payout_record(quoted, order)
    return order.reply


def confirm(world: World, quoted: Quote, field: str) -> None:
    """Refuse a second confirmation (202224) and one that comes too late (400)."""
    if quoted.confirmed:
        order = world.find_order(quoted.reference)
        raise Repeated(quoted.number, None if order is None else order.order_no)
    if world.now >= quoted.expires_at:
        raise invalid(field, "the quote has expired")
