"""Sends the notices of the settings at the end of a flow: each morning, and where a run waits for people."""

import logging
from collections.abc import Mapping
from typing import Any

from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext

from blocks.notice import send_notice
from tasks.approval import was_asked
from tasks.events import VERDICTS
from treasury.errors import ConfigurationError
from treasury.reports.notice import Message, morning_of, notice_of_run
from treasury.settings import read_settings

LOG = logging.getLogger("treasury")

WAITS = "WaitingForApproval"


def send_notices(name: str, given: Mapping[str, Any], state: State[Any], *, is_night: bool) -> None:
    """Send a notice of a whole night, of a plan that waits (once), and of a deployed run that failed, to each place.

    Whoever started a run by a command sees how it ends, and gets none of its failure. Needs neither ledger nor account:
    one that cannot be read is a failure that people have to hear of.
    """
    notice = _notice(name, given, state, is_night=is_night)
    if notice is None:
        return
    for place in read_settings().notices:
        try:
            send_notice(place, notice)
        except ConfigurationError as error:
            LOG.warning("%s; nothing was sent there", error)


def _notice(name: str, given: Mapping[str, Any], state: State[Any], *, is_night: bool) -> Message | None:
    found: Any = getattr(state.data, "summary", state.data)
    summary = found if isinstance(found, Mapping) else None
    if is_night and state.name in VERDICTS and summary is not None:
        return morning_of(summary)
    if state.name == WAITS:
        if was_asked(getattr(state.data, "code", None)):
            return None  # anybody can resume a run, and as often as they like
    elif not (state.is_failed() and _is_deployed()):
        return None
    run_key = getattr(state.data, "run_key", None) or given.get("run_key")
    return notice_of_run(name, run_key, state.name or "Failed", summary)


def _is_deployed() -> bool:
    context = FlowRunContext.get()
    return context is not None and context.flow_run is not None and context.flow_run.deployment_id is not None
