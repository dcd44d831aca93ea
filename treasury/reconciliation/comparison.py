"""Pure: compares both sides of every order and gives its class; by whole columns, so a million orders take seconds."""

from collections.abc import Callable, Collection, Iterable
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
from treasury.reconciliation.classes import ABOVE_BOUND, PRIORITY, Answer
from treasury.reconciliation.scope import SUPERSEDED

OUR_COLUMNS = (
    *("request_id", "run_key", "row_ref", "operation", "state", "currency", "amount"),
    *("receive_currency", "receive_amount", "fee", "fee_currency", "rate", "known_order_no"),
    *("created_at", "sent_at", "final_at", "bound"),
)
"""Our side. `state`: the one before it was asked. `fee`, `rate`: as quoted. `bound`: the most that its plan allowed it
to debit, where nothing that was sent bounds it. Times: Unix milliseconds."""

THEIR_COLUMNS = (
    *("answer", "status", "order_no", "seen_currency", "seen_amount"),
    *("seen_receive_currency", "seen_receive_amount", "seen_fee", "seen_fee_currency", "seen_rate"),
    *("arrive_amount", "unreadable", "seen_reason", "seen_request_id"),
)
"""The service's side. `answer`: one of `Answer`, or None (not asked). `status`: a number. `unreadable`: what of the
answer could not be read, if anything. `seen_request_id`: the one that the answer names, where it is another."""

LINE_COLUMNS = (
    *("line_orders", "line_currency", "line_amount", "line_status", "line_words", "line_fee", "line_fee_currency"),
    *("line_is_off", "line_lacks"),
)
"""The statement's side, if there is one. `line_orders`: how many different payments it shows under this id.
`line_is_off`: its date is not of this order's time; `line_lacks`: it shows orders like this one, and not this one."""

COLUMNS = (*OUR_COLUMNS, *THEIR_COLUMNS, *LINE_COLUMNS)
"""Both sides of an order, and the third. Amounts are exact decimal text (or `Decimal`); None is not known."""

HOUR_MS = 3_600_000

Mask = npt.NDArray[np.bool_]

_ENDINGS = {State.SETTLED: OrderStatus.SUCCESS, State.FAILED: OrderStatus.FAILED, State.CLOSED: OrderStatus.CLOSED}

_LISTED = tuple(int(status) for status in OrderStatus)

_EFFECT = (OrderStatus.PROCESSING, OrderStatus.SUCCESS)
"""Statuses that show of a quoted order that money left, or is about to."""


@exact
def compare(both_sides: pd.DataFrame, policy: Policy, as_of: int, fee_on_top: Collection[str] = ()) -> pd.DataFrame:
    """Every order with its `class`, sorted by request id; the order of the rows that come in does not matter.

    Columns: `COLUMNS`, without `LINE_COLUMNS` where no statement is given; those that are missing count as not known.
    `as_of`: Unix milliseconds, by which lateness is judged. Money compares exactly. An order that was not asked is one
    that could not be: `query_failed`. Of operations in `fee_on_top` the whole amount should arrive, of every other one
    the amount less its fee: `should_arrive`. `over_bound`: how much more than its bound an order debited.
    """
    sides = Sides(both_sides, policy, as_of, fee_on_top)
    names = np.array([name for name, _ in RULES], dtype=object)
    first = np.select([rule(sides) for _, rule in RULES], range(len(RULES)), default=len(RULES) - 1)
    return sides.frame.assign(
        **{"class": names[first], "should_arrive": sides.should_arrive, "over_bound": sides.over_bound}
    )


