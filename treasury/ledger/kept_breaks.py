"""Breaks in the ledger, as each report had them, and those that a person lets stay as they are."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, case, delete, exists, func, insert, select, update

from treasury.approving.tokens import Matter, Verb
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.decisions import (
    Found,
    Proof,
    RecordedDecision,
    Word,
    find_decisions,
    hear,
    makers_for,
    matter_of,
    not_taken_back,
)
from treasury.ledger.ledger import Ledger
from treasury.ledger.made_reports import OF_ALL_BOOKS, reports_before, seals_of_breaks
from treasury.money import amount_text, format_amount, stored_amount
from treasury.reconciliation.breaks import KEPT, RESOLVED, Acceptance, Break, Finding, KnownBreak
from treasury.reconciliation.classes import BALANCE_CLASSES


def known_breaks(ledger: Ledger, sweep_id: int | None = None) -> dict[str, KnownBreak]:
    """Id -> the break as the last report before this sweep had it (or the very last), unless it was resolved there.

    One that is gone because somebody accepted it is back once that was withdrawn; a lot is gone by an entry alone. Of a
    report whose files were never written nobody read what it found, or resolved: the next one tells it.
    """
    table = schema.breaks
    reports = reports_before(ledger, sweep_id, OF_ALL_BOOKS)
    made, unread = [row.sweep_id for row in reports], [row.sweep_id for row in reports if row.written_at is None]
    place = _place(made, table.c.sweep_id)

    def last_rows(*which: ColumnElement[bool]) -> Select[Any]:
        latest = select(table.c.break_id, func.max(place).label("place")).where(table.c.sweep_id.in_(made), *which)
        last = latest.group_by(table.c.break_id).subquery()
        return select(table).join(last, (last.c.break_id == table.c.break_id) & (last.c.place == place))

    query = last_rows()
    decided, report = schema.decisions.c, schema.reports.c
    query = query.outerjoin(schema.reports, report.sweep_id == table.c.sweep_id)
    is_withdrawal = (decided.verb == Verb.WITHDRAW.value) & (decided.named == table.c.break_id)
    ended_since = is_withdrawal & (decided.at > report.as_of)
    is_back = table.c.name.not_in(BALANCE_CLASSES) & exists().where(ended_since).correlate(table, schema.reports)
    is_open = (table.c.lifecycle != RESOLVED) | is_back | table.c.sweep_id.in_(unread)
    rows = ledger.read(query.where(is_open).order_by(table.c.break_id))
    kept = {  # by its first day, too: one that ended and began anew is another one
        (row.break_id, row.first_seen): _finding(row) for row in ledger.read(last_rows(table.c.name.in_(KEPT)))
    }
    written = [row.sweep_id for row in reports if row.written_at is not None]
    untold = _untold(ledger, unread, written) if unread else ()
    return {
        row.break_id: KnownBreak(
            *(_finding(row), row.first_seen, kept.get((row.break_id, row.first_seen))),
            is_told=(row.break_id, row.first_seen) not in untold,
        )
        for row in rows
    }


def _untold(ledger: Ledger, unread: Sequence[int], written: Sequence[int]) -> set[tuple[str, int]]:
    """Return id and first day of the breaks that `unread` reports had, and none of those `written`: one that is made
    again has been recorded itself already."""
    table, other = schema.breaks.c, schema.breaks.alias().c
    is_same = (other.break_id == table.break_id) & (other.first_seen == table.first_seen)
    told = exists().where(is_same, other.sweep_id.in_(written))
    rows = ledger.read(select(table.break_id, table.first_seen).where(table.sweep_id.in_(unread), ~told).distinct())
    return {(row.break_id, row.first_seen) for row in rows}


def _place(made: Sequence[int], sweep_id: ColumnElement[int]) -> ColumnElement[int]:
    """Return the place of a sweep in the sequence in which reports were `made`: that of the sweeps, but for those that
    ended after one that began later."""
    greatest, places = 0, dict[int, int]()
    for number, each in enumerate(made, 1):
        if each < greatest:
            places[each] = greatest * (len(made) + 1) + number
        greatest = max(greatest, each)
    usual = sweep_id * (len(made) + 1)
    return case(places, value=sweep_id, else_=usual) if places else usual


def _finding(row: Any) -> Finding:
    said = {each.name: getattr(row, each.name) for each in fields(Finding)}
    return Finding(**{**said, "amount": stored_amount(row.amount), "difference": stored_amount(row.difference)})


def record_breaks(ledger: Ledger, sweep_id: int, breaks: Sequence[Break]) -> None:
    """Record the breaks of a report, replacing those of an earlier report of the same sweep."""
    rows = []
    for each in breaks:
        found = vars(each.found) | {name: amount_text(getattr(each.found, name)) for name in ("amount", "difference")}
        told = {"first_seen": each.first_seen, "lifecycle": each.lifecycle}
        rows.append({**found, **told, "sweep_id": sweep_id, "break_id": each.found.id})

    def work(connection: Connection) -> None:
        serialize(connection)
        connection.execute(delete(schema.breaks).where(schema.breaks.c.sweep_id == sweep_id))
        if rows:
            connection.execute(insert(schema.breaks), rows)
        sealed = seals_of_breaks(connection.execute, ledger.key, [sweep_id])[sweep_id]
        connection.execute(update(schema.reports).where(schema.reports.c.sweep_id == sweep_id).values(breaks=sealed))

    ledger.write(work)


_VERBS = (Verb.ACCEPT, Verb.WITHDRAW)
_TABLE = schema.decisions
_WORDS = [each.value for each in _VERBS]
_NAMED = _TABLE.c.named.in_(select(_TABLE.c.named).where(_TABLE.c.verb.in_(_WORDS)))
_ABOUT = _TABLE.c.about.like(f"{Verb.ACCEPT.value} %")


def _decided(connection: Connection, ledger: Ledger) -> Found:
    """Return what was said about breaks; and what was changed by hand, of which anything may be left."""
    genuine, others = find_decisions(connection, ledger.key, _VERBS, _NAMED, _ABOUT)
    return [each for each in genuine if each.verb in _VERBS], others


def acceptances(ledger: Ledger, as_of: int) -> dict[str, Acceptance]:
    """Break id -> its newest acceptance that counts at a moment, Unix ms, with the others that do.

    None of a break about which a decision was changed or added by hand.
    """
    genuine, others = ledger.look(lambda connection: _decided(connection, ledger))
    unclear = {text for each in others for text in (each.named, each.about)}
    found: dict[str, list[Acceptance]] = defaultdict(list)
    for each in not_taken_back(genuine, Verb.WITHDRAW):
        if unclear.isdisjoint((each.named, each.itself)) and (each.ends_at is None or as_of < each.ends_at):
            found[each.named].append(_acceptance(each))
    return {key: replace(each[-1], others=tuple(each[:-1])) for key, each in found.items()}


def all_acceptances(ledger: Ledger) -> list[tuple[Acceptance, int | None]]:
    """Every acceptance there ever was, in order, and when it was withdrawn, Unix ms."""
    decided, others = ledger.look(lambda connection: _decided(connection, ledger))
    withdrawn = {each.about: each.at for each in (*others, *decided) if each.verb != Verb.ACCEPT}
    return [(_acceptance(each), withdrawn.get(each.itself)) for each in decided if each.verb == Verb.ACCEPT]


def _acceptance(decision: RecordedDecision) -> Acceptance:
    name, difference = decision.facts["class"], Decimal(decision.facts["difference"])
    return Acceptance(
        *(decision.named, name, difference, decision.shown, decision.why, decision.at), ends_at=decision.ends_at
    )


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
    facts = {"class": known.found.name, "difference": format_amount(known.found.difference)}
    said = (by, why, os_user, proof)
    word = Word(Verb.ACCEPT, *said, detail=_detail(ends_at), named=break_id, ends_at=ends_at, facts=facts)

    def work(connection: Connection) -> KnownBreak:
        serialize(connection)
        makers = makers_for(connection, ledger, Verb.ACCEPT, known.found.run_key)
        hear(connection, ledger, word, _subject(break_id, known), makers)
        return known

    return ledger.write(work)


def withdraw_acceptances(
    ledger: Ledger, break_id: str, *, by: str = "", os_user: str, why: str, proof: Proof | None = None
) -> int:
    """Withdraw what was accepted of a break, so that it counts again; returns how many acceptances there were.

    `proof`: where people are listed, the key of one of them, or a token of it. Raises `InputError`.
    """
    word = Word(Verb.WITHDRAW, by, why, os_user, proof, named=break_id)

    def work(connection: Connection) -> int:
        serialize(connection)
        standing = _standing(connection, ledger, break_id)
        if not standing:
            raise InputError(f"nobody accepted {break_id}, or it was withdrawn already")
        own = replace(word, subjects=tuple(each.itself for each in standing))
        for each in standing:
            hear(connection, ledger, own, each.itself, ())
        return len(standing)

    return ledger.write(work)


def matter_of_break(ledger: Ledger, break_id: str, *, ends_at: int | None, withdraw: bool) -> Matter:
    """Return the matter, with its code, that accepting a break, or withdrawing that, signs. Raises `InputError`."""
    known = None if withdraw else _open_break(ledger, break_id)

    def work(connection: Connection) -> Matter:
        if known is not None:
            return matter_of(connection, ledger, Verb.ACCEPT, (_subject(break_id, known),), _detail(ends_at))
        standing = [each.itself for each in _standing(connection, ledger, break_id)]
        return matter_of(connection, ledger, Verb.WITHDRAW, standing, "")

    return ledger.look(work)


def _open_break(ledger: Ledger, break_id: str) -> KnownBreak:
    known = known_breaks(ledger).get(break_id)
    if known is None:
        raise InputError(f"the last report has no open break {break_id} (`reconciliation.json` lists them)")
    return known


def _standing(connection: Connection, ledger: Ledger, break_id: str) -> list[RecordedDecision]:
    genuine = _decided(connection, ledger)[0]
    return [each for each in not_taken_back(genuine, Verb.WITHDRAW) if each.named == break_id]


def _subject(break_id: str, known: KnownBreak) -> str:
    found = known.found
    return f"break {break_id}: {found.name} of {format_amount(found.difference)} {found.currency or ''}".rstrip()


def _detail(ends_at: int | None) -> str:
    return "" if ends_at is None else f"until {ends_at}"
