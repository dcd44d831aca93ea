"""Queries: what became of an order (document, endpoint 2; public fact 5.2)."""

import json
from typing import Any

from treasury.interface.status import OrderStatus
from treasury.sandbox.entities import Order, Quote
from treasury.sandbox.faults import strikes_order
from treasury.sandbox.forms.fiat_payouts import FiatPayoutQuote, QueryFiatPayout
from treasury.sandbox.forms.orders import QueryTransaction
from treasury.sandbox.refusal import Refusal
from treasury.sandbox.world import World


def query_transaction(world: World, asked: QueryTransaction) -> dict[str, Any]:
    """Any order by its `request_id` (a conversion by its `xid`)."""
    order = _visible(world, world.find_order(asked.request_id))
    if order is None or asked.order_no not in (None, order.order_no):
        raise Refusal(7000, asked.request_id)
    return {
        "order_no": order.order_no,
        "request_id": order.request_id,
        "partner_id": world.settings.partner_id,
        "currency": order.currency,
        "order_type": order.order_type,
        "order_amount": order.amount,
        "arrive_amount": order.arrive_amount if order.arrive_amount is not None else "",
        "fee_amount": order.fee if order.arrive_amount is not None else "",
        "finish_time": "" if order.finished_at is None else str(int(order.finished_at)),
        "status": order.status,
        "reason": order.reason,
        "metadata": json.dumps(order.metadata, ensure_ascii=False, separators=(",", ":")),
    }


def query_fiat_payout(world: World, asked: QueryFiatPayout) -> dict[str, Any]:
    """A confirmed payout, or an unconfirmed quote with status 11, by the quote's `request_id` or by number."""
    asked_for = asked.request_id or asked.order_no or ""
    quote = world.find_quote(asked_for) if asked.request_id else world.quotes.get(asked_for)
    if quote is None or quote.operation != FiatPayoutQuote.name:
        raise Refusal(7000, asked_for)
    if asked.order_no not in (None, quote.number):
        raise Refusal(7000, f"{asked_for} is not {asked.order_no}")
    order = world.orders.get(quote.number)
    if order is not None and _visible(world, order) is None:
        raise Refusal(7000, asked_for)
    return fiat_payout_record(quote, order)


def fiat_payout_record(quote: Quote, order: Order | None) -> dict[str, Any]:
    """The record that creation and query answer (public fact 5.1); times are 13-digit milliseconds."""
    finished = None if order is None else order.finished_at
    return {
        "order_no": quote.number,
        "request_id": quote.reference,
        "pay_amount": quote.pay_amount,
        "pay_currency": quote.pay_currency,
        "receive_amount": quote.receive_amount,
        "receive_currency": quote.receive_currency,
        "fee_amount": quote.fee,
        "fee_currency": quote.fee_currency,
        "exchange_rate": quote.rate,
        "status": OrderStatus.SUBMITTED if order is None else order.status,
        "failure_reason": None if order is None else order.reason or None,
        "create_time": int((quote.created_at if order is None else order.created_at) * 1000),
        "finish_time": None if finished is None else int(finished * 1000),
    }


def _visible(world: World, order: Order | None) -> Order | None:
    """The order, unless the fault `read_lag` still hides it."""
    if order is None or world.now >= order.created_at + world.settings.read_lag_seconds:
        return order
    return None if strikes_order(world.settings, "read_lag", order.request_id) else order
