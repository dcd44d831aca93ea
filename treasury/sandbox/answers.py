"""The sandbox's answers before any HTTP library sees them, and its refusals."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from treasury.money import format_amount


@dataclass(frozen=True)
class Answer:
    """One answer, and how it leaves; `drop` closes the connection without an HTTP answer at all."""

    body: bytes = b""
    http_status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    missing_bytes: int = 0
    """Bytes that `Content-Length` announces and that never come."""
    drop: bool = False


Write = Callable[[Decimal], str]
"""How an amount is written."""

_EIGHTEENTH = Decimal(1).scaleb(-18)


def java_text(amount: Decimal) -> str:
    """An amount as Java prints a BigDecimal with scale 18: `12.500000000000000000`, but `0E-18` for zero."""
    return str(amount.quantize(_EIGHTEENTH))  # Python's text of a decimal follows the same rule as Java's


WRITERS: Mapping[str, Write] = {"plain": format_amount, "java": java_text}
"""Value of the switch `amounts_as` -> how it writes."""


def _default(write: Write) -> Callable[[object], str]:
    def text(value: object) -> str:
        if isinstance(value, Decimal):
            return write(value)
        raise TypeError(f"{type(value).__name__} has no place in an answer")

    return text


def json_bytes(content: object, write: Write = format_amount) -> bytes:
    """JSON as the service writes it: amounts are text."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=_default(write)).encode()


def envelope(
    code: int | str, message: str, data: Mapping[str, Any] | None = None, write: Write = format_amount
) -> bytes:
    """The response envelope (document, Response envelope)."""
    return json_bytes({"code": code, "message": message, "data": data}, write)


CONSTANTS: Mapping[int, str] = {
    400: "INVALID_REQUEST",
    401: "NOT_AUTHORIZED",
    404: "RESOURCE_NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    406: "SIGN_ERROR",
    412: "WRONG_TIMESTAMP_OR_NONCE",
    429: "RATE_LIMIT_REACHED",
    500: "SYSTEM_ERROR",
    7000: "ORDER_NOT_EXIST",
    7002: "CURRENCY_NOT_SUPPORT",
    202203: "INSUFFICIENT_BALANCE",
    202206: "QUOTA_MIN_CHECK_FAIL",
    202211: "UNSUPPORTED_CURRENCY",
    202212: "ORDER_AMOUNT_MUST_MORE_THAN_SERVICE_FEE",
    202224: "DOUBLE_PAYMENT",
    206003: "PAYOUT_METHOD_INVALID",
}
"""Code -> constant that opens the message (public facts 3.1 and 3.2)."""


class Refusal(Exception):
    """The answer is `code` and a message: the code's constant, and what exactly is wrong.

    Business codes travel under HTTP 200; what the request itself breaks, under its own HTTP status.
    """

    def __init__(self, code: int | str, detail: str = "", *, http_status: int = 200) -> None:
        self.code = str(code)
        self.http_status = http_status
        constant = CONSTANTS.get(int(code) if self.code.isdigit() else 0, "NOT_EXIST")
        self.message = f"{constant}: {detail}" if detail else constant
        super().__init__(self.message)


class NothingHere(Refusal):
    """HTTP 404 without an envelope, as a path that leads nowhere is answered."""

    def __init__(self) -> None:
        super().__init__(404, http_status=404)


class Repeated(Refusal):
    """A reference that already acted; `order_no` is the order it made, if it made one."""

    def __init__(self, reference: str, order_no: str | None) -> None:
        self.order_no = order_no
        super().__init__(202224, f"{reference} was used before")


def invalid(field: str, rule: str) -> Refusal:
    """A field breaks a rule: code and HTTP status 400, the message names the field."""
    return Refusal(400, f"{field}: {rule}", http_status=400)


def not_there(how: str, detail: str) -> Mapping[str, Any] | None:
    """The data of a query that finds nothing, by the switches `no_such_order` and `no_such_user`; or a refusal."""
    if how == "empty":
        return None
    if how == "empty_record":
        return {}
    raise NothingHere if how == "http-404" else Refusal(how, detail)
