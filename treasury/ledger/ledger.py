"""The ledger of one account: records every intent before it is sent, and every step of every order."""

import functools
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, insert, or_, select
from sqlalchemy.exc import DBAPIError

from treasury.clock import MACHINE, Clock
from treasury.concurrency.crash_points import crash_point
from treasury.errors import ChangedByHand, ConfigurationError, IllegalTransition, NotJudged
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey, place_of_payload
from treasury.ledger.continuity import LedgerToken, SeenFile, marks_of
from treasury.ledger.database import Writer, group_of, open_engine, sqlite_file
from treasury.ledger.decisions import Word, check_step
from treasury.ledger.failures import unusable
from treasury.ledger.halts import check_not_stopped
from treasury.ledger.holder import FileLock, Holds, SessionLock
from treasury.ledger.mapping import as_read, columns, journaled_state, read_row
from treasury.ledger.moments import begin_between_steps
from treasury.ledger.opening import open_tables, prepare_file
from treasury.ledger.personal import OUR_WORDS, OWNER_OF_QUOTE, Words, holds_text
from treasury.ledger.seals import CHANGED, is_sealed, is_sealed_order, judged_by, with_seal
from treasury.ledger.statements import change_one
from treasury.money import format_amount
from treasury.orders.quoting import PAYMENTS
from treasury.orders.records import JournalEntry, Order, Quote, Run
from treasury.orders.states import DECIDED, STEPS, UNPAID, Event, State
from treasury.provider.operation import SeenOrder

T = TypeVar("T")

STREAMED = 5_000
"""Rows of a streamed result in memory at a time."""

_UNSAID = {"cause": None, "code": None, "status": None}
"""Columns that most lines of the journal leave empty."""