class Sides:
    """Both sides as columns, and conditions on them, one truth value per order."""

    def __init__(self, both_sides: pd.DataFrame, policy: Policy, as_of: int, fee_on_top: Collection[str] = ()) -> None:
        shown = [name for name in COLUMNS if name in both_sides or name not in LINE_COLUMNS]
        columns = {name: both_sides.get(name) for name in shown}
        frame = pd.DataFrame(columns, index=both_sides.index, dtype=object)
        self.frame = frame.where(frame.notna(), None).sort_values("request_id", ignore_index=True)
        self.policy = policy
        self.as_of = as_of
        self._fee_on_top = fee_on_top

    def _series(self, name: str) -> pd.Series:
        """A column; one of a statement that was not given is empty, and takes no memory beside the others."""
        return self.frame[name] if name in self.frame else pd.Series(None, index=self.frame.index, dtype=object)

    def column(self, name: str) -> npt.NDArray[np.object_]:
        """A column as it is."""
        return self._series(name).to_numpy(dtype=object)

    def known(self, name: str) -> Mask:
        """Return where a column has a value."""
        return self._series(name).notna().to_numpy(dtype=bool)

    def among(self, name: str, values: Iterable[object]) -> Mask:
        """Return where a column has one of these values."""
        return self._series(name).isin([str(value) for value in values]).to_numpy(dtype=bool)

    def state(self, *states: State | str) -> Mask:
        """Return where our side is in one of these states."""
        return self.among("state", states)

    def trait(self, read: Callable[[str], Any]) -> npt.NDArray[Any]:
        """Return what the catalogue or the policy says of each order's operation."""
        values = {name: read(name) for name in self.frame["operation"].unique()}
        return self.frame["operation"].map(values).to_numpy()

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
        return self.state(State.ACCEPTED, *_ENDINGS)

    @cached_property
    def confirms_quote(self) -> Mask:
        """Return where the operation confirms a quote."""
        confirms: Mask = self.trait(lambda name: CATALOGUE[name].confirms_quote).astype(np.bool_)
        return confirms

    @cached_property
    def only_quoted(self) -> Mask:
        """Return where the service shows a quote that nobody confirmed: not a payment (public fact 5.2)."""
        payment = self.status(*(status for status in OrderStatus if status.is_payment))
        return self.confirms_quote & self.found & ~payment & ~self.at_service

    @cached_property
    def ends_otherwise_in_the_statement(self) -> Mask:
        """Mark orders that the statement shows with another end than the service's answer."""
        stated, ends = self.number("line_status", -1), [int(status) for status in _ENDINGS.values()]
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
        """Mark answers that name another request id, or the order number by which the ledger knows another order."""
        taken = self.known("order_no") & self.unlike("known_order_no", "order_no") & ~self.confirms_quote
        if taken.any():
            numbers = dict(zip(self.column("known_order_no"), self.column("request_id"), strict=True))
            for place in np.flatnonzero(taken):
                own = self._columns["request_id"][place]
                taken[place] = numbers.get(self._columns["order_no"][place], own) != own
        return self.found & (self.known("seen_request_id") | taken)

    @cached_property
    def paid_twice(self) -> Mask:
        """Return where a payment stands beside another one that was meant to be the only one."""
        both = self.known("known_order_no") & self.known("order_no")
        other = self.found & both & self.unlike("known_order_no", "order_no") & ~self.confirms_quote
        several = self.number("line_orders", 0) > 1
        return other | several | (self.state(SUPERSEDED) & self._left_with_another)

    @cached_property
    def _left_with_another(self) -> Mask:
        """Quoted orders of which money left under more than one quote."""
        left = self.confirms_quote & self.found & self.status(*_EFFECT)
        together = self.frame.loc[left].groupby(["run_key", "row_ref"], dropna=False)["request_id"].transform("size")
        found = np.zeros(len(self.frame), dtype=bool)
        found[np.flatnonzero(left)] = together.to_numpy() > 1
        return found

    @cached_property
    @exact
    def should_arrive(self) -> npt.NDArray[np.object_]:
        """Return what should arrive of a success, where the service shows amount and fee in one currency; else None."""
        on_top = self._is_on_top
        sent, fee = self.column("seen_amount"), self.column("seen_fee")
        should = np.full(len(self.frame), None, dtype=object)
        shown = self.found & self.status(OrderStatus.SUCCESS) & self.known("seen_fee") & self.known("seen_amount")
        for place in np.flatnonzero(shown).tolist():
            if self._takes_fee_in_kind(place):
                should[place] = Decimal(sent[place]) - (0 if on_top[place] else Decimal(fee[place]))
        return should

    @cached_property
    def _is_on_top(self) -> npt.NDArray[Any]:
        return self.trait(lambda name: name in self._fee_on_top)

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


def _query_failed(sides: Sides) -> Mask:
    return ~sides.found & ~sides.absent


