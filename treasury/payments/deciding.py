"""A person's word about orders, before the ledger hears it: whose it is, and about which orders as they stand."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from treasury.approving.judging import ANOTHERS
from treasury.approving.tokens import Verb
from treasury.errors import InputError
from treasury.ledger.decisions import (
    Proof,
    Word,
    judge_word,
    makers_for,
    matter_of,
    order_subject,
    people_at,
    with_subjects,
)
from treasury.ledger.epoch import Standing
from treasury.ledger.policies import policy_in_force
from treasury.orders.records import Order
from treasury.payments.desk import Desk
from treasury.settings import os_user


def check_known(desk: Desk) -> None:
    """Raise `InputError` where people are listed and the ledger is just found to be older than the service.

    What a key was to decide about was looked at in another state of the ledger.
    """
    if not desk.ledger.look(lambda connection: bool(people_at(connection, desk.ledger))):
        return
    if desk.check_standing() is Standing.OLDER:
        raise InputError(
            "this ledger was found to be older than the service just now, so what waited is held: look at it, and "
            "decide again; nothing was recorded"
        )


def check_recovered(desk: Desk) -> None:
    """Check this machine's clock against the service's, where a recovery put the policy in force.

    A clock that somebody put forward ends the recovery's wait at once; what is decided then stays when the clock is
    put back and the recovery is ended. Raises `ConfigurationError` for a wrong clock, `Stopped` where the service does
    not answer.
    """
    found = policy_in_force(desk.ledger)
    if found is not None and found.recovery:
        desk.check_clock(waits_end=True)


def word_about(
    desk: Desk,
    purpose: Verb,
    named: str,
    orders: Sequence[Order],
    *more: str,
    by: str = "",
    why: str = "",
    proof: Proof | None = None,
    detail: str = "",
) -> Word:
    """The word of a person about these orders as they stand now, and about whatever else it names.

    Raises as `check_recovered` for a decision by which more may leave.
    """
    if purpose in ANOTHERS:
        check_recovered(desk)
    word = Word(purpose, by, why, os_user(), proof, detail=detail, named=named)
    return desk.ledger.look(lambda connection: with_subjects(word, connection, orders, *more))


def said(desk: Desk, word: Word, order: Order) -> Word:
    """The word with whose it is, about one of its orders. Raises `InputError` for a decision that does not count."""

    def work(connection: Connection) -> Word:
        makers = makers_for(connection, desk.ledger, word.purpose, order.run_key)
        subject = order_subject(connection, word.purpose, order)
        return replace(word, decided=judge_word(connection, desk.ledger, word, subject, makers))

    return desk.ledger.look(work)


def code_of(desk: Desk, word: Word) -> str:
    """Return the code that is copied to another machine, and signed there."""
    return desk.ledger.look(
        lambda connection: matter_of(connection, desk.ledger, word.purpose, word.subjects, word.detail).code
    )
