"""The one task that runs beside requests: brings orders on with the clock and delivers notifications."""

import asyncio
from itertools import groupby

import httpx

from treasury.sandbox.entities import Notification
from treasury.sandbox.lifecycle import tick
from treasury.sandbox.notices import due_notifications, record_attempt, signed_bytes
from treasury.sandbox.world import World

LOOK_SECONDS = 0.05
TIMEOUT_SECONDS = 5.0
AT_ONCE = 64


async def run_notifier(world: World) -> None:
    """Look every 50 ms; only loopback addresses are ever due (see `notices`), and proxies are not used."""
    async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_SECONDS, follow_redirects=False) as http:
        while True:
            with world.open():
                tick(world)
                due = due_notifications(world)[:AT_ONCE]
            by_url = groupby(sorted(due, key=lambda notice: notice.url), key=lambda notice: notice.url)
            await asyncio.gather(*(_deliver(world, http, list(notices)) for _, notices in by_url))
            if not due:
                await asyncio.sleep(LOOK_SECONDS)


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
