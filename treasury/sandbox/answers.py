"""The sandbox's answers, before any HTTP library sees them."""

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
