"""Answers that no service should give, and one that says everything it knows about a payment's payee."""

import json
from collections.abc import Mapping
from typing import Any

from tests.engine.answers import number_of

SUCCESS = {"order_amount": "10.00", "currency": "USDT_TRC20", "order_no": "P-1", "status": 99}


def answer(body: Mapping[str, Any], **changes: Any) -> tuple[int, Any]:
    """A query's answer: paid as asked, but for these members."""
    named = {"request_id": body["request_id"], "order_no": number_of(body)}
    return 200, {"code": 200, "message": "success", "data": {**SUCCESS, **named, **changes}}


def with_number(body: Mapping[str, Any], name: str, text: str) -> tuple[int, bytes]:
    """Return the same, with a number as this text."""
    status, found = answer(body, **{name: "HERE"})
    return status, json.dumps(found).replace('"HERE"', text).encode()


DEEP = "[" * 200_000 + "]" * 200_000

HOSTILE: dict[str, Any] = {
    "metadata nested 200,000 deep": lambda body: answer(body, metadata=DEEP),
    "metadata as an object nested 200,000 deep": lambda body: with_number(body, "metadata", DEEP),
    "a lone surrogate in reason": lambda body: answer(body, reason="no\ud800 such", status=44),
    "NUL and escapes in reason": lambda body: answer(body, reason="a\x00b\x1b[31mc\u202ed", status=44),
    "100,000 characters of reason": lambda body: answer(body, reason="r" * 100_000, status=44),
    "a fee of 1e200000000": lambda body: with_number(body, "fee_amount", "1e200000000"),
    "an amount of 1e200000000": lambda body: with_number(body, "order_amount", "1e200000000"),
    "a fee of 200,000 digits": lambda body: with_number(body, "fee_amount", "9" * 200_000),
    "NUL in order_no": lambda body: answer(body, order_no="P\x00-1"),
    "201 characters of order_no": lambda body: answer(body, order_no="P" * 201),
    "201 characters of currency": lambda body: answer(body, currency="C" * 201),
    "a status of 2 to the 31": lambda body: answer(body, status=2**31),
    "a status of 5,000 digits": lambda body: with_number(body, "status", "9" * 5_000),
    "20,000 unknown members": lambda body: answer(body, **{f"m{number}": number for number in range(20_000)}),
    "2 MB": lambda body: (200, b" " * 2_000_000),
    "no JSON": lambda body: (200, b"\xff\xfe\x00<html>"),
    "a list": lambda body: (200, b"[" * 900_000),
    "nothing": lambda body: "drop",
    "a refusal of many words": lambda body: (400, {"code": "9" * 100_000, "message": "m\x00\x1b]0;t\x07" * 1_000}),
    "a redirect": lambda body: (302, b"", {"Location": "http://127.0.0.1:9/"}),
    "odd headers": lambda body: (200, b"", {"X-A": "b" * 30_000, "Retry-After": "9" * 400}),
}


def echo(values: list[str]) -> str:
    """A text that holds each of these values in some form."""
    forms = [f"{value}; {value.upper()}; {' '.join(value)}; {'-'.join(value.split())}" for value in values]
    return " and ".join(forms)
