"""A recorder between engine and service, over real HTTP: it passes requests on, and keeps what they ask for."""

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx

from tests.listening import Answer, Listening
from treasury.clock import Clock

OF_ONE_REQUEST = ("timestamp", "nonce", "sign")
"""Fields that differ each time the same thing is asked."""


class Recorder:
    """Keeps path and fields of every request, less those of `OF_ONE_REQUEST`."""

    def __init__(self, target: str, clock: Clock) -> None:
        self.asked: list[dict[str, Any]] = []
        self._http = httpx.Client(base_url=target, timeout=10)
        self._guard = threading.Lock()
        self._listening = Listening(self._pass_on, clock)
        self.base_url = self._listening.base_url

    def _pass_on(self, path: str, content: bytes) -> Answer:
        with self._guard:
            fields = {name: value for name, value in json.loads(content).items() if name not in OF_ONE_REQUEST}
            self.asked.append({"path": path, **dict(sorted(fields.items()))})
            found = self._http.post(path, content=content, headers={"Content-Type": "application/json"})
        return found.status_code, found.content, {"Content-Type": "application/json"}

    def text(self, named: Callable[[str], str]) -> str:
        """Every request once, one on a line, sorted by its text. `named` replaces what is random."""
        return "\n".join(sorted({named(json.dumps(each, ensure_ascii=False)) for each in self.asked})) + "\n"

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()
        self._http.close()
