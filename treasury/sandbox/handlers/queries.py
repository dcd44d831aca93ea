"""Queries: what became of an order (document, endpoint 2; public fact 5.2)."""

import json
from collections.abc import Mapping
from typing import Any

from treasury.provider.fiat_payouts import FiatPayoutQuote, QueryFiatPayout
from treasury.provider.orders import QueryTransaction
from treasury.sandbox.answers import not_there
from treasury.sandbox.books import ZERO
from treasury.sandbox.entities import Order, Quote
from treasury.sandbox.faults import strikes_order
from treasury.sandbox.world import World

CONVERSION, PAYOUT = "conversion", "payout"
"""Order types whose amounts a service may show in either currency."""


def query_transaction(world: World, asked: QueryTransaction) -> Mapping[str, Any] | None:
    """Any order by its `request_id`; a conversion by what the switch `conversion_found_by` says."""
    behaviour = world.settings.behaviour
    order = _visible(world, _find(world, asked.request_id))
    if order is None or asked.order_no not in (None, order.order_no):
        return not_there(behaviour.no_such_order, asked.request_id)
    shown_in = {CONVERSION: behaviour.conversion_shown_in, PAYOUT: behaviour.payout_shown_in}
    return {
        "order_no": order.order_no,
        "request_id": order.request_id,
        "partner_id": world.settings.partner_id,
        **AMOUNTS[shown_in.get(order.order_type, "paid")](order),
        "order_type": order.order_type,
        "finish_time": "" if order.finished_at is None else str(int(order.finished_at)),
        "status": order.status,
        "reason": order.reason,
        "metadata": json.dumps(order.metadata, ensure_ascii=False, separators=(",", ":")),
    }


def _find(world: World, request_id: str) -> Order | None:
    """The order that this `request_id` finds: a conversion may be known by another name, or by none."""
    found_by = world.settings.behaviour.conversion_found_by
    order = world.find_order(request_id)
    if order is not None and order.order_type == CONVERSION:
        return order if found_by == "xid" else None
    if order is None and found_by in ("quote_id", "order_no"):  # a conversion's number is the one that finds it
        numbered = world.orders.get(request_id)
        return numbered if numbered is not None and numbered.order_type == CONVERSION else None
    return order


def _paid(order: Order) -> dict[str, Any]:
    """Amounts in the currency that is paid; a fee in another one is said in `metadata` only."""
    arrives = order.arrive_amount
    return {
        "currency": order.currency,
        "order_amount": order.amount,
        "arrive_amount": "" if arrives is None else arrives,
        "fee_amount": "" if arrives is None else order.fee,
    }


def _received(order: Order) -> dict[str, Any]:
    """Amounts in the currency that arrives, where no fee is left to take."""
    return {
        "currency": order.credit_currency,
        "order_amount": order.credit,
        "arrive_amount": order.credit,
        "fee_amount": ZERO,
    }


def _gross(order: Order) -> dict[str, Any]:
    """Amounts in the currency that arrives: before its fee, after it, and the fee."""
    credit = order.credit or ZERO
    return {**_received(order), "order_amount": credit + order.fee, "fee_amount": order.fee}


AMOUNTS = {"paid": _paid, "received": _received, "gross": _gross}
"""How a service may show the amounts of an order in two currencies (`Behaviour`)."""


def query_fiat_payout(world: World, asked: QueryFiatPayout) -> Mapping[str, Any] | None:
    """A confirmed payout, or an unconfirmed quote if those are found, by the quote's `request_id` or by number."""
    behaviour = world.settings.behaviour
    asked_for = asked.request_id or asked.order_no or ""
    quote = _quote(world, asked)
    if quote is None:
        return not_there(behaviour.no_such_order, asked_for)
    order = world.orders.get(quote.number)
    if (order is None and not behaviour.unconfirmed_found) or (order is not None and _visible(world, order) is None):
        return not_there(behaviour.no_such_order, asked_for)
    return fiat_payout_record(quote, order, behaviour.unconfirmed_status)


def _quote(world: World, asked: QueryFiatPayout) -> Quote | None:
    """The fiat quote that is asked for; both names, where both are given, must be its own."""
    quote = world.find_quote(asked.request_id) if asked.request_id else world.quotes.get(asked.order_no or "")
    if (
        quote is None
        or quote.operation != FiatPayoutQuote.operation_name()
        or asked.order_no not in (None, quote.number)
    ):
        return None
    return quote


def fiat_payout_record(quote: Quote, order: Order | None, unconfirmed: int = 0) -> dict[str, Any]:
    """The record that creation and query answer (public fact 5.1); times are 13-digit milliseconds.

    `unconfirmed` is the status of a quote that has made no order.
    """
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
        "status": unconfirmed if order is None else order.status,
        "failure_reason": None if order is None else order.reason or None,
        "create_time": int((quote.created_at if order is None else order.created_at) * 1000),
        "finish_time": None if finished is None else int(finished * 1000),
    }


def _visible(world: World, order: Order | None) -> Order | None:
    """The order, unless the fault `read_lag` still hides it."""
    if order is None or world.now >= order.created_at + world.settings.read_lag_seconds:
        return order
    return None if strikes_order(world.settings, "read_lag", order.request_id) else order
