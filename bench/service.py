"""A service that answers at once, as cheaply as Python can: what is measured beside it is the product's own cost.

    python -m bench.service [--latency SECONDS]

Prints its address. Ends with the process that holds the other end of its standard input.
"""

import argparse
import asyncio
import re
import sys
from collections.abc import Callable
from typing import ClassVar

import uvloop

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_REFERENCE = re.compile(rb'"(?:request_id|order_no)": ?"(?:P-)?([^"]*)"')
_CREATES = (b"/v1/order/payout ", b"/v1/fiatpayout/payouts/create ")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_DATA = b'{"code":"200","message":"success","data":{"request_id":"%b","order_no":"P-%b",%b}}'
_ABSENT = b'{"code":7000,"message":"ORDER_NOT_EXIST"}'
_QUOTE = b'"pay_currency":"USDT","pay_amount":"10.00","receive_currency":"EUR","receive_amount":"9.00"'
"""Of every quote: what `tests.parts.sheet` asks for."""


class Service(asyncio.Protocol):
    """One connection; requests may come in pieces."""

    made: ClassVar[set[bytes]] = set()
    """References of what was created: only these are shown by a query."""

    def __init__(self, latency_seconds: float) -> None:
        self._latency = latency_seconds
        self._pending = b""
        self._write: Callable[[bytes], None] = lambda _: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what answers are written to."""
        self._write = transport.write  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole."""
        self._pending += data
        while b"\r\n\r\n" in self._pending:
            head, rest = self._pending.split(b"\r\n\r\n", 1)
            found = _LENGTH.search(head)
            length = int(found[1]) if found else 0
            if len(rest) < length:
                return
            self._pending = rest[length:]
            self._answer(head, rest[:length])

    def _answer(self, head: bytes, body: bytes) -> None:
        named = _REFERENCE.search(body)
        reference = named[1] if named else b""
        if b"/v1/fiatpayout/payouts/quote " in head:
            content = _DATA % (reference, reference, _QUOTE)
        elif any(path in head for path in _CREATES):
            self.made.add(reference)
            content = _DATA % (reference, reference, b'"status":11')
        else:
            content = _DATA % (reference, reference, b'"status":99') if reference in self.made else _ABSENT
        answer = _HEAD % (len(content), content)
        if self._latency:
            asyncio.get_running_loop().call_later(self._latency, self._write, answer)
        else:
            self._write(answer)


async def serve(latency_seconds: float) -> None:
    """Listen on a free port of this machine until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Service(latency_seconds), "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    uvloop.run(serve(parser.parse_args().latency))


if __name__ == "__main__":
    main()
