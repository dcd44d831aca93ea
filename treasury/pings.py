"""Tells a watcher outside this machine that a job began, and how it ended: any URL that is healthchecks-compatible.

A ping never changes what comes of the work: one that fails is a line of the log.
"""

import contextvars
import logging
import threading
from collections.abc import Callable
from typing import TypeVar

import httpx

from treasury.errors import TreasuryError
from treasury.settings import PING_JOB, read_settings

LOG = logging.getLogger("treasury")
Outcome = TypeVar("Outcome")

PING_SECONDS = 3.0
"""The longest that a ping waits for each: a connection, the request's way, an answer."""

WHOLE_SECONDS = 6.0
"""The longest that the work waits for a ping, with the look-up of its host, which no timeout bounds."""

START, SUCCESS, FAIL = "/start", "", "/fail"

NIGHT = "reconcile-transactions"
"""The job that a URL without the name of the job is about: one check cannot watch two jobs."""


def ping(job: str, event: str, said: str = "") -> None:
    """Tell the URL of the settings of a job's start, success or failure; nothing where none is set.

    `said`: the name of the state it ended in, sent as the body; no amounts, no people. Raises nothing.
    """
    why = in_time(WHOLE_SECONDS, lambda: _why_not(job, event, said))
    if why != "":
        why = why or f"no answer within {WHOLE_SECONDS:g} s"
        line = "the ping of %s (%s) did not arrive: %s; the work goes on, look at TREASURY_PING_URL"
        LOG.warning(line, job, event.strip("/") or "success", why)


def in_time(seconds: float, work: Callable[[], Outcome]) -> Outcome | None:
    """Return what the work returns; None where it takes longer, and is then left to itself."""
    outcome: list[Outcome] = []
    context = contextvars.copy_context()
    worker = threading.Thread(target=lambda: outcome.append(context.run(work)), name="in time", daemon=True)
    worker.start()
    worker.join(seconds)
    return outcome[0] if outcome else None


def _why_not(job: str, event: str, said: str) -> str:
    """Send a ping; why it did not arrive, nothing where it did or none is wanted."""
    try:
        url = read_settings().ping_url
        if url is None or (PING_JOB not in url and job != NIGHT):
            return ""
        place, mark, query = url.replace(PING_JOB, job).partition("?")
        answer = httpx.post(f"{place.rstrip('/')}{event}{mark}{query}", content=said.encode(), timeout=PING_SECONDS)
    except (TreasuryError, httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return type(error).__name__  # its text may have the URL, which is a secret of the watcher's
    return "" if answer.is_success else f"it was answered with {answer.status_code}"