class Ledger:
    """The ledger of one account. Safe to use from several threads and, for different runs, several processes."""

    def __init__(self, url: str, account: str, key_file: Path, *, clock: Clock = MACHINE) -> None:
        self.account = account
        """The account as this ledger spells it: request ids derive from the spelling that the ledger was made with."""
        self.clock = clock
        self.day_of: Callable[[int], str] | None = None
        """The business date of a moment, Unix ms, by the policy that applies; None where none does."""
        self.judged_since: int | None = None
        """When the policy that payments are judged by took effect, Unix ms; 0 where none is in force."""
        self.judged: dict[str, int] = {}
        """Run key -> the same for what waits of a run, as this process judged it last."""
        self.statuses: set[tuple[str, int]] = set()
        """Operations and statuses that the ledger holds already, so that each is written once."""
        self._process = f"{socket.gethostname()}:{os.getpid()}"
        file = sqlite_file(url)
        if file is not None:
            prepare_file(file)
        self._reader = open_engine(url, writes=False)
        self._writer = Writer(open_engine(url, writes=True))
        try:
            self.key, self.account = self._writer.write(lambda connection: open_tables(connection, account, key_file))
        except BaseException:
            self.close()
            raise
        lock = SessionLock(self._writer) if file is None else FileLock(file.with_name(file.name + ".locks"))
        self._holds = Holds(lock)

    def close(self, seconds: float | None = None) -> None:
        """Finish writing and close. A SQLite ledger is then complete in its one file.

        `seconds`: the longest wait.
        """
        self._reader.dispose()
        self._writer.close(seconds)

    def now(self) -> int:
        """The time, Unix ms."""
        return int(self.clock.wall() * 1000)

    def hold(self, run_key: str) -> AbstractContextManager[bool]:
        """Hold a run for this process; yields whether it was just taken. Raises `RunHeld`."""
        return self._holds.hold(run_key)

    def payload(self, order: Order) -> dict[str, Any]:
        """Return what is needed to send an order. Raises `WrongLedgerKey`."""
        if order.payload is None:
            raise IllegalTransition(order.request_id, "sending an order that is final")
        return self.key.decrypt(order.payload, *place_of_payload(order.run_key, order.row_ref, order.operation))

    def kept_payload(self, order: Order) -> dict[str, Any] | None:
        """Return what an order asked for; None where that is kept no more, or the order was changed by hand."""
        return self.payload(order) if order.payload is not None and is_sealed_order(self.key, order) else None

    # --- texts ---------------------------------------------------------------------------------------------------

    def words(self, order: Order) -> Words:
        """The words that texts about an order are masked by; `step` and `note` mask by themselves."""
        return Words.of(self.key, order)

    def words_of_quote(self, request_id: str) -> Words:
        """Return the words, as `words` does, of the order that a quote was asked for."""
        rows = self.read(OWNER_OF_QUOTE.params(quote_id=request_id))
        return Words.of_row(self.key, rows[0] if rows else None)

    def as_kept(self, order: Order, seen: SeenOrder) -> SeenOrder:
        """Return what a query showed of an order, with its texts as the ledger keeps them."""
        if seen.reason is None:
            return seen
        return replace(seen, reason=self.words(order).also(seen.order_no).masked(seen.reason))

    def _words_with(self, order: Order, facts: Mapping[str, Any]) -> Words:
        return self.words(order).also(facts.get("order_no")).also(facts.get("request_id"))

    def _kept(self, order: Order, facts: Mapping[str, Any]) -> Mapping[str, Any]:
        """Columns of a step or note, with their texts as the ledger keeps them."""
        return self._words_with(order, facts).facts(facts) if holds_text(facts) else facts

    # --- steps ---------------------------------------------------------------------------------------------------

    def step(
        self, order: Order, event: Event, /, *, cause: str | None = None, word: Word | None = None, **facts: Any
    ) -> Order:
        """Make a step of an order and journal it; on disk when this returns.

        `facts` are columns to set with it; its texts, and `cause`, are kept cleaned, cut and without the order's
        personal values. `word`: of the person who decides it; where people are listed none is made without one.
        The update itself demands a state the step may start from: raises `IllegalTransition` when the order is in
        another state by now, `ChangedByHand` when it would leave as nobody of this ledger wrote it, and `InputError`
        for a decision that does not count.
        """
        step = STEPS[event]
        kept = self._kept(order, facts)
        if cause is not None and cause not in OUR_WORDS and event not in DECIDED:  # a person's text is kept unchanged
            cause = self._words_with(order, facts).masked(cause)
        at = self.now()
        if order.state not in step.sources:
            raise IllegalTransition(order.request_id, str(event))
        known = as_read(order)
        values = {"state": step.target.value, **columns(kept)}
        sends = event in (Event.SEND, Event.RESEND)
        if event is Event.SEND and self.day_of is not None and order.counted_on != self.day_of(at):
            raise NotJudged(f"not sent: it is not judged by the limits of {self.day_of(at)} yet; start the run again")
        if sends:
            values |= {"sent_at": at, "absent_since": None}
        if event in DECIDED and step.target is State.PREPARED:
            values |= {"counted_on": None}  # it counted on no day, or at less: it is judged by what others spent
        if step.target is State.UNKNOWN:
            values |= {"doubtful": True, "sent_at": at if order.sent_at is None else order.sent_at}
        if step.target.is_final:
            may_follow = order.operation in PAYMENTS and step.target in UNPAID  # another payment, of its content
            values |= {"final_at": at} if may_follow else {"payload": None, "final_at": at}
        values = with_seal(self.key, order, values, decided=event in DECIDED)
        if sends and values["checksum"] == CHANGED:
            raise ChangedByHand(order.request_id)
        is_changed = values["checksum"] == CHANGED or (event in DECIDED and not is_sealed_order(self.key, order))

        def work(connection: Connection) -> Order:
            if sends:
                check_not_stopped(connection, self, self.judged.get(order.run_key, self.judged_since))
            if event in DECIDED:
                check_step(connection, self, event, order, word)
            group_of(connection).marks += sends or event is Event.CANCEL
            stepped = group_of(connection).change(order, known, values, ("sends",) if sends else ())
            if stepped is None:
                self._check_not_put_back(connection)
                raise IllegalTransition(order.request_id, str(event))
            facts = {"cause": cause, "code": stepped.code, "status": stepped.status}
            source = journaled_state(connection, order) if is_changed else order.state
            self.journal_step(connection, order.id, event, source, step.target, **facts)
            return stepped

        return self._writer.write(work)

    def journal_step(
        self, connection: Connection, order_id: int, event: Event, source: State, target: State, **facts: Any
    ) -> None:
        """Append a step to the journal, inside the transaction that takes it."""
        entry = {"order_id": order_id, "at": self.now(), "event": event.value, "process": self._process}
        entry |= {"source": source.value, "target": target.value}
        group_of(connection).insert(schema.journal, {**_UNSAID, **entry, **columns(facts)})

    def note(self, order: Order, /, *, unmoved: bool = False, **facts: Any) -> Order:
        """Record facts about an order that leave its state as it is.

        `unmoved`: only if nobody moved it since it was read; raises `IllegalTransition` otherwise. Texts are kept
        cleaned, cut and without the order's personal values.
        """
        values = columns(self._kept(order, facts))
        if unmoved:
            values = with_seal(self.key, order, values)

        def work(connection: Connection) -> Order:
            if unmoved:
                noted = group_of(connection).change(order, as_read(order), values)
            else:
                noted = change_one(connection, Order, {"id": order.id}, values)
            if noted is None:
                self._check_not_put_back(connection)
                raise IllegalTransition(order.request_id, "a note")
            return noted

        return self._writer.write(work)

    def recover(self, run_key: str) -> int:
        """Make orders unknown that a dead process left `sending`. Only for a run that this process holds."""
        left = self.orders(run_key=run_key, states=(State.SENDING,))
        for order in left:
            crash_point("recover.before")
            self.step(order, Event.RECOVER, cause="its process ended before the outcome was recorded")
            crash_point("recover.committed")
        return len(left)

    def quotes(self, order_ids: Sequence[int] | None = None) -> list[Quote]:
        """Quotes of these orders, or of all, oldest first."""
        query = select(schema.quotes).order_by(schema.quotes.c.id)
        if order_ids is not None:
            query = query.where(schema.quotes.c.order_id.in_(order_ids))
        return [read_row(Quote, row) for row in self.read(query)]

    # --- reading -------------------------------------------------------------------------------------------------

    def orders(
        self,
        *,
        run_key: str | None = None,
        states: Iterable[State] | None = None,
        ids: Sequence[int] | None = None,
        reference: str | None = None,
    ) -> list[Order]:
        """Orders in the sequence they were planned, narrowed by run, state, id, or any reference a person may have."""
        values = None if states is None else [state.value for state in states]
        narrowed = {"run_key": run_key, "states": values, "ids": ids, "reference": reference}
        given = {name: value for name, value in narrowed.items() if value is not None}
        return [read_row(Order, row) for row in self.read(_orders_with(*given), given)]

    def order_named(self, request_id: str) -> Order | None:
        """The order that has, or under one of its quotes had, this request id."""
        return self.look(lambda connection: order_named(connection, request_id))

    def numbered(self, operation: str, order_no: str, *, besides: str) -> str | None:
        """Return the request id of an order of this operation, other than `besides`, that has this order number; None
        where there is none."""
        rows = self.read(_NUMBERED, {"operation": operation, "order_no": order_no, "besides": besides})
        return rows[0].request_id if rows else None

    def ids_by_operation(self, run_key: str, states: Iterable[State]) -> dict[str, list[int]]:
        """Ids of the orders of a run in these states, by operation, in the sequence they were planned."""
        table = schema.orders.c
        chosen = (table.run_key == run_key) & table.state.in_([state.value for state in states])
        found: dict[str, list[int]] = {}
        with self.snapshot() as stream:
            for row in stream(select(table.id, table.operation).where(chosen).order_by(table.id)):
                found.setdefault(row.operation, []).append(row.id)
        return found

    def order_ids(
        self,
        run_key: str,
        states: Iterable[State],
        row_refs: Iterable[str] | None = None,
        *,
        waiting: bool = False,
    ) -> list[int]:
        """Ids of the orders of a run in these states, and of these rows if given, in the sequence they were planned.

        `waiting`: those, too, that are prepared and wait for the service to be asked about them again.
        """
        table = schema.orders.c
        chosen: ColumnElement[bool] = table.state.in_([state.value for state in states])
        if waiting:
            asked = (table.absences_needed > 0) | table.absent_since.is_not(None)
            chosen |= (table.state == State.PREPARED.value) & asked
        chosen &= table.run_key == run_key
        wanted = None if row_refs is None else set(row_refs)
        with self.snapshot() as stream:
            rows = stream(select(table.id, table.row_ref).where(chosen).order_by(table.id))
            return [row.id for row in rows if wanted is None or row.row_ref in wanted]

    def count_orders(self, run_key: str | None) -> int:
        """Return how many orders there are, or a run has."""
        query = select(func.count()).select_from(schema.orders)
        return int(self.read(query if run_key is None else query.where(schema.orders.c.run_key == run_key))[0][0])

    @contextmanager
    def each_order(self, run_key: str | None) -> Iterator[Iterator[Order]]:
        """Stream every order, or every order of a run, from one moment of the ledger."""
        query = select(schema.orders).order_by(schema.orders.c.id)
        if run_key is not None:
            query = query.where(schema.orders.c.run_key == run_key)
        with self.snapshot() as stream:
            yield (read_row(Order, row) for row in stream(query))

    def runs(self) -> list[Run]:
        """Every run, newest first."""
        return [
            _read_run(self.key, row) for row in self.read(select(schema.runs).order_by(schema.runs.c.created_at.desc()))
        ]

    def run(self, run_key: str) -> Run | None:
        """One run."""
        row = next(iter(self.read(_RUN, {"run_key": run_key})), None)
        return None if row is None else _read_run(self.key, row)

    def journal(self, order: Order) -> list[JournalEntry]:
        """Return what happened to an order, oldest first."""
        table = schema.journal
        rows = self.read(select(table).where(table.c.order_id == order.id).order_by(table.c.id))
        return [
            JournalEntry(row.at, row.event, row.source, row.target, row.process, row.cause, row.code, row.status)
            for row in rows
        ]

    # --- other things seen ---------------------------------------------------------------------------------------

    def saw_balance(self, currency: str, available: Decimal) -> None:
        """Record a balance as the service showed it."""
        row = {"currency": currency, "available": format_amount(available), "seen_at": self.now()}
        self._writer.write(lambda connection: connection.execute(insert(schema.balances).values(**row)).rowcount)

    # --- used by sibling modules ---

    def count_with(self, token: LedgerToken) -> None:
        """Count the sends that are marked from here on in this token, too."""
        self._writer.token = token

    def look_for_put_back(self) -> None:
        """Use the ledger no more where it counts fewer sends than this process made: somebody put it back meanwhile."""
        if self._writer.token is None:
            return
        counted = self._writer.token.current
        with suppress(ConfigurationError):  # one that cannot be read is told to whoever uses it
            if (self.look(lambda connection: marks_of(connection, counted.host)) or 0) < counted.marks:
                self.write(self._check_not_put_back)

    def _check_not_put_back(self, connection: Connection) -> None:
        if self._writer.token is not None:
            self._writer.token.count(connection, 0)

    def remember_in(self, seen: SeenFile) -> None:
        """Keep in this file what people decide from here on, so that it is missed once it is deleted."""
        self._writer.seen = seen

    @property
    def is_lost(self) -> bool:
        """Tell whether the connection that writes was lost: nothing more can be recorded by this process."""
        return self._writer.is_lost

    @property
    def is_over(self) -> bool:
        """Tell whether it was lost, and nothing is held by it any more: another one may be opened in its place."""
        return self._writer.is_lost and self._holds.is_empty

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do `work` in one transaction; on disk when this returns."""
        return self._writer.write(work)

    # --- inside --------------------------------------------------------------------------------------------------

    def read(self, query: Any, given: Mapping[str, Any] | None = None) -> list[Any]:
        """The rows of a query. Raises `ConfigurationError` when the database does not answer."""
        return self.look(lambda connection: list(connection.execute(query, given)))

    def look(self, work: Callable[[Connection], T]) -> T:
        """Do what only reads. Raises `ConfigurationError` when the database does not answer, or is another one."""
        self._writer.check_place()
        try:
            with self._reader.connect() as connection:
                return work(connection)
        except DBAPIError as error:
            raise unusable("read", error) from None

    @contextmanager
    def snapshot(self, *, between_steps: bool = False) -> Iterator[Callable[[Any], Iterator[Any]]]:
        """Open one moment of the ledger: yields a function that streams the rows of a query.

        `between_steps`: one at which no step up to the journal's last one is still to come. Raises `ConfigurationError`
        when the database does not answer, or is another file by now.
        """
        self._writer.check_place()
        try:
            with self._reader.connect() as connection:
                if connection.dialect.name == "postgresql":
                    connection = connection.execution_options(isolation_level="REPEATABLE READ")  # noqa: PLW2901
                with connection.begin():
                    if between_steps:
                        begin_between_steps(self._reader, connection)
                    yield lambda query: iter(connection.execute(query.execution_options(yield_per=STREAMED)))
        except DBAPIError as error:
            raise unusable("read", error) from None


# Statements that are asked for again and again are made once: making one takes longer than the database's answer.
_RUN = select(schema.runs).where(schema.runs.c.run_key == bindparam("run_key"))
_NUMBERED = (
    select(schema.orders.c.request_id)
    .where(*(schema.orders.c[name] == bindparam(name) for name in ("order_no", "operation")))
    .where(schema.orders.c.request_id != bindparam("besides"))
    .limit(1)
)
_NARROWED = {
    "run_key": schema.orders.c.run_key == bindparam("run_key"),
    "states": schema.orders.c.state.in_(bindparam("states", expanding=True)),
    "ids": schema.orders.c.id.in_(bindparam("ids", expanding=True)),
    "reference": or_(
        *(schema.orders.c[name] == bindparam("reference") for name in ("request_id", "row_ref", "order_no", "run_key"))
    ),
}


@functools.cache
def _orders_with(*narrowed: str) -> Select[Any]:
    return select(schema.orders).where(*(_NARROWED[name] for name in narrowed)).order_by(schema.orders.c.id)


def order_named(connection: Connection, request_id: str) -> Order | None:
    """Return an order as `Ledger.order_named` does, inside a transaction."""
    orders, quotes = schema.orders, schema.quotes
    row = connection.execute(select(orders).where(orders.c.request_id == request_id)).first()
    if row is None:
        owner = select(quotes.c.order_id).where(quotes.c.request_id == request_id)
        row = connection.execute(select(orders).where(orders.c.id.in_(owner))).first()
    return None if row is None else read_row(Order, row)


def _read_run(key: LedgerKey, row: Any) -> Run:
    policy, is_changed = judged_by(key, row), not is_sealed(key, schema.runs, row)
    return Run(row.run_key, row.kind, row.created_at, json.loads(row.plan), row.plan_sha256, policy, is_changed)
