"""What the sandbox answers, before any HTTP library sees it."""

import json
from collections.abc import Mapping
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


def _text(value: object) -> str:
    if isinstance(value, Decimal):
        return format_amount(value)
    raise TypeError(f"{type(value).__name__} has no place in an answer")


def json_bytes(content: object) -> bytes:
    """JSON as the service writes it: amounts are text."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=_text).encode()


def envelope(code: int | str, message: str, data: Mapping[str, Any] | None = None) -> bytes:
    """The response envelope (document, Response envelope)."""
    return json_bytes({"code": code, "message": message, "data": data})
