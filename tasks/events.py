"""Events of Prefect that automations wait for: `treasury.*`, with the run key as their resource, and no people."""

from typing import Any

from prefect.client.schemas.objects import State
from prefect.events import emit_event

from treasury.ledger.approvals import waiting_plans
from treasury.ledger.in_force import as_time
from treasury.nights.standing import decided_plans, old_unknowns
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.policy.model import Policy
from treasury.reconciliation.classes import BY_NAME, Verdict

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
