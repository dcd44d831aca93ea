"""Stops: while one is in force, no process sends. The commit that marks a send checks for one first."""

from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from treasury.approving.tokens import Matter, Verb, key_of
from treasury.errors import InputError
from treasury.ledger.database import group_of, serialize
from treasury.ledger.decisions import (
    ALL_SENDING,
    STOP,
    Proof,
    RecordedDecision,
    Word,
    find_decisions,
    hear,
    judge_word,
    matter_of,
    record,
    signed_by,
)
from treasury.ledger.halts import standing_stops
from treasury.ledger.ledger import Ledger
from treasury.policy.people import Maker, names_somebody, words_of


def stop_sending(
    ledger: Ledger, stopped_by: str, why: str, *, os_user: str = "", key: Ed25519PrivateKey | None = None
) -> None:
    """Stop all sending until the stop is lifted. Anybody may, by a name; `key`: so that it is known who it was."""

    def work(connection: Connection) -> None:
        owner, token = (None, None) if key is None else signed_by(connection, ledger, key, Verb.STOP, STOP)
        person, reason = owner or words_of(stopped_by), words_of(why)
        if not names_somebody(person) or not reason:
            raise InputError("a stop needs a name and a reason: --by NAME --why TEXT")
        record(connection, ledger, RecordedDecision(Verb.STOP, STOP, ALL_SENDING, person, os_user, reason, token))
        # Race: a later send of this very transaction must see the stop.
        group_of(connection).not_stopped = None
        group_of(connection).decide()

    ledger.write(work)


def stops_in_force(ledger: Ledger) -> list[RecordedDecision]:
    """Return the stops that nobody lifted."""
    return ledger.look(lambda connection: standing_stops(connection, ledger.key))


def stops_to_lift(ledger: Ledger) -> Matter:
    """Return the matter, with its code, that lifting the stops in force signs."""

    def work(connection: Connection) -> Matter:
        subjects = [each.itself for each in standing_stops(connection, ledger.key)]
        return matter_of(connection, ledger, Verb.LIFT, subjects, "")

    return ledger.look(work)


def lift_stop(ledger: Ledger, lifted_by: str = "", *, os_user: str = "", proof: Proof | None = None) -> int:
    """Lift the stops in force; returns how many there were.

    `proof`: where people are listed, the key of somebody, or a token of it; a stop that this person made stays, unless
    nobody else is listed. Raises `InputError` where none can be lifted.
    """
    word = Word(Verb.LIFT, lifted_by, "lifted", os_user, proof, named=STOP)

    def work(connection: Connection) -> int:
        serialize(connection)
        stops = standing_stops(connection, ledger.key)
        own = replace(word, subjects=tuple(each.itself for each in stops))
        refused: list[InputError] = []
        for stop in stops:
            maker = Maker(stop.name, stop.os_user, is_signed=stop.token is not None, key=key_of(stop.token))
            try:
                hear(connection, ledger, own, stop.itself, (maker,))
            except InputError as error:
                refused.append(error)
        if not stops:
            judge_word(connection, ledger, own, "no stop", ())
        if refused and len(refused) == len(stops):
            raise refused[0]
        return len(stops) - len(refused)

    return ledger.write(work)


def lifted_by(ledger: Ledger) -> str:
    """Who lifted a stop last."""
    lifted = ledger.look(lambda connection: find_decisions(connection, ledger.key, (Verb.LIFT,)))[0]
    return lifted[-1].shown if lifted else "nobody"
