"""The alarms: Prefect automations as code. `treasury serve` makes them, and `treasury alarms` on a server of yours."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from flows.commands.common import DONE, configured_desk
from treasury.errors import ConfigurationError
from treasury.settings import Settings, read_settings
from treasury.texts import with_person

PREFIX = "treasury: "
"""Begins the name of each of our automations; one of this name is ours, and is kept as it is here."""

OURS = [
    {"prefect.resource.role": "tag", "prefect.resource.id": "prefect.tag.treasury"},
    {"prefect.resource.role": "deployment", "prefect.resource.id": "prefect.deployment.*"},
]
"""Flow runs of our deployments; a run of the command line tells the person who started it."""

RUNS = {"match": {"prefect.resource.id": "prefect.flow-run.*"}, "match_related": OURS}

PLACE = re.compile(r"\{\{.*?\}\}")
"""A place in a message that Prefect fills in for each event; the description of an automation says it in capitals."""

LOOK_SECONDS = 60.0
"""So often `treasury serve` looks for what became old, and for plans that were decided."""

QUIET = timedelta(hours=24)
"""So long nothing more is told of what was told."""


@dataclass(frozen=True)
class Alarm:
    """An automation: its name, the message that it sends, and what triggers it.

    `ends_run`: it marks the run as crashed, with that message, and sends nothing: the alarm about crashed runs does.
    """

    name: str
    body: str
    trigger: dict[str, Any]
    ends_run: bool = False


def alarms_of(settings: Settings) -> list[Alarm]:
    """Return the alarms with the hours of these settings. No message has an amount or a person."""
    hours = settings.alarm_hours
    name, key = "{{ event.resource.name }}", "{{ event.resource.name }}"
    each_run = {"for_each": {"prefect.resource.id"}}
    return [
        Alarm(
            "the night was not reported",
            f"No report of everything was made in the last {hours.report:g} h: is `treasury serve` at work? "
            "treasury reconcile makes one, treasury status says the rest.",
            _absent({"treasury.night.reported"}, {"treasury.night.reported"}, hours.report),
        ),
        Alarm(
            "a run did not start",
            f"The scheduled run {name} did not start: is `treasury serve`, or a worker, at work?",
            {**_absent({"prefect.flow-run.Late"}, BEGUN, hours.late), **RUNS, **each_run},
        ),
        Alarm(
            "a run gives no sign of life",
            f"it gave no sign of life for {hours.silent:g} h: its machine or its process is gone; what it sent is in "
            "the ledger, and it can be started again",
            {**_absent({"prefect.flow-run.heartbeat"}, {"prefect.flow-run.*"}, hours.silent), **RUNS, **each_run},
            ends_run=True,
        ),
        Alarm(
            "a run crashed",
            f"The run {name} crashed. Start it again: nothing is sent twice. Its log says what had left; where its "
            "machine is gone, treasury runs does.",
            {**_seen("prefect.flow-run.Crashed"), **RUNS},
        ),
        Alarm(
            "a run failed",
            f"The run {name} ended {{{{ event.resource['prefect.state-name'] }}}}: its log in Prefect says why, "
            "treasury status what to do.",
            {**_seen(*(f"prefect.flow-run.{state}" for state in FAILED)), **RUNS},
        ),
        Alarm(
            "a run waits for approval",
            f"The run {key} has waited {hours.waiting:g} h for approvals: treasury show {key} shows its plan, and the "
            "command that approves it.",
            {
                **_absent({"treasury.run.waiting"}, {"treasury.run.decided"}, hours.waiting),
                "match": {"prefect.resource.id": "treasury.run.*"},
                "for_each": {"prefect.resource.id", "treasury.since"},
            },
        ),
        Alarm(
            "breaks were found",
            f"The night of {name} found new breaks: read its report, then "
            + with_person("treasury accept BREAK --by NAME --why TEXT.", is_listed=None),
            _seen("treasury.breaks.found"),
        ),
        Alarm(
            "an outcome is unknown for long",
            f"Run {key} has orders whose outcome has been unknown for {hours.unknown:g} h. Never pay them by hand: "
            "start the run again, or treasury reconcile.",
            {**_seen("treasury.unknown.old"), **each_run, "within": QUIET},
        ),
    ]


FAILED = ("Failed", "TimedOut", "NeedsAttention", "InputRejected", "Rejected", "Incomplete")
"""States of runs that failed; `Breaks` and `WaitingForApproval` have alarms of their own."""

BEGUN = {f"prefect.flow-run.{state}" for state in ("Pending", "Running", "Missed", "Cancelled", "Crashed", "Failed")}


def _seen(*events: str) -> dict[str, Any]:
    return {"posture": "Reactive", "expect": set(events), "threshold": 1}


def _absent(after: set[str], expect: set[str], hours: float) -> dict[str, Any]:
    within = timedelta(seconds=round(hours * 3600))
    return {"posture": "Proactive", "after": after, "expect": expect, "threshold": 1, "within": within}


def make_alarms(client: Any, settings: Settings) -> tuple[int, int]:
    """Make the alarms on a Prefect server, or change those that differ; returns how many of each.

    One that a person paused stays paused. Raises `ConfigurationError` when there is no such notification block.
    """
    from prefect.events.schemas.automations import AutomationCore, EventTrigger

    block = None if settings.alarm_block is None else _block_id(settings.alarm_block)
    made = changed = 0
    for alarm in alarms_of(settings):
        name = PREFIX + alarm.name
        wanted = AutomationCore(
            name=name,
            description=PLACE.sub(_in_capitals, alarm.body[:1].upper() + alarm.body[1:]),
            tags=["treasury"],
            trigger=EventTrigger(**alarm.trigger),
            actions=_actions(alarm, block),
        )
        found = next(iter(client.read_automations_by_name(name)), None)
        if found is None:
            client.create_automation(wanted)
            made += 1
        elif _said(found) != _said(wanted):
            client.update_automation(found.id, wanted.model_copy(update={"enabled": found.enabled}))
            changed += 1
    return made, changed


def _in_capitals(place: re.Match[str]) -> str:
    return "STATE" if "state" in place[0] else "NAME"


def _actions(alarm: Alarm, block: Any) -> list[Any]:
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState, SendNotification

    if alarm.ends_run:
        return [ChangeFlowRunState(state=StateType.CRASHED, name="Crashed", message=alarm.body)]
    if block is None:
        return []
    return [SendNotification(block_document_id=block, subject=PREFIX + alarm.name, body=alarm.body)]


def _said(automation: Any) -> tuple[Any, ...]:
    return automation.description, automation.tags, automation.trigger, automation.actions


def _block_id(name: str) -> Any:
    from prefect.blocks.abstract import NotificationBlock
    from prefect.blocks.core import Block

    try:
        block: Any = Block.load(name)
    except ValueError:
        raise ConfigurationError(f"there is no notification block {name} (TYPE/NAME): TREASURY_ALARM_BLOCK") from None
    if not isinstance(block, NotificationBlock):
        raise ConfigurationError(f"{name} is not a notification block: TREASURY_ALARM_BLOCK")
    return block._block_document_id


def alarms() -> int:
    """Make the alarms on the Prefect server that PREFECT_API_URL names, or bring them up to date.

    `treasury serve` does it by itself; this is for deployments by `prefect deploy`. TREASURY_ALARM_BLOCK names the
    notification block that sends them.
    """
    from flows.commands.prefect_server import configured_api, prepare_environment

    if configured_api() is None:
        raise ConfigurationError(
            "PREFECT_API_URL names no Prefect server (`treasury serve` makes the alarms of its own)"
        )
    prepare_environment()
    from prefect.client.orchestration import get_client

    settings = read_settings()
    with get_client(sync_client=True) as client:
        made, changed = make_alarms(client, settings)
    how = "are shown as events; TREASURY_ALARM_BLOCK sends them" if settings.alarm_block is None else "are sent"
    print(f"{made} alarms made, {changed} changed of {len(alarms_of(settings))}; they {how}")
    return DONE


def serve_alarms(client: Any) -> None:
    """Make the alarms where `treasury serve` serves, and say whether they are sent; what is wrong ends nothing."""
    settings = read_settings()
    try:
        make_alarms(client, settings)
        how = "events alone: TREASURY_ALARM_BLOCK names no notification block"
        print(f"  alarms: {how if settings.alarm_block is None else f'sent by {settings.alarm_block}'}", flush=True)
    except ConfigurationError as error:
        print(f"  alarms: none are sent: {error}", flush=True)


@contextmanager
def telling() -> Iterator[None]:
    """Emit what automations wait for as long as the block lasts: outcomes that are unknown for long, and decisions."""
    if not read_settings().has_account:
        yield
        return
    import tasks.watched  # noqa: F401 - by one thread: two that import Prefect at once wait for each other

    ended = threading.Event()
    teller = threading.Thread(target=_keep_telling, args=(ended,), name="alarms")
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def _keep_telling(ended: threading.Event) -> None:
    from prefect.events.worker import EventsWorker

    from tasks.watched import tell_what_changed

    told: set[tuple[str, str, str]] = set()
    failed = ""
    while not ended.wait(LOOK_SECONDS):
        try:
            tell_what_changed(configured_desk(), told)
            failed = ""
        except Exception as error:  # the runs go on; it is said once, until it works again
            if failed != (failed := type(error).__name__):
                print(f"  what became old could not be read from the ledger: {failed}", flush=True)
    EventsWorker.drain_all(timeout=5)  # the server ends next
