"""Rehearses the record of a plan: what it would hold is found by the very steps that hold it, and nothing is kept."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NoReturn

from sqlalchemy import Connection, insert, select

from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.intents import IntentRules, record_intents
from treasury.ledger.known_payees import beside_last
from treasury.ledger.ledger import Ledger
from treasury.orders.records import Intent
from treasury.orders.states import State
from treasury.planning.shown import Beside


class _Undone(Exception):
    """Undoes the transaction that it ends; carries what was found."""

    def __init__(self, found: "Rehearsed") -> None:
        super().__init__()
        self.found = found


@dataclass(frozen=True)
class Rehearsed:
    """The record of a plan as it would be now."""

    held: Mapping[str, str]
    """Row -> why it would be held; also of rows that are held already."""
    beside: Beside | None
    """The run beside the last one that paid the same people; None when there is none, or nobody asked."""


@dataclass(frozen=True)
class _New(Iterable[Intent]):
    """The payments that a run does not have yet; gone through again, they are made again."""

    intents: Iterable[Intent]
    recorded: frozenset[str]

    def __iter__(self) -> Iterator[Intent]:
        return (each for each in self.intents if each.row_ref not in self.recorded)


def rehearse(
    ledger: Ledger, run_key: str, intents: Iterable[Intent], rules: IntentRules, percent: Decimal | None = None
) -> Rehearsed:
    """Return what would be there if the plan were recorded now. `percent`: compare it with the last run, see `Beside`.

    Raises `InputError` for a payment that cannot replace the one that it names.
    """

    def work(connection: Connection) -> NoReturn:
        serialize(connection)
        runs, orders = schema.runs, schema.orders.c
        if connection.execute(select(runs.c.run_key).where(runs.c.run_key == run_key)).first() is None:
            run = {"run_key": run_key, "kind": "", "created_at": ledger.now(), "plan": "{}", "plan_sha256": ""}
            connection.execute(insert(runs).values(**run))
        of_run = select(orders.row_ref).where(orders.run_key == run_key)
        recorded = frozenset(connection.execute(of_run).scalars())
        record_intents(ledger, connection, run_key, _New(intents, recorded), rules)
        held = select(orders.row_ref, orders.reason).where(
            orders.run_key == run_key, orders.state == State.HELD.value, orders.sends == 0
        )
        beside = None if percent is None else beside_last(connection, run_key, percent)
        raise _Undone(Rehearsed({row.row_ref: row.reason or "" for row in connection.execute(held)}, beside))

    try:
        ledger.write(work)
    except _Undone as undone:
        return undone.found
