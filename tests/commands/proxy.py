"""A real HTTP proxy in front of a sandbox that answers some questions differently, or none at all."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

Answer = tuple[int, dict[str, Any]]
QUERIES = ("/v1/order/query", "/v1/fiatpayout/payouts/query")


class Proxy:
    """Passes everything on. `planted`: request id -> what becomes of the answer to a query about it."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.planted: dict[str, Callable[[Answer], Answer]] = {}
        self.down = False
        self.asked: list[str] = []
        self._client = httpx.Client(timeout=10)
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if proxy.down:
                    self.close_connection = True
                    self.connection.close()
                    return
                status, content = proxy.answer(self.path, body)
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 256  # a pool connects all at once; the default of 5 resets some on a busy machine
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def answer(self, path: str, body: bytes) -> Answer:
        """The service's answer, or what a test planted in its place."""
        passed = self._client.post(self.upstream + path, content=body, headers={"Content-Type": "application/json"})
        found: Answer = (passed.status_code, passed.json())
        if path not in QUERIES:
            return found
        request_id = json.loads(body).get("request_id", "")
        self.asked.append(request_id)
        return self.planted.get(request_id, lambda answer: answer)(found)

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
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
