"""A real HTTP server on a free port whose every answer is decided by a function, and a port where nobody listens."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from treasury.clock import MACHINE, Clock

Answer = tuple[int, bytes, Mapping[str, str]] | None
"""HTTP status, body, further headers; None closes the connection without an answer."""


class Listening:
    """Listens from the start until `close`. Requests come on threads of their own."""

    def __init__(self, answer: Callable[[str, bytes], Answer], clock: Clock = MACHINE) -> None:
        """`answer`: what is answered to a POST, by its path and body; the date of answers is the clock's."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                found = answer(self.path, self.rfile.read(int(self.headers["Content-Length"])))
                if found is None:
                    self.close_connection = True
                    return
                status, body, headers = found
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return formatdate(clock.wall() if timestamp is None else timestamp, usegmt=True)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 256  # a pool connects all at once; the default of 5 resets some on a busy machine
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def kept_port() -> Iterator[int]:
    """Keep a free port from everybody but this test's own server, which may listen there (`SO_REUSEADDR`)."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]
