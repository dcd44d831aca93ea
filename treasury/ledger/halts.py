"""Halts of all sending: a person's stop, and a recovery of the policy until it takes effect."""

from sqlalchemy import Connection

from treasury.approving.tokens import Verb
from treasury.clock import MACHINE
from treasury.errors import PolicyChanged, RecoveryRuns, Stopped
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.database import group_of
from treasury.ledger.decisions import ALL_SENDING, STOP, Books, RecordedDecision, find_decisions, not_taken_back
from treasury.ledger.in_force import as_time
from treasury.ledger.statements import HALTS
from treasury.texts import with_person

STOPPED_BY = "all sending was stopped by "
"""How a stop is said, also within the reason of a row that it kept back."""

NEVER = 2**62
"""Later than any time, Unix milliseconds."""


BELIEVED_SECONDS = 0.1
"""So long it is believed that nothing stops; a transaction may wait longer for another process."""


def check_not_stopped(connection: Connection, books: Books, judged_since: int | None = None) -> None:
    """Raise `Stopped` while a stop is in force, and `RecoveryRuns` while a recovery of the policy is.

    `judged_since`: when the policy that payments were judged by took effect, Unix ms. Raises `PolicyChanged` when
    another one took effect after it.

    Read once for all steps of a group, which are one transaction, and again before its commit where that waited.
    """
    group, since = group_of(connection), NEVER if judged_since is None else judged_since
    if group.not_stopped is not None and group.not_stopped <= since:
        return
    group.believed_until = MACHINE.monotonic() + BELIEVED_SECONDS
    _check(connection, books, since)
    group.not_stopped, group.check_again = since, lambda: _check(connection, books, since)


def standing_stops(connection: Connection, key: LedgerKey) -> list[RecordedDecision]:
    """Return the stops that nobody lifted; one that was changed by hand stands."""
    genuine, others = find_decisions(connection, key, (Verb.STOP, Verb.LIFT), named=STOP, about=ALL_SENDING)
    said = [each for each in genuine if each.verb in (Verb.STOP, Verb.LIFT)]
    may_be = [each for each in others if each.verb != Verb.LIFT or each.about == ALL_SENDING]
    lifted = {each.about for each in said}
    return not_taken_back(said, Verb.LIFT) + [each for each in may_be if each.itself not in lifted]


def _check(connection: Connection, books: Books, since: int) -> None:
    found = connection.execute(HALTS, {"now": books.now(), "since": since}).fetchall()
    if not found:
        return
    if stops := standing_stops(connection, books.key):
        how = with_person("treasury stop --lift --by NAME", is_listed=None)
        raise Stopped(f"{STOPPED_BY}{stops[0].name}: {stops[0].why} ({how} lifts it)")
    row = next((each for each in found if each.recovery), None)
    if row is None:
        return
    if row.recovery < 0:
        raise PolicyChanged(
            f"{row.by} put another policy in force: nothing more was sent; start the run again, so that what waits is "
            "judged by it"
        )
    raise RecoveryRuns(row.by, as_time(row.recovery))
