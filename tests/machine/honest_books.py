"""A service over real HTTP whose dictionary is the truth: what it really did, whatever it answered.

It shares no code with the engine or the sandbox. It is hostile in one way on purpose: a reference that is sent again
acts again, so a payment that leaves twice shows as two effects.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.listening import Answer, Listening
from treasury.clock import MACHINE, Clock

ACTS = ("answer", "drop after", "500 after", "unlisted after", "half after", "other amount after")
"""Moods in which a request that moves money acts."""
DOES_NOT_ACT = ("drop before", "500 before", "refuse", "too many")
MOODS = (*ACTS, *DOES_NOT_ACT)


@dataclass
class Truth:
    """One payee: how often money moved to it, and every status that was ever shown of it."""

    effects: int = 0
    status: int = 0
    shown: list[int] = field(default_factory=list)


class HonestBooks:
    """Answers payouts, fiat payouts, conversions and queries; `moods` says how the next ones that move money go."""

    def __init__(self, clock: Clock = MACHINE) -> None:
        self.clear()
        self._listening = Listening(self._reply, clock)
        self.base_url = self._listening.base_url

    def _reply(self, path: str, content: bytes) -> Answer:
        with self.guard:
            status, data = self.answer(path, json.loads(content))
        return (status, data, self.headers) if status else None

    def clear(self) -> None:
        """Begin again."""
        self.guard = threading.Lock()
        self.truth: dict[str, Truth] = {}
        self.payee_of: dict[str, str] = {}
        self.terms: dict[str, dict[str, Any]] = {}
        self.number_of: dict[str, str] = {}
        self.moods: list[str] = []
        self.headers: dict[str, str] = {}
        self.questions_fail = False
        self.shows_conversions = True

    def close(self) -> None:
        self._listening.close()

    # --- what the test does to the world ---

    def end(self, payee: str, status: int) -> None:
        """The bank decides: 22, 99, 44 or 88."""
        if payee in self.truth:
            self.truth[payee].status = status

    # --- answers ---

    def answer(self, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        if path.endswith("/quote"):
            return self._quote(path, body)
        if path.endswith("/query"):
            return self._query(path, body)
        return self._move(path, body)

    def _quote(self, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        conversion = "conversion" in path
        reference = body["xid" if conversion else "request_id"]
        number = f"N-{reference}"
        payee = body["symbol"] if conversion else body["individual_beneficiary"]["account_no"]
        self.payee_of[reference] = self.payee_of[number] = payee
        self.number_of[reference] = number
        if conversion:
            data: dict[str, Any] = {"quoteId": number, "payCurrency": "ETH", "payAmt": "1", "settleCurrency": "USDT"}
            data |= {"settleAmt": "1998", "feeCurrency": "USDT", "feeAmt": "2", "rate": "2000"}
            data |= {"timeMills": 0, "expiredMills": 600_000}
            shown = {"order_amount": "1", "currency": "ETH", "request_id": reference}
        else:
            data = {"order_no": number, "pay_amount": "100.00", "pay_currency": "USDT", "receive_amount": "95.00"}
            data |= {"receive_currency": "EUR", "exchange_rate": "0.95", "request_id": reference}
            data |= {"transaction_time": 1_000, "expire_time": 61_000}
            shown = {"pay_amount": "100.00", "pay_currency": "USDT", "request_id": reference}
        self.terms[number] = self.terms[reference] = shown | {"order_no": number}
        return _ok(data)

    def _move(self, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        mood = self.moods.pop(0) if self.moods else "answer"
        if mood in DOES_NOT_ACT:
            return {
                "drop before": (0, b""),
                "500 before": (500, b"{}"),
                "refuse": _envelope(202203, "INSUFFICIENT_BALANCE"),
                "too many": (429, b"later"),
            }[mood]
        if path.endswith("/payout"):
            reference = body["request_id"]
            self.payee_of[reference] = body["account_no"]
            self.terms[reference] = {
                "request_id": reference,
                "order_no": f"P-{reference}",
                "order_amount": body["amount"],
                "currency": body["currency"],
            }
        else:
            reference = body.get("order_no") or body["quoteId"]
        truth = self.truth.setdefault(self.payee_of[reference], Truth())
        truth.effects += 1
        truth.status = truth.status or 22
        truth.shown.append(truth.status)
        data = {**self.terms[reference], "status": truth.status}
        if mood == "other amount after":
            data |= {name: "7" for name in ("order_amount", "pay_amount") if name in data}
        whole = _ok(data)
        return {
            "drop after": (0, b""),
            "500 after": (500, whole[1]),
            "unlisted after": _envelope(209999, "?"),
            "half after": (200, whole[1][: len(whole[1]) // 2]),
        }.get(mood, whole)

    def _query(self, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        if self.questions_fail:
            return 503, b""
        reference = body.get("request_id") or body["order_no"]
        known = self.terms.get(reference)
        truth = self.truth.get(self.payee_of.get(reference, ""))
        if known is None or ("fiatpayout" not in path and truth is None):
            return _envelope(7000, "ORDER_NOT_EXIST")
        if "-" in self.payee_of[reference] and not self.shows_conversions:
            return _envelope(7000, "ORDER_NOT_EXIST")
        if truth is None:
            return _ok({**known, "status": 11})  # a quote that nobody confirmed
        truth.shown.append(truth.status)
        return _ok({**known, "status": truth.status})


def _ok(data: Mapping[str, Any]) -> tuple[int, bytes]:
    return 200, json.dumps({"code": 200, "message": "success", "data": data}).encode()


def _envelope(code: int, message: str) -> tuple[int, bytes]:
    return 200, json.dumps({"code": code, "message": message}).encode()
