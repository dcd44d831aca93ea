"""A real HTTP proxy in front of a sandbox that answers some questions differently, or none at all."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests import listening
from tests.listening import Listening

Answer = tuple[int, dict[str, Any]]
QUERIES = ("/v1/order/query", "/v1/fiatpayout/payouts/query")


class Proxy:
    """Passes everything on. `planted`: request id -> what becomes of the answer to a query about it."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.planted: dict[str, Callable[[Answer], Answer]] = {}
        self.down = False
        self.asked: list[str] = []
        self.paths: list[str] = []
        self._client = httpx.Client(timeout=10)
        self._listening = Listening(self._reply)
        self.base_url = self._listening.base_url

    def _reply(self, path: str, content: bytes) -> listening.Answer:
        if self.down:
            return None
        status, answer = self.answer(path, content)
        return status, json.dumps(answer).encode(), {"Content-Type": "application/json"}

    def answer(self, path: str, body: bytes) -> Answer:
        """The service's answer, or what a test planted in its place."""
        self.paths.append(path)
        passed = self._client.post(self.upstream + path, content=body, headers={"Content-Type": "application/json"})
        found: Answer = (passed.status_code, passed.json())
        if path not in QUERIES:
            return found
        request_id = json.loads(body).get("request_id", "")
        self.asked.append(request_id)
        return self.planted.get(request_id, lambda answer: answer)(found)

    def close(self) -> None:
        """End it."""
        self._listening.close()
        self._client.close()


@contextmanager
def running_proxy(upstream: str) -> Iterator[Proxy]:
    """A proxy for as long as the block lasts."""
    proxy = Proxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()


def absent(_: Answer) -> Answer:
    """The service knows no such order."""
    return 200, {"code": 7000, "message": "ORDER_NOT_EXIST"}


def broken(_: Answer) -> Answer:
    """The service is out of order."""
    return 500, {"code": 500, "message": "INTERNAL"}


def with_data(**changed: Any) -> Callable[[Answer], Answer]:
    """The answer with some of its data changed."""

    def change(answer: Answer) -> Answer:
        status, content = answer
        return status, {**content, "data": {**content["data"], **changed}}

    return change
