"""Everything that waits for a person, a line each: what, for whom, since when, and the command to run.

`treasury status` and Prefect's artifact "Required actions" are both made of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from treasury.texts import approval_command, count_of, with_person

BACKUP_DAYS = 7
"""Days after which another backup is due."""

MAX_NAMED = 5
"""Most runs that one line names."""

START_AGAIN = "start it again (a policy: treasury policy adopt FILE --by NAME), unless it runs now"
"""The way on for a plan that lacks no approval, or for which no approval counts any more."""

OPERATOR, CHECKER, APPROVER = "whoever starts the runs", "whoever checks the report", "an approver"
"""For whom it waits, where the policy lists nobody by name."""


@dataclass(frozen=True)
class RequiredAction:
    """Something that waits for a person."""

    what: str
    whom: str
    since: str | None
    """UTC; None where nobody can say."""
    command: str
    """The command to run, with what has to be known about it."""

    def __str__(self) -> str:
        return f"{self.what}: {self.command}"


def needs_of(
    found: Mapping[str, Any], approvers: Sequence[str], late_hours: float, *, is_listed: bool
) -> list[RequiredAction]:
    """Return what waits for a person, of what `standing_of` found; `approvers`: those whom the policy lists.

    `late_hours`: the age at which a report of everything is late. `is_listed`: the policy lists people, so that their
    keys count, and no names.
    """
    needs = [*_decisions(found, ", ".join(approvers) or APPROVER), *_open(found), *_overdue(found, late_hours)]
    return [replace(each, command=with_person(each.command, is_listed=is_listed)) for each in needs]


def _decisions(found: Mapping[str, Any], approver: str) -> Iterator[RequiredAction]:
    for each in found["stops"]:
        what = f"all sending was stopped by {each['by']} ({each['why']})"
        yield RequiredAction(what, each["by"], each["since"], "treasury stop --lift --by NAME")
    for each in found["waiting_approvals"]:
        key, since = each["run_key"], each["since"]
        if each["lacks"]:
            how = approval_command(key, each["code"])
            yield RequiredAction(f"{key} waits for approvals since {since}", approver, since, how)
        else:
            why = "has the approvals that it needs" if each["stale"] is None else f"was {each['stale']}"
            yield RequiredAction(f"{key} waits since {since} and {why}", OPERATOR, since, START_AGAIN)
    for kind, number in found["held"].items():
        how = "treasury runs names the runs, treasury show KEY their rows, treasury show REFERENCE what to do"
        yield RequiredAction(f"{number} held, {kind}", approver, found["since"]["held"][kind], how)


def _open(found: Mapping[str, Any]) -> Iterator[RequiredAction]:
    if found["older"] is not None:
        what = f"this ledger may know less than the service, because {found['older']}"
        how = "treasury reconcile, and compare with the service's list; the next start of a run holds what never left"
        yield RequiredAction(what, OPERATOR, None, how)
    for each in found["not_sent"]:
        key, why = each["run_key"], "" if each["reason"] is None else f" ({each['reason']})"
        how = f"start it again unless it runs now, or treasury cancel {key} --by NAME --why TEXT"
        yield RequiredAction(f"{each['orders']} of {key} never left{why}", OPERATOR, each["since"], how)
    if count := found["unknown"]["orders"]:
        runs, hours = found["unknown"]["runs"], found["unknown"]["oldest_hours"]
        more = f" and {len(runs) - MAX_NAMED} more" if len(runs) > MAX_NAMED else ""
        what = f"{count} of unknown outcome, of {', '.join(runs[:MAX_NAMED])}{more}, the oldest sent {hours} h ago"
        how = "start their runs again, or treasury reconcile; of what stays so treasury show KEY says what to do"
        yield RequiredAction(what, OPERATOR, found["since"]["unknown"], how)


def _overdue(found: Mapping[str, Any], late_hours: float) -> Iterator[RequiredAction]:
    last = {each["job"]: each["last"] for each in found["jobs"]}
    days, hours = found["missed_nights"], found["report_hours"] or 0
    if days or hours >= late_hours:  # in the morning after a night without one, that day is not over
        named = f"{days[0]} to {days[-1]}" if len(days) > 1 else "".join(days)
        missed = f"on {count_of(len(days), 'day')}, {named}" if days else f"for {hours} h"
        what = f"no report of everything was made {missed}"
        yield RequiredAction(what, OPERATOR, last["reconcile"], "treasury reconcile")
    if last and "reconcile" not in last:
        yield RequiredAction("no report of everything was made yet", OPERATOR, None, "treasury reconcile")
    if found["breaks"]:
        what = f"{count_of(len(found['breaks']), 'open break')} of the last report"
        yield RequiredAction(
            what, CHECKER, found["since"]["breaks"], "read it, then treasury accept BREAK --by NAME --why TEXT"
        )
    backup = found["backup"]
    if last and (backup is None or backup["days"] > BACKUP_DAYS):
        when = "was never made from this home" if backup is None else f"is {count_of(backup['days'], 'day')} old"
        since = None if backup is None else backup["last"]
        yield RequiredAction(f"the last backup {when}", OPERATOR, since, "treasury backup FILE")
