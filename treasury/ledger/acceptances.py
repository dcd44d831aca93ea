"""Acceptances: breaks of reports that a person lets stay, as they are. Each is a row, and none is overwritten."""

from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from treasury.approving.tokens import Matter, Verb
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.deciding import Proof, Word, hear, makers_for, matter_of
from treasury.ledger.ledger import Ledger
from treasury.ledger.reported_breaks import known_breaks
from treasury.money import format_amount
from treasury.reconciliation.breaks import Acceptance, KnownBreak


def acceptances(ledger: Ledger, as_of: int) -> dict[str, Acceptance]:
    """Break id -> its newest acceptance that counts at a moment, Unix ms, with the others that do."""
    found: dict[str, list[Acceptance]] = defaultdict(list)
    table = schema.acceptances.c
    for row in ledger.read(select(schema.acceptances).where(table.withdrawn_at.is_(None)).order_by(table.id)):
        if row.ends_at is None or as_of < row.ends_at:
            said = (row.break_id, row.name, Decimal(row.difference), row.accepted_by, row.why, row.accepted_at)
            found[row.break_id].append(Acceptance(*said, ends_at=row.ends_at))
    return {key: replace(each[-1], others=tuple(each[:-1])) for key, each in found.items()}


def accept_break(
    ledger: Ledger,
    break_id: str,
    *,
    by: str = "",
    os_user: str,
    why: str,
    proof: Proof | None = None,
    ends_at: int | None = None,
) -> KnownBreak:
    """Record that a person accepts a break of the last report, as it is there.

    `proof`: where people are listed, the key of somebody who did not make the run that it is about, or a token of it.
    `ends_at`: until when, Unix ms. Raises `InputError`, also when there is no such break.
    """
    known = _open_break(ledger, break_id)
    word = Word(Verb.ACCEPT, by, why, os_user, proof, detail=_detail(ends_at), named=break_id)
    row = {"break_id": break_id, "name": known.found.name, "difference": format_amount(known.found.difference)}

    def work(connection: Connection) -> KnownBreak:
        serialize(connection)
        makers = makers_for(connection, ledger, Verb.ACCEPT, known.found.run_key)
        decided = hear(connection, ledger, word, _subject(break_id, known), makers)
        said = {"accepted_by": decided.shown, "os_user": os_user, "why": word.why, "accepted_at": ledger.now()}
        connection.execute(insert(schema.acceptances).values(**row, **said, ends_at=ends_at))
        return known

    return ledger.write(work)


def withdraw_acceptances(
    ledger: Ledger, break_id: str, *, by: str = "", os_user: str, why: str, proof: Proof | None = None
) -> int:
    """Withdraw what was accepted of a break, so that it counts again; returns how many acceptances there were.

    `proof`: where people are listed, the key of one of them, or a token of it. Raises `InputError`.
    """
    word = Word(Verb.WITHDRAW, by, why, os_user, proof, named=break_id)
    table = schema.acceptances

    def work(connection: Connection) -> int:
        serialize(connection)
        standing = _standing(connection, break_id)
        if not standing:
            raise InputError(f"nobody accepted {break_id}, or it was withdrawn already")
        own = replace(word, subjects=tuple(_accepted(each) for each in standing))
        for each in standing:
            decided = hear(connection, ledger, own, _accepted(each), ())
            ended = {"withdrawn_at": ledger.now(), "withdrawn_by": decided.name, "withdraw_why": word.why}
            connection.execute(update(table).where(table.c.id == each.id).values(**ended))
        return len(standing)

    return ledger.write(work)


def matter_of_break(ledger: Ledger, break_id: str, *, ends_at: int | None, withdraw: bool) -> Matter:
    """Return the matter, with its code, that accepting a break, or withdrawing that, signs. Raises `InputError`."""
    known = None if withdraw else _open_break(ledger, break_id)

    def work(connection: Connection) -> Matter:
        if known is not None:
            return matter_of(connection, ledger, Verb.ACCEPT, (_subject(break_id, known),), _detail(ends_at))
        standing = [_accepted(each) for each in _standing(connection, break_id)]
        return matter_of(connection, ledger, Verb.WITHDRAW, standing, "")

    return ledger.look(work)


def _open_break(ledger: Ledger, break_id: str) -> KnownBreak:
    known = known_breaks(ledger).get(break_id)
    if known is None:
        raise InputError(f"the last report has no open break {break_id} (`reconciliation.json` lists them)")
    return known


def _standing(connection: Connection, break_id: str) -> list[Row[Any]]:
    table = schema.acceptances
    chosen = (table.c.break_id == break_id) & table.c.withdrawn_at.is_(None)
    return list(connection.execute(select(table).where(chosen).order_by(table.c.id)))


def _subject(break_id: str, known: KnownBreak) -> str:
    found = known.found
    return f"break {break_id}: {found.name} of {format_amount(found.difference)} {found.currency or ''}".rstrip()


def _accepted(row: Row[Any]) -> str:
    return f"acceptance {row.id} of {row.break_id} by {row.accepted_by} at {row.accepted_at}"


def _detail(ends_at: int | None) -> str:
    return "" if ends_at is None else f"until {ends_at}"
