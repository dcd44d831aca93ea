"""The Starlette application: a route for each request it answers, pages, and doors for looking in."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from decimal import Decimal
from email.utils import formatdate
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treasury.money import parse_amount
from treasury.provider.bounded_json import read_json
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.operation import Operation
from treasury.sandbox.answers import CONSTANTS, Answer, Refusal, envelope, json_bytes
from treasury.sandbox.books import BookAccount
from treasury.sandbox.clock import SandboxClock
from treasury.sandbox.currencies import find_currency
from treasury.sandbox.desk import Desk
from treasury.sandbox.entities import Ending, OrderStatus
from treasury.sandbox.handlers import HANDLERS
from treasury.sandbox.handlers.payins import charge as make_charge
from treasury.sandbox.handlers.payins import checkout_url
from treasury.sandbox.lifecycle import finish_payin, tick
from treasury.sandbox.notifier import run_notifier
from treasury.sandbox.pages import Pages
from treasury.sandbox.world import World


def check_complete() -> None:
    """Raise `TypeError` that names an operation which the sandbox does not answer."""
    for name in CATALOGUE:
        if name not in HANDLERS:
            raise TypeError(f"the sandbox has no handler for {name} (docs/adding-an-operation.md)")


check_complete()


class AnswerResponse(Response):
    """An answer as HTTP; one that is to be dropped, or to fall short, ends with a closed connection."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.body, answer.http_status, dict(answer.headers), answer.media_type)
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, or break it off."""
        if self._answer.drop:
            await _hang_up(receive, run_concurrently=True)
            return
        if not self._answer.missing_bytes:
            await super().__call__(scope, receive, send)
            return
        self.headers["content-length"] = str(len(self.body) + self._answer.missing_bytes)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        await _hang_up(receive, run_concurrently=False)


class Dated:
    """Sends the `Date` of every answer by the sandbox's clock, without what was advanced."""

    def __init__(self, app: ASGIApp, clock: SandboxClock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, with the date."""

        async def send_dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                date = formatdate(self._clock.wall(), usegmt=True).encode()
                message["headers"] = [*message["headers"], (b"date", date)]
            await send(message)

        await self._app(scope, receive, send_dated)


async def _hang_up(receive: Receive, *, run_concurrently: bool) -> None:
    """Close the socket under uvicorn, whose request cycle `receive` belongs to, and wait until it has noticed."""
    transport = receive.__self__.transport  # type: ignore[attr-defined]  # ASGI itself knows no way to hang up
    if run_concurrently:
        transport.abort()
    else:
        transport.close()
    while (await receive())["type"] != "http.disconnect":
        pass


def build_app(world: World) -> Starlette:
    """The application over one world."""
    desk = Desk(world)
    return Starlette(
        routes=[
            *(Route(each.path, _endpoint(desk, each), methods=["POST"]) for each in CATALOGUE.values()),
            *Pages(world).routes,
            *_doors(world),
        ],
        middleware=[Middleware(Dated, clock=world.clock)],
        exception_handlers={HTTPException: _not_found},
        lifespan=_lifespan(world),
    )


def _endpoint(desk: Desk, operation: type[Operation[Any]]) -> Callable[[Request], Awaitable[Response]]:
    async def call(request: Request) -> Response:
        answer = desk.answer(operation, await request.body())
        if answer.delay_seconds:
            await asyncio.sleep(answer.delay_seconds)
        return AnswerResponse(answer)

    return call


def _lifespan(world: World) -> Callable[[Starlette], Any]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        notifier = asyncio.create_task(run_notifier(world))
        yield
        notifier.cancel()
        with suppress(asyncio.CancelledError):
            await notifier

    return lifespan


async def _not_found(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return AnswerResponse(Answer(envelope(status, CONSTANTS.get(status, "")), status))


def show_books(world: World) -> dict[str, Any]:
    """`balances` by account and currency, and `sums` over all accounts, which are zero."""
    with world.open():
        tick(world)
        return {"balances": world.books.show(), "sums": world.books.sums()}


def show_orders(world: World) -> list[dict[str, Any]]:
    """Every order, oldest first; a pay-in with the page on which it is paid."""
    with world.open():
        tick(world)
        return [
            order | ({"page": checkout_url(world, order["order_no"])} if order["order_type"] == "pay" else {})
            for order in world.show_orders()
        ]


def advance(world: World, seconds: float) -> float:
    """Put the clock forward and bring everything on; answers the sandbox's time, Unix seconds."""
    with world.open():
        world.advance(seconds)
        tick(world)
        return world.now


def deposit(world: World, currency: str, amount: Decimal) -> None:
    """Let an amount come in that no order explains, or, negative, let it go. Raises `ValueError` for what is not there.

    `currency` is one that the sandbox knows; else `Refusal`.
    """
    with world.open():
        tick(world)
        find_currency(currency, 7002)
        if world.books.balance(BookAccount.AVAILABLE, currency) + amount < 0:
            raise ValueError(f"less than that is there of {currency}")
        world.books.move(BookAccount.OPENING, BookAccount.AVAILABLE, currency, amount)


def charge(world: World, currency: str, amount: Decimal, **said: str | None) -> str:
    """Let a customer deposit a crypto asset; returns the order's number. `said`: `customer_ref_id`, `notify_url`, and
    the addresses `address` (to) and `sender` (from).

    Raises `Refusal` for an asset, or an amount, that the service does not take.
    """
    with world.open():
        tick(world)
        return make_charge(world, currency, amount, **said).order_no


def pay_invoice(world: World, request_id: str, amount: Decimal | None = None) -> None:
    """Let a customer pay a pay-in that waits: all of it, or another amount. Raises `ValueError` where none waits."""
    with world.open():
        tick(world)
        order = world.find_order(request_id)
        if order is None or order.source is not BookAccount.WORLD or order.status != OrderStatus.SUBMITTED:
            raise ValueError(f"no pay-in {request_id} waits")
        finish_payin(world, order, Ending.SUCCESS, amount)


def _doors(world: World) -> list[Route]:
    """Return what the real service has not: the truth, the platform's key, and the clock."""

    async def books(_: Request) -> Response:
        return _json(show_books(world))

    async def orders(_: Request) -> Response:
        return _json(show_orders(world))

    async def notifications(_: Request) -> Response:
        with world.open():
            return _json([asdict(notification) for notification in world.notifications])

    async def platform_key(_: Request) -> Response:
        with world.open():
            return Response(world.show_platform_key(), media_type="application/x-pem-file")

    async def clock(request: Request) -> Response:
        try:
            content = read_json(await request.body())
            return _json({"now": advance(world, float(content["advance_seconds"]))})
        except (ValueError, TypeError, KeyError):
            return AnswerResponse(Answer(envelope(400, "advance_seconds: must be a number of seconds"), 400))

    async def deposits(request: Request) -> Response:
        try:
            content = read_json(await request.body())
            deposit(world, str(content["currency"]), parse_amount(content["amount"]))
        except (ValueError, TypeError, KeyError, Refusal) as error:
            return AnswerResponse(Answer(envelope(400, f"currency and amount: {error}"), 400))
        return _json(show_books(world))

    async def charges(request: Request) -> Response:
        try:
            content = read_json(await request.body())
            said = {name: content.get(name) for name in ("customer_ref_id", "notify_url", "address", "sender")}
            number = charge(world, str(content["currency"]), parse_amount(content["amount"]), **said)
        except (ValueError, TypeError, KeyError, Refusal) as error:
            return AnswerResponse(Answer(envelope(400, f"currency and amount: {error}"), 400))
        return _json({"order_no": number})

    async def payins(request: Request) -> Response:
        try:
            content = read_json(await request.body())
            amount = content.get("amount")
            pay_invoice(world, str(content["request_id"]), None if amount is None else parse_amount(amount))
        except (ValueError, TypeError, KeyError) as error:
            return AnswerResponse(Answer(envelope(400, f"request_id and amount: {error}"), 400))
        return _json(show_books(world))

    return [
        Route("/sandbox/payins", payins, methods=["POST"]),
        Route("/sandbox/charges", charges, methods=["POST"]),
        Route("/sandbox/deposits", deposits, methods=["POST"]),
        Route("/sandbox/books", books),
        Route("/sandbox/orders", orders),
        Route("/sandbox/notifications", notifications),
        Route("/sandbox/platform-key", platform_key),
        Route("/sandbox/clock", clock, methods=["POST"]),
    ]


def _json(content: object) -> Response:
    return AnswerResponse(Answer(json_bytes(content)))
