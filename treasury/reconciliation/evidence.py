"""Describes both sides of remarkable orders, in words and in money."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from treasury.money import ZERO, exact, format_amount
from treasury.orders.states import State
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.status import OrderStatus
from treasury.reconciliation.classes import ABOVE_BOUND, Answer

_AT_SERVICE = (State.ACCEPTED, State.SETTLED, State.FAILED, State.CLOSED)

_LEFT = (State.SENDING, State.UNKNOWN, State.ACCEPTED, State.SETTLED)
"""States in which our books have the amount as gone, or on its way."""


@exact
def difference(record: Mapping[str, Any]) -> Decimal:
    """How much more left than the ledger says (negative: less), in the order's currency; zero where unclear."""
    name, ours = record["class"], _decimal(record["amount"])
    seen = None if _only_quoted(record) else _decimal(record["seen_amount"])
    stated = _decimal(record.get("line_amount"))
    if name == "amount_mismatch":
        shown = seen if seen is not None and seen != ours else stated
        return shown - ours if shown is not None and ours is not None else ZERO
    if name in ("partial", ABOVE_BOUND):
        return _beyond(record)
    if name in ("orphan_success", "duplicate_effect"):
        return next((whole for whole in (seen, stated, ours) if whole is not None), ZERO)
    if name == "missing_in_statement" and ours is not None:
        return -ours
    if name in ("missing_at_service", "reversed_after_final") and record["state"] in _LEFT:
        return -next((whole for whole in (ours, seen) if whole is not None), ZERO)
    return ZERO


def _beyond(record: Mapping[str, Any]) -> Decimal:
    """Return what was debited beyond the bound; of one that arrived in part what arrived less what should have."""
    if record["class"] == ABOVE_BOUND:
        return _decimal(record["over_bound"]) or ZERO
    arrived, should = _decimal(record["arrive_amount"]), _decimal(record["should_arrive"])
    return ZERO if arrived is None or should is None else arrived - should


def _only_quoted(record: Mapping[str, Any]) -> bool:
    """An unconfirmed quote's amounts are no payment's: see `sides.Sides.only_quoted`."""
    if record["answer"] != Answer.FOUND or not CATALOGUE[record["operation"]].confirms_quote:
        return False
    shows_payment = record["status"] is not None and OrderStatus(int(record["status"])).is_payment
    return not shows_payment and record["state"] not in _AT_SERVICE


def evidence(record: Mapping[str, Any]) -> str:
    """Both sides in words, and the statement's where there is one."""
    names = ("state", "amount", "currency", "receive_amount", "receive_currency")
    ours = _side(*(record[name] for name in names))
    quoted = _terms(record["fee"], record["fee_currency"], record["rate"])
    quoted += f", at most {_amount(record['bound'])} with its fee" if record["class"] == ABOVE_BOUND else ""
    told = [f"ledger: {ours}{quoted}", f"service: {_service(record)}"]
    if record.get("changed"):
        told.append(f"changed in the database: {record['changed']}")
    if record.get("line_words"):
        told.append(f"statement: {record['line_words']}")
    elif record.get("line_lacks"):
        told.append("statement: no such order")
    return "; ".join(told)


def _service(record: Mapping[str, Any]) -> str:
    if record["answer"] == Answer.ABSENT:
        return "no such order"
    if record["answer"] != Answer.FOUND:
        return f"could not be asked ({record['seen_reason'] or 'no answer'})"
    status = None if record["status"] is None else OrderStatus(int(record["status"]))
    shown = "no status" if status is None else f"{int(status)} {status.name.lower()}"
    names = ("seen_amount", "seen_currency", "seen_receive_amount", "seen_receive_currency")
    said = _side(shown, *(record[name] for name in names))
    said += _terms(record["seen_fee"], record["seen_fee_currency"], record["seen_rate"])
    if record["arrive_amount"] is not None and status is OrderStatus.SUCCESS:
        said += f", {_amount(record['arrive_amount'])} arrived"
    if record["order_no"] is not None and record["known_order_no"] not in (None, record["order_no"]):
        said += f", as order {record['order_no']} instead of {record['known_order_no']}"
    if record["seen_request_id"] is not None:
        said += f", as request id {record['seen_request_id']}"
    if record["unreadable"]:
        said += f", unreadable {record['unreadable']}"
    return said + (f" ({record['seen_reason']})" if record["seen_reason"] else "")


def _side(state: object, amount: object, currency: str | None, receive: object, receive_currency: str | None) -> str:
    money = "" if amount is None else f" {_amount(amount)} {currency or ''}".rstrip()
    arrives = "" if receive is None else f" for {_amount(receive)} {receive_currency or ''}".rstrip()
    return f"{state}{money}{arrives}"


def _terms(fee: object, fee_currency: str | None, rate: object) -> str:
    said = "" if fee is None else f", fee {_amount(fee)} {fee_currency or ''}".rstrip()
    return said + ("" if rate is None else f", rate {_amount(rate)}")


def _decimal(value: object) -> Decimal | None:
    return None if value is None else Decimal(str(value))


def _amount(value: object) -> str:
    return format_amount(value) if isinstance(value, Decimal) else str(value)
