"""Named places at which a process may die. Nothing happens at them unless the crash tests armed one."""

import os
import signal
import threading
from collections.abc import Mapping

POINTS: Mapping[str, str] = {
    "migration.before": "an older ledger was opened, alone | nothing of it is changed",
    "migration.written": "all of it is changed | nothing of that is committed",
    "intents.before": "run, rows and hashes are ready | nothing of the run is in the ledger",
    "intents.committed": "the run and its orders are on disk | nothing was sent",
    "judged.before": "what waits of a run is about to be judged again | nothing of that is in the ledger",
    "judged.committed": "policy, day and limits were judged again, on disk | nothing more was sent",
    "policy.before": "a person adopts a policy that may be adopted | the one before is in force",
    "policy.committed": "it is in force | nobody was told, and nothing that waits was judged by it",
    "cancel.before": "a row that never left is about to be cancelled | nothing of that is in the ledger",
    "cancel.committed": "it is cancelled | others of its run may not be, and nobody was told",
    "writer.before": "a group of steps is written | it is not committed",
    "writer.committed": "a group is on disk | nobody was told",
    "recover.before": "a dead process's `sending` was found | it is not called unknown yet",
    "recover.committed": "one is unknown | others may still be `sending`",
    "send.before": "an order is about to leave for the first time, or again after a refusal | not marked",
    "send.marked": "`sending` is on disk | no byte has left",
    "send.answered": "the service accepted | the ledger does not know",
    "send.refused": "the service refused | the ledger does not know",
    "send.lost": "it left and no answer can be read | the ledger does not know",
    "send.recorded": "the outcome is on disk | the caller does not know",
    "resend.decided": "two absences are evidence | not marked to leave again",
    "requote.decided": "a quote has ended and its confirmation did not act | another quote may not follow yet",
    "client.before": "the request is signed | no byte has left",
    "client.answered": "the answer's last byte is here | nobody has read it",
    "quote.before": "a quote is about to be asked | its row is not in the ledger",
    "quote.committed": "the quote's row is on disk | it was not asked",
    "quote.answered": "the quote is here | the ledger does not know its terms",
    "quote.recorded": "its terms are on disk | they were not judged",
    "confirm.before": "the terms are inside the bounds | the order does not hold them, and is not marked to leave",
    "ask.before": "an order is about to be asked about | no question has left",
    "ask.answered": "the service showed what it knows | the ledger does not know",
    "absence.recorded": "`no such order` is on disk | nothing was concluded",
    "receipt.expected": "an invoice is expected, on disk | it was not asked for",
    "receipt.answered": "the service made an invoice | the ledger does not know how it is paid",
    "receipt.recorded": "how it is paid is on disk | no result says so",
    "address.verified": "the service issued an address and stands by it | the ledger does not know it",
    "address.recorded": "the address is on disk | no result says so",
    "backup.written": "the backup is on the disk | it does not have its name",
    "restore.ledger": "the ledger is in its place, and says that it is being restored | the key is not",
    "restore.placed": "ledger, key and tokens are in their places | the ledger does not say so",
    "apply.recorded": "what was seen is recorded (a sweep: with its group) | the caller does not know",
}
"""Name -> what has happened by then | what has not."""

_armed: str | None = None
_left = 0
_guard = threading.Lock()


def crash_point(name: str) -> None:
    """A place between two effects. Costs one comparison unless it is armed."""
    if name == _armed:
        _pass()


def arm(name: str, hits: int) -> None:
    """Kill this process with SIGKILL when it comes to this point for the `hits`-th time. For tests."""
    global _armed, _left
    if name not in POINTS:
        raise ValueError(f"no crash point is called {name}")
    _armed, _left = name, hits


def _pass() -> None:
    global _left  # noqa: PLW0603
    with _guard:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
