"""The messages that a night and a run may send: what is new, and what a person has to do, in a few lines."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from treasury.reports.figures import reasons
from treasury.reports.results import in_words

MANY = 200
"""From more new breaks on, the message says how many there are and names none: something general is wrong."""

NAMED = 10


class Message(NamedTuple):
    """A message, without people and accounts; `page`: the path of the page that mail gets with it."""

    subject: str
    body: str
    page: str | None = None


def news_of(report: Mapping[str, Any]) -> Message | None:
    """Return what is new in a report's machine form; None when nothing is and everything was read."""
    return _of_night(report) if _new(report) or report["verdict"] == "incomplete" else None


def morning_of(report: Mapping[str, Any]) -> Message:
    """Return the message of every morning: what is new in a report, or that nothing is, and its page."""
    return _of_night(report)._replace(page=next((each for each in report["files"] if each.endswith(".html")), None))


def notice_of_run(flow: str, run_key: str | None, state: str, summary: Mapping[str, Any] | None) -> Message:
    """Return the message about a run that waits for people: its state, and how many rows there are of each outcome."""
    said = re.sub("(?<=[a-z])(?=[A-Z])", " ", state).lower()
    name = f"run {run_key}" if run_key else flow
    lines = [f"{name}: {said}."]
    if summary is not None and summary.get("counts"):
        lines.append(f"{in_words(summary)}.")
    command = "approvals" if state == "WaitingForApproval" else "status"
    lines.append(f"What is to do is shown by: treasury {command}")
    return Message(f"{name}: {said}", "\n".join(lines))


def _new(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in report["breaks"] if each["lifecycle"] == "new" and each["accepted"] is None]


def _of_night(report: Mapping[str, Any]) -> Message:
    new = _new(report)
    lines = [f"As of {report['as_of']}: {report['verdict']}.", *reasons(report)]
    if len(new) > MANY:
        lines.append(f"{len(new)} new breaks, more than {MANY}: something general is wrong; the report has them all.")
    else:
        lines += [_line(each) for each in new[:NAMED]]
        lines += [f"and {len(new) - NAMED} more"] if len(new) > NAMED else []
    return Message(f"Reconciliation: {report['verdict']}, {len(new)} new", "\n".join(lines))


def _line(each: Mapping[str, Any]) -> str:
    money = f"{each['amount'] or ''} {each['currency'] or ''}".strip()
    return f"{each['id']} {each['class']} {money} ({each['severity']}): {each['next_action']}".replace("  ", " ")
