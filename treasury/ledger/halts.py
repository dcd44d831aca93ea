"""Halts of all sending: a person's stop, and a recovery of the policy until it takes effect."""

from datetime import UTC, datetime

from sqlalchemy import Connection

from treasury.errors import PolicyChanged, RecoveryRuns, Stopped
from treasury.ledger.database import group_of
from treasury.ledger.statements import STANDING_STOP
from treasury.texts import with_person

STOPPED_BY = "all sending was stopped by "
"""How a stop is said, also within the reason of a row that it kept back."""

NEVER = 2**62
"""Later than any time, Unix milliseconds."""


def check_not_stopped(connection: Connection, now: int, judged_since: int | None = None) -> None:
    """Raise `Stopped` while a stop is in force, and `RecoveryRuns` while a recovery of the policy is.

    `now` is the ledger's time, Unix ms. `judged_since`: when the policy that payments were judged by took effect, Unix
    ms. Raises `PolicyChanged` when another one took effect after it.

    Read once for all steps of a group, which are one transaction.
    """
    group = group_of(connection)
    if group.not_stopped:
        return
    row = connection.execute(
        STANDING_STOP, {"now": now, "since": NEVER if judged_since is None else judged_since}
    ).first()
    group.not_stopped = row is None
    if row is not None and row.recovery < 0:
        raise PolicyChanged(
            f"{row.by} put another policy in force: nothing more was sent; start the run again, so that what waits is "
            "judged by it"
        )
    if row is not None and row.recovery:
        raise RecoveryRuns(row.by, f"{datetime.fromtimestamp(row.recovery / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}")
    if row is not None:
        how = with_person("treasury stop --lift --by NAME", is_listed=None)
        raise Stopped(f"{STOPPED_BY}{row.by}: {row.why} ({how} lifts it)")
