"""Raw sockets that misbehave at one stage of an exchange, and count what they were sent."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

ANSWER = b'{"code":200,"data":{}}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)


def reset(connection: socket.socket) -> None:
    """Close with RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class Conversation:
    """One connection, as a test's script sees it."""

    def __init__(self, connection: socket.socket, server: "RawServer") -> None:
        self.connection = connection
        self._server = server
        self._pending = b""

    def read_head(self) -> bytes:
        """Read a request's head; empty when the client has gone."""
        while b"\r\n\r\n" not in self._pending:
            data = self._receive()
            if not data:
                return b""
            self._pending += data
        head, self._pending = self._pending.split(b"\r\n\r\n", 1)
        return head

    def read_body(self, head: bytes) -> bytes:
        """Read its body."""
        [length] = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        while len(self._pending) < length:
            data = self._receive()
            if not data:
                break
            self._pending += data
        body, self._pending = self._pending[:length], self._pending[length:]
        return body

    def read(self) -> bytes:
        """Read a whole request and count it."""
        head = self.read_head()
        return self.read_body(head) if head else b""

    def _receive(self) -> bytes:
        with suppress(OSError):
            data = self.connection.recv(65536)
            self._server.seen += data
            return data
        return b""

    def answer(self, head: bytes = HEAD, body: bytes = ANSWER) -> None:
        with suppress(OSError):
            self.connection.sendall(head + body)


class RawServer:
    """Listens; plays its script for each connection, which is given the number of the connection, from 0."""

    def __init__(self, script: Callable[[Conversation, int], object]) -> None:
        self.seen = b""
        """Every byte that arrived, on whatever connection."""
        self.connections = 0
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.port = self._listener.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number, self.connections = self.connections, self.connections + 1
            threading.Thread(target=self._play, args=(connection, number), daemon=True).start()

    def _play(self, connection: socket.socket, number: int) -> None:
        with suppress(OSError):
            self._script(Conversation(connection, self), number)
        with suppress(OSError):
            connection.close()

    def transmissions(self, mark: bytes) -> int:
        """How often a body that holds this mark arrived."""
        end = time.monotonic() + 0.1  # a second one would come at once
        while time.monotonic() < end:
            time.sleep(0.01)
        return self.seen.count(mark)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class ForwardingProxy(RawServer):
    """A plain HTTP proxy: takes absolute URLs, opens a connection for each request, hands bytes through."""

    def __init__(self) -> None:
        super().__init__(self._forward)
        self.forwarded = 0

    def _forward(self, client: Conversation, _: int) -> None:
        head = client.read_head()
        if not head:
            return
        body = client.read_body(head)
        line, rest = head.split(b"\r\n", 1)
        method, url, version = line.split(b" ")
        host, path = url.removeprefix(b"http://").split(b"/", 1)
        name, port = host.split(b":")
        self.forwarded += 1
        with socket.create_connection((name.decode(), int(port)), timeout=5) as upstream:
            upstream.sendall(method + b" /" + path + b" " + version + b"\r\n" + rest + b"\r\n\r\n" + body)
            while data := upstream.recv(65536):
                client.connection.sendall(data)
