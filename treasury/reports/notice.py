"""The one message that a night may send: what is new, in a few lines."""

from collections.abc import Mapping
from typing import Any

MANY = 200
"""From more new breaks on, the message says how many there are and names none: something general is wrong."""

NAMED = 10


def compose_notice(report: Mapping[str, Any]) -> tuple[str, str] | None:
    """Subject and body about a report's machine form; None when nothing is new and everything was read."""
    new = [each for each in report["breaks"] if each["lifecycle"] == "new" and each["accepted"] is None]
    if not new and report["verdict"] != "incomplete":
        return None
    subject = f"Reconciliation: {report['verdict']}, {len(new)} new"
    lines = [f"As of {report['as_of']}: {report['verdict']}."]
    if len(new) > MANY:
        lines.append(f"{len(new)} new breaks, more than {MANY}: something general is wrong; the report has them all.")
    else:
        lines += [_line(each) for each in new[:NAMED]]
        lines += [f"and {len(new) - NAMED} more"] if len(new) > NAMED else []
    return subject, "\n".join(lines)


def _line(each: Mapping[str, Any]) -> str:
    money = f"{each['amount'] or ''} {each['currency'] or ''}".strip()
    return f"{each['id']} {each['class']} {money} ({each['severity']}): {each['next_action']}".replace("  ", " ")
