"""Who made a run: who started it or added rows to it, and who proposed a plan of it."""

import json

from sqlalchemy import Connection, select

from treasury.approving.tokens import Token, Verb, key_of
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.decisions import Books, RecordedDecision, find_decisions, record
from treasury.ledger.seals import is_sealed
from treasury.policy.people import Maker, People

PLAN = "plan "
"""Begins the subject of a decision about a plan. A maker's signature is about the run."""


def with_maker(makers: str | None, maker: Maker | None) -> str | None:
    """The makers of a run as they are kept, with one more."""
    known = [] if makers is None else json.loads(makers)
    if maker is None:
        return makers
    said = [maker.name, maker.os_user, maker.is_listed, maker.is_signed]
    return json.dumps(known if said in known else [*known, said])


def note_maker(connection: Connection, books: Books, run_key: str, maker: Maker, token: Token) -> None:
    """Record who signed a plan that needs no approvals: what is held of it is not for that person to release."""
    if maker.name not in [each.name for each in _signers(connection, books.key, run_key)]:
        said = RecordedDecision(token.purpose, run_key, run_key, maker.name, maker.os_user, token=str(token))
        record(connection, books, said)


def _signers(connection: Connection, key: LedgerKey, run_key: str) -> list[Maker]:
    found = find_decisions(connection, key, named=run_key)[0]
    signed = (each for each in found if each.verb == Verb.PROPOSE)
    return [Maker(each.name, each.os_user, True, True, key_of(each.token)) for each in signed]


def _check_signers(connection: Connection, key: LedgerKey, run_key: str) -> None:
    """Raise `InputError` where who signed a plan of a run, or proposed one, may have been changed by hand."""
    table = schema.plans
    plans = connection.execute(select(table).where(table.c.run_key == run_key)).fetchall()
    others = find_decisions(connection, key, named=run_key, about=run_key)[1]
    changed = [each for each in others if each.verb == Verb.PROPOSE or not each.about.startswith(PLAN)]
    if changed or not all(is_sealed(key, table, row) for row in plans):
        raise InputError(
            f"who proposed run {run_key}, or decided about it, was changed in the ledger by hand, so nobody knows who "
            "made it; nothing was recorded: treasury cancel ends what never left"
        )


def all_makers(makers: str | None, people: People) -> str | None:
    """The makers of a run that was changed by hand, as they are kept: anybody may have been one."""
    for name in people.listed:
        makers = with_maker(makers, Maker(name, "", is_listed=True, is_signed=True))
    return makers


def makers_of(connection: Connection, key: LedgerKey, run_key: str) -> list[Maker]:
    """Everybody who made a run, or the run that it is part of; nobody where that is not known.

    Raises `InputError` for a run that was changed by hand.
    """
    _check_signers(connection, key, run_key)
    runs = schema.runs
    run = connection.execute(select(runs).where(runs.c.run_key == run_key)).first()
    found = [*_of_plans(connection, run_key), *_signers(connection, key, run_key)]
    if run is None:
        return found
    if not is_sealed(key, runs, run):
        raise InputError(
            f"run {run_key} was changed in the ledger by hand, so nobody knows who made it; nothing was recorded: "
            "start it again, so that it is judged anew, or end it with treasury cancel"
        )
    said = [] if run.makers is None else json.loads(run.makers)
    found += [Maker(name, os_user, is_listed, is_signed) for name, os_user, is_listed, is_signed in said]
    part_of = json.loads(run.plan).get("part_of")
    if part_of is not None:
        found += makers_of(connection, key, part_of["run_key"])
    return list(dict.fromkeys(found))


def _of_plans(connection: Connection, run_key: str) -> list[Maker]:
    table = schema.plans
    rows = connection.execute(select(table).where(table.c.run_key == run_key).order_by(table.c.id)).fetchall()
    return [
        Maker(row.maker, row.os_user or row.maker, bool(row.is_listed), row.token is not None, key_of(row.token))
        for row in rows
    ]
