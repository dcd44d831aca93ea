"""Answers of a service to plan, and the intents whose orders are sent to it."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest

from tests.moved_clock import START
from treasury.ledger.intents import commit_plan
from treasury.ledger.quotes import reference_of
from treasury.orders.payment_decisions import Bounds
from treasury.orders.records import Intent, Order
from treasury.payments.desk import Desk

PAYOUT, QUERY = "/v1/order/payout", "/v1/order/query"
QUOTE, CREATE, FIAT_QUERY = (f"/v1/fiatpayout/payouts/{last}" for last in ("quote", "create", "query"))
CONVERSION_QUOTE, EXECUTE = "/v1/conversion/quote", "/v1/conversion/execute"
ABSENT = (200, {"code": 7000, "message": "ORDER_NOT_EXIST"})
OpenDesk = Callable[..., Desk]
ONE_ORDER = [pytest.mark.usefixtures("one_attempt"), pytest.mark.sqlite_alone]
"""Marks of a module of tests about one order and its answers, for which one database is enough."""
DAY, MARGIN, WINDOW = 86_400, 600, 600
"""Seconds: the life of a quote without an end, the margin after it, and how far apart two absences are."""
FAR = int(START)
"""The time at which a clock that is set by hand begins: later than any real one, Unix seconds."""


def ok(**data: Any) -> tuple[int, Any]:
    return (200, {"code": 200, "message": "success", "data": data})


def refused(code: int | str, http_status: int = 200) -> tuple[int, Any]:
    return (http_status, {"code": code, "message": "no"})


KNOWN = refused(202224)
"""The service says that it knows this reference already."""


def accepted(body: Mapping[str, Any]) -> tuple[int, Any]:
    return ok(
        request_id=body["request_id"],
        order_no="P1",
        status=11,
        order_amount=body.get("amount"),
        currency=body.get("currency"),
    )


def taken(body: Mapping[str, Any]) -> tuple[int, Any]:
    """A request is accepted, and its answer says no more than its number."""
    return ok(order_no=number_of(body), status=11)


def number_of(body: Mapping[str, Any]) -> str:
    """The number that the service gives to the order of a request: each has its own."""
    return f"P-{body['request_id']}"


def shown(status: int, **changes: Any) -> Callable[[Mapping[str, Any]], tuple[int, Any]]:
    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        data = {"order_amount": "10.00", "currency": "USDT", "order_no": "P1", "status": status}
        return ok(**{**data, "request_id": body["request_id"], **changes})

    return answer


PAYOUT_FIELDS = {
    "payout_method": "bank_transfer",
    "account_no": "123456789012",
    "account_name": "Example Person",
    "country": "ID",
    "bank_code": "1000120",
    "settle_currency": "IDR",
    "amount": "10.00",
    "currency": "USDT",
    "phone": "0812000000",
    "email": "person@example.com",
}


def payout() -> Intent:
    money: dict[str, Any] = {"currency": "USDT", "amount": Decimal("10.00")}
    return Intent("a", "payout", PAYOUT_FIELDS, PAYOUT_FIELDS, **money)


def fiat_payout() -> Intent:
    party = {"account_no": "DE02120300000000202051", "bank_name": "Bank", "address": "Ring 1"}
    quote = {
        "quote_mode": "source",
        "pay_currency": "USDT",
        "pay_amount": "100.00",
        "receive_currency": "EUR",
        "beneficiary_country": "DE",
        "beneficiary_bank_id": "2000800",
        "account_type": "PERSONAL",
        "beneficiary_relationship": "third",
        "clear_network": "SWIFT",
        "individual_beneficiary": party,
    }
    bounds = Bounds("USDT", "EUR", pay_amount=Decimal("100.00"), min_rate=Decimal("0.9"))
    payload = {"quote": quote, "confirm": {"purpose_code": "30"}, "bounds": bounds.as_dict()}
    return Intent("a", "create_fiat_payout", payload, payload, "USDT", Decimal("100.00"), "EUR")


def conversion() -> Intent:
    quote = {"symbol": "ETH-USDT", "amount": "1", "currency": "ETH", "side": "SELL"}
    bounds = Bounds("ETH", "USDT", pay_amount=Decimal(1), min_rate=Decimal(1900))
    payload = {"quote": quote, "confirm": {}, "bounds": bounds.as_dict()}
    return Intent("a", "conversion_execute", payload, payload, "ETH", Decimal(1), "USDT")


def fiat_quote(rate: str = "0.95", **changes: Any) -> Callable[[Mapping[str, Any]], tuple[int, Any]]:
    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        data = {"order_no": "Q-" + body["request_id"], "pay_amount": "100.00", "pay_currency": "USDT"}
        data |= {
            "receive_amount": "95.00",
            "receive_currency": "EUR",
            "exchange_rate": rate,
            "request_id": body["request_id"],
        }
        now = FAR * 1000
        data |= {"transaction_time": now, "expire_time": now + 60_000}
        return ok(**{**data, **changes})

    return answer


def lives(seconds: int) -> dict[str, int]:
    """A conversion quote that is made now."""
    now = FAR * 1000
    return {"timeMills": now, "expiredMills": now + seconds * 1000}


def confirmed(body: Mapping[str, Any]) -> tuple[int, Any]:
    return ok(order_no=body["order_no"], status=22, pay_amount="100.00", pay_currency="USDT")


def plan(desk: Desk, intent: Intent) -> Order:
    commit_plan(desk.ledger, "run", "test", {}, "0" * 64, [intent])
    return desk.ledger.orders()[0]


def steps(desk: Desk, order: Order) -> list[str]:
    return [entry.event for entry in desk.ledger.journal(order)]


def restored(desk: Desk, intent: Intent) -> Order:
    return desk.ledger.note(plan(desk, intent), absences_needed=1)


def under(desk: Desk, order: Order, generation: int, answer: Any) -> Callable[[Mapping[str, Any]], tuple[int, Any]]:
    """An answer about one generation of an order; about the others it knows nothing."""
    reference = reference_of(desk.ledger, order, generation)

    def reply(body: Mapping[str, Any]) -> tuple[int, Any]:
        return tuple(answer(body)) if body["request_id"] == reference else ABSENT

    return reply


BUSY: tuple[tuple[int, dict[str, Any]], ...] = (
    (429, {"code": 429, "message": "RATE_LIMIT_REACHED"}),
    (503, {}),
    (200, {"code": 500, "message": "system error"}),
)
"""Answers of a service that is busy, and rejects nothing."""
