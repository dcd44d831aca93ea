"""Decisions of people: an append-only table of sealed rows, heard in the very transaction that records them.

A row that was changed or added by hand is no decision. Who asks is told of it, so that nothing more leaves because of
it.

Where the policy in force lists people, each takes a key: `hear` checks it, whoever calls. Elsewhere typed names count.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import ColumnElement, Connection, Row, func, or_, select, true

from treasury.approving.judging import (
    ALONE,
    ANOTHERS,
    HOUR_MS,
    IN_A_RECOVERY,
    Decided,
    judge_decision,
    needs_key,
    refusal,
)
from treasury.approving.tokens import Matter, Token, Verb, key_of, public_text, sign
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.in_force import check_genuine, check_no_recovery, policy_now
from treasury.ledger.migrations import meta_value
from treasury.ledger.seals import add_sealed, is_sealed
from treasury.orders.records import Order
from treasury.orders.states import Event, Hold
from treasury.policy.model import Policy
from treasury.policy.people import Maker, People, names_somebody, same_person, words_of
from treasury.provider.catalogue import CATALOGUE
from treasury.texts import canonical_json

STOP = "stop"
"""The name of all stops."""

ALL_SENDING = "all sending"
"""The thing that each stop is about."""


class Books(Protocol):
    """The parts of a ledger that are needed here."""

    account: str
    key: LedgerKey

    def now(self) -> int:
        """The time, Unix ms."""


@dataclass(frozen=True)
class RecordedDecision:
    """A decision of a person, as it is kept."""

    verb: str
    named: str
    """By which name the person meant the thing: a run key, a break, a kind of run."""
    about: str
    """The thing as it stood."""
    name: str
    os_user: str
    why: str = ""
    token: str | None = None
    """The token that a key signed; None for a typed name."""
    is_alone: bool = False
    ends_at: int | None = None
    """When it counts no more, Unix ms."""
    facts: Mapping[str, str] = field(default_factory=dict)
    at: int = 0
    """Unix ms."""
    id: int = 0

    @property
    def shown(self) -> str:
        """The name as it is shown, where nothing else is said."""
        return f"{self.name} ({ALONE})" if self.is_alone else self.name

    @property
    def itself(self) -> str:
        """This decision, as a later one that takes it back is about it."""
        return f"{self.verb} {self.id} of {self.at} by {self.name}: {self.about}"


Found = tuple[list[RecordedDecision], list[RecordedDecision]]
"""Decisions, and the rows that are none, because they were changed or added by hand."""


def record(connection: Connection, books: Books, decision: RecordedDecision) -> None:
    """Add a decision, as of now, to those of this ledger."""
    table = schema.decisions
    row = {name: value for name, value in vars(decision).items() if name != "id"}
    row |= {"at": books.now(), "facts": canonical_json(decision.facts) if decision.facts else None}
    add_sealed(connection, books.key, table, row)


def find_decisions(
    connection: Connection,
    key: LedgerKey,
    verbs: Collection[Verb] = (),
    *more: ColumnElement[bool],
    named: str = "",
    about: str = "",
) -> Found:
    """Return the decisions with one of these verbs, named so, about this, or for which one of `more` holds, in order;
    and the rows that are none.

    Whoever may have lost one looks for it by all three: of one that was changed by hand any one may be left.
    """
    table, wanted = schema.decisions, list(more)
    wanted += [table.c.verb.in_([each.value for each in verbs])] if verbs else []
    wanted += [column == text for column, text in ((table.c.named, named), (table.c.about, about)) if text]
    query = select(table).where(or_(*wanted)).order_by(table.c.id)
    rows = [(row, is_sealed(key, table, row)) for row in connection.execute(query)]
    return [_read(row) for row, genuine in rows if genuine], [_read(row, {}) for row, genuine in rows if not genuine]


def changed_by_hand(connection: Connection, key: LedgerKey) -> list[RecordedDecision]:
    """Return every row that is none, whatever it says of itself, but for those after which a person decided anew."""
    genuine, others = find_decisions(connection, key, (), true())
    ended = {each.about for each in genuine if each.verb in (Verb.LIFT, Verb.DISREGARD)}
    return [each for each in others if each.itself not in ended]


def _read(row: Row[Any], facts: Mapping[str, str] | None = None) -> RecordedDecision:
    read = json.loads(row.facts or "{}") if facts is None else facts
    said = {name: value for name, value in row._mapping.items() if name != "checksum"}
    return RecordedDecision(**{**said, "facts": read, "is_alone": bool(row.is_alone)})


def not_taken_back(decisions: Iterable[RecordedDecision], by: Verb) -> list[RecordedDecision]:
    """Return the decisions that no later one with this verb took back; without those."""
    decisions = list(decisions)
    ended = {each.about for each in decisions if each.verb == by}
    return [each for each in decisions if each.verb != by and each.itself not in ended]


PLAN = "plan "
"""Begins the subject of a decision about a plan. A maker's signature is about the run."""


