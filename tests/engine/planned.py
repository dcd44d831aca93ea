"""A service that answers to plan."""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tests import listening
from tests.listening import Listening
from treasury.clock import MACHINE, Clock

PARTNER_ID = "900001"
Answer = tuple[Any, ...] | str
"""HTTP status, body (bytes or JSON) and perhaps headers, or `drop`: close the connection without an answer."""


ENOUGH = 2_000
"""Requests of one test. Whoever sends more goes round in circles, and is told that nobody knows him: that ends it."""


def _names(body: Mapping[str, Any]) -> set[Any]:
    """The references in a request."""
    return {body[name] for name in ("request_id", "xid", "order_no", "quoteId") if name in body}


class PlannedService:
    """A real HTTP service whose answers the test decides: path -> list of answers, the last one repeats."""

    def __init__(self, clock: Clock = MACHINE) -> None:
        self.clock = clock
        self.plans: dict[str, list[Answer | Callable[[Mapping[str, Any]], Answer]]] = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.knows_only_what_was_sent = False
        """True when a query about a reference that nothing was sent under is answered with "no such order"."""
        self._guard = threading.Lock()
        self._listening = Listening(self._reply, clock)
        self.base_url = self._listening.base_url

    def _reply(self, path: str, content: bytes) -> listening.Answer:
        answer = self.answer(path, json.loads(content))
        if isinstance(answer, str):  # drop
            return None
        status, body, *more = answer
        headers = {name: str(value) for name, value in (more[0] if more else {}).items()}
        return int(status), body if isinstance(body, bytes) else json.dumps(body).encode(), headers

    def plan(self, path: str, *answers: Answer | Callable[[Mapping[str, Any]], Answer]) -> None:
        self.plans[path] = list(answers)

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        with self._guard:
            asks = path.endswith(("order/query", "payouts/query"))
            if asks and self.knows_only_what_was_sent and not self._was_sent(body):
                return 200, {"code": 7000, "message": "ORDER_NOT_EXIST"}
            self.requests.append((path, body))
            if len(self.requests) > ENOUGH:
                return 200, {"code": 403, "message": "FORBIDDEN"}
            plan = self.plans.get(path, [(200, {"code": 7000, "message": "ORDER_NOT_EXIST"})])
            answer = plan.pop(0) if len(plan) > 1 else plan[0]
        return answer(body) if callable(answer) else answer

    def _was_sent(self, asked: Mapping[str, Any]) -> bool:
        return any(_names(sent) & _names(asked) for path, sent in self.requests if not path.endswith("/query"))

    def sent_to(self, path: str) -> list[dict[str, Any]]:
        return [body for where, body in self.requests if where == path]

    def close(self) -> None:
        self._listening.close()
