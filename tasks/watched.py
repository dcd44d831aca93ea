"""Tells others how a run ends: a watcher outside, the artifact "Required actions", and events for automations."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State
from prefect.states import Failed

from blocks.desk import open_desk
from tasks.artifacts import shown
from tasks.events import tell_of_night, tell_of_waiting, tell_what_changed
from tasks.notices import WAITS, send_notices
from tasks.scheduled import is_scheduled, on_business_days
from treasury.errors import TreasuryError
from treasury.nights.standing import standing_of
from treasury.payments.desk import Desk
from treasury.pings import FAIL, NIGHT, START, SUCCESS, ping
from treasury.reports.results import MAX_SHOWN_ROWS

LOG = logging.getLogger("treasury")

JOBS = {NIGHT: ("run_key", "window_days", "currency", "offline"), "rebalance-treasury": ("balances",)}
"""Jobs that are watched whoever starts them -> parameters that make another thing of them."""

HELD = "RunHeld"


def watched(name: str, given: Mapping[str, Any], work: Callable[[], State[Any]]) -> State[Any]:
    """Do the work of a flow, and return the state that it ends in; a job's start and end are told outside.

    A run that people have to approve did what it had to; of one that another process holds, that process tells.
    """
    is_job = _is_job(name, given)
    if is_job:
        ping(name, START)
    try:
        state = on_business_days(given, work)()
    except BaseException as error:
        if is_job:
            ping(name, FAIL, type(error).__name__)
        if isinstance(error, Exception):
            _send(name, given, Failed())
        raise
    _tell(name, given, state)
    _send(name, given, state)
    if is_job and state.name != HELD:
        ping(name, SUCCESS if state.is_completed() or state.name == WAITS else FAIL, state.name or "")
    return state


def _is_job(name: str, given: Mapping[str, Any]) -> bool:
    """Tell whether this is a job that is due: a scheduled run, or one of `JOBS` as a schedule would start it."""
    if is_scheduled():
        return True
    return name in JOBS and not any(given.get(each) for each in JOBS[name])


def _tell(name: str, given: Mapping[str, Any], state: State[Any]) -> None:
    """Show what waits, and emit what automations wait for; nothing of it changes the run, whatever goes wrong."""
    try:
        desk = open_desk(given.get("account"))
        show_required_actions(desk)
        tell_what_changed(desk)
        if state.name == WAITS:
            tell_of_waiting(desk, getattr(state.data, "run_key", None))
        if _is_night(name, given):
            tell_of_night(desk, state)
    except TreasuryError:  # an account that is not configured: the run itself says so
        return
    except Exception as error:
        LOG.warning("what waits could not be shown: %s; treasury status says it", type(error).__name__)


def _send(name: str, given: Mapping[str, Any], state: State[Any]) -> None:
    """Send the notices of a run that ends so; nothing of it changes the run, whatever goes wrong."""
    try:
        send_notices(name, given, state, is_night=_is_night(name, given))
    except Exception as error:
        LOG.warning("no notice was sent: %s", type(error).__name__)


def _is_night(name: str, given: Mapping[str, Any]) -> bool:
    return name == NIGHT and not any(given.get(each) for each in JOBS[NIGHT])


def show_required_actions(desk: Desk) -> None:
    """Show what waits, for whom, since when, and the command to run, as a table under a stable key."""
    found = standing_of(desk)
    rows = [
        {"what": each["what"], "for": each["whom"], "since": each["since"], "command": each["command"]}
        for each in found["actions"][:MAX_SHOWN_ROWS]
    ]
    said = f"{len(found['actions'])} to do" if rows else "Nothing needs a person"
    with shown("what waits"):
        create_table_artifact(rows, key="required-actions", description=f"{said}, as of {found['at']}")
