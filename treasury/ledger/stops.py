"""Stops: while one is in force, no process sends. The commit that marks a send checks for one first."""

from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection, Row, insert, select, update

from treasury.approving.tokens import Matter, Verb
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.database import group_of, serialize
from treasury.ledger.deciding import Proof, Word, hear, is_listed, judge_word, matter_of
from treasury.ledger.ledger import Ledger
from treasury.policy.people import Maker, names_somebody, words_of


def stop_sending(
    ledger: Ledger, stopped_by: str, why: str, *, os_user: str | None = None, key: Ed25519PrivateKey | None = None
) -> None:
    """Stop all sending until the stop is lifted. Anybody may, by a name; `key`: so that it is known who it was."""

    def work(connection: Connection) -> None:
        owner = None if key is None else is_listed(connection, ledger, key)
        person, reason = owner or words_of(stopped_by), words_of(why)
        if not names_somebody(person) or not reason:
            raise InputError("a stop needs a name and a reason: --by NAME --why TEXT")
        row = {"stopped_at": ledger.now(), "stopped_by": person, "why": reason, "os_user": os_user}
        connection.execute(insert(schema.stops).values(**row, is_signed=owner is not None))
        # Race: a later send of this very transaction must see the stop.
        group_of(connection).not_stopped = None
        group_of(connection).marks += 1  # a ledger that forgot it is older than this machine knows

    ledger.write(work)


def standing_stops(connection: Connection) -> list[Row[Any]]:
    """The stops in force."""
    table = schema.stops
    return list(connection.execute(select(table).where(table.c.lifted_at.is_(None)).order_by(table.c.id)))


def stops_to_lift(ledger: Ledger) -> Matter:
    """Return the matter, with its code, that lifting the stops in force signs."""

    def work(connection: Connection) -> Matter:
        subjects = [_subject(each) for each in standing_stops(connection)]
        return matter_of(connection, ledger, Verb.LIFT, subjects, "")

    return ledger.look(work)


def lift_stop(ledger: Ledger, lifted_by: str = "", *, os_user: str = "", proof: Proof | None = None) -> int:
    """Lift the stops in force; returns how many there were.

    `proof`: where people are listed, the key of somebody, or a token of it; a stop that this person made stays, unless
    nobody else is listed. Raises `InputError` where none can be lifted.
    """
    word = Word(Verb.LIFT, lifted_by, "lifted", os_user, proof, named="stop")
    table = schema.stops

    def work(connection: Connection) -> int:
        serialize(connection)
        stops = standing_stops(connection)
        own = replace(word, subjects=tuple(_subject(each) for each in stops))
        refused: list[InputError] = []
        for stop in stops:
            maker = Maker(stop.stopped_by, stop.os_user or "", is_signed=bool(stop.is_signed))
            try:
                decided = hear(connection, ledger, own, _subject(stop), (maker,))
            except InputError as error:
                refused.append(error)
                continue
            change = update(table).where(table.c.id == stop.id)
            connection.execute(change.values(lifted_at=ledger.now(), lifted_by=decided.shown))
        if not stops:
            judge_word(connection, ledger, own, "no stop", ())
        if refused and len(refused) == len(stops):
            raise refused[0]
        return len(stops) - len(refused)

    return ledger.write(work)


def lifted_by(ledger: Ledger) -> str:
    """Who lifted a stop last."""
    table = schema.stops.c
    rows = ledger.read(select(table.lifted_by).where(table.lifted_at.is_not(None)).order_by(table.lifted_at.desc()))
    return str(rows[0].lifted_by) if rows else "nobody"


def _subject(stop: Row[Any]) -> str:
    return f"stop {stop.id} of {stop.stopped_at} by {stop.stopped_by}"
