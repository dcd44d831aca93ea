"""Receives the platform's notifications over HTTP: each is answered with 200 only once it is on disk.

Everything that the platform did not sign is answered with 4xx, counted, and changes nothing. TLS is a proxy's.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from prometheus_client import CollectorRegistry, Counter, generate_latest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from treasury.errors import InputError, NotTrusted
from treasury.provider.service_rules import ServiceRules
from treasury.provider.signing import read_notification

LOG = logging.getLogger("treasury")

MAX_BYTES = 64 * 1024
"""Of a body; the largest notification that the public facts show has about 1 KiB."""

READ_SECONDS = 10.0
"""So long a body may take to arrive."""

MOST_WAITING = 5_000
"""Notifications that may wait to be written; the next one is answered with 503, and the platform sends it again."""

AT_ONCE = 500
"""Notifications that are written by one transaction."""


@dataclass(frozen=True)
class Sender:
    """The platform whose notifications are taken: its key, what it signs, and the partner that it writes to."""

    key: rsa.RSAPublicKey
    rules: ServiceRules
    partner_id: str


class _Refusal(Exception):
    """An answer of 4xx, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Listener:
    """Takes notifications; `keep` writes some of them and returns how many were new, `kept` is called after each."""

    def __init__(
        self, sender: Sender, keep: Callable[[Sequence[Mapping[str, Any]]], int], kept: Callable[[], None]
    ) -> None:
        self._sender = sender
        self._keep = keep
        self._kept = kept
        self._registry = CollectorRegistry()
        self._counts = Counter(
            "treasury_notifications", "Notifications by what became of them.", ["outcome"], registry=self._registry
        )
        self._waiting: asyncio.Queue[tuple[Mapping[str, Any], asyncio.Future[None]]] = asyncio.Queue(MOST_WAITING)

    def counts(self) -> dict[str, int]:
        """Outcome -> number: `kept`, `repeated`, `refused` (4xx), `later` (503)."""
        samples = (each for metric in self._counts.collect() for each in metric.samples if each.name.endswith("_total"))
        return {each.labels["outcome"]: int(each.value) for each in samples}

    def build_app(self) -> Starlette:
        """The application: POST to any path is a notification, GET /metrics the counts."""
        routes = [
            Route("/metrics", self._show_metrics, methods=["GET"]),
            Route("/{path:path}", self._receive, methods=["POST"]),
        ]
        return Starlette(routes=routes, lifespan=self._writing)

    @asynccontextmanager
    async def _writing(self, _: Starlette) -> AsyncIterator[None]:
        writer = asyncio.create_task(self._write_all())
        try:
            yield
        finally:
            writer.cancel()
            with suppress(asyncio.CancelledError):
                await writer

    async def _show_metrics(self, _: Request) -> Response:
        return Response(generate_latest(self._registry), media_type="text/plain; version=0.0.4")

    async def _receive(self, request: Request) -> Response:
        try:
            fields = await self._read_signed(request)
        except _Refusal as refusal:
            self._counts.labels("refused").inc()
            LOG.info("a notification was refused with %s: %s", refusal.status, refusal)
            return PlainTextResponse(f"{refusal}\n", refusal.status)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._waiting.put_nowait((fields, written))
            await written
        except Exception:  # too many wait, or it could not be kept, which is logged there: the platform sends it again
            self._counts.labels("later").inc()
            return PlainTextResponse("later\n", 503)
        return PlainTextResponse("kept\n")

    async def _read_signed(self, request: Request) -> Mapping[str, Any]:
        """Read a notification that the platform signed for this partner. Raises `_Refusal`."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                body = await _read(request)
            fields = read_notification(body, self._sender.key, self._sender.rules)
        except TimeoutError:
            raise _Refusal(408, "the body did not arrive in time") from None
        except ClientDisconnect:
            raise _Refusal(400, "the body did not arrive") from None
        except NotTrusted as error:
            raise _Refusal(401, str(error)) from None
        except (InputError, ValueError, RecursionError) as error:
            raise _Refusal(400, str(error)) from None
        if str(fields.get("partner_id", self._sender.partner_id)) != self._sender.partner_id:
            raise _Refusal(403, "the notification is for another partner")
        return fields

    async def _write_all(self) -> None:
        """Write what waits, some at a time; whoever sent it is answered after that."""
        while True:
            some = [await self._waiting.get()]
            while len(some) < AT_ONCE and not self._waiting.empty():
                some.append(self._waiting.get_nowait())
            try:
                new = await asyncio.to_thread(self._keep, [fields for fields, _ in some])
            except Exception as error:
                LOG.warning("%d notifications could not be kept: %s", len(some), error or type(error).__name__)
                _answer(some, error)
                continue
            self._counts.labels("kept").inc(new)
            self._counts.labels("repeated").inc(len(some) - new)
            _answer(some, None)
            self._kept()


def _answer(some: Sequence[tuple[Any, asyncio.Future[None]]], error: Exception | None) -> None:
    for _, written in some:
        if not written.done():  # whoever sent it may have gone
            written.set_result(None) if error is None else written.set_exception(error)


async def _read(request: Request) -> bytes:
    """The body. Raises `_Refusal` for one that is too long, of which no more is read."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            raise _Refusal(413, f"the body is longer than {MAX_BYTES} bytes")
    return bytes(body)
