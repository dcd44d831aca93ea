"""What halts all sending: a person's stop, and a recovery of the policy until it takes effect."""

import time
from datetime import UTC, datetime

from sqlalchemy import Connection

from treasury.errors import RecoveryRuns, Stopped
from treasury.ledger.database import group_of
from treasury.ledger.statements import STANDING_STOP


def check_not_stopped(connection: Connection) -> None:
    """Raise `Stopped` while a stop is in force, and `RecoveryRuns` while a recovery of the policy is.

    Read once for all steps of a group, which are one transaction.
    """
    group = group_of(connection)
    if group.not_stopped:
        return
    row = connection.execute(STANDING_STOP, {"now": int(time.time() * 1000)}).first()
    group.not_stopped = row is None
    if row is not None and row.recovery:
        raise RecoveryRuns(row.by, f"{datetime.fromtimestamp(row.recovery / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}")
    if row is not None:
        raise Stopped(f"all sending was stopped by {row.by}: {row.why} (treasury stop --lift --by NAME lifts it)")
