"""Splits a run into the parts that Prefect's tasks execute, direct and quoted rows apart."""

from collections.abc import Sequence
from typing import TypedDict

from treasury.concurrency.batches import batched
from treasury.orders.quoting import QUOTED
from treasury.orders.states import OPEN, State
from treasury.payments.desk import Desk

DIRECT_ROWS = 5_000
QUOTED_ROWS = 1_000
"""Rows of a quoted part: few enough that all are quoted and confirmed long before the first quote ends."""


class Part(TypedDict):
    """Orders of a run that one task executes. Plain values, because Prefect passes it between tasks."""

    run_key: str
    rows: str
    """Which ones, for people: `1-1000` counts the orders of its kind in the sequence of the plan."""
    quoted: bool
    ids: list[int]


def split_run(desk: Desk, run_key: str, ids: Sequence[int]) -> list[Part]:
    """These orders of a run in parts, in the sequence they were planned; direct ones first."""
    wanted = set(ids)
    open_states = (State.PREPARED, *OPEN)
    found = desk.ledger.ids_by_operation(run_key, open_states)
    parts = []
    for quoted, size in ((False, DIRECT_ROWS), (True, QUOTED_ROWS)):
        every = sorted(each for name, some in found.items() if (name in QUOTED) is quoted for each in some)
        chosen = [each for each in every if each in wanted]
        for number, some in enumerate(batched(chosen, size)):
            first = number * size + 1
            rows = f"{first}-{first + len(some) - 1}"
            parts.append(Part(run_key=run_key, rows=rows, quoted=quoted, ids=list(some)))
    return parts