def with_maker(makers: str | None, maker: Maker) -> str:
    """The makers of a run as they are kept, with one more."""
    known = [] if makers is None else json.loads(makers)
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


def _check_signers(connection: Connection, key: LedgerKey, run_key: str, plans: Sequence[Row[Any]]) -> None:
    """Raise `InputError` where who signed a plan of a run, or proposed one, may have been changed by hand."""
    others = find_decisions(connection, key, named=run_key, about=run_key)[1]
    changed = [each for each in others if each.verb == Verb.PROPOSE or not each.about.startswith(PLAN)]
    if changed or not all(is_sealed(key, schema.plans, row) for row in plans):
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
    table, runs = schema.plans, schema.runs
    plans = connection.execute(select(table).where(table.c.run_key == run_key).order_by(table.c.id)).fetchall()
    _check_signers(connection, key, run_key, plans)
    run = connection.execute(select(runs).where(runs.c.run_key == run_key)).first()
    found = [
        Maker(row.maker, row.os_user or row.maker, bool(row.is_listed), row.token is not None, key_of(row.token))
        for row in plans
    ]
    found += _signers(connection, key, run_key)
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


Proof = Ed25519PrivateKey | Token
"""Proof of whose a decision is: a private key, which signs each thing as it stands, or a token that one signed."""


