"""A proxy between engine and service, over real HTTP: it resends, or answers by itself before or after acting."""

import json
import threading
from collections.abc import Mapping

import httpx

from tests.engine.hostile import HOSTILE
from tests.listening import Answer, Listening

MOVES_MONEY = (
    "/v1/order/payout",
    "/v1/order/withdraw",
    "/v1/scanPay/submit",
    "/v1/fiatpayout/payouts/create",
    "/v1/conversion/execute",
)
QUOTES = ("/v1/fiatpayout/payouts/quote", "/v1/conversion/quote")
STATUSES = (400, 401, 403, 406, 412, 429, 502, 503)
BEHAVIOURS = ("resends", *(f"{status} {when}" for status in STATUSES for when in ("before", "after")))
UNREADABLE = (
    "NUL in order_no",
    "201 characters of order_no",
    "a status of 2 to the 31",
    "a status of 5,000 digits",
    "2 MB",
    "no JSON",
    "a list",
    "nothing",
    "a refusal of many words",
    "a redirect",
    "odd headers",
)
"""Hostile answers (`tests.engine.hostile`) that say nothing of a payment, whichever operation they are given to."""
HOSTILE_BEHAVIOURS = tuple(f"{name} {when}" for name in UNREADABLE for when in ("before", "after"))
PAGE = b"<html><body>gateway</body></html>"


class Proxy:
    """Passes requests on; while it misbehaves, the first request for each path and body does so as it is told."""

    def __init__(self, target: str, behaviour: str, *, quotes_too: bool = False) -> None:
        self.behaviour: str | None = behaviour
        self._paths = MOVES_MONEY + (QUOTES if quotes_too else ())
        self._http = httpx.Client(base_url=target, timeout=10)
        self._guard = threading.Lock()
        self._listening = Listening(self._reply)
        self.base_url = self._listening.base_url

    def _reply(self, path: str, content: bytes) -> Answer:
        behaviour = self.behaviour
        if behaviour is None or path not in self._paths:
            return self._pass_on(path, content)
        if behaviour == "resends":
            self._pass_on(path, content)  # and its answer is lost
            return self._pass_on(path, content)
        name, _, when = behaviour.rpartition(" ")
        if when == "after":
            self._pass_on(path, content)
        if name in UNREADABLE:
            return _hostile(name, content)
        return int(name), PAGE, {"Content-Type": "text/html"}

    def _pass_on(self, path: str, content: bytes) -> Answer:
        with self._guard:
            found = self._http.post(path, content=content, headers={"Content-Type": "application/json"})
        headers: Mapping[str, str] = {"Content-Type": "application/json"}
        return found.status_code, found.content, headers

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()
        self._http.close()


def _hostile(name: str, content: bytes) -> Answer:
    found = HOSTILE[name]({"request_id": "r", **json.loads(content)})
    if found == "drop":
        return None
    status, body, *more = found
    return status, body if isinstance(body, bytes) else json.dumps(body).encode(), more[0] if more else {}


class PacedService:
    """Accepts payouts, so many requests a second; more are refused with 429. Remembers what it accepted."""

    def __init__(self, a_second: float, *, retry_after: bool = True) -> None:
        import time

        self._time = time.monotonic
        self._a_second = a_second
        self._headers = {"Retry-After": "1"} if retry_after else {}
        self._guard = threading.Lock()
        self._left, self._at = a_second, self._time()
        self.effects: dict[str, int] = {}
        self.refused = 0
        self._listening = Listening(self._reply)
        self.base_url = self._listening.base_url

    def _reply(self, path: str, content: bytes) -> Answer:
        with self._guard:
            now = self._time()
            self._left = min(self._a_second, self._left + (now - self._at) * self._a_second)
            self._at = now
            if self._left < 1:
                self.refused += 1
                return 429, b'{"code": 429, "message": "RATE_LIMIT_REACHED"}', self._headers
            self._left -= 1
            body = json.loads(content)
            reference = body.get("request_id", "")
            if path == "/v1/order/payout":
                self.effects[reference] = self.effects.get(reference, 0) + 1
            if reference not in self.effects:
                return 200, b'{"code": 7000, "message": "ORDER_NOT_EXIST"}', {}
        data = {"request_id": reference, "order_no": f"P-{reference}", "status": 99}
        return 200, json.dumps({"code": 200, "message": "success", "data": data}).encode(), {}

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()
