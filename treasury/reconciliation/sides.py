"""Pure: both sides of orders as columns, and conditions on them; by whole columns, so a million orders take seconds."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from treasury.money import exact
from treasury.orders.states import State
from treasury.policy.model import Policy
from treasury.policy.tables import BPS
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.status import OrderStatus
from treasury.reconciliation.classes import Answer
from treasury.reconciliation.scope import SUPERSEDED

OUR_COLUMNS = (
    *("request_id", "run_key", "row_ref", "operation", "state", "currency", "amount"),
    *("receive_currency", "receive_amount", "fee", "fee_currency", "rate", "known_order_no"),
    *("created_at", "sent_at", "final_at", "bound", "changed"),
)
"""Our side. `state`: the one before it was asked. `fee`, `rate`: as quoted. `bound`: the most that its plan allowed it
to debit, where nothing that was sent bounds it. `changed`: what of it somebody changed in the database, in words.
Times: Unix milliseconds."""

THEIR_COLUMNS = (
    *("answer", "status", "order_no", "seen_currency", "seen_amount"),
    *("seen_receive_currency", "seen_receive_amount", "seen_fee", "seen_fee_currency", "seen_rate"),
    *("arrive_amount", "unreadable", "seen_reason", "seen_request_id"),
)
"""The service's side. `answer`: one of `Answer`, or None (not asked). `status`: a number. `unreadable`: what of the
answer could not be read, if anything. `seen_request_id`: the one whose record the answer is, where it is another."""

LINE_COLUMNS = (
    *("line_orders", "line_currency", "line_amount", "line_status", "line_words", "line_fee", "line_fee_currency"),
    *("line_is_off", "line_lacks"),
)
"""The statement's side, if there is one. `line_orders`: how many different payments it shows under this id.
`line_is_off`: its date is not of this order's time; `line_lacks`: it shows orders like this one, and not this one."""

COLUMNS = (*OUR_COLUMNS, *THEIR_COLUMNS, *LINE_COLUMNS)
"""Both sides of an order, and the third. Amounts are exact decimal text (or `Decimal`); None is not known."""

HOUR_MS = 3_600_000

Parts = Callable[[Sequence[str]], Iterable[pd.DataFrame]]
"""Reads both sides of all orders, sorted by request id, a part at a time: at least the columns that are named. It may
be called again, and gives the same orders then."""

Rows = Collection[tuple[Any, Any]]
"""Orders by run key and row."""

Mask = npt.NDArray[np.bool_]

ENDINGS = {State.SETTLED: OrderStatus.SUCCESS, State.FAILED: OrderStatus.FAILED, State.CLOSED: OrderStatus.CLOSED}

_LISTED = tuple(int(status) for status in OrderStatus)

_EFFECT = (OrderStatus.PROCESSING, OrderStatus.SUCCESS)
"""Statuses that show of a quoted order that money left, or is about to."""