@dataclass(frozen=True)
class Word:
    """A person's decision about one or several things."""

    purpose: Verb
    by: str
    why: str
    os_user: str
    proof: Proof | None = None
    subjects: tuple[str, ...] = ()
    """All that it is about, each as it stood when the person looked: what a token was signed over."""
    detail: str = ""
    named: str = ""
    """The name that the person gave for it."""
    ends_at: int | None = None
    """When it counts no more, Unix ms."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """More that it says, by name."""
    decided: Decided | None = None
    """Whose it is, as it was found before the transaction that records it."""

    def __post_init__(self) -> None:
        """Take name and reason as they are shown. Raises `InputError` for what cannot be."""
        object.__setattr__(self, "by", words_of(self.by))
        object.__setattr__(self, "why", words_of(self.why))

    @property
    def cause(self) -> str:
        """The decision as it is kept and shown."""
        return (self.decided or Decided(self.by)).says(self.os_user, self.why)


PURPOSES = {
    Event.RELEASE: Verb.RELEASE,
    Event.CANCEL: Verb.CANCEL,
    Event.RESOLVE_SENT: Verb.SENT,
    Event.RESOLVE_NOT_SENT: Verb.NOT_SENT,
    Event.RESOLVE_REJECTED: Verb.NOT_SENT,
    Event.RESOLVE_SETTLED: Verb.SETTLED,
    Event.RESOLVE_FAILED: Verb.FAILED,
}
"""Steps that people decide, and what they say by them."""


def people_at(connection: Connection, books: Books) -> People:
    """The people of the policy in force; nobody where typed names count."""
    policy = policy_now(connection, books.key, books.now())
    return People() if policy is None else policy.listed


# --- what a decision is about ------------------------------------------------------------------------------------


def matter_of(connection: Connection, books: Books, purpose: Verb, subjects: Iterable[str], detail: str) -> Matter:
    """Return the matter that a decision about these things signs, in this ledger as it is."""
    identity, epoch = (meta_value(connection, name) or "" for name in ("identity", "epoch_at"))
    return Matter(purpose, tuple(subjects), books.account, identity, epoch, detail)


def order_subject(connection: Connection, purpose: Verb, order: Order) -> str:
    """An order as it stands: with the step that brought it there. A cancellation is about the order for ever."""
    who = f"order {order.request_id} of {order.run_key}, row {order.row_ref}"
    if purpose is Verb.CANCEL:
        return who
    journal = schema.journal.c
    last = connection.execute(select(func.max(journal.id)).where(journal.order_id == order.id)).scalar() or 0
    stands = f"{order.state.value}, held {order.hold_kind or 'not'}, quote {order.generation}, sent {order.sends}"
    return f"{who}: {stands}, step {last}"


def with_subjects(word: Word, connection: Connection, orders: Sequence[Order], *more: str) -> Word:
    """The word of a person about these orders, as they stand."""
    return replace(word, subjects=(*more, *(order_subject(connection, word.purpose, each) for each in orders)))


def makers_for(connection: Connection, books: Books, purpose: Verb, run_key: str | None) -> list[Maker]:
    """Who made a run, where a decision about it is not for them. Raises `InputError` for one changed by hand."""
    if run_key is None or purpose not in ANOTHERS or not people_at(connection, books):
        return []
    return makers_of(connection, books.key, run_key)


# --- hearing one -------------------------------------------------------------------------------------------------


def judge_word(connection: Connection, books: Books, word: Word, subject: str, makers: Sequence[Maker]) -> Decided:
    """Whose decision about this thing it is. Raises `InputError` for one that does not count, and `RecoveryRuns`."""
    return _judge(connection, books, word, subject, makers)[0]


def hear(connection: Connection, books: Books, word: Word, subject: str, makers: Sequence[Maker]) -> Decided:
    """Check, in the transaction that records it, that a person's decision about this thing counts; and record it.

    Raises `InputError`, also when it is another person's than was found before, and `RecoveryRuns`.
    """
    decided, token = _judge(connection, books, word, subject, makers)
    if word.decided is not None and decided != word.decided:
        raise refusal("who is listed, or who made it, changed at the same moment; say it again")
    signed = None if token is None else str(token)
    if token is not None and token is word.proof:
        earlier = (each for some in find_decisions(connection, books.key, about=subject) for each in some)
        if any(each.token == signed for each in earlier):  # what it said may have been taken back since
            raise refusal("this token was recorded before: it decides once; sign another one")
    said = (decided.name, word.os_user, word.why, signed, decided.alone, word.ends_at, word.facts)
    record(connection, books, RecordedDecision(word.purpose, word.named, subject, *said))
    return decided


def _judge(
    connection: Connection, books: Books, word: Word, subject: str, makers: Sequence[Maker]
) -> tuple[Decided, Token | None]:
    if word.purpose not in IN_A_RECOVERY:
        check_genuine(connection, books.key, books.now())
    people = people_at(connection, books)
    if not people:
        return _by_name(word), None
    subjects = word.subjects or (subject,)
    if word.purpose not in IN_A_RECOVERY:
        check_no_recovery(connection, books.key, books.now())
    if word.proof is None:
        raise needs_key(word.purpose, people, matter_of(connection, books, word.purpose, subjects, word.detail).code)
    if not word.why:
        raise InputError("a decision needs a reason: --why TEXT")
    if isinstance(word.proof, Token):
        token, matter = word.proof, matter_of(connection, books, word.purpose, subjects, word.detail)
        if subject not in subjects:
            raise refusal(f"what it is about changed since: {subject}; sign another token")
    else:
        matter = matter_of(connection, books, word.purpose, (subject,), word.detail)
        token = sign(word.proof, word.purpose, word.named, matter.code, books.now() + HOUR_MS)
    decided = judge_decision(token, matter, people, makers, books.now())
    if word.by and not same_person(word.by, decided.name):
        raise refusal(f"the key is {decided.name}'s, not {word.by}'s")
    return decided, token


def _by_name(word: Word) -> Decided:
    if word.proof is not None and not word.by:
        raise InputError("the policy in force lists nobody with keys, so a name counts: --by NAME")
    if not names_somebody(word.by) or not word.why:
        raise InputError("a decision needs a name and a reason: --by NAME --why TEXT")
    return Decided(word.by)


def signed_by(
    connection: Connection, books: Books, key: Ed25519PrivateKey, purpose: Verb, named: str
) -> tuple[str | None, str | None]:
    """Return the person of the policy in force whose key this is, and what it signed; nothing for any other key."""
    owner = people_at(connection, books).with_key(public_text(key))
    if owner is None:
        return None, None
    code = matter_of(connection, books, purpose, (named,), "").code
    return owner, str(sign(key, purpose, named, code, books.now() + HOUR_MS))


# --- steps of orders ---------------------------------------------------------------------------------------------


def check_step(connection: Connection, books: Books, event: Event, order: Order, word: Word | None) -> None:
    """Check, in the transaction of a step that people decide, that one of them did, or that the rules themselves do.

    Raises `InputError` and `RecoveryRuns`.
    """
    purpose = PURPOSES[event]
    about = order_subject(connection, purpose, order)
    if word is not None:
        if word.purpose is not purpose:
            raise refusal(f"it is to {word.purpose.value}, and this is to {purpose.value}")
        makers = makers_for(connection, books, purpose, order.run_key)
        hear(connection, books, replace(word, named=f"order {order.request_id}"), about, makers)  # no run key is so
        return
    policy = policy_now(connection, books.key, books.now())
    if policy is None or not policy.listed or _is_ended_by_rules(event, order, policy, books.now()):
        return
    raise needs_key(purpose, policy.listed, matter_of(connection, books, purpose, (about,), "").code)


def _is_ended_by_rules(event: Event, order: Order, policy: Policy, now: int) -> bool:
    """Tell whether nobody needs to decide: a conversion that is planned anew, or a cooling time that is over."""
    if event is Event.CANCEL:
        return CATALOGUE[order.operation].limited_by == "conversions"
    is_cooling = event is Event.RELEASE and order.hold_kind == Hold.COOLING and policy.withdrawals is not None
    hours = policy.withdrawals.cooling_hours if is_cooling and policy.withdrawals is not None else None
    return hours is not None and now >= order.created_at + hours * HOUR_MS