def _orphan(sides: Sides) -> Mask:
    said = sides.found & sides.status(OrderStatus.SUCCESS)
    line: Mask = sides.number("line_status", -1) == int(OrderStatus.SUCCESS)
    return sides.unpaid & (said | line)


def _missing(sides: Sides) -> Mask:
    findable: Mask = sides.trait(lambda name: CATALOGUE[name].absence_is_evidence).astype(np.bool_)
    return sides.absent & sides.at_service & findable


def _currency(sides: Sides) -> Mask:
    shown = sides.differs("currency", "seen_currency") | sides.differs("receive_currency", "seen_receive_currency")
    return (sides.found & ~sides.only_quoted & shown) | sides.differs("currency", "line_currency")


def _amount(sides: Sides) -> Mask:
    shown = sides.differs("amount", "seen_amount") | sides.differs("receive_amount", "seen_receive_amount")
    return (sides.found & ~sides.only_quoted & (shown | sides.excess)) | sides.differs("amount", "line_amount")


def _reversed(sides: Sides) -> Mask:
    others = [
        sides.state(state) & sides.status(*(status for status in _ENDINGS.values() if status is not ending))
        for state, ending in _ENDINGS.items()
    ]
    turned: Mask = np.logical_or.reduce(others)
    return sides.found & turned


def _conflict(sides: Sides) -> Mask:
    """Return where an order is found although it never acted, or is no longer final although it was."""
    never = sides.state(State.PREPARED, State.HELD, State.REJECTED, State.CANCELLED, SUPERSEDED)
    again = sides.state(*_ENDINGS) & sides.status(OrderStatus.SUBMITTED, OrderStatus.PROCESSING)
    return sides.found & ~sides.only_quoted & (never | again | sides.ends_otherwise_in_the_statement)


def _stated_otherwise(sides: Sides) -> Mask:
    same = ~sides.differs("seen_fee_currency", "line_fee_currency")
    return sides.known("line_is_off") | (same & sides.differs("seen_fee", "line_fee"))


def _fee(sides: Sides) -> Mask:
    tolerance = sides.policy.reconciliation.fee_tolerance_bps
    other = sides.differs("fee_currency", "seen_fee_currency") & sides.known("seen_fee")
    return sides.found & ~sides.not_there & (other | sides.varies("fee", "seen_fee", tolerance, sides.fee_base))


def _rate(sides: Sides) -> Mask:
    tolerance, quoted = sides.policy.reconciliation.rate_tolerance_bps, sides.column("rate")
    varies = sides.varies("rate", "seen_rate", tolerance, lambda place: abs(Decimal(quoted[place])))
    return sides.found & ~sides.not_there & varies


RULES: tuple[tuple[str, Callable[[Sides], Mask]], ...] = (
    ("query_failed", _query_failed),
    ("other_record", lambda sides: sides.is_other_record),
    ("duplicate_effect", lambda sides: sides.paid_twice),
    ("orphan_success", _orphan),
    ("missing_at_service", _missing),
    ("currency_mismatch", _currency),
    ("amount_mismatch", _amount),
    ("reversed_after_final", _reversed),
    ("status_conflict", _conflict),
    ("unknown_outcome", lambda sides: sides.not_there & sides.state(State.SENDING, State.UNKNOWN)),
    ("partial", lambda sides: sides.short),
    (ABOVE_BOUND, lambda sides: sides.over_bound != None),  # noqa: E711 - by element
    ("missing_in_statement", lambda sides: sides.known("line_lacks")),
    ("unclassified_status", lambda sides: sides.found & ~sides.only_quoted & ~sides.is_listed),
    ("fee_variance", _fee),
    ("rate_variance", _rate),
    ("statement_variance", _stated_otherwise),
    ("pending_late", lambda sides: sides.waits & sides.late),
    ("unreadable_metadata", lambda sides: sides.found & ~sides.only_quoted & sides.known("unreadable")),
    ("in_progress", lambda sides: sides.waits),
    ("quote_expired_unused", lambda sides: sides.state(SUPERSEDED)),
    ("matched", lambda sides: np.ones(len(sides.frame), dtype=bool)),
)
"""Class -> where it applies; an order gets the first that applies."""

if [PRIORITY[name] for name, _ in RULES] != sorted(PRIORITY[name] for name, _ in RULES):
    raise AssertionError("the rules are not in the order of the classes")
