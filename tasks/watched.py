"""Tells others how a run ends: a watcher outside, the artifact "Required actions", notices, and events."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from prefect.artifacts import create_table_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.states import Failed

from blocks.desk import open_desk
from blocks.notice import send_notice
from tasks.approval import was_asked
from tasks.artifacts import shown
from tasks.scheduled import is_scheduled, on_business_days
from treasury.errors import ConfigurationError, TreasuryError
from treasury.ledger.approvals import waiting_plans
from treasury.ledger.in_force import as_time
from treasury.nights.standing import decided_plans, old_unknowns, standing_of
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.pings import FAIL, NIGHT, START, SUCCESS, ping
from treasury.policy.model import Policy
from treasury.reconciliation.classes import BY_NAME, Verdict
from treasury.reports.notice import Message, morning_of, notice_of_run
from treasury.reports.results import MAX_SHOWN_ROWS
from treasury.settings import read_settings

WAITING, DECIDED = "treasury.run.waiting", "treasury.run.decided"
OLD_UNKNOWN = "treasury.unknown.old"
REPORTED, BREAKS = "treasury.night.reported", "treasury.breaks.found"

SINCE = "treasury.since"
"""Label of a run's event: when its plan was proposed. Another plan of the run is timed anew."""


def tell_of_waiting(desk: Desk, run_key: str | None) -> None:
    """Tell that a run began to wait for approvals."""
    for plan in () if run_key is None else waiting_plans(desk.ledger, run_key):
        _emit(WAITING, f"run.{plan.run_key}", plan.run_key, {SINCE: as_time(plan.proposed_at)})


def tell_what_changed(desk: Desk, told: set[tuple[str, str, str]] | None = None) -> None:
    """Tell which plans wait no more, and which runs have orders that have been of unknown outcome for long.

    `told`: what a process that watches has told already, and does not repeat; it tells which plans wait, too.
    """
    hours = desk.settings.alarm_hours
    now = {(DECIDED, run_key, since) for run_key, since in decided_plans(desk, 2 * hours.waiting + 24)}
    now |= {(OLD_UNKNOWN, run_key, "") for run_key in old_unknowns(desk, hours.unknown)}
    if told is not None:
        now |= {(WAITING, plan.run_key, as_time(plan.proposed_at)) for plan in waiting_plans(desk.ledger)}
    for event, run_key, since in sorted(now - (told or set())):
        _emit(event, f"run.{run_key}", run_key, {SINCE: since} if since else {})
    if told is not None:
        told.clear()
        told.update(now)


def tell_of_night(desk: Desk, state: State[Any]) -> None:
    """Tell that everything was reported, and that breaks were found which the night before did not have."""
    if state.name is None or state.name not in VERDICTS:
        return
    day = str((governing(desk).policy or Policy()).business_date(desk.clock.now()))
    _emit(REPORTED, f"night.{day}", day, {"treasury.verdict": state.name})
    report: Any = getattr(state.data, "summary", state.data)
    new = [each for each in report["breaks"] if each["lifecycle"] == "new" and each["accepted"] is None]
    if count := sum(BY_NAME[each["class"]].verdict is Verdict.BREAKS for each in new):
        _emit(BREAKS, f"night.{day}", day, {"treasury.breaks": str(count)})


VERDICTS = {verdict.value.capitalize() for verdict in Verdict}
"""States of a night that wrote its report."""


def _emit(event: str, resource: str, name: str, labels: dict[str, str]) -> None:
    emit_event(event, {"prefect.resource.id": f"treasury.{resource}", "prefect.resource.name": name, **labels})


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


LOG = logging.getLogger("treasury")

JOBS = {NIGHT: ("run_key", "window_days", "currency", "offline"), "rebalance-treasury": ("balances",)}
"""Jobs that are watched whoever starts them -> parameters that make another thing of them."""

HELD = "RunHeld"


def watched(name: str, given: Mapping[str, Any], work: Callable[[], State[Any]]) -> State[Any]:
    """Do the work of a flow, and return the state that it ends in; a job's start and end are told outside.

    A run that people have to approve did what it had to; of one that another process holds, that process tells.
    """
    _without_retries()
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


def _without_retries() -> None:
    """Take the retries of a run away that somebody set for a flow, or for all flows.

    Prefect retries what a flow raises; of a failed state that it returns, the run would be `AwaitingRetry` for ever, or
    crash. A start of its own goes on where this one ended.
    """
    context = FlowRunContext.get()
    run = None if context is None else context.flow_run
    if run is None or not run.empirical_policy.retries:
        return
    run.empirical_policy.retries = 0
    with get_client(sync_client=True) as client:
        client.update_flow_run(run.id, empirical_policy=run.empirical_policy)
    LOG.info("Prefect does not retry this run: another start goes on where it ends")


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
