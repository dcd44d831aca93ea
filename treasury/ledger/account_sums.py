"""The sums of each balance account that a report draws: what moved since the one before, and what may have moved.

The second are open orders, those whose debit nobody knew when they were sent (scan-to-pay), and those that were held,
or had ended unpaid, and that the service pays all the same: their money may have moved before the ledger counts it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Label, and_, exists, select

from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.made_reports import IS_FOUND, Stream, last_answers, shows_amount
from treasury.ledger.mapping import kept_json
from treasury.ledger.receipts import credit_of, is_inside, is_later
from treasury.money import ZERO, format_amount
from treasury.orders.states import OPEN, State
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.service_rules import ServiceRules
from treasury.provider.status import OrderStatus

_MOVES = (*OPEN, State.SETTLED)
"""States of an order whose money may have moved; in any other one the ledger counts nothing of it."""


def is_taken_over(order_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Tell whether an order was held, or had ended unpaid, before it counted as sent."""
    journal = schema.journal.alias().c
    return exists().where(journal.order_id == order_id, _is_taking(journal))


def shown_when_opened(stream: Stream, opened: Mapping[str, Any]) -> dict[tuple[str, int], OrderStatus]:
    """Return currency and id -> status of the orders that the report which opened its account shows, though they were
    held, or had ended unpaid: the money of one that was paid is inside the opening, and of one on its way it may be.

    `opened`: currency -> that report.
    """
    journal, answers = schema.journal.c, schema.answers.c
    first = min((report.journal_id for report in opened.values()), default=0)
    taken = {row.order_id for row in stream(select(journal.order_id).where(journal.id > first, _is_taking(journal)))}
    sweeps = {report.sweep_id for report in opened.values()}
    found: dict[tuple[int, int], OrderStatus] = {}
    for some in batched(sorted(taken)):
        query = select(answers.sweep_id, answers.order_id, answers.ledger_side, answers.service_side)
        query = query.where(answers.sweep_id.in_(sweeps), answers.order_id.in_(some), IS_FOUND)
        for row in stream(query):
            ours, shown = kept_json(row.ledger_side), kept_json(row.service_side)
            if ours["state"] not in _MOVES and shown.get("status") is not None:
                found[row.sweep_id, row.order_id] = OrderStatus(shown["status"])
    return {
        (code, id): status
        for code, report in opened.items()
        for (sweep_id, id), status in found.items()
        if sweep_id == report.sweep_id
    }


def _is_taking(journal: Any) -> ColumnElement[bool]:
    """Tell whether a step of the journal takes an order over."""
    targets = [State.ACCEPTED.value, State.SETTLED.value]
    return and_(journal.source.not_in([*_MOVES, State.PREPARED]), journal.target.in_(targets))


def landed_before() -> Label[bool]:
    """Tell of a step of the journal whether its order, which had ended, was paid before; for `is_first_landing`."""
    step, journal = schema.journal.c, schema.journal.alias().c
    was_paid = (journal.order_id == step.order_id) & (journal.target == State.SETTLED.value) & (journal.id < step.id)
    return (step.source.not_in([*OPEN, State.HELD]) & exists().where(was_paid)).label("landed_before")


def is_first_landing(row: Any) -> bool:
    """Tell whether a step of the journal is the first by which its order counts as paid; one that the service took
    back and paid again was paid before."""
    return bool(row.target == State.SETTLED and not row.landed_before)


def on_its_way(row: Any, rules: ServiceRules) -> Iterator[tuple[str, str, Decimal]]:
    """Yield sum of `Flows`, currency and amount of all that an open order moves."""
    name = debit_of(row, rules)
    yield name, row.currency, Decimal(row.amount)
    if row.operation in rules.fee_on_top and row.fee is not None:
        yield name, row.fee_currency or row.currency, Decimal(row.fee)
    if brings(row):
        yield "receiving", row.receive_currency, Decimal(row.receive_amount)


def brings(row: Any) -> bool:
    """Tell whether an order brings an amount to a balance of ours, as a conversion does."""
    return CATALOGUE[row.operation].may_show_what_arrives and row.receive_amount is not None


