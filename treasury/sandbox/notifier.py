"""The one task that runs beside requests: brings orders on with the clock and delivers notifications."""

import asyncio
from contextlib import AsyncExitStack, suppress
from itertools import groupby

import httpx

from treasury.sandbox.entities import Notification
from treasury.sandbox.lifecycle import tick
from treasury.sandbox.notices import due_notifications, record_attempt, signed_bytes
from treasury.sandbox.world import World

LOOK_SECONDS = 0.05
IDLE_SECONDS = 1.0
"""How long it rests at most while something is to come: a test's own clock tells nobody that it was moved."""
TIMEOUT_SECONDS = 5.0
AT_ONCE = 64


async def run_notifier(world: World) -> None:
    """Look whenever something comes due, every 50 ms at the most; rest while nothing is to come.

    Only loopback addresses are ever due (see `notices`), and proxies are not used.
    """
    news, loop = asyncio.Event(), asyncio.get_running_loop()
    world.on_news = lambda: loop.call_soon_threadsafe(news.set)
    try:
        async with AsyncExitStack() as opened:
            http: httpx.AsyncClient | None = None  # opened when first needed: it takes 30 ms
            while True:
                news.clear()
                with world.open():
                    tick(world)
                    due, rest = due_notifications(world)[:AT_ONCE], _rest(world)
                if due:
                    if http is None:
                        http = await opened.enter_async_context(_client())
                    by_url = groupby(sorted(due, key=lambda notice: notice.url), key=lambda notice: notice.url)
                    await asyncio.gather(*(_deliver(world, http, list(notices)) for _, notices in by_url))
                    continue
                await asyncio.sleep(LOOK_SECONDS)
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), rest)
    finally:
        world.on_news = None


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_SECONDS, follow_redirects=False)


def _rest(world: World) -> float | None:
    """Return the seconds until something comes due, beyond `LOOK_SECONDS`; None while nothing is to come."""
    if world.next_due is None:
        return None
    return min(max(0.0, world.next_due - world.now - LOOK_SECONDS), IDLE_SECONDS)


async def _deliver(world: World, http: httpx.AsyncClient, notices: list[Notification]) -> None:
    """One after the other to one address, so that it hears of changes in their order."""
    for notice in notices:
        with world.open():
            body = signed_bytes(world, notice)
        try:
            answer = await http.post(notice.url, content=body, headers={"Content-Type": "application/json"})
            outcome = f"HTTP {answer.status_code}"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            outcome = type(error).__name__
        with world.open():
            record_attempt(world, notice, outcome)
