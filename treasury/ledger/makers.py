"""Who made a run: who started it or added rows to it, and who proposed a plan of it."""

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row, select

from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.seals import is_sealed
from treasury.planning.people import Maker


def with_maker(makers: str | None, maker: Maker | None) -> str | None:
    """The makers of a run as they are kept, with one more."""
    known = [] if makers is None else json.loads(makers)
    if maker is None:
        return makers
    said = [maker.name, maker.os_user, maker.is_listed, maker.is_signed]
    return json.dumps(known if said in known else [*known, said])


def makers_of(connection: Connection, key: LedgerKey, run_key: str) -> list[Maker]:
    """Everybody who made a run, or the run that it is part of; nobody for one from before that was kept."""
    runs = schema.runs
    run = connection.execute(select(runs).where(runs.c.run_key == run_key)).first()
    found = [] if run is None else list(_of_run(run))
    part_of = None if run is None else json.loads(run.plan).get("part_of")
    for name in (run_key, *([] if part_of is None else [part_of["run_key"]])):
        found += _of_plans(connection, key, name)
    if part_of is not None:
        parent = connection.execute(select(runs).where(runs.c.run_key == part_of["run_key"])).first()
        found += [] if parent is None else _of_run(parent)
    return list(dict.fromkeys(found))


def _of_run(run: Row[Any]) -> Iterator[Maker]:
    for name, os_user, is_listed, is_signed in [] if run.makers is None else json.loads(run.makers):
        yield Maker(name, os_user, is_listed, is_signed)


def _of_plans(connection: Connection, key: LedgerKey, run_key: str) -> list[Maker]:
    table = schema.plans
    rows = connection.execute(select(table).where(table.c.run_key == run_key).order_by(table.c.id)).fetchall()
    return [
        Maker(row.maker, row.os_user or row.maker, bool(row.is_listed), row.token is not None)
        for row in rows
        if is_sealed(key, table, row)
    ]