def debit_of(row: Any, rules: ServiceRules) -> str:
    """Return the sum of `Flows` that the amount of an open order belongs to."""
    when = rules.debited_when.get(row.operation)
    is_shown = row.order_no is not None or row.status is not None  # else it is accepted on a person's word
    if when == "accepted" and row.state == State.ACCEPTED.value and is_shown:
        return "debited"
    return "undebited" if when == "final" else "in_flight"


def unpriced_orders(stream: Stream, sweep_id: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield those that are open or settled, each with the last answer that shows its amount in its currency, or in
    any where the ledger knows none. Of an open one that no answer shows, its ceiling stands for the amount; one that
    settled beside the sweep, which was not told so, has no facts then."""
    orders, answers = schema.orders.c, schema.answers.c
    facts = (orders.id, orders.operation, orders.currency, orders.state, orders.created_at, orders.ceiling)
    shown = (answers.sweep_id == sweep_id) & (answers.order_id == orders.id) & shows_amount(orders.currency)
    told = schema.answers.alias().c
    own = (told.sweep_id == sweep_id) & (told.request_id == orders.request_id)  # which have an index
    is_told = exists().where(own, told.service_side.like(_IS_PAID)).label("is_told")
    query = select(
        *facts, orders.sent_at, orders.final_at, orders.request_id, is_told, answers.service_side
    ).outerjoin_from(schema.orders, schema.answers, shown)
    states = [state.value for state in (*OPEN, State.SETTLED)]
    rows = list(stream(query.where(orders.amount.is_(None), orders.state.in_(states))))
    unheard: dict[str | None, list[str]] = defaultdict(list)
    for row in rows:
        if row.service_side is None:
            unheard[row.currency].append(row.request_id)
    before = dict[str, Any]()
    for currency, request_ids in unheard.items():
        before |= last_answers(stream, sweep_id, request_ids, shows_amount(currency))
    for row in rows:
        said = row if row.service_side is not None else before.get(row.request_id)
        if said is not None:
            yield row, kept_json(said.service_side)
        elif row.ceiling is not None and row.state != State.SETTLED.value:
            yield row, {"seen_amount": row.ceiling}
        elif row.ceiling is not None and not row.is_told:
            yield row, {}


_IS_PAID = f'{{"answer": "found", "status": {int(OrderStatus.SUCCESS)}%'


MAX_NAMED = 20
"""Open orders, and orders of which an effect was learnt late, that a report names of each currency."""


@dataclass
class AccountSums:
    """Adds up rows of the ledger by currency, under the names of `Flows`."""

    rules: ServiceRules
    opened: Mapping[str, Any]
    """Currency -> the report that opened its account."""
    since: int | None
    """When the report before was made, Unix ms."""
    shown: Mapping[tuple[str, int], OrderStatus]
    """Currency and id -> status of an order in that opening, which was held, or had ended unpaid."""
    read_from: int | None = None
    """The last step of the journal when the balances were asked for: they may show what came after it, or not."""
    later: set[str] = field(default_factory=set)
    """Receipts of which the service says that they came after the report before."""
    _flows: dict[str, dict[str, Decimal]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Decimal)))
    _ages: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    _late: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _ended: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    @property
    def pending(self) -> set[int]:
        """Ids of the orders that may be inside an opening: the service showed them on their way then."""
        return {number for currency, number in self.shown if self._is_pending(currency, number)}

    def _is_pending(self, currency: str, order_id: int) -> bool:
        status = self.shown.get((currency, order_id))
        return status is not None and not status.is_final

    def _is_inside(self, currency: str, order_id: int) -> bool:
        """Tell whether the opening of an account holds already what an order moved."""
        return self.shown.get((currency, order_id)) is OrderStatus.SUCCESS

    # --- on its way ---

    def add_open(self, row: Any) -> None:
        """Add an open order whose amount is known."""
        for name, currency, amount in on_its_way(row, self.rules):
            self._add_on_its_way(row, name, currency, amount)
        if debit_of(row, self.rules) == "in_flight":
            self._add_age(row.currency, row)
        if brings(row):
            self._add_age(row.receive_currency, row)

    def _add_on_its_way(self, row: Any, name: str, currency: str, amount: Decimal) -> None:
        """Add what an order moves, and whether it was on its way when the account of the currency was opened."""
        sums, opening = self._flows[currency], self.opened.get(currency)
        sums[name] += amount
        was_sent = row.sent_at is not None and opening is not None and row.sent_at <= opening.as_of
        if (was_sent or self._is_pending(currency, row.id)) and name in ("in_flight", "receiving"):
            sums[f"{name}_before"] += amount

    def _add_age(self, currency: str, row: Any) -> None:
        self._ages[currency].append((row.created_at, row.request_id))

    def add_pending(self, row: Any) -> None:
        """Add what an opening may hold of an order of `pending`."""
        for name, currency, amount in on_its_way(row, self.rules):
            if name != "undebited" and self._is_pending(currency, row.id):
                self._flows[currency]["receiving_then" if name == "receiving" else "in_flight_then"] += amount

    def add_unpriced(self, row: Any, shown: Mapping[str, Any]) -> None:
        """Add an order whose amount only its answer shows, open or settled; what left after the report before had not
        moved then."""
        state, currency = State(row.state), row.currency or shown.get("seen_currency")
        if currency is None:
            return
        if not shown:  # settled beside the sweep: the balance may show its debit already
            is_new = row.final_at is not None and row.final_at > (self.since or 0)
            self._flows[currency]["unread_in"] += Decimal(row.ceiling) if is_new else ZERO
            return
        debits = [(currency, Decimal(shown["seen_amount"]))]
        if row.operation in self.rules.fee_on_top and shown.get("seen_fee") is not None:
            debits.append((shown.get("seen_fee_currency") or currency, Decimal(shown["seen_fee"])))
        for code, amount in debits:
            sums = self._flows[code]
            if self._is_pending(code, row.id):
                sums["in_flight_then"] += amount
            if state is State.SETTLED:
                debit = ZERO if self._is_inside(code, row.id) else amount
                sums["unpriced"] += debit
                is_new = self.since is not None and row.sent_at is not None and row.sent_at > self.since
                sums["unpriced_since"] += debit if is_new else ZERO
            else:
                self._add_on_its_way(row, "in_flight", code, amount)
        if state in OPEN:
            self._add_age(currency, row)

    # --- moved ---

    def add_step(self, row: Any) -> None:
        """Add what a step of the journal moved, and name what was learnt late."""
        source, target = State(row.source), State(row.target)
        landed = (target is State.SETTLED) - (source is State.SETTLED)
        if landed:
            is_late = source not in OPEN or bool(row.taken_over)
            for name, currency, amount in self._effects(row):
                if self._is_inside(currency, row.order_id) and is_first_landing(row):
                    continue
                self._flows[currency][name] += landed * amount
                if is_late and name != "fees_beside":
                    self._add_earlier(currency, landed * (-amount if name == "received" else amount))
                if is_late and name in ("arrived", "received"):
                    self._late[currency].append(row.request_id)
        if self.since is not None and row.sent_at is not None and row.sent_at <= self.since:
            self._add_ended(row, source, target)
        when = self.rules.debited_when.get(row.operation)
        for name, currency, amount in self._effects(row):
            if name != "fees_beside":
                self.add_unread(row.step, currency, -amount if name == "received" else amount, source, target, when)

    def add_unread(
        self, step: int, currency: str, debit: Decimal, source: State, target: State, when: str | None = None
    ) -> None:
        """Add what a step of the journal moved where it came after the balance was asked for.

        `debit`: less than zero of what comes in. `when`: its entry in `debited_when`, which says nothing of that.
        """
        if self.read_from is None or step <= self.read_from:
            return
        when = when if debit > 0 else None
        (least, most), (least_now, most_now) = _moved_in(source, when), _moved_in(target, when)
        counted, taken_back = max(least_now - least, 0) * abs(debit), max(most - most_now, 0) * abs(debit)
        out, back = (counted, taken_back) if debit > 0 else (taken_back, counted)
        self._flows[currency]["unread_out"] += out
        self._flows[currency]["unread_in"] += back

    def _effects(self, row: Any) -> Iterator[tuple[str, str, Decimal]]:
        """Yield name, currency and amount of what an order moves when it is paid."""
        yield "arrived", row.currency, Decimal(row.amount)
        if row.fee is not None:
            name = "fees" if row.operation in self.rules.fee_on_top else "fees_beside"
            yield name, row.fee_currency or row.currency, Decimal(row.fee)
        if brings(row):
            yield "received", row.receive_currency, Decimal(row.receive_amount)

    def _add_earlier(self, currency: str, debit: Decimal) -> None:
        """Add an effect that the ledger learns of late: it may have been earlier."""
        self._flows[currency]["found" if debit > 0 else "returned"] += abs(debit)

    def _add_ended(self, row: Any, source: State, target: State) -> None:
        """Add what the end of an order moved that the report before had on its way, where `debited_when` leaves no
        range: it may have ended after that report asked about it, or could not, and before it read the balance."""
        when = self.rules.debited_when.get(row.operation)
        if when == "final" and source in OPEN and target is State.SETTLED:
            name = "ended_out"
        elif when == "accepted" and source is State.ACCEPTED and target in (State.FAILED, State.CLOSED):
            name = "ended_in"
        else:
            return
        debits = [(row.currency, Decimal(row.amount))]
        if row.operation in self.rules.fee_on_top and row.fee is not None:
            debits.append((row.fee_currency or row.currency, Decimal(row.fee)))
        for currency, amount in debits:
            self._flows[currency][name] += amount
            self._ended[currency].append(row.sent_at)

    def correct_fees(self, steps: Iterable[Any], booked: Mapping[str, Decimal], *, moves_beside: bool) -> None:
        """Add what fees since the accounts were opened come to now beyond what was `booked` of them: the setting says
        otherwise now (`moves_beside`), or the service shows another fee than before, or its first one.

        `steps`: of the journal up to the report before, of operations whose fee is on top.
        """
        fees: dict[str, Decimal] = defaultdict(Decimal)
        for row in steps:
            currency = row.fee_currency or row.currency
            landed = (row.target == State.SETTLED.value) - (row.source == State.SETTLED.value)
            if self._is_inside(currency, row.order_id) and is_first_landing(row):
                continue
            if landed and currency in self.opened and row.step > self.opened[currency].journal_id:
                fees[currency] += landed * Decimal(row.fee)
        for currency in {*fees, *booked}:
            if debit := fees[currency] - booked.get(currency, ZERO):
                self._flows[currency]["fees"] += debit
                self._flows[currency]["fees_beside"] -= debit if moves_beside else 0
                self._add_earlier(currency, debit)

    def add_receipt(self, row: Any, counted: Collection[str]) -> None:
        """Add what a pay-in or deposit brought, but what an opening holds already; `counted`: those that it counts."""
        currency, credited = credit_of(row)
        opening = self.opened.get(currency)
        if opening is not None and is_inside(row, opening.as_of) and row.request_id not in counted:
            return
        self._flows[currency]["unpriced"] -= credited
        if self.since is not None and is_later(row, self.since):
            self._flows[currency]["unpriced_since"] -= credited
            self.later.add(row.request_id)

    def add_reported(self, row: Any) -> None:
        """Add what one of `later` had brought by the last report that asked about it: the service's clock is ahead."""
        currency, credited = credit_of(row)
        self._flows[currency]["unpriced_since"] += credited

    # --- said ---

    def said(self) -> dict[str, dict[str, Any]]:
        """Return the sums as a report keeps them: by currency, amounts as text."""
        return {
            currency: {
                **{name: format_amount(total) for name, total in sorted(sums.items())},
                **_open(self._ages[currency]),
                "late_named": self._late[currency][:MAX_NAMED],
                "ended_since": min(self._ended[currency], default=None),
            }
            for currency, sums in sorted(self._flows.items())
            if currency
        }


def _moved_in(state: State, when: str | None) -> tuple[int, int]:
    """Return the least and the most that the money of an order has moved in a state: 0 or 1 times."""
    if state is State.SETTLED or (state is State.ACCEPTED and when == "accepted"):
        return 1, 1
    return 0, int(state in OPEN and when != "final")


def _open(ages: Sequence[tuple[int, str]]) -> dict[str, Any]:
    """Return what is said of the open orders of a currency, each given by its age and request id."""
    oldest = sorted(ages)[:MAX_NAMED]
    named = {"open_since": oldest[0][0], "open_named": [name for _, name in oldest]} if oldest else {}
    return {"open_orders": len(ages), **named}