class Sides:
    """Both sides as columns, and conditions on them, one truth value per order."""

    def __init__(
        self,
        both_sides: pd.DataFrame,
        policy: Policy,
        as_of: int,
        fee_on_top: Collection[str] = (),
        requoted: Rows = frozenset(),
    ) -> None:
        frame = both_sides.astype(object)
        self.frame = frame.where(frame.notna(), None).sort_values("request_id", ignore_index=True)
        self.policy = policy
        self.as_of = as_of
        self._fee_on_top = fee_on_top
        self._requoted = requoted
        self._all: dict[str, pd.Series] = {}
        self._known: dict[str, Mask] = {}

    def _series(self, name: str) -> pd.Series:
        """A column; one that is not there is empty. Taken out of the frame once: that takes longer than a use."""
        if name not in self._all:
            is_there = name in self.frame
            self._all[name] = self.frame[name] if is_there else pd.Series(None, self.frame.index, dtype=object)
        return self._all[name]

    def column(self, name: str) -> npt.NDArray[np.object_]:
        """A column as it is."""
        return self._series(name).to_numpy(dtype=object)

    def known(self, name: str) -> Mask:
        """Return where a column has a value."""
        if name not in self._known:
            self._known[name] = np.asarray(pd.notna(self.column(name)), dtype=np.bool_)
            self._known[name].flags.writeable = False
        return self._known[name]

    def among(self, name: str, values: Iterable[object]) -> Mask:
        """Return where a column has one of these values."""
        return self._series(name).isin([str(value) for value in values]).to_numpy(dtype=bool)

    def state(self, *states: State | str) -> Mask:
        """Return where our side is in one of these states."""
        return self.among("state", states)

    def trait(self, read: Callable[[str], Any]) -> npt.NDArray[Any]:
        """Return what the catalogue or the policy says of each order's operation."""
        numbers, names = self._operations
        return np.array([read(name) for name in names])[numbers]

    @cached_property
    def _operations(self) -> tuple[npt.NDArray[np.intp], Sequence[str]]:
        """The place of each order's operation among those that occur."""
        numbers, names = pd.factorize(self._series("operation"))
        return numbers, list(names)

    def operation_says(self, name: str) -> Mask:
        """Return where the operation says yes to this of its class variables, such as `confirms_quote`."""
        says: Mask = self.trait(lambda operation: getattr(CATALOGUE[operation], name)).astype(np.bool_)
        return says

    def status(self, *statuses: OrderStatus) -> Mask:
        """Return where the service shows one of these statuses."""
        return np.isin(self._status, [int(status) for status in statuses])

    @cached_property
    def _status(self) -> npt.NDArray[np.int64]:
        return self.number("status", -1)

    @cached_property
    def is_listed(self) -> Mask:
        """Return where the service shows a status of the published list."""
        return np.isin(self._status, _LISTED)

    @cached_property
    def found(self) -> Mask:
        """Return where the service knows it."""
        return self.among("answer", [Answer.FOUND])

    @cached_property
    def absent(self) -> Mask:
        """Return where the service knows no such order."""
        return self.among("answer", [Answer.ABSENT])

    @cached_property
    def at_service(self) -> Mask:
        """Return where the ledger says that the service has the order."""
        return self.state(State.ACCEPTED, *ENDINGS)

    @cached_property
    def confirms_quote(self) -> Mask:
        """Return where the operation confirms a quote."""
        return self.operation_says("confirms_quote")

    @cached_property
    def only_quoted(self) -> Mask:
        """Return where the service shows a quote that nobody confirmed: not a payment (public fact 5.2)."""
        payment = self.status(*(status for status in OrderStatus if status.is_payment))
        return self.confirms_quote & self.found & ~payment & ~self.at_service

    @cached_property
    def ends_otherwise_in_the_statement(self) -> Mask:
        """Mark orders that the statement shows with another end than the service's answer."""
        stated, ends = self.number("line_status", -1), [int(status) for status in ENDINGS.values()]
        differs: Mask = np.isin(stated, ends) & np.isin(self._status, ends) & (stated != self._status)
        return differs

    @cached_property
    def not_there(self) -> Mask:
        """Return where there is no payment at the service: it knows none, or shows no more than a quote."""
        return self.absent | self.only_quoted

    @cached_property
    def unpaid(self) -> Mask:
        """Return where the ledger says that nothing was paid."""
        unpaid = (State.PREPARED, State.HELD, State.REJECTED, State.CANCELLED, State.FAILED, State.CLOSED)
        return self.state(*unpaid, SUPERSEDED)

    @cached_property
    def waits(self) -> Mask:
        """Return where the end is still to come, on both sides."""
        final = self.status(OrderStatus.SUCCESS, OrderStatus.FAILED, OrderStatus.CLOSED)
        unsent = self.not_there & self.state(State.PREPARED, State.HELD, State.ACCEPTED)
        waits: Mask = unsent | (self.found & ~self.not_there & ~final)
        return waits

    @cached_property
    def late(self) -> Mask:
        """Return where an order is overdue, counted from its sending or planning; exactly on the due hour is in
        time."""
        due_hours, days = self.policy.reconciliation.all_due_hours, self.policy.business_days

        def latest(name: str) -> int:
            due = due_hours[name] * HOUR_MS
            return days.back(self.as_of, due) if CATALOGUE[name].is_paid_by_banks else self.as_of - due

        since = np.where(self.known("sent_at"), self.number("sent_at", 0), self.number("created_at", self.as_of))
        late: Mask = since < self.trait(latest).astype(np.int64)
        return late

    def unlike(self, ours: str, theirs: str) -> Mask:
        """Return where two columns are not identical."""
        return np.asarray(self.column(ours) != self.column(theirs), dtype=np.bool_)

    def number(self, name: str, missing: int) -> npt.NDArray[np.int64]:
        """A column of whole numbers."""
        return pd.to_numeric(self._series(name)).fillna(missing).to_numpy(dtype=np.int64)

    def differs(self, ours: str, theirs: str) -> Mask:
        """Return where both values are known and differ, as amounts or as text."""
        mine, seen = self.column(ours), self.column(theirs)
        doubted = self.known(ours) & self.known(theirs) & self.unlike(ours, theirs)
        for place in np.flatnonzero(doubted):
            doubted[place] = not _same(mine[place], seen[place])
        return doubted

    def varies(self, ours: str, theirs: str, tolerance_bps: int, base: Callable[[int], Decimal]) -> Mask:
        """Return where two known amounts differ by more than a tolerance, in basis points of `base(place)`."""
        over = self.differs(ours, theirs)
        mine, seen = self.column(ours), self.column(theirs)
        for place in np.flatnonzero(over):
            off = abs(Decimal(seen[place]) - Decimal(mine[place])) * BPS
            over[place] = off > tolerance_bps * base(int(place))
        return over

    def fee_base(self, place: int) -> Decimal:
        """Return what a fee is taken from, in its currency: the amount that is paid, or the one that arrives, or
        itself."""
        charged, pays = self._columns["fee_currency"][place], self._columns["currency"][place]
        base = None
        if charged in (None, pays):
            base = self._columns["amount"][place]
        elif charged == self._columns["receive_currency"][place]:
            base = self._columns["receive_amount"][place]
        return abs(Decimal(self._columns["fee"][place] if base is None else base))

    def _first_known(self, place: int, theirs: str, ours: str) -> Any:
        """The service's value of a column, or the ledger's where the service shows none."""
        shown = self._columns[theirs][place]
        return self._columns[ours][place] if shown is None else shown

    @cached_property
    def _columns(self) -> dict[str, npt.NDArray[np.object_]]:
        return {name: self.column(name) for name in COLUMNS}

    @cached_property
    def is_other_record(self) -> Mask:
        """Mark answers that are the record of another order."""
        return self.found & self.known("seen_request_id")

    @cached_property
    def paid_twice(self) -> Mask:
        """Return where a payment stands beside another one that was meant to be the only one."""
        both = self.known("known_order_no") & self.known("order_no")
        other = self.found & both & self.unlike("known_order_no", "order_no") & ~self.confirms_quote
        several = self.number("line_orders", 0) > 1
        return other | several | self._left_with_another

    @cached_property
    def left_as_quoted(self) -> Mask:
        """Mark quotes under which money left."""
        return self.confirms_quote & self.found & self.status(*_EFFECT)

    @cached_property
    def left_superseded(self) -> Mask:
        """Mark quotes under which money left although another one followed them."""
        return self.left_as_quoted & self.state(SUPERSEDED)

    @cached_property
    def _left_with_another(self) -> Mask:
        """Mark superseded quotes whose order left under another quote, too."""
        left = self.left_superseded
        if left.any():
            left[left] = [row in self._requoted for row in self.rows(left)]
        return left

    def rows(self, mask: Mask) -> Iterator[tuple[Any, Any]]:
        """Return run key and row of each of these orders."""
        return zip(self.column("run_key")[mask], self.column("row_ref")[mask], strict=True)

    @cached_property
    @exact
    def should_arrive(self) -> npt.NDArray[np.object_]:
        """Return what should arrive of a success, where the service shows amount and fee in one currency; else None.

        None, too, of a conversion whose arrival is shown in the currency that it buys, as just what was quoted.
        """
        on_top, as_quoted = self._is_on_top, self._arrived_as_quoted
        sent, fee = self.column("seen_amount"), self.column("seen_fee")
        should = np.full(len(self.frame), None, dtype=object)
        shown = self.found & self.status(OrderStatus.SUCCESS) & self.known("seen_fee") & self.known("seen_amount")
        for place in np.flatnonzero(shown).tolist():
            if self._takes_fee_in_kind(place) and not as_quoted[place]:
                should[place] = Decimal(sent[place]) - (0 if on_top[place] else Decimal(fee[place]))
        return should

    @cached_property
    def _arrived_as_quoted(self) -> Mask:
        known = self.known("arrive_amount") & self.known("receive_amount")
        return self._converts & known & ~self.differs("receive_amount", "arrive_amount")

    @cached_property
    def _converts(self) -> Mask:
        """Mark conversions: what is paid and what arrives are ours, in two currencies."""
        return self.operation_says("may_show_what_arrives")

    @cached_property
    def shows_no_fee(self) -> Mask:
        """Mark conversions shown with a fee of 0 in no named currency: the quoted one is inside what arrives."""
        shown = self._converts & self.known("seen_fee") & ~self.known("seen_fee_currency")
        fee = self.column("seen_fee")
        shown[shown] = [not Decimal(each) for each in fee[shown]]
        return shown

    @cached_property
    def _is_on_top(self) -> Mask:
        return self.trait(lambda name: name in self._fee_on_top).astype(np.bool_)

    def _takes_fee_in_kind(self, place: int) -> bool:
        """Tell whether the fee is in the currency that is paid, or in one that nobody says."""
        currency = self._first_known(place, "seen_currency", "currency")
        return self._first_known(place, "seen_fee_currency", "fee_currency") in (None, currency)

    @cached_property
    @exact
    def over_bound(self) -> npt.NDArray[np.object_]:
        """Return how much more than its bound an order debited, with a fee on top; None where it did not."""
        sent, fee, bound = self.column("seen_amount"), self.column("seen_fee"), self.column("bound")
        over = np.full(len(self.frame), None, dtype=object)
        shown = self.found & self.status(*_EFFECT) & self.known("bound") & self.known("seen_amount")
        for place in np.flatnonzero(shown).tolist():
            is_beside = self._is_on_top[place] and fee[place] is not None and self._takes_fee_in_kind(place)
            debit = Decimal(sent[place]) + (Decimal(fee[place]) if is_beside else 0)
            if debit > Decimal(bound[place]):
                over[place] = debit - Decimal(bound[place])
        return over

    @cached_property
    def short(self) -> Mask:
        """Return where an order succeeded and less arrived than should."""
        arrived, should = self.column("arrive_amount"), self.should_arrive
        short = np.zeros(len(self.frame), dtype=bool)
        for place in np.flatnonzero(self.known("arrive_amount") & (should != None)).tolist():  # noqa: E711 - by element
            short[place] = Decimal(arrived[place]) < should[place]
        return short

    @cached_property
    @exact
    def arrived_otherwise(self) -> Mask:
        """Mark conversions of which neither what was quoted arrived nor what was paid, where `should_arrive` says none.

        An answer that repeats what was paid, with its fee or without it, does not show what the conversion brought.
        """
        arrived, sent, fee = self.column("arrive_amount"), self.column("seen_amount"), self.column("seen_fee")
        ended = self._converts & self.found & self.status(OrderStatus.SUCCESS)
        otherwise: Mask = ended & self.differs("receive_amount", "arrive_amount")
        otherwise &= self.should_arrive == None  # noqa: E711 - by element
        for place in np.flatnonzero(otherwise & self.known("seen_amount")).tolist():
            paid = Decimal(sent[place])
            otherwise[place] = Decimal(arrived[place]) not in (paid, paid - Decimal(fee[place] or 0))
        return otherwise

    @cached_property
    def excess(self) -> Mask:
        """Mark orders of which more arrived than was sent, in one currency."""
        arrived, sent = self.column("arrive_amount"), self.column("seen_amount")
        excess = np.zeros(len(self.frame), dtype=bool)
        for place in np.flatnonzero(self.known("arrive_amount") & (self.should_arrive != None)).tolist():  # noqa: E711 - by element
            excess[place] = Decimal(arrived[place]) > Decimal(sent[place])
        return excess


def _same(ours: object, theirs: object) -> bool:
    """Tell whether two values are the same amount; text that is none is compared as it is."""
    try:
        return Decimal(str(ours)) == Decimal(str(theirs))
    except ArithmeticError:
        return ours == theirs
